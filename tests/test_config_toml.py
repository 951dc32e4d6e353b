"""TOML as we write it, read back by Python's own reader."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener import config
from convener.errors import ConfigError

keys = st.text(max_size=5) | st.sampled_from(["a-b", "a b", "a.b", "", "é", "\x7f", "]", '"', "\n"])
odd = st.sampled_from(["\x7f", "\x00", "\u2028", "\\", '"""', "🙂", "\r\n", "#", "\x85"])
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
plain = st.text() | odd | st.booleans() | numbers
values = plain | st.lists(plain, max_size=3) | st.lists(st.lists(numbers, max_size=2), max_size=2)
tables = st.recursive(
    st.dictionaries(keys, values, max_size=4),
    lambda inner: st.dictionaries(keys, values | inner, max_size=3),
    max_leaves=6,
)


@given(tables)
def test_what_is_written_is_read_back(table: dict[str, Any]) -> None:
    assert tomllib.loads(config.to_toml(table)) == table


@given(tables)
def test_it_survives_a_file(tmp_path_factory: pytest.TempPathFactory, table: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "settings.toml"
    path.write_text(config.to_toml(table), encoding="utf-8")
    assert config.read_toml(path) == table


@given(st.floats())
def test_numbers_come_back_to_the_last_bit(number: float) -> None:
    found = tomllib.loads(config.to_toml({"x": number}))["x"]
    assert type(found) is float
    assert found.hex() == number.hex()


def test_whole_numbers_booleans_and_numbers_stay_apart() -> None:
    read = tomllib.loads(config.to_toml({"a": 1, "b": 1.0, "c": True}))
    assert [type(value) for value in read.values()] == [int, float, bool]


def test_what_is_none_is_left_out_and_tuples_are_lists() -> None:
    assert config.to_toml({"a": None, "t": {"b": None, "c": (1, 2)}}) == "[t]\nc = [1, 2]\n"


def test_a_plain_value_after_a_table_stays_outside_it() -> None:
    assert tomllib.loads(config.to_toml({"t": {"x": {"y": 1}}, "b": 2, "u": {}})) == {
        "t": {"x": {"y": 1}},
        "b": 2,
        "u": {},
    }


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    assert config.to_toml({"rate": np.float64(0.5)}) == "rate = 0.5\n"


@pytest.mark.parametrize("value", [[None], [{"a": 1}], Path("x"), b"x", 1j])
def test_what_toml_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"TOML cannot hold .* of type"):
        config.to_toml({"x": value})


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing.toml: cannot be read: No such file"):
        config.read_toml(tmp_path / "missing.toml")
    for content in (b"a = ", b"\xff\xfe"):
        broken = tmp_path / "broken.toml"
        broken.write_bytes(content)
        with pytest.raises(ConfigError, match=r"broken.toml: not valid TOML"):
            config.read_toml(broken)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n")
    assert config.read_toml(path) == {"a": 1}
