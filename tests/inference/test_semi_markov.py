from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convener.inference import _numba
from convener.inference.semi_markov import (
    Arcs,
    SegmentPotentials,
    SpanEvidence,
    best_segmentation,
    open_spans,
    segment_posterior,
)
from tests.oracles.semi_markov import (
    enumerate_segmentations,
    random_potentials,
    segment_labels,
    sentence_potentials,
)

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
cases = st.tuples(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.integers(1, 2),
    st.sampled_from([0.1, 1.0, 30.0]),
)


def draw(case: tuple[int, list[int], int, float]) -> tuple[SegmentPotentials, np.ndarray]:
    seed, lengths, num_types, scale = case
    return random_potentials(np.random.default_rng(seed), lengths, num_types, scale)


@quick
@given(cases)
def test_posterior_sums_over_all_segmentations(case: tuple[int, list[int], int, float]) -> None:
    potentials, offsets = draw(case)
    weights = np.random.default_rng(1).normal(size=len(offsets) - 1)
    result = segment_posterior(potentials, offsets, weights=weights)
    num_types = len(potentials.second)
    labels, arcs = np.zeros_like(potentials.labels), np.zeros(len(potentials.evidence.arcs.start))
    transition = np.zeros((num_types + 1, num_types + 1))
    second, further, opened = np.zeros(num_types), np.zeros(num_types), np.zeros((2, num_types))
    for m, (begin, end) in enumerate(pairwise(offsets.tolist())):
        truth = enumerate_segmentations(sentence_potentials(potentials, begin, end))
        np.testing.assert_allclose(result.log_partition[m], truth.log_partition, rtol=1e-10, atol=1e-10)
        for p, segmentation in zip(truth.probabilities, truth.segmentations, strict=True):
            previous = 0
            for segment in segmentation:
                length = segment.end - segment.start
                transition[previous, segment.state] += weights[m] * p
                previous = segment.state
                for i, label in enumerate(segment_labels(segment)):
                    labels[begin + segment.start + i, label] += p
                if segment.arc is not None:
                    arcs[potentials.evidence.arcs.offsets[begin] + segment.arc] += p
                if segment.state == 0:
                    transition[0, 0] += weights[m] * p * (length - 1)
                    continue
                if segment.arc is None:
                    opened[potentials.evidence.open_group[begin + segment.start], segment.state - 1] += weights[m] * p
                if length > 1:
                    second[segment.state - 1] += weights[m] * p
                    further[segment.state - 1] += weights[m] * p * (length - 2)
    expected = (labels, arcs, transition, second, further, opened)
    for ours, wanted in zip(result[1:], expected, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-8, atol=1e-9)


@quick
@given(cases)
def test_best_segmentation_has_the_highest_score(case: tuple[int, list[int], int, float]) -> None:
    potentials, offsets = draw(case)
    result = best_segmentation(potentials, offsets)
    for m, (begin, end) in enumerate(pairwise(offsets.tolist())):
        truth = enumerate_segmentations(sentence_potentials(potentials, begin, end))
        np.testing.assert_allclose(result.scores[m], truth.scores.max(), rtol=1e-12, atol=1e-12)
        best = truth.segmentations[int(truth.scores.argmax())]
        labels = [label for segment in best for label in segment_labels(segment)]
        assert result.labels[begin:end].tolist() == labels


@quick
@given(cases, st.sampled_from([0.01, 0.2, 0.6]))
def test_open_spans_are_all_above_the_limit(case: tuple[int, list[int], int, float], least: float) -> None:
    potentials, offsets = draw(case)
    found = open_spans(potentials, offsets, least=least)
    ours = {tuple(row): p for *row, p in zip(*(column.tolist() for column in found), strict=True)}
    wanted: dict[tuple[int, ...], float] = {}
    for m, (begin, end) in enumerate(pairwise(offsets.tolist())):
        truth = enumerate_segmentations(sentence_potentials(potentials, begin, end))
        for p, segmentation in zip(truth.probabilities, truth.segmentations, strict=True):
            for start, stop, state, arc in segmentation:
                if state and arc is None:
                    key = (m, start, stop, state - 1)
                    wanted[key] = wanted.get(key, 0.0) + p
    clear = {key: p for key, p in wanted.items() if abs(p - least) > 1e-9}
    assert {key for key, p in clear.items() if p >= least} == {key for key in ours if key in clear}
    for key, p in ours.items():
        assert p == pytest.approx(wanted[key], abs=1e-9)


