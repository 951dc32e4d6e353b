"""Settings: every kind of field, from words and values, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.config import config_from_dict, config_to_dict
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
    folder: Path = Path()


def converted(field: str, value: Any) -> Any:
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
    ],
)
def test_values_become_what_the_field_wants(field: str, value: Any, expected: Any) -> None:
    found = converted(field, value)
    assert found == expected
    assert type(found) is type(expected)


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
    ],
)
def test_bad_values_are_refused_with_what_was_expected(field: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        converted(field, value)
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
def test_settings_survive_json(settings: Everything) -> None:
    plain = config_to_dict(settings)
    plain.pop("folder")
    written = json.loads(json.dumps(plain))
    assert written == plain
    assert config_from_dict(Everything, written, kind="setting") == settings


def test_what_is_not_given_keeps_its_default() -> None:
    assert config_from_dict(Everything, {}, kind="setting") == Everything()


def test_an_unknown_setting_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="no reading option 'cout'; did you mean 'count'"):
        config_from_dict(Everything, {"cout": 1}, kind="reading option")


def test_a_mapping_is_written_with_signs() -> None:
    @dataclass(frozen=True)
    class Config:
        names: Mapping[str, str] | None = None

    def read(value: Any) -> Any:
        return config_from_dict(Config, {"names": value}, kind="setting").names

    assert read({"a": "b"}) == {"a": "b"}
    assert read("a=b; c = not d, e;") == {"a": "b", "c": "not d, e"}
    assert read("none") is None
    with pytest.raises(ConfigError, match="names must be name=value"):
        read("a; b")
