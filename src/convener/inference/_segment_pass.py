"""The forward-backward pass over segmentations of packed sentences, compiled.

Positions 0..T lie between the tokens of a sentence. States are O (0) and the entity types (type + 1). Arrays, in log
space and float64:

after[t, e]   forward: segments that end at t, the last one in state e; before the first token the state is O
enter[t, e]   forward: after[t], followed by a transition to a segment of state e that starts at t
begin[t, c]   forward: an open span of type c whose first token is t - 1
inside[t, c]  forward: an open span of type c that started earlier and contains token t - 1
rest[t, e]    backward: everything after t, given that a segment of state e ends there
start[t, e]   backward: everything after t, given that a segment of state e starts there
open_rest[t]  backward: everything after t, given that token t - 1 is in an open span of type c: [0] as its first
              token, [1] as a later one

Sums over the states at one position are computed relative to their maximum: exact unless transition scores differ by
more than about 700 nats. O is possible at every token, so every position has a finite maximum.
"""

from __future__ import annotations

import math

import numpy as np

from convener.inference._numba import Array, jit


@jit()
def add_logs(a: float, b: float) -> float:
    """log(exp(a) + exp(b)); -inf is allowed."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


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
def arc_scores(labels, transition, second, further, n, T, arcs, first_arc, running, out):  # type: ignore[no-untyped-def]
    """Fill the scores of the arcs of a sentence with tokens n to n + T; arcs (offsets, start, state, score)."""
    offsets, starts, states, scores = arcs
    E = second.shape[0]
    for e in range(E + 1):
        column = 2 * e
        running[0, e] = 0.0
        for t in range(T):
            running[t + 1, e] = running[t, e] + labels[n + t, column]
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
            out[k - first_arc] = x


@jit()
def forward_pass(labels, factors, shift, second, further, open_token, open_begin, n, T, arcs, arc_score, first_arc, row, after, enter, begin, inside):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill the forward arrays of one sentence; return log Z."""
    offsets, starts, states, _ = arcs
    E = second.shape[0]
    for e in range(E + 1):
        after[0, e] = -np.inf if e else 0.0
    for c in range(E):
        begin[0, c] = inside[0, c] = -np.inf
    for t in range(T):
        _times_matrix(after[t], factors, shift, False, row, enter[t])
        after[t + 1, 0] = enter[t, 0] + labels[n + t, 0]
        for c in range(E):
            x = open_token[n + t]
            begin[t + 1, c] = enter[t, c + 1] + labels[n + t, 2 * c + 1] + open_begin[c] + x
            x += labels[n + t, 2 * c + 2]
            inside[t + 1, c] = add_logs(begin[t, c] + second[c], inside[t, c] + further[c]) + x
            after[t + 1, c + 1] = add_logs(begin[t + 1, c], inside[t + 1, c])
        for k in range(offsets[n + t], offsets[n + t + 1]):
            x = enter[starts[k] - n, states[k]] + arc_score[k - first_arc]
            after[t + 1, states[k]] = add_logs(after[t + 1, states[k]], x)
    total = after[T, 0]
    for e in range(1, E + 1):
        total = add_logs(total, after[T, e])
    return total


