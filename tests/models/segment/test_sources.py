"""Evidence, posterior and counts of the segment model against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import convener as cv
from convener.models.segment.marks import Marks, worker_mask
from convener.models.segment.observations import SpanObservations
from convener.models.segment.sources import SourceCounts, SourceParams, e_step, expected_counts
from tests.generators import Kind, datasets
from tests.models.segment import oracle

TAGS = cv.TagSet(("PER", "LOC"))
SMALL = datasets(kind=Kind(partial=True, illegal=True), max_sentences=3, max_sources=3, tags=TAGS, gold=False)


def random_params(seed: int, num_sources: int) -> tuple[SourceParams, np.ndarray, np.ndarray]:
    """Parameters from random counts, weights of misses and of touching spans."""
    rng = np.random.default_rng(seed)
    counts = SourceCounts(
        *(
            rng.gamma(1.0, 3.0, shape) + 0.05
            for shape in (
                (2,),
                (1,),
                (num_sources, 2),
                (num_sources, 2),
                (num_sources, 2, 2),
                (num_sources, 4),
                (num_sources, 2),
                (num_sources, 2),
                (num_sources, 2),
            )
        )
    )
    is_worker = rng.random(num_sources) < 0.5
    return SourceParams.from_counts(counts, is_worker), rng.random(num_sources), -rng.random(2)


def observe(data: cv.Dataset) -> SpanObservations:
    return SpanObservations.from_dataset(data, Marks.from_dataset(data), np.arange(len(data.sources)))


@settings(max_examples=40)
@given(SMALL, st.integers(0, 2**32 - 1))
def test_posterior_and_likelihood_are_those_of_an_enumeration(data: cv.Dataset, seed: int) -> None:
    data = data.without_coarse()
    assume(data.sources)
    params, miss_weight, adjacency = random_params(seed, len(data.sources))
    observed = observe(data)
    candidates = [tuple(span) for span in observed.candidates]
    assume(len(candidates) <= 9)
    sets = oracle.disjoint_sets(candidates)
    weights = np.array([oracle.log_weight(data, spans, params, miss_weight, adjacency) for spans in sets])
    log_likelihood = np.logaddexp.reduce(weights)
    got = e_step(observed, params, miss_weight, adjacency)
    np.testing.assert_allclose(got.log_likelihood, log_likelihood, rtol=1e-9, atol=1e-8)
    p = np.exp(weights - log_likelihood)
    for number, candidate in enumerate(candidates):
        expected = sum(q for q, spans in zip(p, sets, strict=True) if candidate in spans)
        np.testing.assert_allclose(got.posterior.spans[number], expected, atol=1e-8)
    every_mark = sorted(
        (*mark, source) for source in range(len(data.sources)) for mark in oracle.marks_of(data, source)
    )
    covered = [
        sum(q for q, spans in zip(p, sets, strict=True) if any(oracle.overlap(s, mark[:4]) > 0 for s in spans))
        for mark in every_mark
    ]
    np.testing.assert_allclose(got.covered, covered, atol=1e-8)


@settings(max_examples=30)
@given(SMALL, st.integers(0, 2**32 - 1))
def test_expected_log_weight_is_the_likelihood_of_the_expected_counts(data: cv.Dataset, seed: int) -> None:
    """What the M step maximizes is the expected log-weight, up to terms that no parameter changes."""
    data = data.without_coarse()
    assume(data.sources)
    observed = observe(data)
    candidates = [tuple(span) for span in observed.candidates]
    assume(len(candidates) <= 7)
    params, _, adjacency = random_params(seed, len(data.sources))
    others, _, _ = random_params(seed + 1, len(data.sources))
    ones = np.ones(len(data.sources))
    result = e_step(observed, params, ones, adjacency)
    counts = expected_counts(observed, result.posterior.spans, result.covered)
    sets = oracle.disjoint_sets(candidates)
    weights = np.array([oracle.log_weight(data, spans, params, ones, adjacency) for spans in sets])
    p = np.exp(weights - np.logaddexp.reduce(weights))
    other_weights = [oracle.log_weight(data, spans, others, ones, adjacency) for spans in sets]
    np.testing.assert_allclose(
        others.log_likelihood(counts) - params.log_likelihood(counts),
        p @ (other_weights - weights),
        rtol=1e-7,
        atol=1e-7,
    )


@given(st.integers(0, 2**32 - 1))
def test_the_m_step_maximizes_the_likelihood_of_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = ((2,), (1,), (3, 2), (3, 2), (3, 2, 2), (3, 4), (3, 2), (3, 2), (3, 2))
    counts = SourceCounts(*(rng.gamma(1.0, 5.0, shape) + 0.1 for shape in shapes))
    is_worker = np.array([True, False, False])
    best = SourceParams.from_counts(counts, is_worker).log_likelihood(counts)
    for _ in range(5):
        near = SourceCounts(*(array * np.exp(0.2 * rng.normal(size=array.shape)) for array in counts))
        assert SourceParams.from_counts(near, is_worker).log_likelihood(counts) <= best + 1e-9


def test_threads_do_not_change_a_bit(toy: cv.Dataset) -> None:
    observed = observe(toy)
    params, miss_weight, adjacency = random_params(0, len(toy.sources))
    one, two = (e_step(observed, params, miss_weight, adjacency, num_threads=number) for number in (1, 2))
    assert one.posterior.spans.tobytes() == two.posterior.spans.tobytes()
    assert one.log_likelihood == two.log_likelihood


def test_a_source_misses_nothing_in_sentences_on_which_it_abstains() -> None:
    votes = {"a": [[(0, 1, "PER")], [(0, 1, "PER")]], "b": [[], None]}
    data = cv.Dataset.from_spans(TAGS.types, [["x"], ["y"]], votes, unmarked="outside")
    counts = expected_counts(observe(data), np.ones(2), np.ones(2))
    assert counts.missed[:, 0].tolist() == [0, 1]
    assert counts.detected[:, 0].tolist() == [2, 0]
    assert counts.exposure[:, 0].tolist() == [2, 1]
    assert worker_mask(data).tolist() == [True, True]
