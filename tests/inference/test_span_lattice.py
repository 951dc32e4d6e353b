"""Span lattices against an enumeration of all sets of disjoint candidates."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convener.inference.span_lattice import SpanLattice, best_configuration, component_order, span_posterior

Case = tuple[SpanLattice, np.ndarray, np.ndarray]


@st.composite
def cases(draw: st.DrawFn, spread: float = 4.0) -> Case:
    """Up to seven candidates on a short axis, duplicates among them, with scores and pairs of any weight."""
    spans = draw(st.lists(st.tuples(st.integers(0, 14), st.integers(1, 4)), max_size=7))
    start = np.array([begin for begin, _ in spans], np.int64)
    end = start + np.array([length for _, length in spans], np.int64)
    order, offsets = component_order(start, end)
    start, end = start[order], end[order]
    component = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    legal = [(i, j) for j in range(len(start)) for i in range(j) if end[i] <= start[j] and component[i] == component[j]]
    kept = [pair for pair in legal if draw(st.booleans())]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.0, 1.0, spread, 50 * spread]))
    lattice = SpanLattice(start, end, offsets, np.array(kept, np.int64).reshape(-1, 2))
    return lattice, scale * rng.normal(size=len(start)), scale * rng.normal(size=len(kept))


def configurations(lattice: SpanLattice, begin: int, stop: int) -> list[tuple[int, ...]]:
    """All sets of disjoint candidates of one component, in the order of the text."""
    subsets = (subset for size in range(stop - begin + 1) for subset in combinations(range(begin, stop), size))
    return [subset for subset in subsets if all(lattice.end[i] <= lattice.start[j] for i, j in pairwise(subset))]


@given(cases())
def test_posteriors_are_those_of_an_enumeration(case: Case) -> None:
    lattice, score, pair_weight = case
    weights = dict(zip(map(tuple, lattice.pairs.tolist()), pair_weight, strict=True))
    got = span_posterior(lattice, score, pair_weight)
    spans, pairs = np.zeros(len(lattice)), dict.fromkeys(weights, 0.0)
    for c in range(len(lattice.offsets) - 1):
        sets = configurations(lattice, int(lattice.offsets[c]), int(lattice.offsets[c + 1]))
        neighbours = [list(pairwise(subset)) for subset in sets]
        energy = np.array(
            [
                score[list(subset)].sum() + sum(weights.get(pair, 0.0) for pair in near)
                for subset, near in zip(sets, neighbours, strict=True)
            ]
        )
        log_partition = np.logaddexp.reduce(energy)
        np.testing.assert_allclose(got.log_partition[c], log_partition, rtol=1e-12, atol=1e-9)
        for probability, subset, near in zip(np.exp(energy - log_partition), sets, neighbours, strict=True):
            spans[list(subset)] += probability
            for pair in near:
                if pair in pairs:
                    pairs[pair] += probability
    np.testing.assert_allclose(got.spans, spans, atol=1e-9)
    np.testing.assert_allclose(got.pairs, list(pairs.values()), atol=1e-9)


@given(cases())
def test_the_best_configuration_has_the_largest_gain(case: Case) -> None:
    lattice, gain, _ = case
    chosen = best_configuration(lattice, gain)
    for c in range(len(lattice.offsets) - 1):
        begin, stop = int(lattice.offsets[c]), int(lattice.offsets[c + 1])
        subset = tuple(np.flatnonzero(chosen[begin:stop]) + begin)
        sets = configurations(lattice, begin, stop)
        assert subset in sets
        best = max(gain[list(other)].sum() for other in sets)
        np.testing.assert_allclose(gain[list(subset)].sum(), best, atol=1e-9)


def test_extreme_scores_stay_finite() -> None:
    start, end = np.array([0, 1, 2, 2]), np.array([1, 2, 3, 4])
    order, offsets = component_order(start, end)
    lattice = SpanLattice(start[order], end[order], offsets, np.array([[0, 1]]))
    got = span_posterior(lattice, np.array([1e4, -1e4, 1e4, 900.0]), np.array([-1e4]))
    np.testing.assert_allclose(got.spans, [1, 0, 1, 0], atol=1e-12)
    assert np.isfinite(got.log_partition).all()


def test_components_join_what_touches() -> None:
    order, offsets = component_order(np.array([10, 0, 2, 3, 6]), np.array([12, 2, 3, 5, 7]))
    assert order.tolist() == [1, 2, 3, 4, 0]
    assert offsets.tolist() == [0, 3, 4, 5]


def test_no_candidates() -> None:
    none = np.zeros(0, np.int64)
    order, offsets = component_order(none, none)
    lattice = SpanLattice(none, none, offsets, np.zeros((0, 2), np.int64))
    got = span_posterior(lattice, np.zeros(0), np.zeros(0))
    assert len(order) == len(got.spans) == len(got.log_partition) == len(best_configuration(lattice, np.zeros(0))) == 0
