"""Cells of coarse votes compared with explicit sums, and samples with the aggregated distribution."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from convener.inference.dirichlet import log_dirichlet_sample
from convener.inference.vote_cells import CoarseCells, VoteCells, build_coarse_cells, build_vote_cells, log_evidence
from tests.inference.test_evidence import random_votes
from tests.inference.test_vote_cells import vote_triples

# Five labels; some entity; not the first type.
ALLOWED = np.zeros((9, 5), bool)
ALLOWED[:5] = np.eye(5)
ALLOWED[5, [1, 3]] = ALLOWED[6, [2, 4]] = ALLOWED[7:, [0, 3, 4]] = True

crowds = st.tuples(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 7), max_size=5), st.integers(1, 4))


def random_case(seed: int, lengths: list[int], sources: int) -> tuple[np.ndarray, np.ndarray, VoteCells, CoarseCells]:
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    votes = random_votes(seed, int(offsets[-1]), sources, 9)
    cells = build_vote_cells(votes, offsets, 9)
    coarse = build_coarse_cells(cells, ALLOWED)
    assert coarse is not None
    return votes, offsets, cells, coarse


@given(crowds)
def test_cells_are_all_labels_that_some_vote_allows(
    case: tuple[int, list[int], int],
) -> None:
    votes, offsets, _, coarse = random_case(*case)
    expected = sorted(
        {(m, k, int(j)) for m, k, symbol in vote_triples(votes, offsets) for j in np.flatnonzero(ALLOWED[symbol])}
    )
    sources = votes.shape[1]
    pairs = zip(coarse.cells.source_row.tolist(), coarse.cells.label.tolist(), strict=True)
    assert [(p // sources, p % sources, j) for p, j in pairs] == expected


@given(crowds)
def test_a_coarse_cell_is_the_sum_of_its_members(case: tuple[int, list[int], int]) -> None:
    votes, offsets, cells, coarse = random_case(*case)
    rng = np.random.default_rng(case[0])
    values = torch.tensor(rng.normal(size=(len(coarse.cells.label), 5)), requires_grad=True)
    sources = votes.shape[1]
    place = {
        (p // sources, p % sources, j): number
        for number, (p, j) in enumerate(zip(coarse.cells.source_row.tolist(), coarse.cells.label.tolist(), strict=True))
    }
    rows = [
        torch.stack([values[place[m, k, int(j)]] for j in np.flatnonzero(ALLOWED[symbol])])
        for m, k, symbol in vote_triples(votes, offsets)
    ]
    expected = torch.stack([row.logsumexp(0) for row in rows]) if rows else values[:0]
    found = coarse.sum_over_allowed(values)
    torch.testing.assert_close(found, expected)
    weights = torch.tensor(rng.normal(size=tuple(found.shape)))
    ours, theirs = (
        torch.autograd.grad((some * weights).sum(), values, materialize_grads=True)[0] for some in (found, expected)
    )
    torch.testing.assert_close(ours, theirs)
    assert log_evidence(found, cells).shape == (len(votes), 5)


@given(crowds, st.integers(0, 5), st.integers(0, 5))
def test_a_slice_equals_cells_of_its_sentences(case: tuple[int, list[int], int], first: int, last: int) -> None:
    votes, offsets, _, coarse = random_case(*case)
    last = max(first, last)
    part = coarse[first:last][:3]
    within = offsets[first : last + 1][:4]
    within = within if len(within) else offsets[-1:]
    cells = build_vote_cells(votes[within[0] : within[-1]], within - within[0], 9)
    alone = build_coarse_cells(cells, ALLOWED)
    assert alone is not None
    values = torch.randn(len(part.cells.label), 5)
    np.testing.assert_array_equal(part.cells.label, alone.cells.label)
    torch.testing.assert_close(part.sum_over_allowed(values), alone.sum_over_allowed(values))


def test_without_coarse_labels_there_are_no_coarse_cells() -> None:
    cells = build_vote_cells(np.zeros((2, 1), np.int16), np.array([0, 2]), 5)
    assert build_coarse_cells(cells, np.eye(5, dtype=bool)) is None


def test_samples_of_a_coarse_cell_follow_the_aggregated_distribution() -> None:
    """A sum of cells of a Dirichlet distribution is a beta variable, even if a fine cell overlaps it."""
    count = 20_000
    votes = np.tile(np.array([[1], [5]], np.int16), (count, 1))
    cells = build_vote_cells(votes, np.arange(0, 2 * count + 1, 2), 9)
    coarse = build_coarse_cells(cells, ALLOWED)
    assert coarse is not None
    columns = torch.tensor([2.0, 3.0]).repeat(count)[:, None].expand(-1, 5)
    generator = torch.Generator().manual_seed(0)
    drawn = log_dirichlet_sample(columns, torch.full((1, 5), 12.0), coarse.cells, generator=generator)
    coarse = coarse.sum_over_allowed(drawn).exp()[1::2]
    beta = torch.distributions.Beta(5.0, 7.0)
    torch.testing.assert_close(coarse.mean(0), beta.mean.expand(5), atol=4e-3, rtol=0)
    torch.testing.assert_close(coarse.var(0), beta.variance.expand(5), atol=1e-3, rtol=0)
