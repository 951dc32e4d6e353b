from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convener.inference import chain, decoding
from tests.inference.chain_oracle import Chain, chains, random_chain

quick = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
LEGAL = np.ones((5, 5), bool)
LEGAL[:, [2, 4]] = False
LEGAL[1:3, 2] = LEGAL[3:5, 4] = True


@quick
@given(chains(np.float64, 300.0))
def test_viterbi_is_the_best_labelling(batch: Chain) -> None:
    best = decoding.viterbi(*batch.arrays)
    for m in range(len(batch.offsets) - 1):
        rows = slice(batch.offsets[m], batch.offsets[m + 1])
        labels, scores = batch.truth(m).labellings()
        np.testing.assert_allclose(best.scores[m], scores.max(), rtol=1e-9, atol=1e-9)
        chosen = scores[(labels == best.labels[rows]).all(1)]
        np.testing.assert_allclose(chosen, scores.max(), rtol=1e-9, atol=1e-9)


@quick
@given(chains(np.float64, 20.0, longest=4), st.integers(1, 7))
def test_k_best_are_the_best(batch: Chain, k: int) -> None:
    best = decoding.k_best(*batch.arrays, k=k)
    first = decoding.viterbi(*batch.arrays)
    np.testing.assert_array_equal(best.labels[0], first.labels)
    for m in range(len(batch.offsets) - 1):
        rows = slice(batch.offsets[m], batch.offsets[m + 1])
        labels, scores = batch.truth(m).labellings()
        count = min(k, len(scores))
        got = best.labels[:, rows]
        wanted = np.sort(scores)[::-1][:count]
        seen = np.isfinite(wanted)
        np.testing.assert_allclose(best.scores[m, :count][seen], wanted[seen], rtol=1e-9, atol=1e-9)
        assert np.isneginf(best.scores[m, count:]).all()
        assert (got[count:] == -1).all()
        assert len(np.unique(got[:count], axis=0)) == count
        for path, score in zip(got[:count], best.scores[m], strict=False):
            own = scores[(labels == path).all(1)][0]
            if np.isfinite(own):
                np.testing.assert_allclose(score, own, rtol=1e-9, atol=1e-9)


def test_ties_go_to_lower_labels() -> None:
    flat = Chain(np.log(np.full(3, 1 / 3)), np.zeros((4, 3, 3)), np.zeros((4, 3)), np.array([0, 4]))
    assert decoding.viterbi(*flat.arrays).labels.tolist() == [0, 0, 0, 0]
    assert decoding.k_best(*flat.arrays, k=2).labels.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize("constant", [True, False])
def test_legal_moves_are_kept(constant: bool) -> None:
    batch = random_chain(3, 5, [20, 1, 0, 40], constant=constant, spread=6)
    start = LEGAL[0]
    free = decoding.viterbi(*batch.arrays).labels
    for labels in (
        decoding.viterbi(*batch.arrays, legal_transitions=LEGAL, legal_first=start).labels,
        *decoding.k_best(*batch.arrays, k=3, legal=LEGAL, legal_start=start).labels[:2],
    ):
        for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
            path = labels[a:b]
            if len(path) > 1:
                assert start[path[0]]
                assert LEGAL[path[:-1], path[1:]].all()
    assert not LEGAL[free[21:-1], free[22:]].all()


def test_a_path_comes_back_where_none_is_legal() -> None:
    batch = random_chain(2, 3, [5])
    best = decoding.viterbi(*batch.arrays, legal_transitions=np.zeros((3, 3), bool))
    assert np.isfinite(best.scores).all()
    batch.log_like[:] = -np.inf
    assert np.isfinite(decoding.viterbi(*batch.arrays).scores).all()


@pytest.mark.parametrize("constant", [True, False])
def test_samples_follow_the_posterior(constant: bool) -> None:
    batch = random_chain(4, 3, [5, 0, 1, 8], constant=constant)
    drawn = decoding.samples(*batch.arrays, count=20_000, seed=1)
    truth = chain.forward_backward(*batch.arrays, return_transitions=True)
    frequency = np.stack([(drawn == j).mean(0) for j in range(3)], 1)
    np.testing.assert_allclose(frequency, truth.marginals, atol=0.015)
    together = np.zeros((3, 3))
    np.add.at(together, (drawn[:, 2], drawn[:, 3]), 1 / len(drawn))
    assert truth.transition_posteriors is not None
    np.testing.assert_allclose(together, truth.transition_posteriors[3], atol=0.015)


def test_samples_repeat_and_do_not_depend_on_neighbours() -> None:
    batch = random_chain(4, 3, [5, 6, 7])
    drawn = decoding.samples(*batch.arrays, count=9, seed=3, threads=2)
    np.testing.assert_array_equal(drawn, decoding.samples(*batch.arrays, count=9, seed=3))
    assert (drawn != decoding.samples(*batch.arrays, count=9, seed=4)).any()
    alone = decoding.samples(*batch.alone(1).arrays, count=9, seed=3, keys=np.array([1]))
    np.testing.assert_array_equal(drawn[:, 5:11], alone)
    with pytest.raises(ValueError, match="keys"):
        decoding.samples(*batch.arrays, count=1, seed=0, keys=np.array([1]))


def test_impossible_labels_are_never_sampled() -> None:
    batch = random_chain(4, 3, [6])
    batch.log_like[:, 1] = -np.inf
    assert not (decoding.samples(*batch.arrays, count=500, seed=0) == 1).any()


@quick
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([3, 5]),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([1.0, 30.0, 300.0]),
)
def test_span_marginals_are_those_of_all_paths(
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


def test_spans_must_lie_in_their_sentence() -> None:
    batch = random_chain(0, 3, [3, 2])
    columns = {"sentence": 1, "start": 1, "end": 3, "type": 0}
    one = {name: np.array([value]) for name, value in columns.items()}
    with pytest.raises(ValueError, match="length"):
        decoding.span_posteriors(*batch.arrays, **one)
    with pytest.raises(ValueError, match="k must"):
        decoding.k_best(*batch.arrays, k=0)
