"""Exact inference in packed hidden chains: objective and gradients, marginals, expected counts.

A sentence of T tokens has hidden labels z(0), z(1), ..., z(T).  z(0) has the distribution `log_initial` (L,),
log-probabilities, and no observation; row t of `transition` leads from z(t-1) to z(t), so the first row of a sentence
leads from z(0).  `transition` is either (N, L, L) logits, whose softmax over columns is computed inside, or one
constant (L, L) matrix of log-probabilities, used as it is.  `log_evidence` (N, L) is the log-likelihood of the votes.
Sentence m has the rows `offsets[m]` to `offsets[m + 1]`; an empty one has the log-likelihood
log sum exp(log_initial), 0 for a normalized distribution.

-inf means impossible, in every argument.  `flags` holds one value per sentence:

OK          the scaled pass was exact
UNDERFLOW   the scores exceed the range of the scaled pass (in float32 about 40 nats between the labels preferred by
            the left and by the right context); the sentence was recomputed in log space, which is exact but slower
IMPOSSIBLE  no path has positive probability; results are finite and belong to the paths with the fewest
            impossible steps, and the log-likelihood is about -1e9
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.inference._log_pass import log_space_block
from convener.inference._numba import Array, map_blocks
from convener.inference._scaled_pass import numeric_limits, scaled_block

# Numbers of labels for which loops are compiled with a static length and unrolled.
_STATIC_LABEL_COUNTS = (3, 5)
_MODE_MARGINALS, _MODE_LOGITS, _MODE_PAIRS, _MODE_SUMS = 0, 1, 2, 3
P_INITIAL_O = 1 - 1e-4
"""Probability that the hidden label before a sentence is O."""


class ChainObjective(NamedTuple):
    """log p(x) - tau H(z|x) of each sentence, and the gradients of its weighted sum."""

    value: NDArray[np.float64]
    """(M,)"""
    grad_initial: Array
    """(M, L) by sentence, with respect to log_initial without a softmax."""
    grad_transition: Array
    """(N, L, L) with respect to logits; or (L, L) float64, summed, with respect to constant log-probabilities."""
    grad_evidence: Array
    """(N, L)"""
    log_likelihood: NDArray[np.float64]
    """(M,)"""
    entropy: NDArray[np.float64]
    """(M,) H(z|x), z(0) included; zeros if tau is 0."""
    flags: NDArray[np.uint8]
    """(M,)"""


class Posterior(NamedTuple):
    """Posterior distributions of the labels given the evidence."""

    marginals: Array
    """(N, L)"""
    transition_posteriors: Array | None
    """(N, L, L) of the pairs z(t-1), z(t), on request."""
    log_likelihood: NDArray[np.float64]
    """(M,)"""
    flags: NDArray[np.uint8]


class ExpectedCounts(NamedTuple):
    """Expected counts for one M step; totals are float64."""

    marginals: Array
    """(N, L)"""
    transition_counts: NDArray[np.float64]
    """(L, L) expected transitions, those from z(0) included."""
    log_likelihood: NDArray[np.float64]
    """(M,)"""
    flags: NDArray[np.uint8]


def chain_objective(
    log_initial: Array,
    transition: Array,
    log_evidence: Array,
    offsets: NDArray[np.int64],
    *,
    tau: float = 0.0,
    weights: Array | None = None,
    num_threads: int = 1,
) -> ChainObjective:
    """Objective log p(x) - tau H(z|x) by sentence, and the gradients of its weighted sum.

    With tau = 1 it is Q, Eq. (8): the expectation of the complete-data log-likelihood, Eq. (9), as in Eq. (11).
    weights (M,), by default all 1.  The precision is that of `log_evidence`, float32 or float64.
    """
    mode = _MODE_SUMS if transition.ndim == 2 else _MODE_LOGITS
    result = _run_passes(log_initial, transition, log_evidence, offsets, mode, tau, weights, num_threads)
    value = result.log_likelihood - tau * result.entropy
    gradients = (result.initial, result.transition, result.evidence)
    return ChainObjective(value, *gradients, result.log_likelihood, result.entropy, result.flags)


def forward_backward(
    log_initial: Array,
    transition: Array,
    log_evidence: Array,
    offsets: NDArray[np.int64],
    *,
    return_transitions: bool = False,
    num_threads: int = 1,
) -> Posterior:
    """Marginals of every token (gamma of Eq. (11)) and log-likelihood of every sentence."""
    mode = _MODE_PAIRS if return_transitions else _MODE_MARGINALS
    result = _run_passes(log_initial, transition, log_evidence, offsets, mode, 0.0, None, num_threads)
    pairs = result.transition if return_transitions else None
    return Posterior(result.evidence, pairs, result.log_likelihood, result.flags)


def expected_counts(
    log_initial: Array,
    log_transition: Array,
    log_evidence: Array,
    offsets: NDArray[np.int64],
    *,
    num_threads: int = 1,
) -> ExpectedCounts:
    """Marginals and expected transition counts under one constant matrix (L, L), in one pass.

    Transitions are summed block by block, so no (N, L, L) array is allocated.
    """
    if log_transition.ndim != 2:
        raise ValueError(f"log_transition must be one (L, L) matrix, got shape {log_transition.shape}")
    result = _run_passes(log_initial, log_transition, log_evidence, offsets, _MODE_SUMS, 0.0, None, num_threads)
    return ExpectedCounts(result.evidence, result.transition, result.log_likelihood, result.flags)


class _PassResult(NamedTuple):
    log_likelihood: NDArray[np.float64]
    entropy: NDArray[np.float64]
    initial: Array
    transition: Array
    evidence: Array
    flags: NDArray[np.uint8]


def _run_passes(
    log_initial: Array,
    transition: Array,
    log_evidence: Array,
    offsets: NDArray[np.int64],
    mode: int,
    tau: float,
    weights: Array | None,
    num_threads: int,
) -> _PassResult:
    """Run the scaled pass over all blocks, and the log-space pass over sentences that underflow."""
    log_initial, transition, log_evidence, offsets = validate_inputs(log_initial, transition, log_evidence, offsets)
    constant, dtype = transition.ndim == 2, log_evidence.dtype
    transition = transition[None] if constant else transition
    (num_tokens, num_labels), num_sentences = log_evidence.shape, len(offsets) - 1
    result = _PassResult(
        np.zeros(num_sentences),
        np.zeros(num_sentences),
        np.empty((num_sentences, num_labels), dtype),
        np.empty((num_tokens if mode in (_MODE_LOGITS, _MODE_PAIRS) else 0, num_labels, num_labels), dtype),
        np.empty((num_tokens, num_labels), dtype),
        np.zeros(num_sentences, np.uint8),
    )
    sentence_weights = np.ones(num_sentences, dtype) if weights is None else np.ascontiguousarray(weights, dtype)
    static_labels = (0,) * num_labels if num_labels in _STATIC_LABEL_COUNTS else ()
    limit, inputs = numeric_limits(dtype), (log_initial, transition, log_evidence, offsets)

    def run_block(start: int, end: int) -> NDArray[np.float64]:
        total = np.zeros((num_labels, num_labels))
        options = (constant, mode, dtype.type(tau), tau != 0, sentence_weights)
        outputs = (*result[:3], result.evidence, result.transition, total, result.flags)
        scaled_block(static_labels, *inputs, start, end, *options, limit, *outputs)
        if result.flags[start:end].any():
            log_space_block(*inputs, start, end, *options, *outputs)
        return total

    total = np.zeros((num_labels, num_labels))
    for block_total in map_blocks(run_block, offsets, num_labels * num_labels, num_threads):
        total += block_total
    return result._replace(transition=total) if mode == _MODE_SUMS else result


def validate_inputs(
    log_initial: Array, transition: Array, log_evidence: Array, offsets: NDArray[np.int64]
) -> tuple[Array, Array, Array, NDArray[np.int64]]:
    """Check shapes; return contiguous arrays in the precision of `log_evidence`."""
    if log_evidence.ndim != 2 or log_evidence.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"log_evidence must be (N, L) in float32 or float64, got {log_evidence.shape} in {log_evidence.dtype}"
        )
    num_tokens, num_labels = log_evidence.shape
    if log_initial.shape != (num_labels,):
        raise ValueError(f"log_initial must be ({num_labels},), got {log_initial.shape}")
    if transition.shape not in ((num_tokens, num_labels, num_labels), (num_labels, num_labels)):
        raise ValueError(
            f"transition must be (N, L, L) or (L, L) with N={num_tokens}, L={num_labels}, got {transition.shape}"
        )
    offsets = np.ascontiguousarray(offsets, np.int64)
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != num_tokens or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must increase from 0 to {num_tokens}, the number of tokens")
    evidence = np.ascontiguousarray(log_evidence)
    log_initial, transition = (np.ascontiguousarray(x, evidence.dtype) for x in (log_initial, transition))
    return log_initial, transition, evidence, offsets


def default_log_initial(num_labels: int) -> NDArray[np.float64]:
    """Log-probabilities of the hidden label before a sentence: O with `P_INITIAL_O`.  -> (L,)"""
    probabilities = np.full(num_labels, (1 - P_INITIAL_O) / (num_labels - 1))
    probabilities[0] = P_INITIAL_O
    return safe_log(probabilities)


def safe_log(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms, -inf where a probability is 0."""
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(probabilities)
    return logs
