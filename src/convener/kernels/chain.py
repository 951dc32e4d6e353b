"""Exact inference in packed hidden chains: objective and gradients, marginals, expected counts.

A sentence of T tokens has hidden labels z(0), z(1..T).  z(0) ~ `log_init` (L,), log-probabilities,
has no observation; row t of `trans` leads from z(t-1) to z(t), so a sentence's first row leads from
z(0).  `trans` is either (N, L, L) logits, whose softmax over columns is folded in, or one constant
(L, L) matrix of log-probabilities, taken as it is.  `log_like` (N, L) is the evidence.
Sentence m has the rows `offsets[m]` to `offsets[m + 1]`; an empty one has log-likelihood
log sum exp(log_init), 0 for a proper start.

-inf means impossible, anywhere.  `flags` tells what each sentence met: 0 nothing; `WIDE` a range
beyond the scaled pass (in float32 about 40 nats between what the past and the future demand),
recomputed in log space: right, but slower; `IMPOSSIBLE` no path has any probability: results are
finite, of the least impossible paths, and the log-likelihood is about -1e9.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.kernels.blocks import over_blocks
from convener.kernels.compiled import Array
from convener.kernels.exact import IMPOSSIBLE, exact_block
from convener.kernels.scaled import WIDE, limits, scaled_block

__all__ = [
    "IMPOSSIBLE",
    "WIDE",
    "Counts",
    "Objective",
    "Posterior",
    "expected_counts",
    "objective",
    "posterior",
]

# Label counts the compiler is told of: unrolled loops are worth their compilation there.
_KNOWN = (3, 5)


class Objective(NamedTuple):
    """log p(x) - tau H(z|x) of each sentence, and the gradients of its weighted sum."""

    value: NDArray[np.float64]
    """(M,)"""
    grad_init: Array
    """(M, L), by sentence, with respect to log_init as it is, no softmax."""
    grad_trans: Array
    """(N, L, L) with respect to logits; (L, L) float64, summed, to constant log-probabilities."""
    grad_like: Array
    """(N, L)"""
    log_likelihood: NDArray[np.float64]
    """(M,)"""
    entropy: NDArray[np.float64]
    """(M,) H(z|x), z(0) included; zeros at tau = 0, where it is not needed."""
    flags: NDArray[np.uint8]
    """(M,)"""


class Posterior(NamedTuple):
    """What is known of the labels after seeing the evidence."""

    marginals: Array
    """(N, L)"""
    initial: Array
    """(M, L) of z(0)."""
    pairs: Array | None
    """(N, L, L) of z(t-1), z(t), on request."""
    log_likelihood: NDArray[np.float64]
    entropy: NDArray[np.float64]
    """(M,) H(z|x), z(0) included."""
    flags: NDArray[np.uint8]


class Counts(NamedTuple):
    """What one step of expectation maximisation needs; totals are float64."""

    marginals: Array
    """(N, L)"""
    transitions: NDArray[np.float64]
    """(L, L) expected moves, those from z(0) included."""
    initial: NDArray[np.float64]
    """(L,) expected z(0), over all sentences."""
    log_likelihood: NDArray[np.float64]
    """(M,)"""
    flags: NDArray[np.uint8]


_NONE, _LOGITS, _PAIRS, _SUMS = 0, 1, 2, 3


def objective(
    log_init: Array,
    trans: Array,
    log_like: Array,
    offsets: NDArray[np.int64],
    *,
    tau: float = 0.0,
    weights: Array | None = None,
    threads: int = 1,
) -> Objective:
    """Objective log p(x) - tau H(z|x) by sentence, and the gradients of its weighted sum.

    weights (M,), all 1 unless given;
    float32 or float64, as log_like is; log_init and trans are read in the same precision.
    """
    mode = _SUMS if trans.ndim == 2 else _LOGITS
    done = _run(log_init, trans, log_like, offsets, mode, tau, tau != 0, weights, threads)
    value = done.log_likelihood - tau * done.entropy
    return Objective(
        value, done.initial, done.moves, done.like, done.log_likelihood, done.entropy, done.flags
    )


def posterior(
    log_init: Array,
    trans: Array,
    log_like: Array,
    offsets: NDArray[np.int64],
    *,
    pairs: bool = False,
    threads: int = 1,
) -> Posterior:
    """Marginals of every label, entropy and log-likelihood of every sentence."""
    mode = _PAIRS if pairs else _NONE
    done = _run(log_init, trans, log_like, offsets, mode, 0.0, True, None, threads)
    return Posterior(
        done.like,
        done.initial,
        done.moves if pairs else None,
        done.log_likelihood,
        done.entropy,
        done.flags,
    )


def expected_counts(
    log_init: Array,
    log_trans: Array,
    log_like: Array,
    offsets: NDArray[np.int64],
    *,
    threads: int = 1,
) -> Counts:
    """Marginals and summed expected moves of one constant matrix (L, L), in one pass.

    No array of N x L x L is ever held: the moves are summed block by block.
    """
    if log_trans.ndim != 2:
        raise ValueError(f"log_trans must be one (L, L) matrix, got shape {log_trans.shape}")
    done = _run(log_init, log_trans, log_like, offsets, _SUMS, 0.0, False, None, threads)
    initial = done.initial.sum(0, dtype=np.float64)
    return Counts(done.like, done.moves, initial, done.log_likelihood, done.flags)


class _Done(NamedTuple):
    log_likelihood: NDArray[np.float64]
    entropy: NDArray[np.float64]
    initial: Array
    moves: Array
    like: Array
    flags: NDArray[np.uint8]


def _run(
    log_init: Array,
    trans: Array,
    log_like: Array,
    offsets: NDArray[np.int64],
    mode: int,
    tau: float,
    energy: bool,
    weights: Array | None,
    threads: int,
) -> _Done:
    """Both passes over all blocks."""
    log_init, trans, log_like, offsets = checked(log_init, trans, log_like, offsets)
    constant, dtype = trans.ndim == 2, log_like.dtype
    trans = trans[None] if constant else trans
    (rows, labels), sentences = log_like.shape, len(offsets) - 1
    done = _Done(
        np.zeros(sentences),
        np.zeros(sentences),
        np.empty((sentences, labels), dtype),
        np.empty((rows if mode in (_LOGITS, _PAIRS) else 0, labels, labels), dtype),
        np.empty((rows, labels), dtype),
        np.zeros(sentences, np.uint8),
    )
    scale = np.ones(sentences, dtype) if weights is None else np.ascontiguousarray(weights, dtype)
    hint = (0,) * labels if labels in _KNOWN else ()
    limit, inputs = limits(dtype), (log_init, trans, log_like, offsets)

    def work(begin: int, end: int) -> NDArray[np.float64]:
        total = np.zeros((labels, labels))
        how = (constant, mode, dtype.type(tau), energy, scale)
        out = (*done[:3], done.like, done.moves, total, done.flags)
        scaled_block(hint, *inputs, begin, end, *how, limit, *out)
        if done.flags[begin:end].any():
            exact_block(*inputs, begin, end, *how, *out)
        return total

    total = np.zeros((labels, labels))
    for part in over_blocks(work, offsets, labels * labels, threads):
        total += part
    return done._replace(moves=total) if mode == _SUMS else done


def checked(
    log_init: Array, trans: Array, log_like: Array, offsets: NDArray[np.int64]
) -> tuple[Array, Array, Array, NDArray[np.int64]]:
    """The same arrays, contiguous and in the precision of log_like; shapes that agree."""
    if log_like.ndim != 2 or log_like.dtype not in (np.float32, np.float64):
        raise ValueError(
            "log_like must be (N, L) in float32 or float64, "
            f"got {log_like.shape} in {log_like.dtype}"
        )
    rows, labels = log_like.shape
    if log_init.shape != (labels,):
        raise ValueError(f"log_init must be ({labels},), got {log_init.shape}")
    if trans.shape not in ((rows, labels, labels), (labels, labels)):
        raise ValueError(
            f"trans must be ({rows}, {labels}, {labels}) or ({labels}, {labels}), got {trans.shape}"
        )
    offsets = np.ascontiguousarray(offsets, np.int64)
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must rise from 0 to {rows}, the number of rows")
    like = np.ascontiguousarray(log_like)
    return (
        np.ascontiguousarray(log_init, like.dtype),
        np.ascontiguousarray(trans, like.dtype),
        like,
        offsets,
    )
