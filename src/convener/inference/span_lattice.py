"""Exact inference over sets of disjoint candidate spans.

A lattice holds candidate spans of many sentences. A configuration is a set of candidates of which no two overlap; its
log weight is the sum of the scores of its spans, and of the weights of those consecutive spans that form one of the
lattice's pairs. Candidates that overlap or touch, directly or through others, form a component; components are
independent. All passes take time linear in the number of candidates, plus, for each candidate, the number of candidates
between its first pair partner and itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.inference._numba import Array, jit, map_blocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def component_order(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Order of candidates by component, then by end; and the component offsets in that order.  -> (n,), (C+1,)

    start, end (n,): positions on one axis, on which spans of different sentences neither overlap nor touch. Candidates
    with the same end keep their order.

    >>> order, offsets = component_order(np.array([0, 7, 1, 3]), np.array([3, 9, 2, 4]))
    >>> order.tolist(), offsets.tolist()
    ([2, 0, 3, 1], [0, 3, 4])
    """
    by_start = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[by_start])
    begins = np.ones(len(start), bool)
    begins[1:] = start[by_start][1:] > reach[:-1]
    component = np.empty(len(start), np.int64)
    component[by_start] = np.cumsum(begins) - 1
    order = np.lexsort((end, component))
    return order, np.searchsorted(component[order], np.arange(int(begins.sum()) + 1))


@dataclass(frozen=True, eq=False)
class SpanLattice:
    """Candidate spans in `component_order`, and the pairs of them that have weights.

    start, end     (n,) positions on one axis, on which spans of different sentences do not touch
    offsets        (C+1,) candidates of each component
    pairs          (P, 2) candidates i, j: i ends before or where j begins; sorted by j, then by i
    """

    start: Ints
    end: Ints
    offsets: Ints
    pairs: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def pair_offsets(self) -> Ints:
        """Pairs of each candidate as the second span.  -> (n+1,)"""
        return np.searchsorted(self.pairs[:, 1], np.arange(len(self) + 1)).astype(np.int64)

    @property
    def num_before(self) -> Ints:
        """Number of candidates that end before or where each candidate begins, in all components so far.  -> (n,)"""
        return np.searchsorted(self.end, self.start, side="right").astype(np.int64)


class SpanPosterior(NamedTuple):
    """Posterior of a lattice."""

    log_partition: Floats
    """(C,) log of the summed weights of all configurations of a component; the empty one has weight 1."""
    spans: Floats
    """(n,) probability that a candidate is in the configuration."""
    pairs: Floats
    """(P,) probability that both candidates are in the configuration, with none between them."""


def span_posterior(lattice: SpanLattice, score: Floats, pair_weight: Floats, *, num_threads: int = 1) -> SpanPosterior:
    """Posterior over configurations by forward-backward.

    score (n,) of each candidate, pair_weight (P,) of each pair, both in nats and finite.
    """
    result = SpanPosterior(*(np.zeros(size) for size in (len(lattice.offsets) - 1, len(lattice), len(lattice.pairs))))
    columns = lattice.offsets, lattice.num_before, lattice.pair_offsets, np.ascontiguousarray(lattice.pairs[:, 0])
    weights = np.ascontiguousarray(score, np.float64), np.ascontiguousarray(pair_weight, np.float64)

    def run_block(first: int, stop: int) -> None:
        _posterior_pass(first, stop, *columns, *weights, *result)

    for _ in map_blocks(run_block, lattice.offsets, 1, num_threads):
        pass
    return result


def best_configuration(lattice: SpanLattice, gain: Floats) -> NDArray[np.bool_]:
    """Which candidates are in the configuration with the largest total gain.  gain (n,) -> (n,)

    Pairs do not count. With gain = posterior - c it maximizes the expected number of correct spans minus c times the
    number of spans. Candidates without gain are left out.
    """
    chosen = np.zeros(len(lattice), np.bool_)
    _decoding_pass(lattice.offsets, lattice.num_before, np.ascontiguousarray(gain, np.float64), chosen)
    return chosen


@jit(inline=True)
def _log_add(a: float, b: float) -> float:
    """Log of exp(a) + exp(b); either may be -inf."""
    high, low = (a, b) if a > b else (b, a)
    if low == -np.inf:
        return high
    return high + math.log1p(math.exp(low - high))


@jit()
def _posterior_pass(
    first_component: int,
    stop_component: int,
    offsets: Array,
    num_before: Array,
    pair_offsets: Array,
    pair_first: Array,
    score: Array,
    pair_weight: Array,
    log_partition: Array,
    spans: Array,
    pairs: Array,
) -> None:
    """Fill log_partition (C,), spans (n,) and pairs (P,) for a range of components.

    ahead[j]: log weight of all configurations that end with j. before[j]: log weight of those of candidates before j
    in the order, the empty one included. after[i]: log weight of all that may follow i, the empty one included.
    Candidates before the first pair partner of j precede it without a weight, so they are summed at once; their
    share of `after` is collected in `pushed`. The arrays count from the first candidate of the range.
    """
    base = offsets[first_component]
    n = offsets[stop_component] - base
    ahead, after = np.empty(n), np.zeros(n)
    before, pushed = np.empty(n + 1), np.full(n + 1, -np.inf)
    for c in range(first_component, stop_component):
        begin, stop = offsets[c] - base, offsets[c + 1] - base
        before[begin] = 0.0
        for j in range(begin, stop):
            pair, last_pair = pair_offsets[base + j], pair_offsets[base + j + 1]
            num = num_before[base + j] - base
            apart = pair_first[pair] - base if pair < last_pair else num
            total = before[apart]
            for i in range(apart, num):
                weight = 0.0
                if pair < last_pair and pair_first[pair] == base + i:
                    weight = pair_weight[pair]
                    pair += 1
                total = _log_add(total, ahead[i] + weight)
            ahead[j] = total + score[base + j]
            before[j + 1] = _log_add(before[j], ahead[j])
        log_partition[c] = before[stop]
        running = -np.inf
        for j in range(stop - 1, begin - 1, -1):
            running = _log_add(running, pushed[j + 1])
            pushed[j + 1] = -np.inf
            after[j] = _log_add(after[j], running)
            spans[base + j] = math.exp(min(0.0, ahead[j] + after[j] - before[stop]))
            rest = score[base + j] + after[j]
            pair, last_pair = pair_offsets[base + j], pair_offsets[base + j + 1]
            num = num_before[base + j] - base
            apart = pair_first[pair] - base if pair < last_pair else num
            pushed[apart] = _log_add(pushed[apart], rest)
            for i in range(apart, num):
                weight = 0.0
                if pair < last_pair and pair_first[pair] == base + i:
                    weight = pair_weight[pair]
                    pairs[pair] = math.exp(min(0.0, ahead[i] + weight + rest - before[stop]))
                    pair += 1
                after[i] = _log_add(after[i], weight + rest)
        pushed[begin] = -np.inf


@jit()
def _decoding_pass(offsets: Array, num_before: Array, gain: Array, chosen: Array) -> None:
    """Fill chosen (n,), by dynamic programming over the ends: best[j] is the largest gain of candidates before j."""
    best = np.empty(len(gain) + 1)
    for c in range(len(offsets) - 1):
        begin, stop = offsets[c], offsets[c + 1]
        best[begin] = 0.0
        for j in range(begin, stop):
            best[j + 1] = max(best[j], best[num_before[j]] + gain[j])
        j = stop
        while j > begin:
            if best[j] > best[j - 1]:
                chosen[j - 1] = True
                j = num_before[j - 1]
            else:
                j -= 1
