"""String arrays and ragged arrays, compared with lists."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.data import ragged as module
from convener.data.ragged import RaggedArray, StringArray, as_indices, chunk_bounds, concat_ranges, lengths_to_offsets
from convener.errors import DataError
from tests.generators import words

strings = st.lists(words | st.just(""), max_size=8)
steps = st.none() | st.integers(-3, 3).filter(bool)
slices = st.builds(slice, st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9), steps)


@given(st.lists(st.integers(0, 5)))
def test_offsets_are_running_sums(lengths: list[int]) -> None:
    expected = [sum(lengths[:k]) for k in range(len(lengths) + 1)]
    assert lengths_to_offsets(lengths).tolist() == expected
    assert lengths_to_offsets(np.array(lengths, np.int32)).tolist() == expected
    assert lengths_to_offsets(iter(lengths)).dtype == np.int64


@given(st.lists(st.integers(0, 60), max_size=40))
def test_chunks_are_complete_rows_within_the_maximum_size(lengths: list[int]) -> None:
    most = 20
    bounds = chunk_bounds(lengths_to_offsets(lengths), most).tolist()
    assert (bounds[0], bounds[-1]) == (0, len(lengths))
    for first, last in pairwise(bounds):
        size = sum(lengths[first:last])
        assert first < last
        assert size <= most or last == first + 1
        if last < len(lengths):
            assert size + lengths[last] > most  # the next one did not fit


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4))))
def test_concat_ranges_lists_all_indices(pieces: list[tuple[int, int]]) -> None:
    starts, lengths = np.array(pieces, np.int64).reshape(-1, 2).T
    expected = [index for start, length in pieces for index in range(start, start + length)]
    assert concat_ranges(starts, lengths).tolist() == expected


@pytest.mark.parametrize("mask", [[True, False, True], np.array([True, False, True])])
def test_a_mask_is_converted_to_indices(mask: list[bool]) -> None:
    assert as_indices(mask).tolist() == [0, 2]


def test_empty_indices_are_integers() -> None:
    assert as_indices([]).dtype == np.int64


@given(strings)
def test_strings_are_restored(given_strings: list[str]) -> None:
    packed = StringArray.from_list(given_strings)
    assert packed.to_list() == given_strings
    assert list(packed) == given_strings
    assert [packed[i] for i in range(len(packed))] == given_strings
    assert [packed[i] for i in range(-len(packed), 0)] == given_strings


@given(strings)
def test_lengths_count_bytes_and_characters(given_strings: list[str]) -> None:
    packed = StringArray.from_list(["é", *given_strings])[1:]
    raw = [text.encode("utf-8", "surrogatepass") for text in given_strings]
    assert packed.lengths.tolist() == [len(piece) for piece in raw]
    assert packed.character_lengths().tolist() == [len(text) for text in given_strings]


@given(strings, st.integers(1, 9))
def test_characters_are_counted_in_blocks_of_any_size(given_strings: list[str], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_SIZE", size)
        counted = StringArray.from_list(["é", *given_strings])[1:].character_lengths()
    assert counted.tolist() == [len(text) for text in given_strings]


def test_counting_characters_needs_little_memory() -> None:
    text = StringArray.from_list(["Zoë in 東京 " * 1000] * 300)
    tracemalloc.start()
    text.character_lengths()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(text.data) / 2


def test_a_lone_surrogate_is_one_character() -> None:
    packed = StringArray.from_list(["\ud83d", "🙂", "\ud83d\ude42"])
    assert packed.to_list() == ["\ud83d", "🙂", "\ud83d\ude42"]
    assert packed.character_lengths().tolist() == [1, 1, 2]


@given(strings, slices, slices)
def test_slices_behave_like_those_of_a_list(strs: list[str], one: slice, two: slice) -> None:
    packed = StringArray.from_list(strs)
    assert packed[one].to_list() == strs[one]
    assert packed[one][two].to_list() == strs[one][two]
    assert packed[one][two] == StringArray.from_list(strs[one][two])


def test_a_slice_shares_the_buffer() -> None:
    packed = StringArray.from_list(["one", "two", "three"])
    assert np.shares_memory(packed[1:].data, packed.data)
    assert np.shares_memory(packed[1:].compact().data, packed.data)
    assert packed.compact() is packed


@given(strings.filter(bool), st.data())
def test_take_returns_the_strings_at_the_indices(strs: list[str], data: st.DataObject) -> None:
    index = data.draw(st.lists(st.integers(-len(strs), len(strs) - 1)))
    packed = StringArray.from_list(["before", *strs])[1:]
    expected = [strs[i] for i in index]
    assert packed.take(index).to_list() == expected
    assert packed[np.array(index, np.int64)].to_list() == expected
    mask = np.array([i in index for i in range(len(strs))])
    assert packed.take(mask).to_list() == [text for text, keep in zip(strs, mask, strict=True) if keep]


@given(strings, st.integers(0, 8))
def test_concat_reverses_slicing(strs: list[str], cut: int) -> None:
    packed = StringArray.from_list(strs)
    assert StringArray.concat([packed[:cut], packed[cut:]]) == packed
    assert StringArray.concat([packed[cut:], packed[:cut]]).to_list() == strs[cut:] + strs[:cut]


def test_concat_of_nothing_is_empty() -> None:
    assert StringArray.concat([]).to_list() == []


@given(strings, strings)
def test_strings_are_equal_if_their_lists_are(one: list[str], two: list[str]) -> None:
    assert (StringArray.from_list(one) == StringArray.from_list(two)) == (one == two)
    assert StringArray.from_list(one) == StringArray.from_list(["x", *one])[1:]
    assert StringArray.from_list(one) != one


def test_equal_bytes_with_other_offsets_differ() -> None:
    assert StringArray.from_list(["ab", "c"]) != StringArray.from_list(["a", "bc"])


@pytest.mark.parametrize("index", [2, -3])
def test_an_index_out_of_range_is_rejected(index: int) -> None:
    with pytest.raises(IndexError, match=f"string {index} of 2"):
        StringArray.from_list(["a", "b"])[index]


def test_strings_have_no_hash_and_a_short_repr() -> None:
    with pytest.raises(TypeError):
        hash(StringArray.from_list([]))
    assert repr(StringArray.from_list(["é", "a"])[:1]) == "StringArray(1 strings, 2 bytes)"


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(0, 3))
def test_ragged_rows_are_views_by_sentence(lengths: list[int], shift: int) -> None:
    values = np.arange(2 * sum(lengths)).reshape(-1, 2)
    offsets = lengths_to_offsets(lengths)
    ragged = RaggedArray(values, offsets + shift)
    for m, piece in enumerate(ragged):
        assert piece.tolist() == values[offsets[m] : offsets[m + 1]].tolist()
        assert ragged[m - len(lengths)].tolist() == piece.tolist()
        assert np.shares_memory(piece, values) or not piece.size
    assert len(list(ragged)) == len(ragged) == len(lengths)
    assert np.asarray(ragged) is values
    assert np.array(ragged, dtype=np.float32, copy=True).dtype == np.float32
    with pytest.raises(IndexError, match=f"sentence {len(lengths)} of {len(lengths)}"):
        ragged[len(lengths)]


@pytest.mark.parametrize("offsets", [[0, 2], [], [0, 4]])
def test_offsets_that_do_not_cover_the_rows_are_rejected(offsets: list[int]) -> None:
    with pytest.raises(DataError, match=r"the 3 rows, got (\[0, 2\]|\[0, 4\]|none)"):
        RaggedArray(np.zeros((3, 2)), np.array(offsets, np.int64))
