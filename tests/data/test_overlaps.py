"""Resolution of overlapping spans, compared with a loop over all pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convener.data.alignment import longest_first, resolve_overlaps

span_rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8), st.integers(1, 4)), max_size=12)


def overlap(one: tuple[int, int, int], two: tuple[int, int, int]) -> bool:
    return one[0] == two[0] and max(one[1], two[1]) < min(one[1] + one[2], two[1] + two[2])


def expected_winners(rows: list[tuple[int, int, int]], order: list[int]) -> list[int]:
    """For each span the leftmost kept span that it overlaps."""
    result = [-1] * len(rows)
    taken: list[int] = []
    for number in order:
        against = [other for other in taken if overlap(rows[number], rows[other])]
        if against:
            result[number] = min(against, key=lambda other: rows[other][1])
        else:
            taken.append(number)
    return result


@given(span_rows, st.data())
def test_a_span_loses_to_a_kept_span_it_overlaps(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    sentence, start, length = np.array(rows, np.int64).reshape(-1, 3).T
    found = resolve_overlaps(sentence, start, start + length, np.array(order, np.int64))
    assert found.tolist() == expected_winners(rows, order)


def test_adjacent_spans_and_spans_of_other_sentences_are_kept() -> None:
    sentence, start, end = np.array([[0, 0, 2], [0, 2, 4], [1, 1, 3]]).T
    assert resolve_overlaps(sentence, start, end, np.arange(3)).tolist() == [-1, -1, -1]


def test_a_dropped_span_excludes_no_other() -> None:
    sentence, start, end = np.array([[0, 0, 3], [0, 2, 6], [0, 4, 7]]).T
    assert resolve_overlaps(sentence, start, end, np.arange(3)).tolist() == [-1, 0, -1]


@given(span_rows, st.data())
def test_the_order_is_longest_then_leftmost_then_tie_break(
    rows: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    size = len(rows)
    wish = data.draw(st.lists(st.integers(-2, 2), min_size=size, max_size=size))
    _, start, length = np.array(rows, np.int32).reshape(-1, 3).T
    found = longest_first(start, start + length, np.array(wish, np.int64)).tolist()
    assert found == sorted(range(size), key=lambda n: (-rows[n][2], rows[n][1], wish[n]))
