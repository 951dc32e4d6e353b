"""Token-wise voting, compared with loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.ragged import lengths_to_offsets
from convener.inference import voting
from tests.generators import datasets, sentence_lengths


@st.composite
def count_tables(draw: st.DrawFn) -> NDArray[np.int32]:
    """Numbers of votes by token and column; often none, often tied."""
    rows, columns = draw(st.integers(0, 12)), draw(st.integers(1, 5))
    cells = st.lists(st.integers(0, 2), min_size=rows * columns, max_size=rows * columns)
    return np.array(draw(cells), np.int32).reshape(rows, columns)


def majority_by_hand(data: Dataset) -> list[str]:
    """BIO tags: every non-O vote counts for its type, O votes only if unmarked is outside.

    The last type wins a tie, also against O; maximal runs of a type are spans.
    """
    tags: list[str] = []
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        before = ""
        for t in range(first, last):
            votes = dict.fromkeys(("", *data.tags.types), 0)
            for label, unmarked in zip(data.votes[t].tolist(), data.unmarked, strict=True):
                if label > 0:
                    votes[data.tags.names[label][2:]] += 1
                elif label == 0 and unmarked == "outside":
                    votes[""] += 1
            winner, most = "", 0
            for name, count in votes.items():
                if count and count >= most:
                    winner, most = name, count
            tags.append(f"{'I' if winner == before else 'B'}-{winner}" if winner else "O")
            before = winner
    return tags


@given(datasets())
def test_majority_vote_equals_a_loop(data: Dataset) -> None:
    labels = voting.majority_vote_io(data.votes, data.informative_votes(), data.offsets, len(data.tags.types))
    assert labels.dtype == np.int16
    assert [data.tags.names[label] for label in labels] == majority_by_hand(data)


def majority(votes: list[list[int]], *, unmarked_is_abstain: bool) -> list[int]:
    array = np.array(votes, np.int16)
    informative = array > 0 if unmarked_is_abstain else array >= 0
    return voting.majority_vote_io(array, informative, np.array([0, len(votes)]), 2).tolist()


def test_ties_go_to_the_last_type() -> None:
    assert majority([[1, 3], [3, 1], [0, 1]], unmarked_is_abstain=True) == [3, 4, 1]


def test_o_votes_count_only_if_unmarked_is_outside() -> None:
    votes = [[1, 0, 0], [2, 1, 0], [1, 0, -1]]
    assert majority(votes, unmarked_is_abstain=True) == [1, 2, 2]
    assert majority(votes, unmarked_is_abstain=False) == [0, 1, 2]


@given(datasets())
def test_votes_are_counted_by_type_and_by_label(data: Dataset) -> None:
    types, labels = len(data.tags.types), len(data.tags)
    by_type = np.zeros((len(data.tokens), types + 1), int)
    by_label = np.zeros((len(data.tokens), labels), int)
    informative = data.informative_votes()
    for t in range(len(data.tokens)):
        for k in range(len(data.sources)):
            if informative[t, k]:
                label = int(data.votes[t, k])
                by_label[t, label] += 1
                by_type[t, 0 if label == 0 else 1 + (label - 1) // 2] += 1
    assert np.array_equal(voting.type_counts(data.votes, informative, types), by_type)
    assert np.array_equal(voting.label_counts(data.votes, informative, labels), by_label)


def best_columns(row: list[int]) -> list[int]:
    return [c for c, count in enumerate(row) if count == max(row) > 0] or [0]


@given(count_tables())
def test_ties_go_to_the_last_column(counts: NDArray[np.int32]) -> None:
    expected = [best_columns(row)[-1] for row in counts.tolist()]
    assert voting.argmax_last(counts).tolist() == expected


@given(count_tables(), st.integers(0, 2**40), st.integers(0, 2**63 - 1))
def test_a_random_winner_has_the_most_votes(counts: NDArray[np.int32], place: int, seed: int) -> None:
    places = place + np.arange(len(counts))
    drawn = voting.argmax_random(counts, places, seed).tolist()
    for row, column in zip(counts.tolist(), drawn, strict=True):
        assert column in best_columns(row)


@given(count_tables(), st.integers(0, 99), st.randoms(use_true_random=False))
def test_a_random_winner_depends_on_position_seed_and_votes_only(
    counts: NDArray[np.int32], seed: int, random: Any
) -> None:
    places = np.arange(len(counts))
    order = np.array(random.sample(range(len(counts)), len(counts)), np.int64)
    drawn = voting.argmax_random(counts, places, seed)
    assert np.array_equal(voting.argmax_random(counts[order], places[order], seed), drawn[order])
    for t in range(len(counts)):
        alone = voting.argmax_random(counts[t : t + 1], places[t : t + 1], seed)
        assert alone.tolist() == [drawn[t]]


def test_random_winners_are_uniform_and_differ_by_position_and_seed() -> None:
    counts = np.ones((3000, 3), np.int32)
    places = np.arange(3000)
    by_place = voting.argmax_random(counts, places, 1)
    assert np.bincount(by_place, minlength=3).min() > 900
    assert not np.array_equal(by_place, voting.argmax_random(counts, places, 2))
    by_seed = [int(voting.argmax_random(counts[:1], places[:1], seed)[0]) for seed in range(300)]
    assert np.bincount(by_seed, minlength=3).min() > 60


def test_hashes_are_distinct_and_not_negative() -> None:
    numbers = voting.hash_ints(np.arange(20000), 7)
    assert len(np.unique(numbers)) == 20000
    assert numbers.min() >= 0
    assert voting.hash_ints(np.zeros(0, np.int64), 7).tolist() == []


@given(sentence_lengths(), st.data())
def test_runs_of_one_type_are_spans(lengths: list[int], data: st.DataObject) -> None:
    kinds = [data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)) for n in lengths]
    expected = []
    for sentence in kinds:
        for t, kind in enumerate(sentence):
            goes_on = t > 0 and sentence[t - 1] == kind
            expected.append(0 if kind == 0 else 2 * kind if goes_on else 2 * kind - 1)
    flat = np.array([kind for sentence in kinds for kind in sentence], np.int64)
    assert voting.type_runs_to_bio(flat, lengths_to_offsets(lengths)).tolist() == expected


span_rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(1, 4), st.integers(0, 2)),
    max_size=12,
    unique=True,
)


@given(span_rows)
def test_the_union_keeps_the_longest_then_leftmost_then_first(
    rows: list[tuple[int, int, int, int]],
) -> None:
    best_first = sorted(rows, key=lambda row: (-row[2], row[1], row[3]))
    kept: list[tuple[int, int, int, int]] = []
    for sentence, start, length, kind in best_first:
        if all(sentence != other or start + length <= begin or begin + size <= start for other, begin, size, _ in kept):
            kept.append((sentence, start, length, kind))
    sentences, starts, lengths, kinds = np.array(rows, np.int64).reshape(-1, 4).T
    stays = voting.union_spans(sentences, starts.astype(np.int32), (starts + lengths).astype(np.int32), kinds)
    assert sorted(rows[number] for number in stays) == sorted(kept)


def test_a_span_begins_where_b_votes_outnumber_i_votes() -> None:
    labels = np.array([1, 2, 2, 0, 3, 4], np.int16)
    counts = np.zeros((6, 5), np.int32)
    counts[1, 1:3] = 2, 1  # more begin: a new span
    counts[2, 1:3] = 1, 1  # as many go on: the span goes on
    counts[5, 3:5] = 1, 0
    assert voting.split_where_majority_begins(labels, counts).tolist() == [1, 1, 2, 0, 3, 3]
