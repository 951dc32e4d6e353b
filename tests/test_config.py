"""Settings from strings and values, their checks, and TOML files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.config import check_min, check_range, config_from_dict, config_to_dict, read_toml, to_toml
from convener.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Everything:
    count: int = 1
    rate: float = 0.5
    on: bool = False
    name: str = "x"
    mode: Literal["fast", "slow"] = "fast"
    limit: int | None = None
    note: str | None = None
    ties: Literal["last", "first"] | None = None
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    some: tuple[str, ...] | None = None
    either: Literal["all"] | tuple[str, ...] | None = None
    spelling: str | tuple[str, ...] = ""
    pair: float | tuple[float, float] = 0.5
    folder: Path = Path()


def convert(field: str, value: Any) -> Any:
    return getattr(config_from_dict(Everything, {field: value}, kind="setting"), field)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("count", "7", 7),
        ("count", "-7", -7),
        ("count", np.int64(7), 7),
        ("rate", "1e-3", 0.001),
        ("rate", 2, 2.0),
        ("on", "true", True),
        ("on", "No", False),
        ("on", "1", True),
        ("on", "0", False),
        ("on", True, True),
        ("on", False, False),
        ("name", "true", "true"),
        ("name", "none", "none"),
        ("name", "a,b", "a,b"),
        ("name", "", ""),
        ("mode", "slow", "slow"),
        ("limit", "3", 3),
        ("limit", "none", None),
        ("limit", None, None),
        ("note", "none", None),
        ("note", "", None),
        ("note", "nonsense", "nonsense"),
        ("ties", "None", None),
        ("ties", "first", "first"),
        ("names", "a, b,,", ("a", "b")),
        ("names", "a", ("a",)),
        ("names", ["a", "b,c"], ("a", "b,c")),
        ("names", (), ()),
        ("numbers", "1,2", (1, 2)),
        ("numbers", "3", (3,)),
        ("some", "a", ("a",)),
        ("some", "none", None),
        ("some", "none,a", ("none", "a")),
        ("either", "all", "all"),
        ("either", "none", None),
        ("either", "PER,LOC", ("PER", "LOC")),
        ("either", "PER", ("PER",)),
        ("spelling", "a", "a"),
        ("spelling", "a,b", ("a", "b")),
        ("spelling", ["a"], ("a",)),
        ("folder", "runs", Path("runs")),
        ("pair", "0.5", 0.5),
        ("pair", "0.5, 1", (0.5, 1.0)),
        ("pair", [0.5, 1], (0.5, 1.0)),
        ("pair", 1, 1.0),
    ],
)
def test_values_are_converted_to_the_type_of_the_field(field: str, value: Any, expected: Any) -> None:
    result = convert(field, value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("count", "seven", "a whole number"),
        ("count", 1.0, "a whole number"),
        ("count", np.float32(2.5), "a whole number"),
        ("count", "1.5", "a whole number"),
        ("count", True, "a whole number"),
        ("count", None, "a whole number"),
        ("rate", "fast", "a number"),
        ("rate", "nan", "a number"),
        ("rate", float("nan"), "a number"),
        ("rate", False, "a number"),
        ("rate", 10**400, "a number"),
        ("on", "maybe", "true or false"),
        ("on", 1, "true or false"),
        ("on", None, "true or false"),
        ("on", [], "true or false"),
        ("name", 3, "a string"),
        ("name", True, "a string"),
        ("mode", "medium", "one of fast, slow"),
        ("limit", "few", "a whole number or none"),
        ("ties", "middle", "one of last, first or none"),
        ("names", 3, "a list of a string"),
        ("names", [1], "a list of a string"),
        ("numbers", "1,x", "a list of a whole number"),
        ("spelling", 3, "a string or a list of a string"),
        ("pair", (1.0,), "a number or a list of 2 values, each a number"),
        ("pair", "1,2,3", "a number or a list of 2 values, each a number"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_expected_type(field: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(field, value)
    assert str(caught.value) == f"{field} must be {expected}; got {value!r}"


@given(
    st.builds(
        Everything,
        count=st.integers(),
        rate=st.floats(allow_nan=False, allow_infinity=False),
        on=st.booleans(),
        name=st.text(),
        mode=st.sampled_from(["fast", "slow"]),
        limit=st.none() | st.integers(),
        note=st.none() | st.text(min_size=1).filter(lambda text: text.lower() != "none"),
        ties=st.sampled_from(["last", "first", None]),
        names=st.lists(st.text()).map(tuple),
        numbers=st.lists(st.integers()).map(tuple),
    )
)
def test_settings_round_trip_through_json(settings: Everything) -> None:
    plain = config_to_dict(settings)
    plain.pop("folder")
    written = json.loads(json.dumps(plain))
    assert written == plain
    assert config_from_dict(Everything, written, kind="setting") == settings


def test_missing_settings_have_their_defaults() -> None:
    assert config_from_dict(Everything, {}, kind="setting") == Everything()


def test_an_unknown_setting_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="no reading option 'cout'; did you mean 'count'"):
        config_from_dict(Everything, {"cout": 1}, kind="reading option")


def test_a_mapping_is_parsed_from_name_value_pairs() -> None:
    @dataclass(frozen=True)
    class Config:
        names: Mapping[str, str] | None = None

    def read(value: Any) -> Any:
        return config_from_dict(Config, {"names": value}, kind="setting").names

    assert read({"a": "b"}) == {"a": "b"}
    assert read("a=b; c = not d, e;") == {"a": "b", "c": "not d, e"}
    assert read("none") is None
    with pytest.raises(ConfigError, match="names must be name=value pairs separated by semicolons or none"):
        read("a; b")


def test_range_checks_accept_none_and_name_the_setting() -> None:
    check_min(Everything(count=1), 1, "count", "limit")
    check_range(Everything(rate=1.0), "(0, 1]", "rate", "limit")
    check_range(Everything(numbers=(0, 1)), "[0, 1]", "numbers")
    with pytest.raises(ConfigError, match=r"^count must be at least 2, got 1$"):
        check_min(Everything(), 2, "count")
    with pytest.raises(ConfigError, match=r"^rate must be in \(0, 1\], got 0$"):
        check_range(Everything(rate=0), "(0, 1]", "rate")
    with pytest.raises(ConfigError, match=r"^numbers must be in \[0, 1\], got \(1, 2\)$"):
        check_range(Everything(numbers=(1, 2)), "[0, 1]", "numbers")


keys = st.text(max_size=5) | st.sampled_from(["a-b", "a b", "a.b", "", "é", "\x7f", "]", '"', "\n"])
special_strings = st.sampled_from(["\x7f", "\x00", "\u2028", "\\", '"""', "🙂", "\r\n", "#", "\x85"])
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
scalars = st.text() | special_strings | st.booleans() | numbers
values = scalars | st.lists(scalars, max_size=3) | st.lists(st.lists(numbers, max_size=2), max_size=2)
tables = st.recursive(
    st.dictionaries(keys, values, max_size=4),
    lambda inner: st.dictionaries(keys, values | inner, max_size=3),
    max_leaves=6,
)


