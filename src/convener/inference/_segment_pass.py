"""The forward-backward pass over segmentations of packed sentences, compiled.

Positions 0..T lie between the tokens of a sentence. States are O (0) and the entity types (type + 1). Arrays, in log
space and float64:

after[t, e]         forward: segments that end at t, the last one in state e; before the first token the state is O
enter[t, e]         forward: after[t], followed by a transition to a segment of state e that starts at t
opened[t, c, i]     forward: an open span of type c that contains token t - 1, as its first token (i = 0) or a later one
rest[t, e]          backward: everything after t, given that a segment of state e ends there
start[t, e]         backward: everything after t, given that a segment of state e starts there
open_rest[t, c, i]  backward: everything after t, given that token t - 1 is in an open span of type c, as its first
                    token (i = 0) or a later one

Inputs are grouped: chain = (labels, transition, second, further), opens = (open_token, open_group, open_begin) and arcs
as in `semi_markov`. Sums over the states at one position are computed relative to their maximum: exact unless
transition scores differ by more than about 700 nats. O is possible at every token, so every position has a finite
maximum.
"""

from __future__ import annotations

import math

import numpy as np

from convener.inference._numba import jit


@jit()
def _add_logs(a: float, b: float) -> float:
    """Log of exp(a) + exp(b); -inf is allowed."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@jit()
def _exp(x: float) -> float:
    """Exp of a log posterior, at most 1."""
    return math.exp(min(x, 0.0))


@jit()
def _times_matrix(values, factors, shift, transposed, weights, out):  # type: ignore[no-untyped-def]
    """out[j] = log sum_i exp(values[i] + shift) factors[i, j], or factors[j, i] if transposed."""
    n = values.shape[0]
    top = values[0]
    for i in range(1, n):
        top = max(top, values[i])
    for i in range(n):
        weights[i] = math.exp(values[i] - top)
    for j in range(n):
        total = 0.0
        if transposed:
            for i in range(n):
                total += factors[j, i] * weights[i]
        else:
            for i in range(n):
                total += weights[i] * factors[i, j]
        out[j] = top + shift + math.log(total) if total > 0 else -np.inf


@jit()
def longest_sentence(offsets, arc_offsets, begin, end):  # type: ignore[no-untyped-def]
    """Largest number of tokens, and of arcs, of one of the sentences begin..end."""
    tokens, arcs = 0, 0
    for m in range(begin, end):
        tokens = max(tokens, offsets[m + 1] - offsets[m])
        arcs = max(arcs, arc_offsets[offsets[m + 1]] - arc_offsets[offsets[m]])
    return tokens, arcs


@jit()
def arc_scores(chain, n, T, arcs, running, out):  # type: ignore[no-untyped-def]
    """Fill the scores of the arcs of the sentence with tokens n to n + T."""
    labels, transition, second, further = chain
    offsets, starts, states, scores = arcs
    E = second.shape[0]
    for e in range(E + 1):
        running[0, e] = 0.0
        for t in range(T):
            running[t + 1, e] = running[t, e] + labels[n + t, 2 * e]
    for t in range(T):
        for k in range(offsets[n + t], offsets[n + t + 1]):
            a, e = starts[k] - n, states[k]
            length = t + 1 - a
            x = scores[k] + running[t + 1, e]
            if e == 0:
                x += (length - 1) * transition[0, 0] - running[a, 0]
            else:
                x += labels[n + a, 2 * e - 1] - running[a + 1, e]
                if length > 1:
                    x += second[e - 1] + (length - 2) * further[e - 1]
            out[k - offsets[n]] = x


@jit()
def forward_pass(chain, opens, factors, shift, n, T, arcs, arc_score, row, forward):  # type: ignore[no-untyped-def]
    """Fill the forward arrays of one sentence; return log Z."""
    labels, _, second, further = chain
    open_token, open_group, open_begin = opens
    offsets, starts, states, _ = arcs
    after, enter, opened = forward
    E = second.shape[0]
    after[0] = -np.inf
    after[0, 0] = 0.0
    opened[0] = -np.inf
    for t in range(T):
        _times_matrix(after[t], factors, shift, False, row, enter[t])
        after[t + 1, 0] = enter[t, 0] + labels[n + t, 0]
        for c in range(E):
            x = open_token[n + t]
            opened[t + 1, c, 0] = enter[t, c + 1] + labels[n + t, 2 * c + 1] + open_begin[open_group[n + t], c] + x
            x += labels[n + t, 2 * c + 2]
            opened[t + 1, c, 1] = _add_logs(opened[t, c, 0] + second[c], opened[t, c, 1] + further[c]) + x
            after[t + 1, c + 1] = _add_logs(opened[t + 1, c, 0], opened[t + 1, c, 1])
        for k in range(offsets[n + t], offsets[n + t + 1]):
            x = enter[starts[k] - n, states[k]] + arc_score[k - offsets[n]]
            after[t + 1, states[k]] = _add_logs(after[t + 1, states[k]], x)
    total = after[T, 0]
    for e in range(1, E + 1):
        total = _add_logs(total, after[T, e])
    return total


@jit()
def backward_pass(chain, opens, factors, shift, n, T, arcs, arc_score, row, backward):  # type: ignore[no-untyped-def]
    """Fill the backward arrays of one sentence."""
    labels, _, second, further = chain
    open_token, open_group, open_begin = opens
    offsets, starts, states, _ = arcs
    rest, start, open_rest = backward
    E = second.shape[0]
    start[:T] = -np.inf
    rest[T] = 0.0
    open_rest[T] = 0.0
    for t in range(T, -1, -1):
        if t < T:
            start[t, 0] = _add_logs(start[t, 0], labels[n + t, 0] + rest[t + 1, 0])
            for c in range(E):
                x = labels[n + t, 2 * c + 1] + open_begin[open_group[n + t], c] + open_token[n + t]
                start[t, c + 1] = _add_logs(start[t, c + 1], x + open_rest[t + 1, c, 0])
            _times_matrix(start[t], factors, shift, True, row, rest[t])
            for c in range(E):
                x = labels[n + t, 2 * c + 2] + open_token[n + t] + open_rest[t + 1, c, 1]
                open_rest[t, c, 0] = _add_logs(rest[t, c + 1], second[c] + x)
                open_rest[t, c, 1] = _add_logs(rest[t, c + 1], further[c] + x)
        if t > 0:
            # Arcs that end at t are written to the positions where they start, which come later.
            for k in range(offsets[n + t - 1], offsets[n + t]):
                a, e = starts[k] - n, states[k]
                start[a, e] = _add_logs(start[a, e], arc_score[k - offsets[n]] + rest[t, e])


@jit()
def _add_arcs(n, T, arcs, arc_score, forward, backward, Z, weight, covered, arc_out, label_out, totals):  # type: ignore[no-untyped-def]
    """Write the posteriors of arcs and, with them alone, of labels; add their expected counts."""
    offsets, starts, states, _ = arcs
    transition_total, second_total, further_total, _ = totals
    E = second_total.shape[0]
    covered[: T + 1] = 0.0
    label_out[n : n + T] = 0.0
    for t in range(T):
        for k in range(offsets[n + t], offsets[n + t + 1]):
            a, e = starts[k] - n, states[k]
            p = _exp(forward[1][a, e] + arc_score[k - offsets[n]] + backward[0][t + 1, e] - Z)
            arc_out[k] = p
            length = t + 1 - a
            # Differences from token to token of the posterior of O, or of I-.
            covered[a if e == 0 else a + 1, e] += p
            covered[t + 1, e] -= p
            if e == 0:
                transition_total[0, 0] += weight * p * (length - 1)
                continue
            label_out[n + a, 2 * e - 1] += p
            if length > 1:
                second_total[e - 1] += weight * p
                further_total[e - 1] += weight * p * (length - 2)
    for e in range(E + 1):
        total = 0.0
        for t in range(T):
            total += covered[t, e]
            label_out[n + t, 2 * e] += max(total, 0.0)


@jit()
def _add_tokens(chain, opens, factors, shift, n, T, forward, backward, Z, weight, rows, label_out, totals):  # type: ignore[no-untyped-def]
    """Add the posteriors of tokens O, open spans and transitions."""
    labels, _, second, further = chain
    open_token, open_group, _ = opens
    after, enter, opened = forward
    rest, start, open_rest = backward
    transition_total, second_total, further_total, open_total = totals
    left, right = rows
    E = second.shape[0]
    for t in range(T):
        label_out[n + t, 0] += _exp(enter[t, 0] + labels[n + t, 0] + rest[t + 1, 0] - Z)
        if open_token[n + t] > -np.inf:
            for c in range(E):
                p = _exp(opened[t + 1, c, 0] + open_rest[t + 1, c, 0] - Z)
                label_out[n + t, 2 * c + 1] += p
                open_total[open_group[n + t], c] += weight * p
                x = labels[n + t, 2 * c + 2] + open_token[n + t] + open_rest[t + 1, c, 1] - Z
                p, q = _exp(opened[t, c, 0] + second[c] + x), _exp(opened[t, c, 1] + further[c] + x)
                label_out[n + t, 2 * c + 2] += p + q
                second_total[c] += weight * p
                further_total[c] += weight * q
        top, low = after[t, 0], start[t, 0]
        for e in range(1, E + 1):
            top, low = max(top, after[t, e]), max(low, start[t, e])
        for e in range(E + 1):
            left[e], right[e] = math.exp(after[t, e] - top), math.exp(start[t, e] - low)
        factor = weight * math.exp(top + low + shift - Z)
        for e in range(E + 1):
            for f in range(E + 1):
                transition_total[e, f] += factor * left[e] * factors[e, f] * right[f]


@jit()
def posterior_block(  # type: ignore[no-untyped-def]
    chain, opens, arcs, offsets, begin, end, weights, log_partition, label_out, arc_out, totals,
):  # fmt: skip
    """Process the sentences begin..end: write log Z, posteriors of labels and arcs, and add weighted expected counts.

    totals: transition (E+1, E+1), second (E,), further (E,), open spans (G, E).
    """
    transition, E = chain[1], chain[2].shape[0]
    longest, most_arcs = longest_sentence(offsets, arcs[0], begin, end)
    size = longest + 1
    forward = np.empty((size, E + 1)), np.empty((size, E + 1)), np.empty((size, E, 2))
    backward = np.empty((size, E + 1)), np.empty((size, E + 1)), np.empty((size, E, 2))
    covered, arc_score = np.empty((size, E + 1)), np.empty(most_arcs)
    rows = np.empty(E + 1), np.empty(E + 1)
    shift = transition.max()
    factors = np.exp(transition - shift)
    for m in range(begin, end):
        n, T, weight = offsets[m], offsets[m + 1] - offsets[m], weights[m]
        arc_scores(chain, n, T, arcs, covered, arc_score)
        Z = forward_pass(chain, opens, factors, shift, n, T, arcs, arc_score, rows[0], forward)
        backward_pass(chain, opens, factors, shift, n, T, arcs, arc_score, rows[0], backward)
        log_partition[m] = Z
        _add_arcs(n, T, arcs, arc_score, forward, backward, Z, weight, covered, arc_out, label_out, totals)
        _add_tokens(chain, opens, factors, shift, n, T, forward, backward, Z, weight, rows, label_out, totals)
