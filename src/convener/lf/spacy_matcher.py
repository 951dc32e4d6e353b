"""Patterns of spaCy's Matcher as votes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from convener.caching import digest_of
from convener.errors import ConfigError
from convener.lf.batched import Batched, located
from convener.lf.function import Found, LabelingFunction
from convener.lf.spacy_docs import digest_of_pipeline, docs_of, pipeline, spacy
from convener.lf.view import View

Pattern = Sequence[Mapping[str, Any]]
"""One description for each word, in spaCy's terms."""


def spacy_matcher(
    patterns: Mapping[str, Sequence[Pattern]],
    *,
    name: str = "spacy_matcher",
    language: str = "en",
    pipeline: str | Path | None = None,
    exclude: Sequence[str] = (),
    **settings: Any,
) -> LabelingFunction:
    """A source that marks what patterns of spaCy's Matcher match.

    patterns: for each entity type a list of patterns, as spaCy's documentation describes them.
    language: whose idea of numbers and stop words counts. pipeline: a package or a folder, for
    patterns over tags, lemmas and entities, without the components in `exclude`. Of overlapping
    matches the longest counts, then the first. Settings are those of `LabelingFunction`.

    >>> dose = {"DOSE": [[{"LIKE_NUM": True}, {"LOWER": {"IN": ["mg", "ml"]}}]]}
    >>> spacy_matcher(dose)("Take 5 mg daily")
    [(1, 3, 'DOSE')]
    """
    if not isinstance(patterns, Mapping):
        raise ConfigError(f"patterns are lists by entity type, got {type(patterns).__name__}")
    try:
        written = json.dumps(patterns)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"patterns must be values that JSON has: {error}") from None
    place = None if pipeline is None else located(pipeline)
    source = Matches(written, language, place, tuple(exclude))
    function = source.as_function(name, patterns, settings)
    _check(source)
    return function


@dataclass(frozen=True)
class Matches(Batched):
    """What patterns match, over a pipeline's documents."""

    patterns: str
    """As JSON."""
    language: str
    pipeline: str | None
    exclude: tuple[str, ...]

    def find_all(self, views: Sequence[View]) -> list[Found]:
        """The matches in each text, none overlapping."""
        nlp, matcher = _matcher(self.patterns, self.language, self.pipeline, self.exclude)
        longest = spacy("spacy.util").filter_spans
        return [
            [(span.start, span.end, span.label_) for span in longest(matcher(doc, as_spans=True))]
            for doc in docs_of(nlp, views)
        ]

    def digest(self) -> str:
        """By the patterns, and the pipeline if there is one."""
        settings = {"language": self.language, "exclude": self.exclude}
        return digest_of(digest_of_pipeline(self.pipeline), self.patterns, settings)


def _check(source: Matches) -> None:
    """Say what is wrong with patterns, before any text comes; a pipeline is not loaded for that."""
    nlp, matcher = _matcher(source.patterns, source.language, None, ())
    if source.pipeline is None:
        try:
            matcher(nlp("a"))
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"patterns that need a pipeline: {reason}") from error


@cache
def _matcher(
    patterns: str, language: str, name: str | None, exclude: tuple[str, ...]
) -> tuple[Any, Any]:
    """A pipeline and the matcher over its documents, made once in a process."""
    nlp = _blank(language) if name is None else pipeline(name, exclude)
    matcher = spacy("spacy.matcher").Matcher(nlp.vocab, validate=True)
    for label, rows in json.loads(patterns).items():
        try:
            matcher.add(label, rows)
        except Exception as error:  # spaCy's own kinds, and those of what it checks with
            reason = " ".join(str(error).split())
            raise ConfigError(f"patterns of {label!r}: {reason}") from error
    return nlp, matcher


@cache
def _blank(language: str) -> Any:
    try:
        return spacy().blank(language)
    except ImportError:
        raise ConfigError(f"spaCy has no language {language!r}") from None
