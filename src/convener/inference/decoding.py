"""Labels out of a chain: the best path, the k best, samples, and how sure a span is.

Arguments are those of `chain`; moves are read in float64 log space, so any range of scores is
right.  z(0) is summed out: a path is the labels of the tokens, and its score is the logarithm of
its joint probability with the evidence.  Where `legal` (L, L) or `legal_start` (L,) forbid a move
or a first label, it costs `ILLEGAL` nats: finite, so that a path always comes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.inference._log_pass import LOG_ZERO, log_backward, log_forward, log_transition, logsumexp
from convener.inference._numba import Array, jit, map_blocks
from convener.inference.chain import default_log_initial, forward_backward, validate_inputs

ILLEGAL_COST = -1.0e6


@jit()
def _first_scores(log_init, moves, log_like, n, start_cost, out):  # type: ignore[no-untyped-def]
    """Scores of the first token's labels, z(0) summed out."""
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
def _insert(top, came, rank, filled, x, source, place):  # type: ignore[no-untyped-def]
    """Put x into the descending list `top`, after its equals; the new number of entries."""
    k = top.shape[0]
    if filled == k and not x > top[k - 1]:
        return filled
    r = min(filled, k - 1)
    while r > 0 and x > top[r - 1]:
        top[r], came[r], rank[r] = top[r - 1], came[r - 1], rank[r - 1]
        r -= 1
    top[r], came[r], rank[r] = x, source, place
    return min(filled + 1, k)


@jit()
def k_best_block(  # type: ignore[no-untyped-def]
    log_init, trans, log_like, offsets, constant, begin, end, cost, start_cost, labels, scores
):
    """Fill labels (k, N) and scores (M, k) of the sentences begin..end."""
    L, k = log_init.shape[0], labels.shape[0]
    step = 0 if constant else 1
    first, last, came_last = np.empty(L), np.empty(k), np.empty(k, np.int64)
    rank_last = np.empty(k, np.int64)
    for m in range(begin, end):
        n, T = offsets[m], offsets[m + 1] - offsets[m]
        scores[m, :] = -np.inf
        if T == 0:
            scores[m, 0] = logsumexp(log_init)
            continue
        moves = np.empty((1 if constant else T, L, L))
        log_transition(trans, 0 if constant else n, len(moves), not constant, moves)
        top = np.empty((T, L, k))
        came, rank = np.empty((T, L, k), np.int64), np.empty((T, L, k), np.int64)
        filled = np.ones((T, L), np.int64)
        _first_scores(log_init, moves, log_like, n, start_cost, first)
        top[0, :, 0] = first
        for t in range(1, T):
            for j in range(L):
                count = 0
                for i in range(L):
                    here = moves[t * step, i, j] + cost[i, j] + max(log_like[n + t, j], LOG_ZERO)
                    for r in range(filled[t - 1, i]):
                        x = top[t - 1, i, r] + here
                        count = _insert(top[t, j], came[t, j], rank[t, j], count, x, i, r)
                filled[t, j] = count
        count = 0
        for j in range(L):
            for r in range(filled[T - 1, j]):
                x = top[T - 1, j, r]
                count = _insert(last, came_last, rank_last, count, x, j, r)
        for q in range(k):
            if q >= count:
                labels[q, n : n + T] = -1
                continue
            scores[m, q] = last[q]
            label, r = came_last[q], rank_last[q]
            for t in range(T - 1, -1, -1):
                labels[q, n + t] = label
                if t > 0:
                    label, r = came[t, label, r], rank[t, label, r]


