"""Properties of windows and batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from convener.data.ragged import lengths_to_offsets
from convener.encoders.subwords import Windows, batch_by_length, make_windows

CAPACITIES = st.integers(4, 40)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], int, float]:
    """Subwords of each word of each sentence, the window size, the overlap."""
    capacity = draw(CAPACITIES)
    words = st.lists(st.integers(0, capacity // 4), max_size=60)
    return draw(st.lists(words, max_size=4)), capacity, draw(st.sampled_from([0, 0.3, 0.5, 0.75]))


def made(sentences: list[list[int]], capacity: int, overlap: float) -> Windows:
    pieces = np.array([count for words in sentences for count in words], np.int64)
    return make_windows(pieces, lengths_to_offsets(map(len, sentences)), max_subwords=capacity, overlap=overlap)


def rows(windows: Windows) -> list[tuple[int, int, int, int]]:
    return list(zip(*(column.tolist() for column in windows), strict=True))


@given(cases())
def test_every_word_is_output_by_exactly_one_window(
    case: tuple[list[list[int]], int, float],
) -> None:
    sentences, *rest = case
    given_ = [word for _, _, first, last in rows(made(sentences, *rest)) for word in range(first, last)]
    assert given_ == list(range(sum(map(len, sentences))))


@given(cases())
@example(([[2, 1, 1, 1, 3, 2, 3, 2]], 12, 0.75))  # the second of three windows gives nothing
def test_windows_fit_and_stay_inside_one_sentence(case: tuple[list[list[int]], int, float]) -> None:
    sentences, capacity, overlap = case
    counts = [count for words in sentences for count in words]
    owner = [number for number, words in enumerate(sentences) for _ in words]
    for start, end, first, last in rows(made(sentences, capacity, overlap)):
        assert start <= first < last <= end
        assert sum(counts[start:end]) <= capacity
        assert owner[start] == owner[end - 1]


@given(cases())
def test_a_sentence_that_fits_is_one_window(case: tuple[list[list[int]], int, float]) -> None:
    sentences, capacity, overlap = case
    bounds = lengths_to_offsets(map(len, sentences)).tolist()
    found = [(start, end) for start, end, _, _ in rows(made(sentences, capacity, overlap))]
    for words, (start, end) in zip(sentences, pairwise(bounds), strict=True):
        inside = [window for window in found if start <= window[0] < end]
        if sum(words) <= capacity:
            assert inside == ([(start, end)] if words else [])
        else:
            assert len(inside) > 1


@given(cases())
def test_a_word_has_context_on_both_sides(case: tuple[list[list[int]], int, float]) -> None:
    """At least half of the overlap, less the length of one word."""
    sentences, capacity, overlap = case
    counts = [count for words in sentences for count in words]
    bounds = set(lengths_to_offsets(map(len, sentences)).tolist())
    for start, end, first, last in rows(made(sentences, capacity, overlap)):
        largest = max(counts[start:end])
        promised = overlap * capacity / 2 - largest - 1
        if start not in bounds:
            assert sum(counts[start:first]) >= promised
        if end not in bounds:
            assert sum(counts[last:end]) >= promised


@given(st.integers(17, 300), st.sampled_from([0.0, 0.5, 0.75]))
def test_the_number_of_windows_is_bounded_by_the_overlap(count: int, overlap: float) -> None:
    windows = made([[1] * count], 16, overlap)
    step = 16 - int(16 * overlap)
    assert len(windows.start) == 1 + -(-(count - 16) // step)
    assert (windows.end - windows.start == 16).all()  # the last one is full, too


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(16, 128))
def test_batches_contain_every_window_once_and_respect_the_limit(lengths: list[int], budget: int) -> None:
    found = batch_by_length(np.array(lengths, np.int64), budget)
    assert sorted(number for batch in found for number in batch.tolist()) == list(range(len(lengths)))
    for batch in found:
        longest = max(lengths[number] for number in batch)
        assert len(batch) * longest <= budget or len(batch) == 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(50, 128))
def test_windows_of_similar_length_share_a_batch(lengths: list[int], budget: int) -> None:
    found = batch_by_length(np.array(lengths, np.int64), budget)
    seen = [lengths[number] for batch in found for number in batch.tolist()]
    assert seen == sorted(lengths, reverse=True)
    for batch, follow in pairwise(found):  # none could have been fuller
        longest = lengths[batch[0]]
        assert (len(batch) + 1) * longest > budget
        assert len(follow)
