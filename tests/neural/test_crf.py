"""CRFs, compared with the enumeration of all paths."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from convener.inference import decoding
from convener.inference.chain import forward_backward
from convener.neural.crf import CRF, crf_to_chain, expected_score, log_partition, path_score
from convener.neural.transition import ILLEGAL_LOGIT

Field = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def field_of(seed: int, labels: int, lengths: list[int], spread: float, *, by_token: bool, dtype: Any) -> Field:
    """Random scores in [-spread, spread], not normalized."""
    rng = np.random.default_rng(seed)
    offsets = torch.tensor([0, *np.cumsum(np.array(lengths, np.int64))])
    rows = int(offsets[-1])
    shape = (rows, labels, labels) if by_token else (labels, labels)
    scores, transitions = (rng.uniform(-spread, spread, s) for s in ((rows, labels), shape))
    return torch.tensor(scores, dtype=dtype), torch.tensor(transitions, dtype=dtype), offsets


def fields(spread: float, dtype: Any = torch.float64) -> st.SearchStrategy[Field]:
    return st.builds(
        lambda seed, labels, lengths, share, by_token: field_of(
            seed, labels, lengths, share * spread, by_token=by_token, dtype=dtype
        ),
        st.integers(0, 2**32 - 1),
        st.integers(2, 4),
        st.lists(st.integers(0, 4), min_size=1, max_size=4),
        st.sampled_from([0.01, 0.3, 1.0]),
        st.booleans(),
    )


def sentences(field: Field) -> list[tuple[np.ndarray, np.ndarray]]:
    """All paths (P, T) of each sentence and their scores (P,)."""
    scores, transitions, offsets = (x.detach().double().numpy() for x in field)
    found, labels = [], scores.shape[1]
    for a, b in zip(offsets.astype(int), offsets[1:].astype(int), strict=False):
        paths = np.array(list(product(range(labels), repeat=b - a)), int)
        energy = np.zeros(len(paths))
        for number, path in enumerate(paths):
            for t, label in enumerate(path):
                energy[number] += scores[a + t, label]
                if t > 0:
                    matrix = transitions if transitions.ndim == 2 else transitions[a + t]
                    energy[number] += matrix[path[t - 1], label]
        found.append((paths, energy))
    return found


@given(fields(5.0))
def test_log_partition_sums_over_all_paths(field: Field) -> None:
    expected = [np.logaddexp.reduce(energy) for _, energy in sentences(field)]
    np.testing.assert_allclose(log_partition(*field), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(data=st.data())
def test_large_scores_are_exact(dtype: Any, data: st.DataObject) -> None:
    scores, transitions, offsets = field = data.draw(fields(800.0, dtype))
    inputs = scores.requires_grad_(), transitions.requires_grad_()
    value = log_partition(*inputs, offsets)
    tolerance = {"rtol": 1e-5, "atol": 2e-3} if dtype == torch.float32 else {"rtol": 1e-9}
    by_scores, by_transitions = torch.autograd.grad(value.sum(), inputs)
    wanted_scores, expected_transitions = (torch.zeros_like(x).double().numpy() for x in inputs)
    for m, (paths, energy) in enumerate(sentences(field)):
        total = np.logaddexp.reduce(energy)
        np.testing.assert_allclose(value[m].item(), total, **tolerance)
        p, first = np.exp(energy - total), int(offsets[m])
        for t in range(paths.shape[1]):
            np.add.at(wanted_scores[first + t], paths[:, t], p)
            if t > 0:
                target = expected_transitions if transitions.ndim == 2 else expected_transitions[first + t]
                np.add.at(target, (paths[:, t - 1], paths[:, t]), p)
    near = 2e-3 if dtype == torch.float32 else 1e-9
    np.testing.assert_allclose(by_scores, wanted_scores, atol=near)
    np.testing.assert_allclose(by_transitions, expected_transitions, atol=near)


@pytest.mark.parametrize("by_token", [False, True])
def test_gradients(by_token: bool) -> None:
    scores, transitions, offsets = field_of(1, 3, [3, 0, 1, 4], 4.0, by_token=by_token, dtype=torch.float64)
    inputs = scores.requires_grad_(), transitions.requires_grad_()
    labels = torch.tensor([0, 1, 2, 1, 0, 0, 2, 1])
    soft = torch.rand(8, 3, dtype=torch.float64).softmax(1)
    for value in (
        lambda *x: log_partition(*x, offsets),
        lambda *x: path_score(*x, labels, offsets),
        lambda *x: expected_score(*x, soft, offsets),
    ):
        assert torch.autograd.gradcheck(value, inputs)


@given(fields(5.0), st.integers(0, 100))
def test_path_score_is_the_score_of_the_path(field: Field, seed: int) -> None:
    written = sentences(field)
    rng = np.random.default_rng(seed)
    chosen = [rng.integers(len(paths)) for paths, _ in written]
    labels = [paths[i] for (paths, _), i in zip(written, chosen, strict=True)]
    found = path_score(*field[:2], torch.tensor(np.concatenate(labels)), field[2])
    expected = [energy[i] for (_, energy), i in zip(written, chosen, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@given(fields(5.0), st.integers(0, 100))
def test_expected_score_is_the_mean_over_independent_labels(field: Field, seed: int) -> None:
    scores, transitions, offsets = field
    q = torch.tensor(np.random.default_rng(seed).dirichlet(np.ones(scores.shape[1]), len(scores)))
    q = q.reshape(scores.shape)
    found = expected_score(scores, transitions, q, offsets)
    for m, (paths, energy) in enumerate(sentences(field)):
        rows = q[offsets[m] : offsets[m + 1]].numpy()
        chance = rows[np.arange(paths.shape[1]), paths].prod(axis=1)
        np.testing.assert_allclose(found[m], (chance * energy).sum(), atol=1e-9)


@given(fields(5.0), st.integers(0, 100))
def test_one_hot_probabilities_give_the_path_score(field: Field, seed: int) -> None:
    scores, transitions, offsets = field
    labels = torch.tensor(np.random.default_rng(seed).integers(0, scores.shape[1], len(scores)))
    sure = torch.eye(scores.shape[1], dtype=torch.float64)[labels]
    torch.testing.assert_close(
        expected_score(scores, transitions, sure, offsets), path_score(scores, transitions, labels, offsets)
    )


@given(fields(20.0))
def test_marginals_and_best_paths_match_enumeration(field: Field) -> None:
    chain = [x.numpy() for x in (*crf_to_chain(*field), field[2])]
    marginals = forward_backward(*chain).marginals
    best = decoding.viterbi(*chain)
    for m, (paths, energy) in enumerate(sentences(field)):
        p, rows = np.exp(energy - np.logaddexp.reduce(energy)), slice(*field[2][m : m + 2])
        for t in range(paths.shape[1]):
            expected = np.bincount(paths[:, t], p, field[0].shape[1])
            np.testing.assert_allclose(marginals[rows][t], expected, atol=1e-9)
        np.testing.assert_array_equal(best.labels[rows], paths[energy.argmax()])
        np.testing.assert_allclose(best.scores[m], energy.max(), atol=1e-8)


class TestModule:
    LEGAL = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 1, 1]])
    START = torch.tensor([1, 1, 0])

    def test_weights_are_scores_of_first_labels_and_transitions(self) -> None:
        scores, transitions, offsets = field_of(2, 3, [2, 0, 3], 2.0, by_token=False, dtype=torch.float64)
        crf = CRF(3, self.LEGAL, self.START).double()
        with torch.no_grad():
            crf.transitions.copy_(transitions)
            crf.start_transitions.copy_(torch.tensor([0.3, -1.0, 2.0]))
        floored = transitions + ILLEGAL_LOGIT * (1 - self.LEGAL)
        with_start = scores.clone()
        with_start[[0, 2]] += torch.tensor([0.3, -1.0, 2.0 + ILLEGAL_LOGIT], dtype=torch.float64)
        field = with_start, floored, offsets
        written = sentences(field)
        labels = torch.tensor([1, 2, 0, 0, 1])
        found = crf.log_likelihood(scores, labels, offsets)
        for m, (paths, energy) in enumerate(written):
            rows = slice(*offsets[m : m + 2])
            own = energy[(paths == labels[rows].numpy()).all(axis=1)]
            np.testing.assert_allclose(found[m].item(), own - np.logaddexp.reduce(energy))
        soft = torch.eye(3, dtype=torch.float64)[labels]
        torch.testing.assert_close(crf.expected_log_likelihood(scores, soft, offsets), found)

    def test_illegal_paths_have_negligible_probability(self) -> None:
        scores, _, offsets = field_of(3, 3, [4, 4], 1.0, by_token=False, dtype=torch.float32)
        crf = CRF(3, self.LEGAL, self.START)
        for labels in ([2, 0, 0, 0], [0, 2, 0, 0]):
            value = crf.log_likelihood(scores, torch.tensor(labels * 2), offsets)
            assert (value < ILLEGAL_LOGIT / 2).all()
            assert torch.isfinite(value).all()
        open_field = CRF(3).log_likelihood(scores, torch.tensor([2, 0, 0, 0] * 2), offsets)
        assert (open_field > ILLEGAL_LOGIT / 2).all()

    def test_probabilities_of_all_paths_sum_to_one(self) -> None:
        scores, _, offsets = field_of(4, 3, [3], 1.0, by_token=False, dtype=torch.float64)
        crf = CRF(3).double()
        torch.nn.init.normal_(crf.transitions)
        torch.nn.init.normal_(crf.start_transitions)
        paths = [torch.tensor(path) for path in product(range(3), repeat=3)]
        total = sum(crf.log_likelihood(scores, path, offsets).exp() for path in paths)
        torch.testing.assert_close(total, torch.ones(1, dtype=torch.float64))

    def test_log_likelihood_of_the_chain_is_log_partition(self) -> None:
        scores, _, offsets = field_of(5, 3, [3, 0, 2], 1.0, by_token=False, dtype=torch.float64)
        crf = CRF(3, self.LEGAL, self.START).double()
        torch.nn.init.normal_(crf.transitions)
        torch.nn.init.normal_(crf.start_transitions)
        with torch.no_grad():
            chain = [x.numpy() for x in (*crf.to_chain(scores, offsets), offsets)]
            written = sentences((*crf.potentials(scores, offsets), offsets))
        expected = [np.logaddexp.reduce(energy) for _, energy in written]
        np.testing.assert_allclose(forward_backward(*chain).log_likelihood, expected, atol=1e-9)