@given(tables)
def test_toml_round_trips(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table


@given(tables)
def test_toml_round_trips_through_a_file(tmp_path_factory: pytest.TempPathFactory, table: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "settings.toml"
    path.write_text(to_toml(table), encoding="utf-8")
    assert read_toml(path) == table


@given(st.floats())
def test_toml_floats_are_exact(number: float) -> None:
    result = tomllib.loads(to_toml({"x": number}))["x"]
    assert type(result) is float
    assert result.hex() == number.hex()


def test_toml_distinguishes_integers_floats_and_booleans() -> None:
    read = tomllib.loads(to_toml({"a": 1, "b": 1.0, "c": True}))
    assert [type(value) for value in read.values()] == [int, float, bool]


def test_toml_drops_none_and_writes_tuples_as_arrays() -> None:
    assert tomllib.loads(to_toml({"a": None, "t": {"b": None, "c": (1, 2)}})) == {"t": {"c": [1, 2]}}


def test_a_value_after_a_table_stays_at_the_top_level() -> None:
    assert tomllib.loads(to_toml({"t": {"x": {"y": 1}}, "b": 2, "u": {}})) == {
        "t": {"x": {"y": 1}},
        "b": 2,
        "u": {},
    }


def test_numpy_floats_are_written_as_floats() -> None:
    assert to_toml({"rate": np.float64(0.5)}) == "rate = 0.5\n"


@pytest.mark.parametrize("value", [[None], Path("x"), b"x", 1j])
def test_a_value_that_toml_cannot_represent_is_an_error(value: Any) -> None:
    with pytest.raises(ConfigError, match="TOML cannot represent a value"):
        to_toml({"x": value})


def test_errors_of_toml_files_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing.toml: cannot be read: No such file"):
        read_toml(tmp_path / "missing.toml")
    for content in (b"a = ", b"\xff\xfe"):
        broken = tmp_path / "broken.toml"
        broken.write_bytes(content)
        with pytest.raises(ConfigError, match=r"broken.toml: not valid TOML"):
            read_toml(broken)


def test_a_byte_order_mark_in_toml_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n")
    assert read_toml(path) == {"a": 1}
