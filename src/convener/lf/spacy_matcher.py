"""Patterns of spaCy's Matcher as votes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from convener.caching import compute_digest
from convener.errors import ConfigError
from convener.lf.batched import BatchedSource, absolute_path
from convener.lf.function import LabelingFunction, RawOutput
from convener.lf.spacy_docs import import_spacy, load_pipeline, pipeline_digest, run_pipeline
from convener.lf.view import Doc

TokenPattern = Sequence[Mapping[str, Any]]
"""One description for each word, in spaCy's terms."""


def spacy_matcher(
    patterns: Mapping[str, Sequence[TokenPattern]],
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
        patterns_json = json.dumps(patterns)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"patterns must be values that JSON has: {error}") from None
    pipeline_path = None if pipeline is None else absolute_path(pipeline)
    source = PatternMatches(patterns_json, language, pipeline_path, tuple(exclude))
    function = source.as_function(name, patterns, settings)
    _check_patterns(source)
    return function


@dataclass(frozen=True)
class PatternMatches(BatchedSource):
    """What patterns match, over a pipeline's documents."""

    patterns: str
    """As JSON."""
    language: str
    pipeline: str | None
    exclude: tuple[str, ...]

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """The matches in each text, none overlapping."""
        nlp, matcher = _build_matcher(self.patterns, self.language, self.pipeline, self.exclude)
        filter_spans = import_spacy("spacy.util").filter_spans
        return [
            [(span.start, span.end, span.label_) for span in filter_spans(matcher(spacy_doc, as_spans=True))]
            for spacy_doc in run_pipeline(nlp, docs)
        ]

    def fingerprint(self) -> str:
        """By the patterns, and the pipeline if there is one."""
        settings = {"language": self.language, "exclude": self.exclude}
        return compute_digest(pipeline_digest(self.pipeline), self.patterns, settings)


def _check_patterns(source: PatternMatches) -> None:
    """Say what is wrong with patterns, before any text comes; a pipeline is not loaded for that."""
    nlp, matcher = _build_matcher(source.patterns, source.language, None, ())
    if source.pipeline is None:
        try:
            matcher(nlp("a"))
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"patterns that need a pipeline: {reason}") from error


@cache
def _build_matcher(patterns: str, language: str, name: str | None, exclude: tuple[str, ...]) -> tuple[Any, Any]:
    """A pipeline and the matcher over its documents, made once in a process."""
    nlp = _blank(language) if name is None else load_pipeline(name, exclude)
    matcher = import_spacy("spacy.matcher").Matcher(nlp.vocab, validate=True)
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
        return import_spacy().blank(language)
    except ImportError:
        raise ConfigError(f"spaCy has no language {language!r}") from None
