"""Decoding of hidden chains: Viterbi paths and posterior probabilities of spans.

Arguments are those of `chain`; all computations are in float64 and exact for any range of scores.  z(0) is summed
out: a path is the labels of the tokens, and its score is the log of its joint probability with the evidence.
Transitions and first labels that `legal_transitions` (L, L) or `legal_first` (L,) exclude add `ILLEGAL_COST` nats to
the score: a finite value, so that there is always a path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import LabelOutput
from convener.inference._log_pass import LOG_ZERO, log_backward, log_forward, log_transition, logsumexp
from convener.inference._numba import Array, jit, map_blocks
from convener.inference.chain import default_log_initial, forward_backward, validate_inputs

ILLEGAL_COST = -1.0e6
"""Added to the log score of a path for every illegal transition or first label."""
ChainInputs = tuple[Array, Array, Array, NDArray[np.int64]]
"""log_initial, transition with a leading token axis, log_evidence, offsets."""


class ViterbiPaths(NamedTuple):
    """The best path of each sentence."""

    labels: NDArray[np.int16]
    """(N,)"""
    scores: NDArray[np.float64]
    """(M,) log of the joint probability of path and evidence."""


def viterbi(
    log_initial: Array,
    transition: Array,
    log_evidence: Array,
    offsets: NDArray[np.int64],
    *,
    legal_transitions: NDArray[np.bool_] | None = None,
    legal_first: NDArray[np.bool_] | None = None,
    num_threads: int = 1,
) -> ViterbiPaths:
    """The most probable path of each sentence by the Viterbi algorithm, Appendix A.2 of the paper.

    Ties are broken in favour of the lower last label, then the lower label before it, and so on.
    """
    inputs = _prepare_inputs(log_initial, transition, log_evidence, offsets)
    costs = _illegal_costs(inputs[2].shape[1], legal_transitions, legal_first)
    labels = np.empty(len(log_evidence), np.int16)
    scores = np.empty(len(inputs[3]) - 1)

    def run_block(start: int, end: int) -> None:
        viterbi_block(*inputs, transition.ndim == 2, start, end, *costs, labels, scores)

    _run_blocks(run_block, inputs, num_threads)
    return ViterbiPaths(labels, scores)


def span_posteriors(
    log_initial: Array,
    transition: Array,
    log_evidence: Array,
    offsets: NDArray[np.int64],
    *,
    sentence: NDArray[np.int64],
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    type: NDArray[np.int16],
    marginals: Array | None = None,
    num_threads: int = 1,
) -> NDArray[np.float64]:
    """Posterior probability that the hidden path contains exactly this span, for each of S spans.  -> (S,)

    Span s covers the tokens start to end (exclusive) of its sentence: B-type first, then I-type, then any label but
    I-type, or the end of the sentence.  Labels are 0 = O, B-x = 2x + 1, I-x = 2x + 2.
    marginals (N, L) of `chain.forward_backward`, computed if not given.
    """
    inputs = _prepare_inputs(log_initial, transition, log_evidence, offsets)
    order = np.argsort(sentence, kind="stable")
    lengths = np.diff(inputs[3])[sentence]
    if ((start < 0) | (start >= end) | (end > lengths)).any():
        raise ValueError("spans must satisfy 0 <= start < end <= length of their sentence")
    span_offsets = np.searchsorted(sentence[order], np.arange(len(inputs[3])))
    columns = [np.ascontiguousarray(column[order], np.int64) for column in (start, end, type)]
    sorted_out, out = np.empty(len(order)), np.empty(len(order))
    if marginals is None:
        marginals = forward_backward(log_initial, transition, log_evidence, offsets, num_threads=num_threads).marginals
    token_marginals = np.ascontiguousarray(marginals)

    def run_block(first: int, stop: int) -> None:
        block = (transition.ndim == 2, first, stop)
        span_block(*inputs, *block, token_marginals, span_offsets, *columns, sorted_out)

    _run_blocks(run_block, inputs, num_threads)
    out[order] = sorted_out
    return out


def decode(
    transition: Array,
    log_evidence: NDArray[np.float32],
    data: Dataset,
    num_threads: int,
    log_initial: Array | None = None,
) -> LabelOutput:
    """Labels of the best legal paths, marginals, and posterior probabilities of the decoded spans.

    transition and log_evidence as in `chain`; log_initial (L,) is by default `default_log_initial`.
    """
    tags = data.fine_tags
    log_initial = default_log_initial(len(tags)) if log_initial is None else log_initial
    potentials = (log_initial, transition, log_evidence, data.offsets)
    marginals = forward_backward(*potentials, num_threads=num_threads).marginals
    path = viterbi(
        *potentials, legal_transitions=tags.legal_transitions, legal_first=tags.legal_first, num_threads=num_threads
    )
    labels, _ = tags.repair(path.labels, data.offsets)
    spans = tags.spans(labels, data.offsets)
    span_scores = span_posteriors(
        *potentials,
        sentence=spans.sentence,
        start=spans.start,
        end=spans.end,
        type=spans.type,
        marginals=marginals,
        num_threads=num_threads,
    )
    marginals /= marginals.sum(axis=1, keepdims=True)
    return LabelOutput(labels, marginals, np.clip(span_scores, 0, 1).astype(np.float32))


def _prepare_inputs(
    log_initial: Array, transition: Array, log_evidence: Array, offsets: NDArray[np.int64]
) -> ChainInputs:
    log_initial, transition, log_evidence, offsets = validate_inputs(log_initial, transition, log_evidence, offsets)
    return log_initial, transition[None] if transition.ndim == 2 else transition, log_evidence, offsets


def _illegal_costs(
    num_labels: int,
    legal_transitions: NDArray[np.bool_] | None,
    legal_first: NDArray[np.bool_] | None,
) -> tuple[Array, Array]:
    """Costs of transitions (L, L) and of first labels (L,): `ILLEGAL_COST` or 0."""
    transition_cost, start_cost = np.zeros((num_labels, num_labels)), np.zeros(num_labels)
    if legal_transitions is not None:
        transition_cost[~np.asarray(legal_transitions, bool)] = ILLEGAL_COST
    if legal_first is not None:
        start_cost[~np.asarray(legal_first, bool)] = ILLEGAL_COST
    return transition_cost, start_cost


def _run_blocks(function: Callable[[int, int], None], inputs: ChainInputs, num_threads: int) -> None:
    num_labels = inputs[2].shape[1]
    for _ in map_blocks(function, inputs[3], num_labels * num_labels, num_threads):
        pass


@jit()
def _first_scores(log_init, moves, log_like, n, start_cost, out):  # type: ignore[no-untyped-def]
    """Fill the scores of the first token's labels, z(0) summed out."""
    L = log_init.shape[0]
    row = np.empty(L)
    for j in range(L):
        for i in range(L):
            row[i] = max(log_init[i], LOG_ZERO) + moves[0, i, j]
        out[j] = logsumexp(row) + max(log_like[n, j], LOG_ZERO) + start_cost[j]


