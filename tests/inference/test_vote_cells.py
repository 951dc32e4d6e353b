"""Vote cells compared with sets, and evidence compared with the dense definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from convener.inference.vote_cells import VoteCells, build_vote_cells, log_evidence
from tests.inference.test_evidence import random_votes
from tests.oracles.vote_cells import log_evidence_reference

Votes = np.ndarray[tuple[int, int], np.dtype[np.int16]]
Offsets = np.ndarray[tuple[int], np.dtype[np.int64]]

crowds = st.tuples(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 9), max_size=6),
    st.integers(0, 5),
    st.sampled_from([3, 5]),
)


def random_crowd(seed: int, lengths: list[int], sources: int, labels: int) -> tuple[Votes, Offsets, VoteCells]:
    """Votes of sources of every kind on sentences, some of them empty."""
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    votes = random_votes(seed, int(offsets[-1]), sources, labels)
    return votes, offsets, build_vote_cells(votes, offsets, labels)


def vote_triples(votes: Votes, offsets: Offsets) -> list[tuple[int, int, int]]:
    """All triples (sentence, source, label voted for), in order."""
    return [
        (m, k, int(label))
        for m, (first, last) in enumerate(pairwise(offsets))
        for k in range(votes.shape[1])
        for label in sorted(set(votes[first:last, k].tolist()) - {-1})
    ]


def dense_evidence(values: torch.Tensor, votes: Votes, offsets: Offsets) -> torch.Tensor:
    """The sum of log Phi[m(t), k, l, x_k(t)], vote by vote."""
    place = {cell: number for number, cell in enumerate(vote_triples(votes, offsets))}
    rows = []
    for m, (first, last) in enumerate(pairwise(offsets)):
        for t in range(first, last):
            row = values.new_zeros(values.shape[1])
            for k in range(votes.shape[1]):
                if votes[t, k] >= 0:
                    row = row + values[place[m, k, int(votes[t, k])]]
            rows.append(row)
    nothing = values.new_zeros(0, values.shape[1]) + 0 * values.sum()
    return torch.cat([nothing, *(row[None] for row in rows)])


@given(crowds)
def test_cells_are_the_labels_voted_for(case: tuple[int, list[int], int, int]) -> None:
    votes, offsets, cells = random_crowd(*case)
    expected = vote_triples(votes, offsets)
    sources = votes.shape[1]
    found = [(int(p) // sources, int(p) % sources, int(j)) for p, j in zip(cells.source_row, cells.label, strict=True)]
    assert found == expected
    assert cells.counts.sum() == len(expected)
    assert len(cells) == len(offsets) - 1


@given(crowds, st.sampled_from([torch.float32, torch.float64]))
def test_evidence_is_the_dense_sum(case: tuple[int, list[int], int, int], dtype: torch.dtype) -> None:
    votes, offsets, cells = random_crowd(*case)
    rng = np.random.default_rng(case[0])
    values = torch.tensor(rng.normal(size=(len(cells.label), case[3])), dtype=dtype)
    values.requires_grad_()
    weights = torch.tensor(rng.normal(size=(len(votes), case[3])), dtype=dtype)
    expected = dense_evidence(values, votes, offsets)
    (slope,) = torch.autograd.grad((expected * weights).sum(), values, materialize_grads=True)
    for evidence in (log_evidence, log_evidence_reference):
        found = evidence(values, cells)
        assert found.dtype == dtype
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        (ours,) = torch.autograd.grad((found * weights).sum(), values, materialize_grads=True)
        torch.testing.assert_close(ours, slope, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sources", [1, 4])
def test_gradcheck(sources: int) -> None:
    _, _, cells = random_crowd(3, [4, 0, 3, 6], sources, 3)
    values = torch.randn(len(cells.label), 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: log_evidence(x, cells), values)


@given(crowds, st.integers(0, 6), st.integers(0, 6))
def test_a_slice_equals_cells_of_its_sentences(case: tuple[int, list[int], int, int], first: int, last: int) -> None:
    votes, offsets, cells = random_crowd(*case)
    part = cells[first:last][:4]
    within = offsets[first : max(first, last) + 1][:5]
    within = within if len(within) else offsets[-1:]
    alone = build_vote_cells(votes[within[0] : within[-1]], within - within[0], case[3])
    np.testing.assert_array_equal(part.label, alone.label)
    np.testing.assert_array_equal(part.source_row, alone.source_row)
    values = torch.randn(len(part.label), case[3])
    for evidence in (log_evidence, log_evidence_reference):
        torch.testing.assert_close(evidence(values, part), evidence(values, alone))


def test_a_slice_is_a_view() -> None:
    _, _, cells = random_crowd(1, [5] * 8, 4, 5)
    part = cells[2:6]
    for name in (
        "offsets",
        "cell_offsets",
        "label",
        "default_cell",
        "exception_offsets",
        "added_cell",
        "removed_cell",
    ):
        assert np.shares_memory(getattr(part, name), getattr(cells, name))
    with pytest.raises(ValueError, match="expected a slice of consecutive sentences, got step 2"):
        cells[::2]


def test_default_votes_are_no_exceptions() -> None:
    votes = np.zeros((60, 40), np.int16)
    votes[:30, 5:] = -1
    votes[7, 0], votes[8, 9] = 2, 0
    cells = build_vote_cells(votes, np.array([0, 30, 60]), 3)
    assert len(cells.added_cell) == 2
    assert len(cells.label) == 5 + 2 + 40


def test_a_source_may_vote_for_all_labels_or_none() -> None:
    votes = np.array([[0, -1, 1], [1, -1, 1], [2, -1, 1]], np.int16)
    cells = build_vote_cells(votes, np.array([0, 3]), 3)
    assert cells.label.tolist() == [0, 1, 2, 1]
    assert cells.counts.tolist() == [3, 0, 1]
    values = torch.arange(12.0).reshape(4, 3)
    torch.testing.assert_close(log_evidence(values, cells), values[:3] + values[3])


def test_a_vote_out_of_range_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"votes must be in \[-1, 3\), got 0 to 3"):
        build_vote_cells(np.array([[0], [3]], np.int16), np.array([0, 2]), 3)
