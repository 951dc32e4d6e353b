"""Viterbi paths and span posteriors, compared with the enumeration of all paths."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convener.inference import decoding
from tests.inference.chain_oracle import Chain, chains, random_chain

quick = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
LEGAL = np.ones((5, 5), bool)
LEGAL[:, [2, 4]] = False
LEGAL[1:3, 2] = LEGAL[3:5, 4] = True


@quick
@given(chains(np.float64, 300.0))
def test_viterbi_finds_the_best_path(batch: Chain) -> None:
    best = decoding.viterbi(*batch.arrays)
    for m in range(len(batch.offsets) - 1):
        rows = slice(batch.offsets[m], batch.offsets[m + 1])
        labels, scores = batch.truth(m).labellings()
        np.testing.assert_allclose(best.scores[m], scores.max(), rtol=1e-9, atol=1e-9)
        chosen = scores[(labels == best.labels[rows]).all(1)]
        np.testing.assert_allclose(chosen, scores.max(), rtol=1e-9, atol=1e-9)


def test_ties_go_to_lower_labels() -> None:
    flat = Chain(np.log(np.full(3, 1 / 3)), np.zeros((4, 3, 3)), np.zeros((4, 3)), np.array([0, 4]))
    assert decoding.viterbi(*flat.arrays).labels.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("constant", [True, False])
def test_illegal_transitions_are_avoided(constant: bool) -> None:
    batch = random_chain(3, 5, [20, 1, 0, 40], constant=constant, spread=6)
    legal_first = LEGAL[0]
    unconstrained = decoding.viterbi(*batch.arrays).labels
    labels = decoding.viterbi(*batch.arrays, legal_transitions=LEGAL, legal_first=legal_first).labels
    for start, end in pairwise(batch.offsets):
        path = labels[start:end]
        if len(path) > 1:
            assert legal_first[path[0]]
            assert LEGAL[path[:-1], path[1:]].all()
    assert not LEGAL[unconstrained[21:-1], unconstrained[22:]].all()


def test_there_is_a_path_even_if_none_is_legal() -> None:
    batch = random_chain(2, 3, [5])
    best = decoding.viterbi(*batch.arrays, legal_transitions=np.zeros((3, 3), bool))
    assert np.isfinite(best.scores).all()
    batch.log_like[:] = -np.inf
    assert np.isfinite(decoding.viterbi(*batch.arrays).scores).all()


@quick
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([3, 5]),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([1.0, 30.0, 300.0]),
)
def test_span_posteriors_sum_over_all_paths(
    seed: int, labels: int, lengths: list[int], constant: bool, spread: float
) -> None:
    batch = random_chain(seed, labels, lengths, constant=constant, spread=spread)
    spans = [
        (m, a, b, kind)
        for m, length in enumerate(lengths)
        for a in range(length)
        for b in range(a + 1, length + 1)
        for kind in range(labels // 2)
    ]
    np.random.default_rng(seed).shuffle(spans)
    table = np.array(spans, np.int64).reshape(-1, 4)
    got = decoding.span_posteriors(
        *batch.arrays, sentence=table[:, 0], start=table[:, 1], end=table[:, 2], type=table[:, 3]
    )
    truths = [batch.truth(m) for m in range(len(lengths))]
    for value, (m, a, b, kind) in zip(got, spans, strict=True):
        paths = truths[m].paths[:, 1:]
        match = (paths[:, a] == 2 * kind + 1) & (paths[:, a + 1 : b] == 2 * kind + 2).all(1)
        if b < lengths[m]:
            match &= paths[:, b] != 2 * kind + 2
        np.testing.assert_allclose(value, truths[m].p[match].sum(), atol=1e-9)


def test_spans_outside_their_sentence_are_rejected() -> None:
    batch = random_chain(0, 3, [3, 2])
    columns = {"sentence": 1, "start": 1, "end": 3, "type": 0}
    one = {name: np.array([value]) for name, value in columns.items()}
    with pytest.raises(ValueError, match="length"):
        decoding.span_posteriors(*batch.arrays, **one)