@jit()
def viterbi_block(  # type: ignore[no-untyped-def]
    log_init, trans, log_like, offsets, constant, begin, end, cost, start_cost, labels, scores
):
    """Fill labels and scores of the sentences begin..end."""
    L = log_init.shape[0]
    step = 0 if constant else 1
    score, after = np.empty(L), np.empty(L)
    longest = 1
    for m in range(begin, end):
        longest = max(longest, offsets[m + 1] - offsets[m])
    came = np.empty((longest, L), np.int16)
    moves = np.empty((1 if constant else longest, L, L))
    if constant:
        log_transition(trans, 0, 1, False, moves)
    for m in range(begin, end):
        n, T = offsets[m], offsets[m + 1] - offsets[m]
        if T == 0:
            scores[m] = logsumexp(log_init)
            continue
        if not constant:
            log_transition(trans, n, T, True, moves)
        _first_scores(log_init, moves, log_like, n, start_cost, score)
        for t in range(1, T):
            for j in range(L):
                best, source = -np.inf, 0
                for i in range(L):
                    x = score[i] + moves[t * step, i, j] + cost[i, j]
                    if x > best:
                        best, source = x, i
                came[t, j] = source
                after[j] = best + max(log_like[n + t, j], LOG_ZERO)
            score, after = after, score
        label = 0
        for j in range(1, L):
            if score[j] > score[label]:
                label = j
        scores[m] = score[label]
        for t in range(T - 1, -1, -1):
            labels[n + t] = label
            if t > 0:
                label = came[t, label]