@jit()
def backward_pass(labels, factors, shift, second, further, open_token, open_begin, n, T, arcs, arc_score, first_arc, row, rest, start, open_rest):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill the backward arrays of one sentence."""
    offsets, starts, states, _ = arcs
    E = second.shape[0]
    start[:T] = -np.inf
    for t in range(T, -1, -1):
        if t == T:
            rest[T] = 0.0
            for c in range(E):
                open_rest[T, 0, c] = open_rest[T, 1, c] = 0.0
        else:
            start[t, 0] = add_logs(start[t, 0], labels[n + t, 0] + rest[t + 1, 0])
            for c in range(E):
                x = labels[n + t, 2 * c + 1] + open_begin[c] + open_token[n + t] + open_rest[t + 1, 0, c]
                start[t, c + 1] = add_logs(start[t, c + 1], x)
            _times_matrix(start[t], factors, shift, True, row, rest[t])
            for c in range(E):
                x = labels[n + t, 2 * c + 2] + open_token[n + t] + open_rest[t + 1, 1, c]
                open_rest[t, 0, c] = add_logs(rest[t, c + 1], second[c] + x)
                open_rest[t, 1, c] = add_logs(rest[t, c + 1], further[c] + x)
        if t > 0:
            for k in range(offsets[n + t - 1], offsets[n + t]):
                a, e = starts[k] - n, states[k]
                start[a, e] = add_logs(start[a, e], arc_score[k - first_arc] + rest[t, e])


@jit()
def _exp(x: float) -> float:
    """exp of a log posterior, at most 1."""
    return math.exp(min(x, 0.0))


@jit()
def posterior_block(  # type: ignore[no-untyped-def]
    labels, transition, second, further, open_token, open_begin, offsets, begin_sentence, end_sentence, arcs, weights,
    log_partition, label_out, arc_out, transition_total, second_total, further_total, open_total,
):  # fmt: skip
    """Process sentences: write log Z, posteriors of labels (N, L) and arcs, and add weighted expected counts."""
    arc_offsets, starts, states, _ = arcs
    E = second.shape[0]
    longest, most_arcs = 0, 0
    for m in range(begin_sentence, end_sentence):
        longest = max(longest, offsets[m + 1] - offsets[m])
        most_arcs = max(most_arcs, arc_offsets[offsets[m + 1]] - arc_offsets[offsets[m]])
    after, enter = np.empty((longest + 1, E + 1)), np.empty((longest + 1, E + 1))
    begin, inside = np.empty((longest + 1, E)), np.empty((longest + 1, E))
    rest, start = np.empty((longest + 1, E + 1)), np.empty((longest + 1, E + 1))
    open_rest, covered = np.empty((longest + 1, 2, E)), np.empty((longest + 1, E + 1))
    arc_score, row, other = np.empty(most_arcs), np.empty(E + 1), np.empty(E + 1)
    shift = transition.max()
    factors = np.exp(transition - shift)
    for m in range(begin_sentence, end_sentence):
        n, T, weight = offsets[m], offsets[m + 1] - offsets[m], weights[m]
        first = arc_offsets[n]
        arc_scores(labels, transition, second, further, n, T, arcs, first, covered, arc_score)
        Z = forward_pass(
            labels, factors, shift, second, further, open_token, open_begin, n, T, arcs, arc_score, first, row,
            after, enter, begin, inside,
        )  # fmt: skip
        backward_pass(
            labels, factors, shift, second, further, open_token, open_begin, n, T, arcs, arc_score, first, row,
            rest, start, open_rest,
        )  # fmt: skip
        log_partition[m] = Z
        covered[: T + 1] = 0.0
        for t in range(T):
            for k in range(arc_offsets[n + t], arc_offsets[n + t + 1]):
                a, e = starts[k] - n, states[k]
                p = _exp(enter[a, e] + arc_score[k - first] + rest[t + 1, e] - Z)
                arc_out[k] = p
                length = t + 1 - a
                # Differences of the posterior of O, or of I-, from token to token.
                inner = a if e == 0 else a + 1
                covered[inner, e] += p
                covered[t + 1, e] -= p
                if e == 0:
                    transition_total[0, 0] += weight * p * (length - 1)
                elif length > 1:
                    second_total[e - 1] += weight * p
                    further_total[e - 1] += weight * p * (length - 2)
        row[:] = 0.0
        for t in range(T):
            for e in range(E + 1):
                row[e] += covered[t, e]
            label_out[n + t, 0] = max(row[0], 0.0) + _exp(enter[t, 0] + labels[n + t, 0] + rest[t + 1, 0] - Z)
            for c in range(E):
                label_out[n + t, 2 * c + 1] = 0.0
                label_out[n + t, 2 * c + 2] = max(row[c + 1], 0.0)
        for t in range(T):
            for k in range(arc_offsets[n + t], arc_offsets[n + t + 1]):
                if states[k] > 0:
                    label_out[starts[k], 2 * states[k] - 1] += arc_out[k]
            if open_token[n + t] > -np.inf:
                for c in range(E):
                    p = _exp(begin[t + 1, c] + open_rest[t + 1, 0, c] - Z)
                    label_out[n + t, 2 * c + 1] += p
                    open_total[c] += weight * p
                    x = labels[n + t, 2 * c + 2] + open_token[n + t] + open_rest[t + 1, 1, c] - Z
                    p, q = _exp(begin[t, c] + second[c] + x), _exp(inside[t, c] + further[c] + x)
                    label_out[n + t, 2 * c + 2] += p + q
                    second_total[c] += weight * p
                    further_total[c] += weight * q
            low, top = start[t, 0], after[t, 0]
            for e in range(1, E + 1):
                low, top = max(low, start[t, e]), max(top, after[t, e])
            for e in range(E + 1):
                row[e], other[e] = math.exp(after[t, e] - top), math.exp(start[t, e] - low)
            factor = weight * math.exp(top + low + shift - Z)
            for e in range(E + 1):
                for f in range(E + 1):
                    transition_total[e, f] += factor * row[e] * factors[e, f] * other[f]
