"""Fingerprints change with the behaviour of a function, and with nothing else."""

from __future__ import annotations

import enum
import functools
import logging
import math
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import regex

from convener.lf.fingerprint import NotFingerprintable, fingerprint
from convener.lf.gazetteer import gazetteer


def made(source: str, file: str = "<test>") -> dict[str, Any]:
    """The namespace that some code defines."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(textwrap.dedent(source), file, "exec"), names)
    return names


def version(source: str) -> str:
    return fingerprint(made(source)["f"])


BASE = """
import re
CITIES = {"Oslo", "Lima"}
UNUSED = 1
def helper(word, least=2):
    return len(word) >= least
def f(words):
    # finds cities
    return [w for w in words if w in CITIES and helper(w) and re.match("x", w)]
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"Lima"', '"Rome"'),
        ("least=2", "least=3"),
        (">= least", "> least"),
        ('match("x"', 'match("y"'),
        ("for w in words", "for w in words[1:]"),
        ("import re", "import regex as re"),
    ],
)
def test_a_change_of_behaviour_changes_the_fingerprint(old: str, new: str) -> None:
    assert old in BASE
    assert version(BASE) != version(BASE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# finds cities", "# finds places"),
        ("UNUSED = 1", "UNUSED = 2\n\n"),
        ('{"Oslo", "Lima"}', '{"Lima", "Oslo"}'),
    ],
)
def test_a_change_of_layout_keeps_the_fingerprint(old: str, new: str) -> None:
    assert old in BASE
    assert version(BASE) == version(BASE.replace(old, new))


def test_a_changed_global_changes_the_fingerprint() -> None:
    names = made(BASE)
    before = fingerprint(names["f"])
    names["CITIES"].add("Bath")
    assert fingerprint(names["f"]) != before


def closure(value: Any) -> Callable[[], Any]:
    return lambda: value


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Rule:
    limit = 3

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, word: str) -> bool:
        return self.least <= len(word) <= self.limit

    @property
    def twice(self) -> int:
        return 2 * self.least

    @staticmethod
    def still() -> int:
        return 1


def _cached(base: int) -> Any:
    @functools.lru_cache
    def f() -> int:
        return base

    return f


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, True),
        ("a", b"a"),
        ("1", 1),
        (["ab", "c"], ["a", "bc"]),
        ([1, 2], (1, 2)),
        ([1, [2]], [1, 2]),
        ({1: 2}, {2: 1}),
        ({"a": {1}}, {"a": {2}}),
        (frozenset({1, "a"}), frozenset({1, "b"})),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (np.arange(3), np.arange(3.0)),
        (np.float64(1), np.float64(2)),
        (Path("a"), Path("b")),
        (Colour.RED, Colour.BLUE),
        (closure(1), closure(2)),
        (functools.partial(pow, 2), functools.partial(pow, 3)),
        (functools.partial(max), functools.partial(min)),
        (Rule(1), Rule(2)),
        (Rule(1).__call__, Rule(2).__call__),
        ("a".upper, "b".upper),
        ({"a"}.__contains__, {"b"}.__contains__),
        (["a"].__contains__, ["b"].__contains__),
        (regex.compile("a"), regex.compile("b")),
        (re.compile("a").match, re.compile("b").match),
        (_cached(1), _cached(2)),
        (math.sin, math.cos),
        (math, re),
        (str.upper, str.lower),
        (gazetteer(["a"], "A"), gazetteer(["b"], "A")),
        (textwrap.dedent, textwrap.indent),
        (Path, enum.Enum),
    ],
)
def test_different_values_have_different_fingerprints(one: Any, other: Any) -> None:
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


def test_loggers_are_identified_by_name() -> None:
    assert fingerprint(logging.getLogger("a")) == fingerprint(logging.getLogger("a"))


def test_equal_values_have_equal_fingerprints() -> None:
    assert fingerprint({"b", "a", "c"}) == fingerprint({"c", "b", "a"})
    assert fingerprint(Rule(1)) == fingerprint(Rule(1))
    assert fingerprint(np.arange(6)[::2]) == fingerprint(np.array([0, 2, 4]))


def test_a_user_defined_class_is_identified_by_its_code() -> None:
    source = "class K:\n    limit = [3]\n    def f(self):\n        return {}\ndef f():\n    return K"
    assert version(source.format(1)) == version(source.format(1))
    assert version(source.format(1)) != version(source.format(2))
    assert version(source.format(1)) != version(source.format(1).replace("[3]", "[4]"))


def test_circular_references_terminate() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    assert fingerprint(circle) == fingerprint(circle)
    names = made("def f(n):\n    return f(n - 1)")
    assert fingerprint(names["f"])


def test_a_user_module_is_identified_by_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own_rules.py"
    file.write_text("LIMIT = 1", encoding="utf-8")
    module = ModuleType("own_rules")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "own_rules", module)
    before = fingerprint(module)
    file.write_text("LIMIT = 2", encoding="utf-8")
    assert fingerprint(module) != before


def test_values_without_a_fingerprint_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFingerprintable, match=r"cannot fingerprint _io.TextIOWrapper; pass version="):
        fingerprint(closure(sys.__stdout__))
    with pytest.raises(NotFingerprintable, match="object"):
        fingerprint(object())
    nameless = ModuleType("__main__")
    with pytest.raises(NotFingerprintable, match="__main__"):
        fingerprint(nameless)
