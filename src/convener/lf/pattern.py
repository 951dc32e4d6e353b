"""Pattern: marks the matches of a regular expression."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Unpack, get_args

import regex

from convener.data.tags import ABSTAIN
from convener.errors import ConfigError
from convener.lf.doc import Doc
from convener.lf.fingerprint import fingerprint
from convener.lf.function import LabelingFunction, LFSettings, RawOutput

MatchTarget = Literal["text", "tokens"]
TIMEOUT = "timeout"


def pattern(
    expression: str,
    label: str,
    *,
    name: str | None = None,
    match: MatchTarget = "text",
    group: int | str = 0,
    ignore_case: bool = False,
    timeout: float = 1.0,
    **settings: Unpack[LFSettings],
) -> LabelingFunction:
    r"""Return a labeling function that marks the matches of a regular expression.

    expression   in the syntax of the module `regex`, a superset of `re` with `\p{Lu}`
    match        "text": match in the original text; "tokens": match in the tokens joined by
                 spaces, only at token boundaries
    group        number or name of the group to mark instead of the complete match
    ignore_case  match letters regardless of case
    timeout      time limit per text in seconds; beyond it the function abstains and reports an issue
    settings     other fields of `LabelingFunction`

    >>> company = pattern(r"(?:\p{Lu}\w+ )+(?:Ltd|Inc)", "ORG", match="tokens", name="company")
    >>> company("He left Acme Tools Ltd today")
    He left [Acme Tools Ltd](ORG) today
    >>> pattern(r"in (\p{Lu}\w+)", "LOC", group=1, name="place")("born in Oslo")
    born in [Oslo](LOC)
    """
    name = name or "pattern"
    if match not in get_args(MatchTarget):
        raise ConfigError(f"{name}: match must be text or tokens, got {match!r}")
    if not timeout > 0:
        raise ConfigError(f"{name}: timeout must be positive, got {timeout}")
    full_expression = rf"(?<!\S)(?:{expression})(?!\S)" if match == "tokens" else expression
    try:
        compiled = regex.compile(full_expression, regex.IGNORECASE if ignore_case else 0)
    except regex.error as error:
        raise ConfigError(f"{name}: invalid regular expression: {error}") from error
    group_names = {*range(compiled.groups + 1), *compiled.groupindex}
    if group not in group_names:
        raise ConfigError(f"{name}: {expression!r} has no group {group!r}")

    def find(doc: Doc) -> RawOutput:
        try:
            matches = list(_matches(compiled, doc.text, group, timeout))
        except TimeoutError:
            doc.report_issue(TIMEOUT, f"{expression!r} timed out after {timeout:g} s")
            return ABSTAIN
        return [(start, end, label) for start, end in matches]

    settings.setdefault("version", fingerprint("pattern 1", expression, label, match, group, ignore_case, timeout))
    function = LabelingFunction(name=name, labels=(label,), func=find, offsets="chars", **settings)
    return function if match == "text" else _match_joined_tokens(function)


def _match_joined_tokens(function: LabelingFunction) -> LabelingFunction:
    """Return the function applied to the tokens joined by spaces instead of the text."""

    def find(doc: Doc) -> RawOutput:
        token_doc = Doc(doc.tokens, sentences=doc.sentences)
        spans = function.label(token_doc)
        doc.issues += token_doc.issues
        return ABSTAIN if spans is None else spans

    return replace(function, func=find, offsets="tokens")


def _matches(compiled: Any, text: str, group: int | str, timeout: float) -> Iterator[tuple[int, int]]:
    """Yield start and end of each match of the group; `timeout` covers the complete text."""
    deadline, position = time.monotonic() + timeout, 0
    while position <= len(text):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        match = compiled.search(text, position, timeout=remaining)
        if match is None:
            return
        start, end = match.span(group)
        if 0 <= start < end:  # a group may be empty or not participate in the match
            yield start, end
        position = match.end() + (match.start() == match.end())