@jit()
def span_block(  # type: ignore[no-untyped-def]
    log_init, trans, log_like, offsets, constant, begin, end, marginals, bounds, start, stop, kind,
    out,
):  # fmt: skip
    """Fill span probabilities; those of sentence m are bounds[m] to bounds[m + 1].

    The posterior is itself a Markov chain: p(z(t+1) = j | z(t) = i) ~ moves(i, j) ahead(t+1, j), where `ahead` holds
    the evidence from t+1 on. It is normalized step by step, so only ratios within one step matter; a sentence whose
    ratios exceed the range of float64 is computed in log space.
    """
    L = log_init.shape[0]
    step = 0 if constant else 1
    moves, odds = np.empty((1, L, L)), np.empty((1, L, L))
    if constant and begin < end:
        log_transition(trans, 0, 1, False, moves)
        odds = np.exp(moves)
    for m in range(begin, end):
        if bounds[m] == bounds[m + 1]:
            continue
        n, T = offsets[m], offsets[m + 1] - offsets[m]
        if not constant:
            moves = np.empty((T, L, L))
            log_transition(trans, n, T, True, moves)
            odds = np.exp(moves)
        ahead = np.empty((T, L))
        fine = _backward_weights(odds, step, log_like, n, T, ahead)
        for s in range(bounds[m], bounds[m + 1]):
            if fine:
                out[s] = _span_probability(odds, step, ahead, marginals, n, T, start[s], stop[s], kind[s])
        if not fine:
            _log_space_spans(
                log_init, moves, step, log_like, n, T, bounds[m], bounds[m + 1], start, stop, kind,
                out,
            )  # fmt: skip


@jit()
def _backward_weights(odds, step, log_like, n, T, ahead):  # type: ignore[no-untyped-def]
    """Fill ahead (T, L); False if the evidence after some label underflows in float64."""
    L = ahead.shape[1]
    future = np.ones(L)
    for t in range(T - 1, -1, -1):
        top = -np.inf
        for j in range(L):
            top = max(top, log_like[n + t, j])
        for j in range(L):
            ahead[t, j] = math.exp(log_like[n + t, j] - top) * future[j]
        most = 0.0
        for i in range(L):
            total = 0.0
            for j in range(L):
                total += odds[t * step, i, j] * ahead[t, j]
            future[i] = total
            most = max(most, total)
        for i in range(L):
            if not future[i] > 1e-250 * most or not most > 1e-250:
                return False
            future[i] /= most
    return True


@jit()
def _span_probability(odds, step, ahead, marginals, n, T, start, stop, kind):  # type: ignore[no-untyped-def]
    """Probability of one span: its first label, then each continuation, then its end."""
    label, inside = 2 * kind + 1, 2 * kind + 2
    p = float(marginals[n + start, label])
    for t in range(start + 1, min(stop, T - 1) + 1):
        total = 0.0
        for j in range(ahead.shape[1]):
            total += odds[t * step, label, j] * ahead[t, j]
        goes_on = odds[t * step, label, inside] * ahead[t, inside] / total
        p *= goes_on if t < stop else 1.0 - goes_on
        label = inside
    return min(p, 1.0)


@jit()
def _log_space_spans(  # type: ignore[no-untyped-def]
    log_init, moves, step, log_like, n, T, first, last, start, stop, kind, out
):
    """Fill the probabilities of spans first..last of one sentence in log space."""
    L = log_init.shape[0]
    a, b = np.empty((T + 1, L)), np.empty((T + 1, L))
    log_forward(log_init, moves, step, log_like, n, T, False, a, a)
    log_backward(moves, step, log_like, n, T, False, b, b)
    for s in range(first, last):
        label, inside = 2 * kind[s] + 1, 2 * kind[s] + 2
        t = start[s] + 1
        log_p = a[t, label] + b[t, label] - logsumexp(a[t] + b[t])
        while t < stop[s]:
            log_p += moves[t * step, label, inside] + max(log_like[n + t, inside], LOG_ZERO)
            log_p += b[t + 1, inside] - b[t, label]
            label = inside
            t += 1
        leaves = 1.0
        if t < T:
            leaves = 0.0
            for j in range(L):
                if j != inside:
                    x = moves[t * step, label, j] + max(log_like[n + t, j], LOG_ZERO)
                    leaves += math.exp(x + b[t + 1, j] - b[t, label])
        out[s] = min(math.exp(log_p) * leaves, 1.0)