def test_gradients_agree_with_finite_differences() -> None:
    potentials, offsets = random_potentials(np.random.default_rng(3), [4, 0, 5], 2)
    result = segment_posterior(potentials, offsets)

    def value(changed: SegmentPotentials) -> float:
        return float(segment_posterior(changed, offsets).log_partition.sum())

    step = 1e-6
    gradients = {
        "labels": result.labels,
        "transition": result.transition,
        "second": result.second,
        "further": result.further,
        "open_begin": result.open_spans,
    }
    evidence = potentials.evidence
    for name, gradient in gradients.items():
        array = evidence.open_begin if name == "open_begin" else getattr(potentials, name)
        for index in np.ndindex(array.shape):
            up, down = array.copy(), array.copy()
            up[index] += step
            down[index] -= step
            ends = [
                potentials._replace(evidence=evidence._replace(open_begin=changed))
                if name == "open_begin"
                else potentials._replace(**{name: changed})
                for changed in (up, down)
            ]
            slope = (value(ends[0]) - value(ends[1])) / (2 * step)
            assert slope == pytest.approx(gradient[index], abs=1e-6), name
    for k, posterior in enumerate(result.arcs):
        score = evidence.arcs.score.copy()
        score[k] += step
        changed = potentials._replace(evidence=evidence._replace(arcs=evidence.arcs._replace(score=score)))
        assert (value(changed) - value(potentials)) / step == pytest.approx(posterior, abs=1e-5)


def test_scores_of_any_size_are_exact() -> None:
    # Evidence of hundreds of sources: thousands of nats.
    labels = np.zeros((6, 3))
    arcs = Arcs(np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0, 1]), np.array([1, 1]), np.array([5000.0, 5001.0]))
    evidence = SpanEvidence(np.full(6, -np.inf), np.zeros(6, np.int64), np.zeros((1, 1)), arcs)
    potentials = SegmentPotentials(labels, np.zeros((2, 2)), np.zeros(1), np.zeros(1), evidence)
    result = segment_posterior(potentials, np.array([0, 6]))
    np.testing.assert_allclose(result.log_partition, 5000 + np.log(1 + np.e), rtol=1e-12)
    np.testing.assert_allclose(result.arcs, [1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_do_not_change_bits(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_numba, "_BLOCK_CELLS", 5 * 64)
    rng = np.random.default_rng(0)
    potentials, offsets = random_potentials(rng, rng.integers(0, 30, 40).tolist(), 2)
    potentials = potentials._replace(labels=potentials.labels.astype(dtype))
    one = segment_posterior(potentials, offsets)
    for threads in (2, 5):
        many = segment_posterior(potentials, offsets, num_threads=threads)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, many, strict=True))
        assert open_spans(potentials, offsets, least=0.1, num_threads=threads).posterior.tobytes() == (
            open_spans(potentials, offsets, least=0.1).posterior.tobytes()
        )
        paths = best_segmentation(potentials, offsets, num_threads=threads)
        assert paths.labels.tobytes() == best_segmentation(potentials, offsets).labels.tobytes()
    assert one.labels.dtype == dtype


def test_a_prior_is_a_markov_chain_over_bio_labels() -> None:
    # All weights 0 and no transition scores: every BIO sequence with free I- continuation counts once.
    potentials = SegmentPotentials(
        np.zeros((3, 3)), np.zeros((2, 2)), np.zeros(1), np.zeros(1), SpanEvidence.none(3, 1)
    )
    result = segment_posterior(potentials, np.array([0, 3]))
    # O, B anywhere; I after B or I: 1 + 2a(n-1) type recursion gives 2, 5, 13.
    np.testing.assert_allclose(np.exp(result.log_partition), [13.0])


def test_wrong_shapes_are_refused() -> None:
    potentials = SegmentPotentials(
        np.zeros((3, 3)), np.zeros((2, 2)), np.zeros(1), np.zeros(1), SpanEvidence.none(3, 1)
    )
    with pytest.raises(ValueError, match="transition must be"):
        segment_posterior(potentials._replace(transition=np.zeros((3, 3))), np.array([0, 3]))
    with pytest.raises(ValueError, match="offsets must lead from 0 to 3"):
        segment_posterior(potentials, np.array([0, 2]))
    with pytest.raises(ValueError, match="open_token must be"):
        segment_posterior(potentials._replace(evidence=SpanEvidence.none(2, 1)), np.array([0, 3]))
