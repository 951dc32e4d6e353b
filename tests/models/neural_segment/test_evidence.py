"""The evidence of votes in the lattice of segmentations."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.models.neural_segment.evidence import EvidenceModel, VoteLattice, limit_odds, log_unseen_probability
from convener.models.segment.marks import Marks
from convener.models.segment.model import Segment, SegmentState
from convener.models.segment.observations import SpanObservations
from convener.models.segment.sources import SourceParams, candidate_scores
from tests.conftest import crowd

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")


def state_and_lattice(data: cv.Dataset) -> tuple[SegmentState, VoteLattice]:
    params, _ = Segment()._fit(data, None, None, None)
    state = SegmentState.from_arrays(params)
    return state, VoteLattice.from_dataset(data, state.duplicate_of)


def evidence_model(state: SegmentState, lattice: VoteLattice, dependence_rate: float = 0.0) -> EvidenceModel:
    """Evidence without a limit."""
    observed = lattice.observed
    return EvidenceModel(
        is_worker=observed.is_worker,
        miss_weight=float(state.false_share[0]),
        dependence_rate=dependence_rate,
        error_rate=np.zeros(observed.num_sources),
        log_unseen=log_unseen_probability(observed),
        boundary_penalty=5.0,
    )


def odds_of_segment(state: SegmentState, lattice: VoteLattice) -> np.ndarray:
    observed = lattice.observed
    params = SourceParams.from_counts(state.counts, observed.is_worker)
    miss_weight = np.where(observed.is_worker, 1.0, state.false_share[0])
    log_false = params.false_rate[observed.marks.source, observed.marks.type]
    return candidate_scores(observed, params, miss_weight, log_false)


def evidence_and_rate(state: SegmentState, lattice: VoteLattice, dependence_rate: float) -> np.ndarray:
    """Odds of each candidate: its evidence, times the rate of spans."""
    model = evidence_model(state, lattice, dependence_rate)
    found = lattice.candidate_posteriors(model.evidence(lattice, state.counts).arcs.score)
    rate = SourceParams.from_counts(state.counts, lattice.observed.is_worker).span_rate
    return found + rate[lattice.observed.candidates.type]


@pytest.mark.parametrize("unmarked", ["abstain", "outside"])
def test_without_dependence_the_odds_are_those_of_segment(unmarked: str) -> None:
    for seed in range(4):
        data = crowd(seed, 60)
        data = data.with_sources(data.sources, data.votes, (unmarked,) * len(data.sources))
        state, lattice = state_and_lattice(data)
        candidate, _, missing = lattice.overlaps
        is_partial = np.zeros(len(lattice.observed.candidates), bool)
        is_partial[candidate[missing > 0]] = True
        found = evidence_and_rate(state, lattice, 0.0)
        expected = odds_of_segment(state, lattice)
        np.testing.assert_allclose(found[~is_partial], expected[~is_partial], atol=1e-9)
        assert (found[is_partial] < expected[is_partial]).all()


def test_dependence_never_changes_the_sign_of_the_odds() -> None:
    rng = np.random.default_rng(0)
    names = [f"s{number}" for number in range(40)]
    true = [[(2, 4, "X")] if rng.random() < 0.5 else [] for _ in range(80)]
    votes = {
        name: [[s for s in spans if rng.random() < 0.3] + [(7, 8, "X")] * int(rng.random() < 0.01) for spans in true]
        for name in names
    }
    data = cv.Dataset.from_spans(["X"], [["w"] * 10] * 80, votes)
    state, lattice = state_and_lattice(data)
    free, discounted = (evidence_and_rate(state, lattice, rate) for rate in (0.0, 1.5))
    assert lattice.num_sources.max() > 10
    np.testing.assert_array_equal(np.sign(free), np.sign(discounted))
    assert (np.abs(discounted) <= np.abs(free) + 1e-9).all()


def components(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-odds, log-probabilities and component offsets at random."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=rng.integers(1, 6))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    count = offsets[-1]
    return rng.normal(scale=5, size=count), -rng.exponential(size=count), offsets


@given(st.integers(0, 2**32 - 1))
def test_the_limit_bounds_the_best_candidate_of_a_component_and_keeps_differences(seed: int) -> None:
    odds, log_false, offsets = components(seed)
    limited = limit_odds(odds, log_false, offsets)
    for begin, end in pairwise(offsets):
        least = np.exp(log_false[begin:end]).min()
        best = odds[begin:end].max()
        np.testing.assert_allclose(limited[begin:end].max(), min(best, np.log((1 - least) / least)), atol=1e-9)
        np.testing.assert_allclose(np.diff(limited[begin:end]), np.diff(odds[begin:end]), atol=1e-9)


def test_without_shared_errors_there_is_no_limit() -> None:
    odds = np.array([40.0, -3.0])
    np.testing.assert_array_equal(limit_odds(odds, np.array([-np.inf, -1.0]), np.array([0, 2])), odds)
    assert not len(limit_odds(np.zeros(0), np.zeros(0), np.zeros(1, np.int64)))


def test_more_shared_errors_never_raise_the_odds_of_a_span() -> None:
    data = crowd(0, 60)
    data = data.with_sources(data.sources, data.votes, ("abstain",) * len(data.sources))
    state, lattice = state_and_lattice(data)
    model = evidence_model(state, lattice)
    scores = [
        replace(model, error_rate=np.full(len(data.sources), rate)).evidence(lattice, state.counts).arcs.score
        for rate in (0.0, 0.1, 0.5, 0.9)
    ]
    assert all((higher <= lower + 1e-9).all() for lower, higher in pairwise(scores))
    assert scores[-1].max() < scores[0].max()


@pytest.mark.parametrize(("unmarked", "share"), [("abstain", 0.5), ("outside", 0.0)])
def test_only_marks_of_workers_are_true_as_a_whole(unmarked: str, share: float) -> None:
    votes = {"whole": [[(0, 4, "X")]] * 3, "half": [[(0, 2, "X")]] * 3}
    data = cv.Dataset.from_spans(["X"], [["w"] * 6] * 3, votes, unmarked=unmarked)
    lattice = VoteLattice.from_dataset(data, np.arange(2))
    candidate, mark, missing = lattice.overlaps
    spans, marks = lattice.observed.candidates, lattice.observed.marks
    is_half, is_long = spans.end[candidate] == 2, marks.end[mark] - marks.start[mark] == 4
    assert set(missing[is_half & is_long]) == {share}
    assert not missing[~(is_half & is_long)].any()


def test_a_mark_on_two_disjoint_candidates_is_shared() -> None:
    votes = {"long": [[(0, 4, "X")]] * 3, "short": [[(0, 1, "X"), (2, 4, "X")]] * 3}
    data = cv.Dataset.from_spans(["X"], [["w"] * 6] * 3, votes, unmarked="outside")
    lattice = VoteLattice.from_dataset(data, np.arange(2))
    candidate, mark, missing = lattice.overlaps
    marks, spans = lattice.observed.marks, lattice.observed.candidates
    is_long = marks.end[mark] - marks.start[mark] == 4
    length = (spans.end - spans.start)[candidate]
    np.testing.assert_allclose(missing[is_long], 1 - length[is_long] / 4)


def test_the_share_of_unseen_spans_follows_from_lone_ones() -> None:
    votes = {"a": [[(0, 1, "X")]] * 200, "b": [[(0, 1, "X")]] * 200}
    data = cv.Dataset.from_spans(["X"], [["w", "w"]] * 200, votes)
    observed = SpanObservations.from_dataset(data, Marks.from_dataset(data), np.arange(2))
    both = np.exp(log_unseen_probability(observed))
    votes["b"] = [[]] * 150 + votes["b"][150:]
    data = cv.Dataset.from_spans(["X"], [["w", "w"]] * 200, votes)
    observed = SpanObservations.from_dataset(data, Marks.from_dataset(data), np.arange(2))
    lone = np.exp(log_unseen_probability(observed))
    np.testing.assert_allclose(both, 0.1)
    assert both[0] < lone[0] <= 0.5
