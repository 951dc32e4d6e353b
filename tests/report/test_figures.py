"""Axes and their marks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.report.figures import Axis, ticks

numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))


@given(numbers, st.floats(1e-3, 1e6))
def test_ticks_are_round_and_few_and_inside(low: float, width: float) -> None:
    high = low + width
    found = ticks(low, high)
    assert 1 <= len(found) <= 8
    assert found == sorted(set(found))
    slack = width * 1e-6 + 1e-9
    assert low - slack <= found[0]
    assert found[-1] <= high + slack
    if len(found) > 1:
        step = found[1] - found[0]
        digit = step / 10.0 ** math.floor(math.log10(step) + 1e-6)
        assert min(abs(digit - whole) for whole in (1, 2, 5, 10)) < 1e-3
        assert found[0] - step < low + slack
        assert found[-1] + step > high - slack


def test_ticks_of_nothing() -> None:
    assert ticks(3.0, 3.0) == [3.0]
    assert ticks(3.0, 2.0) == [3.0]


@given(numbers, st.floats(1, 1e6), st.floats(0, 1))
def test_an_axis_is_a_straight_line(low: float, width: float, share: float) -> None:
    axis = Axis(low, low + width, 300, 20)
    assert axis(low) == 300
    assert axis(low + width) == 20
    assert axis(low + share * width) == pytest.approx(300 - 280 * share, abs=0.02)
    assert all(19.9 <= at <= 300.1 for at, _ in axis.ticks)


def test_an_axis_of_one_number() -> None:
    assert Axis(2, 2, 0, 10)(2) == 0
    assert Axis(0, 1, 0, 100).ticks[1] == (20.0, "0.2")
