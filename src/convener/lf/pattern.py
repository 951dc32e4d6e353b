"""Pattern: marks what a regular expression matches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

import regex

from convener.errors import ConfigError
from convener.lf.function import ABSTAIN, Found, LabelingFunction
from convener.lf.version import version_of
from convener.lf.view import View

Over = Literal["text", "tokens"]
TIMEOUT = "timeout"


def pattern(
    expression: str,
    label: str,
    *,
    name: str | None = None,
    over: Over = "text",
    group: int | str = 0,
    ignore_case: bool = False,
    seconds: float = 1.0,
    **settings: Any,
) -> LabelingFunction:
    r"""Marks what a regular expression matches, from left to right.

    expression   as the module `regex` reads it, which knows all that `re` does and `\p{Lu}`
    over         "text": the text as it stands; "tokens": the words joined by one space, where a
                 match begins and ends with whole words
    group        number or name of the group to mark instead of the whole match
    ignore_case  letters match whatever their case
    seconds      longest time for one text: beyond it the function abstains there, and says so
    settings     other fields of `LabelingFunction`

    >>> company = pattern(r"(?:\p{Lu}\w+ )+(?:Ltd|Inc)", "ORG", over="tokens", name="company")
    >>> company("He left Acme Tools Ltd today")
    [(2, 5, 'ORG')]
    >>> pattern(r"in (\p{Lu}\w+)", "LOC", group=1, name="place")("born in Oslo")
    [(2, 3, 'LOC')]
    """
    name = name or "pattern"
    if over not in get_args(Over):
        raise ConfigError(f"{name}: over must be text or tokens, got {over!r}")
    if not seconds > 0:
        raise ConfigError(f"{name}: seconds must be positive, got {seconds}")
    whole = rf"(?<!\S)(?:{expression})(?!\S)" if over == "tokens" else expression
    try:
        compiled = regex.compile(whole, regex.IGNORECASE if ignore_case else 0)
    except regex.error as error:
        raise ConfigError(f"{name}: not a regular expression: {error}") from error
    known = {*range(compiled.groups + 1), *compiled.groupindex}
    if group not in known:
        raise ConfigError(f"{name}: {expression!r} has no group {group!r}")

    def find(view: View) -> Found:
        try:
            found = list(_matches(compiled, view.text, group, seconds))
        except TimeoutError:
            view.note(TIMEOUT, f"{expression!r} took more than {seconds:g} s")
            return ABSTAIN
        return [(start, end, label) for start, end in found]

    function = LabelingFunction(
        name=name,
        labels=(label,),
        find=find,
        offsets="chars",
        version=version_of("pattern 1", expression, label, over, group, ignore_case, seconds),
        **settings,
    )
    return function if over == "text" else _over_words(function)


def _over_words(function: LabelingFunction) -> LabelingFunction:
    """The same, seeing the words joined by one space instead of the text."""

    def find(view: View) -> Found:
        plain = View(view.tokens, sentences=view.sentences)
        spans = function.spans(plain)
        view.notes += plain.notes
        return ABSTAIN if spans is None else spans

    return replace(function, find=find, offsets="tokens")


def _matches(
    compiled: Any, text: str, group: int | str, seconds: float
) -> Iterator[tuple[int, int]]:
    """Where the group matches; all of it together may take so many seconds."""
    deadline, at = time.monotonic() + seconds, 0
    while at <= len(text):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        match = compiled.search(text, at, timeout=left)
        if match is None:
            return
        start, end = match.span(group)
        if 0 <= start < end:  # a group may match nothing, or take no part
            yield start, end
        at = match.end() + (match.start() == match.end())
