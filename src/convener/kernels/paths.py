"""Compiled passes behind `decode`: best paths, samples and spans of a block of sentences."""

from __future__ import annotations

import math

import numpy as np

from convener.kernels.compiled import jit
from convener.kernels.exact import LOG_ZERO, log_backward, log_forward, log_transition, logsumexp

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
