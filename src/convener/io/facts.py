"""What a file says of itself beside its sentences: types, sources, silence, what it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from convener.data import SILENCES, Dataset, Silence
from convener.errors import ConvenerError, DataError, FormatError, UnknownNameError, unknown_name
from convener.io.formats import Content
from convener.io.options import ReadOptions
from convener.packed import Strings
from convener.predictions import Predictions

HOLDS = ("gold", "labels", "text", "documents", "probabilities", "scores")
"""What a file may say it holds; without the word, an empty column would be none at all."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of one file, kept as JSON wherever its format has room for them."""

    types: tuple[str, ...]
    sources: tuple[str, ...]
    silence: tuple[Silence, ...]
    holds: tuple[str, ...] = ()
    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """What one format adds for itself."""

    @classmethod
    def of(cls, content: Content, **more: Any) -> Facts:
        """The facts of a dataset or of predictions."""
        data = content.data if isinstance(content, Predictions) else content
        holds = [name for name in ("gold", "text", "documents") if getattr(data, name) is not None]
        model, settings = "", {}
        if isinstance(content, Predictions):
            holds.append("labels")
            parts = ("probabilities", "scores")
            holds += [name for name in parts if getattr(content, name) is not None]
            model, settings = content.model, dict(content.settings)
        return cls(
            types=data.tags.types,
            sources=data.sources,
            silence=data.silence,
            holds=tuple(holds),
            model=model,
            settings=settings,
            more=more,
        )

    def to_json(self) -> str:
        """One line of JSON."""
        values = {
            "version": 1,
            "types": self.types,
            "sources": self.sources,
            "silence": self.silence,
            "holds": self.holds,
            "model": self.model,
            "settings": self.settings,
            **self.more,
        }
        try:
            return json.dumps(values)
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(f"the model's settings cannot be written as JSON: {error}") from None

    @classmethod
    def parse(cls, raw: str | bytes, where: str) -> Facts:
        """The facts that JSON states."""
        try:
            values = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: convener's facts are not JSON: {error}") from None
        if not isinstance(values, dict):
            raise DataError(f"{where}: convener's facts: expected an object, got {values!r:.40}")
        if values.pop("version", None) != 1:
            raise DataError(f"{where}: convener's facts: expected version 1")

        def names(key: str, allowed: tuple[str, ...] | None = None) -> tuple[Any, ...]:
            found = values.pop(key, None)
            strings = isinstance(found, list) and all(isinstance(item, str) for item in found)
            if strings and (allowed is None or set(found) <= set(allowed)):
                return tuple(found)
            listed = "strings" if allowed is None else "any of " + ", ".join(allowed)
            raise DataError(f"{where}: convener's facts: {key} must list {listed}, got {found!r}")

        types, sources, holds = names("types"), names("sources"), names("holds", HOLDS)
        silence = names("silence", SILENCES)
        if len(silence) != len(sources) or len(set(sources)) != len(sources):
            raise DataError(f"{where}: convener's facts: expected one silence for each source")
        model, settings = values.pop("model", ""), values.pop("settings", {})
        if not isinstance(model, str) or not isinstance(settings, dict):
            raise DataError(f"{where}: convener's facts: model must be a name, settings an object")
        return cls(
            types=types,
            sources=sources,
            silence=silence,
            holds=holds,
            model=model,
            settings=settings,
            more=values,
        )


def as_asked(content: Content, options: ReadOptions, where: str) -> Content:
    """Content as its file states it, with the sources, types and silence that were asked for."""
    data = content.data if isinstance(content, Predictions) else content
    names = source_names(data.sources, options, where)
    asked = data if names == data.sources else data.select_sources(names)
    if options.silence is not None:
        asked = asked.with_sources(
            asked.sources, asked.votes, (options.silence,) * len(asked.sources)
        )
    content = asked if isinstance(content, Dataset) else replace(content, data=asked)
    if options.types is None:
        return content
    with placed(where):
        return content.with_types(options.types)


def source_names(known: tuple[str, ...], options: ReadOptions, where: str) -> tuple[str, ...]:
    """The sources asked for, in order; all known ones if none are named."""
    if isinstance(options.sources, str):
        return known
    for name in options.sources:
        if name not in known:
            raise UnknownNameError(f"{where}: {unknown_name('source', name, known)}")
    return options.sources


def check_unicode(strings: Strings, what: str) -> None:
    """Refuse strings that are no Unicode text (lone surrogates), which most formats cannot hold."""
    try:
        strings.compact().data.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        at = int(strings.compact().offsets.searchsorted(error.start, side="right")) - 1
        raise FormatError(
            f"{what} {at} is not Unicode text ({strings[at]!r:.40}); npz can hold it"
        ) from None


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Names the file in front of what a check of its content says, unless it does itself."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(where):
            raise
        raise type(error)(f"{where}: {error}") from error


@contextmanager
def readable(where: str, what: str) -> Iterator[None]:
    """Says of any failure inside that the file is not what it should be.

    Libraries meet broken files with exceptions of every kind, so every kind is caught here.
    """
    try:
        yield
    except (ConvenerError, MemoryError):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"{where}: not a readable {what}: {lines[0]}") from error
