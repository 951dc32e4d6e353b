"""Best segmentations, and likely open spans of the posterior, compiled; arguments as in `_segment_pass`."""

from __future__ import annotations

import numpy as np

from convener.inference._numba import jit
from convener.inference._segment_pass import _exp, arc_scores, backward_pass, forward_pass, longest_sentence

_OPENED, _CONTINUED = -1, -2
"""The best segment that ends at a position, if it is no arc: its last token is its first one, or a later one."""


@jit()
def viterbi_block(chain, opens, arcs, offsets, begin, end, label_out, best):  # type: ignore[no-untyped-def]
    """Fill the labels (N,) of the best segmentations of the sentences begin..end, and their scores (M,)."""
    labels, transition, second, further = chain
    open_token, open_group, open_begin = opens
    arc_offsets, starts, states, _ = arcs
    E = second.shape[0]
    longest, most_arcs = longest_sentence(offsets, arc_offsets, begin, end)
    size = longest + 1
    after, enter, opened = np.empty((size, E + 1)), np.empty(E + 1), np.empty((size, E, 2))
    reached = np.empty((size, E + 1))
    segment, previous = np.empty((size, E + 1), np.int64), np.empty((size, E + 1), np.int16)
    continues = np.empty((size, E), np.bool_)
    arc_score, running = np.empty(most_arcs), np.empty((size, E + 1))
    for m in range(begin, end):
        n, T = offsets[m], offsets[m + 1] - offsets[m]
        arc_scores(chain, n, T, arcs, running, arc_score)
        after[0] = -np.inf
        after[0, 0] = 0.0
        opened[0] = -np.inf
        for t in range(T):
            for f in range(E + 1):
                enter[f], previous[t, f] = -np.inf, 0
                for e in range(E + 1):
                    if after[t, e] + transition[e, f] > enter[f]:
                        enter[f], previous[t, f] = after[t, e] + transition[e, f], e
            reached[t] = enter
            after[t + 1, 0], segment[t + 1, 0] = enter[0] + labels[n + t, 0], _OPENED
            for c in range(E):
                x = open_token[n + t]
                first = enter[c + 1] + labels[n + t, 2 * c + 1] + open_begin[open_group[n + t], c] + x
                a, b = opened[t, c, 0] + second[c], opened[t, c, 1] + further[c]
                later = max(a, b) + x + labels[n + t, 2 * c + 2]
                continues[t + 1, c] = b > a
                opened[t + 1, c, 0], opened[t + 1, c, 1] = first, later
                after[t + 1, c + 1] = max(first, later)
                segment[t + 1, c + 1] = _CONTINUED if later > first else _OPENED
            for k in range(arc_offsets[n + t], arc_offsets[n + t + 1]):
                e = states[k]
                x = reached[starts[k] - n, e] + arc_score[k - arc_offsets[n]]
                if x > after[t + 1, e]:
                    after[t + 1, e], segment[t + 1, e] = x, k
        state = 0
        for e in range(1, E + 1):
            if after[T, e] > after[T, state]:
                state = e
        best[m] = after[T, state]
        t = T
        while t > 0:
            last, what = t - 1, segment[t, state]
            t = last
            if what >= 0:
                t = starts[what] - n
            elif what == _CONTINUED:
                while continues[t + 1, state - 1]:
                    t -= 1
                t -= 1
            for i in range(t, last + 1):
                label_out[n + i] = 0 if state == 0 else 2 * state - (i == t)
            state = previous[t, state]


@jit()
def open_span_block(chain, opens, arcs, offsets, begin, end, least, found, posterior):  # type: ignore[no-untyped-def]
    """Write rows (sentence, start, end, type) of open spans with a posterior of at least `least`, and that posterior.

    Returns their number; rows beyond the length of `found` are counted but not written.
    """
    labels, transition, second, further = chain
    E = second.shape[0]
    longest, most_arcs = longest_sentence(offsets, arcs[0], begin, end)
    size = longest + 1
    forward = np.empty((size, E + 1)), np.empty((size, E + 1)), np.empty((size, E, 2))
    backward = np.empty((size, E + 1)), np.empty((size, E + 1)), np.empty((size, E, 2))
    running, arc_score, row = np.empty((size, E + 1)), np.empty(most_arcs), np.empty(E + 1)
    shift = transition.max()
    factors = np.exp(transition - shift)
    rest, _, open_rest = backward
    count = 0
    for m in range(begin, end):
        n, T = offsets[m], offsets[m + 1] - offsets[m]
        arc_scores(chain, n, T, arcs, running, arc_score)
        Z = forward_pass(chain, opens, factors, shift, n, T, arcs, arc_score, row, forward)
        backward_pass(chain, opens, factors, shift, n, T, arcs, arc_score, row, backward)
        for t in range(T):
            for c in range(E):
                # The posterior of all spans that begin like this is at least that of each of them.
                score, stop, later = forward[2][t + 1, c, 0] - Z, t + 1, 0
                while _exp(score + open_rest[stop, c, later]) >= least:
                    p = _exp(score + rest[stop, c + 1])
                    if p >= least:
                        if count < len(found):
                            found[count, 0], found[count, 1], found[count, 2], found[count, 3] = m, t, stop, c
                            posterior[count] = p
                        count += 1
                    if stop == T:
                        break
                    score += (further[c] if later else second[c]) + labels[n + stop, 2 * c + 2] + opens[0][n + stop]
                    stop, later = stop + 1, 1
    return count