@jit()
def _mixed(x):  # type: ignore[no-untyped-def]
    """A 64-bit number whose bits all depend on all bits of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jit()
def _uniform(seed, key, draw, t):  # type: ignore[no-untyped-def]
    """A number in [0, 1) for this place; nothing is carried from one to the next."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    x = _mixed(seed + odd)
    x = _mixed(x + odd * (np.uint64(key) + np.uint64(1)))
    x = _mixed(x + odd * (np.uint64(draw) + np.uint64(1)))
    x = _mixed(x + odd * (np.uint64(t) + np.uint64(1)))
    return (x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit()
def _drawn(row, u):  # type: ignore[no-untyped-def]
    """The label where the cumulated exp(row) passes the share u of its sum."""
    top, total = row.max(), 0.0
    for i in range(row.shape[0]):
        total += math.exp(row[i] - top)
    goal, passed, label = u * total, 0.0, 0
    for i in range(row.shape[0]):
        p = math.exp(row[i] - top)
        if p > 0:
            label = i
        passed += p
        if passed > goal:
            break
    return label


@jit()
def sample_block(  # type: ignore[no-untyped-def]
    log_init, trans, log_like, offsets, constant, begin, end, seed, keys, labels
):
    """Filter forward, sample backward, for every sentence and draw."""
    L = log_init.shape[0]
    step = 0 if constant else 1
    row = np.empty(L)
    for m in range(begin, end):
        n, T = offsets[m], offsets[m + 1] - offsets[m]
        moves = np.empty((min(1, T) if constant else T, L, L))
        log_transition(trans, 0 if constant else n, len(moves), not constant, moves)
        a = np.empty((T + 1, L))
        log_forward(log_init, moves, step, log_like, n, T, False, a, a)
        for draw in range(labels.shape[0]):
            label = 0
            for t in range(T - 1, -1, -1):
                for i in range(L):
                    row[i] = a[t + 1, i]
                    if t < T - 1:
                        row[i] += moves[(t + 1) * step, i, label]
                label = _drawn(row, _uniform(seed, keys[m], draw, t))
                labels[draw, n + t] = label


@jit()
def span_block(  # type: ignore[no-untyped-def]
    log_init, trans, log_like, offsets, constant, begin, end, marginals, bounds, start, stop, kind,
    out,
):  # fmt: skip
    """Span probabilities; those of sentence m are bounds[m] to bounds[m + 1].

    The posterior is a chain itself: p(z(t+1) = j | z(t) = i) ~ moves(i, j) ahead(t+1, j), where
    ahead holds the evidence from t+1 on. It is normalised step by step, so only ratios within
    one step matter; a sentence whose ratios leave float64 is done again in log space.
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
    """Fill ahead (T, L); False where some label's future vanishes in float64."""
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
    """Probability of one span, from that of its first label on."""
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
    """The same in log space, for spans first to last of one sentence."""
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


class ViterbiPaths(NamedTuple):
    """Best paths, best first; fewer than k labellings leave label -1 and score -inf."""

    labels: NDArray[np.int16]
    """(k, N), or (N,) from `viterbi`."""
    scores: NDArray[np.float64]
    """(M, k), or (M,) from `viterbi`."""


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
    """The most probable labels.  Of equal paths: the lower last label, then the lower one before.

    -> labels (N,), scores (M,)
    """
    inputs = _prepare_inputs(log_initial, transition, log_evidence, offsets)
    costs = _illegal_costs(inputs[2].shape[1], legal_transitions, legal_first)
    labels = np.empty(len(log_evidence), np.int16)
    scores = np.empty(len(inputs[3]) - 1)

    def run_block(start: int, end: int) -> None:
        viterbi_block(*inputs, transition.ndim == 2, start, end, *costs, labels, scores)

    _run_blocks(run_block, inputs, num_threads)
    return ViterbiPaths(labels, scores)


def k_best(
    log_init: Array,
    trans: Array,
    log_like: Array,
    offsets: NDArray[np.int64],
    *,
    k: int,
    legal: NDArray[np.bool_] | None = None,
    legal_start: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> ViterbiPaths:
    """The k most probable labellings of every sentence.  -> labels (k, N), scores (M, k)"""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    inputs = _prepare_inputs(log_init, trans, log_like, offsets)
    costs = _illegal_costs(inputs[2].shape[1], legal, legal_start)
    labels = np.empty((k, len(log_like)), np.int16)
    scores = np.empty((len(inputs[3]) - 1, k))

    def work(begin: int, end: int) -> None:
        k_best_block(*inputs, trans.ndim == 2, begin, end, *costs, labels, scores)

    _run_blocks(work, inputs, threads)
    return ViterbiPaths(labels, scores)


def samples(
    log_init: Array,
    trans: Array,
    log_like: Array,
    offsets: NDArray[np.int64],
    *,
    count: int,
    seed: int,
    keys: NDArray[np.int64] | None = None,
    threads: int = 1,
) -> NDArray[np.int16]:
    """Label paths drawn from the posterior.  -> (count, N)

    What sentence m gets depends on seed and keys[m] (its number, unless given), not on its
    neighbours or the threads.
    """
    inputs = _prepare_inputs(log_init, trans, log_like, offsets)
    sentences = len(inputs[3]) - 1
    streams = np.arange(sentences) if keys is None else np.ascontiguousarray(keys, np.int64)
    if streams.shape != (sentences,):
        raise ValueError(f"keys must be ({sentences},), got {streams.shape}")
    labels = np.empty((count, len(log_like)), np.int16)

    def work(begin: int, end: int) -> None:
        sample_block(*inputs, trans.ndim == 2, begin, end, np.uint64(seed), streams, labels)

    _run_blocks(work, inputs, threads)
    return labels


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
    """Probability that the hidden path has exactly this span, for each of S spans.  -> (S,)

    marginals (N, L) where `chain.posterior` has given them already.

    Span s covers the tokens start to end (exclusive) of its sentence: B-type first, then I-type,
    then anything but I-type, or the end.  Labels are 0 = O, B-x = 2x + 1, I-x = 2x + 2.
    """
    inputs = _prepare_inputs(log_initial, transition, log_evidence, offsets)
    order = np.argsort(sentence, kind="stable")
    lengths = np.diff(inputs[3])[sentence]
    if ((start < 0) | (start >= end) | (end > lengths)).any():
        raise ValueError("every span must be 0 <= start < end <= length of its sentence")
    span_offsets = np.searchsorted(sentence[order], np.arange(len(inputs[3])))
    columns = [np.ascontiguousarray(column[order], np.int64) for column in (start, end, type)]
    sorted_out, out = np.empty(len(order)), np.empty(len(order))
    if marginals is None:
        marginals = forward_backward(log_initial, transition, log_evidence, offsets, num_threads=num_threads).marginals
    token_marginals = np.ascontiguousarray(marginals)

    def run_block(first: int, stop: int) -> None:
        span_block(
            *inputs,
            transition.ndim == 2,
            first,
            stop,
            token_marginals,
            span_offsets,
            *columns,
            sorted_out,
        )

    _run_blocks(run_block, inputs, num_threads)
    out[order] = sorted_out
    return out


ChainInputs = tuple[Array, Array, Array, NDArray[np.int64]]


def _prepare_inputs(
    log_initial: Array, transition: Array, log_evidence: Array, offsets: NDArray[np.int64]
) -> ChainInputs:
    log_initial, transition, log_evidence, offsets = validate_inputs(log_initial, transition, log_evidence, offsets)
    return (
        log_initial,
        transition[None] if transition.ndim == 2 else transition,
        log_evidence,
        offsets,
    )


def _illegal_costs(
    num_labels: int,
    legal_transitions: NDArray[np.bool_] | None,
    legal_first: NDArray[np.bool_] | None,
) -> tuple[Array, Array]:
    """What illegal moves (L, L) and first labels (L,) cost, in nats."""
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


class DecodeResult(NamedTuple):
    """Labels (N,), marginals (N, L), and the posterior probability of each span found."""

    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32]
    span_scores: NDArray[np.float32]

    @classmethod
    def concat(cls, parts: Iterable[DecodeResult], num_labels: int) -> DecodeResult:
        """Consecutive parts of a dataset with so many labels as one."""
        empty_scores = np.zeros(0, np.float32)
        empty = cls(np.zeros(0, np.int16), np.zeros((0, num_labels), np.float32), empty_scores)
        return cls(*(np.concatenate(arrays) for arrays in zip(empty, *parts, strict=True)))


def decode(
    transition: Array,
    log_evidence: NDArray[np.float32],
    data: Dataset,
    threads: int,
    log_initial: Array | None = None,
) -> DecodeResult:
    """Best legal paths, marginals and span probabilities; trans as `kernels.chain` takes it.

    begin (L,): log-probabilities of the hidden label before a sentence, O unless given.
    """
    tags = data.fine_tags
    log_initial = default_log_initial(len(tags)) if log_initial is None else log_initial
    potentials = (log_initial, transition, log_evidence, data.offsets)
    marginals = forward_backward(*potentials, num_threads=threads).marginals
    path = viterbi(
        *potentials,
        legal_transitions=tags.legal_transitions,
        legal_first=tags.legal_first,
        num_threads=threads,
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
        num_threads=threads,
    )
    marginals /= marginals.sum(axis=1, keepdims=True)
    return DecodeResult(labels, marginals, np.clip(span_scores, 0, 1).astype(np.float32))
