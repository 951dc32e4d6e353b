"""Best segmentations, and the likely spans of a posterior over segmentations, compiled; arrays as in `_segment_pass`."""

from __future__ import annotations

import numpy as np

from convener.inference._numba import jit
from convener.inference._segment_pass import _exp, arc_scores, backward_pass, forward_pass

_OPEN_BEGIN, _OPEN_INSIDE = -1, -2
"""How the best segment that ends at a position was entered, if not by an arc: its last token is its first, or not."""


@jit()
def viterbi_segments(  # type: ignore[no-untyped-def]
    labels, transition, second, further, open_token, open_begin, offsets, begin_sentence, end_sentence, arcs, out, best,
):  # fmt: skip
    """Fill the labels (N,) of the best segmentations and their scores (M,)."""
    arc_offsets, starts, states, _ = arcs
    E = second.shape[0]
    longest, most_arcs = 0, 0
    for m in range(begin_sentence, end_sentence):
        longest = max(longest, offsets[m + 1] - offsets[m])
        most_arcs = max(most_arcs, arc_offsets[offsets[m + 1]] - arc_offsets[offsets[m]])
    after, enter = np.empty((longest + 1, E + 1)), np.empty((longest + 1, E + 1))
    begin, inside = np.empty((longest + 1, E)), np.empty((longest + 1, E))
    segment, previous = np.empty((longest + 1, E + 1), np.int64), np.empty((longest + 1, E + 1), np.int16)
    continues = np.empty((longest + 1, E), np.bool_)
    arc_score, running = np.empty(most_arcs), np.empty((longest + 1, E + 1))
    for m in range(begin_sentence, end_sentence):
        n, T = offsets[m], offsets[m + 1] - offsets[m]
        first = arc_offsets[n]
        arc_scores(labels, transition, second, further, n, T, arcs, first, running, arc_score)
        after[0] = begin[0] = inside[0] = -np.inf
        after[0, 0] = 0.0
        for t in range(T):
            for f in range(E + 1):
                enter[t, f] = -np.inf
                previous[t, f] = 0
                for e in range(E + 1):
                    if after[t, e] + transition[e, f] > enter[t, f]:
                        enter[t, f], previous[t, f] = after[t, e] + transition[e, f], e
            after[t + 1, 0], segment[t + 1, 0] = enter[t, 0] + labels[n + t, 0], _OPEN_BEGIN
            for c in range(E):
                x = open_token[n + t]
                begin[t + 1, c] = enter[t, c + 1] + labels[n + t, 2 * c + 1] + open_begin[c] + x
                x += labels[n + t, 2 * c + 2]
                a, b = begin[t, c] + second[c], inside[t, c] + further[c]
                continues[t + 1, c] = b > a
                inside[t + 1, c] = max(a, b) + x
                if inside[t + 1, c] > begin[t + 1, c]:
                    after[t + 1, c + 1], segment[t + 1, c + 1] = inside[t + 1, c], _OPEN_INSIDE
                else:
                    after[t + 1, c + 1], segment[t + 1, c + 1] = begin[t + 1, c], _OPEN_BEGIN
            for k in range(arc_offsets[n + t], arc_offsets[n + t + 1]):
                x, e = enter[starts[k] - n, states[k]] + arc_score[k - first], states[k]
                if x > after[t + 1, e]:
                    after[t + 1, e], segment[t + 1, e] = x, k
        state = 0
        for e in range(1, E + 1):
            if after[T, e] > after[T, state]:
                state = e
        best[m] = after[T, state]
        t = T
        while t > 0:
            how, last = segment[t, state], t - 1
            t = last
            if how >= 0:
                t = starts[how] - n
            elif how == _OPEN_INSIDE:
                while continues[t + 1, state - 1]:
                    t -= 1
                t -= 1
            for i in range(t, last + 1):
                out[n + i] = 0 if state == 0 else 2 * state - (i == t)
            state = previous[t, state]


@jit()
def likely_open_spans(  # type: ignore[no-untyped-def]
    labels, transition, second, further, open_token, open_begin, offsets, begin_sentence, end_sentence, arcs, least,
    found, posterior,
):  # fmt: skip
    """Write rows (sentence, start, end, type) of open spans with a posterior of at least `least`, and that posterior.

    Returns their number; rows beyond the length of `found` are counted but not written.
    """
    arc_offsets = arcs[0]
    E = second.shape[0]
    longest, most_arcs = 0, 0
    for m in range(begin_sentence, end_sentence):
        longest = max(longest, offsets[m + 1] - offsets[m])
        most_arcs = max(most_arcs, arc_offsets[offsets[m + 1]] - arc_offsets[offsets[m]])
    after, enter = np.empty((longest + 1, E + 1)), np.empty((longest + 1, E + 1))
    begin, inside = np.empty((longest + 1, E)), np.empty((longest + 1, E))
    rest, start = np.empty((longest + 1, E + 1)), np.empty((longest + 1, E + 1))
    open_rest, running = np.empty((longest + 1, 2, E)), np.empty((longest + 1, E + 1))
    arc_score, row = np.empty(most_arcs), np.empty(E + 1)
    shift = transition.max()
    factors = np.exp(transition - shift)
    count = 0
    for m in range(begin_sentence, end_sentence):
        n, T = offsets[m], offsets[m + 1] - offsets[m]
        first = arc_offsets[n]
        arc_scores(labels, transition, second, further, n, T, arcs, first, running, arc_score)
        Z = forward_pass(
            labels, factors, shift, second, further, open_token, open_begin, n, T, arcs, arc_score, first, row,
            after, enter, begin, inside,
        )  # fmt: skip
        backward_pass(
            labels, factors, shift, second, further, open_token, open_begin, n, T, arcs, arc_score, first, row,
            rest, start, open_rest,
        )  # fmt: skip
        for t in range(T):
            for c in range(E):
                # score: of the span so far; the posterior of all spans that begin so is at least that of any of them.
                score, end, further_token = begin[t + 1, c] - Z, t + 1, 0
                while _exp(score + open_rest[end, further_token, c]) >= least:
                    p = _exp(score + rest[end, c + 1])
                    if p >= least:
                        if count < len(found):
                            found[count, 0], found[count, 1], found[count, 2], found[count, 3] = m, t, end, c
                            posterior[count] = p
                        count += 1
                    if end == T:
                        break
                    score += (further[c] if further_token else second[c]) + labels[n + end, 2 * c + 2]
                    score += open_token[n + end]
                    end, further_token = end + 1, 1
    return count
