"""What a file says of itself, and what was asked of it: types, sources, silence, what it holds.

Files of ours state their facts as one JSON object, wherever their format has room for it; files
of others may state some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from convener.coarse import fine_types, meanings
from convener.data import SILENCES, Dataset, Silence, Text
from convener.errors import DataError, NoTypesError, UnknownNameError, unknown_name
from convener.io.formats import Content, data_of
from convener.io.json_stream import dumped, parsed
from convener.io.messages import placed, shown
from convener.io.options import ReadOptions
from convener.packed import Strings
from convener.predictions import Predictions
from convener.tags import TagSet

VERSION = 1
MOST_TYPES = 16_383
"""More would not fit the 16 bits of a label."""
_PARTS = ("gold", "text", "documents")
_PREDICTED = ("probabilities", "scores")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of one file; None where it does not say."""

    types: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    silence: Mapping[str, Silence] = field(default_factory=dict)
    precision: Mapping[str, float] = field(default_factory=dict)
    """How often a source's marks are presumed right, where that is known."""
    coarse: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What those of the types allow that are coarse labels."""
    model: str | None = None
    """Only files of predictions have one; it may be ""."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    holds: tuple[str, ...] = ()
    """Parts that it holds; without the word, an empty column would be none at all."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What one format adds for itself."""

    @classmethod
    def of(cls, content: Content, **more: Any) -> Facts:
        """The facts of a dataset or of predictions."""
        data = data_of(content)
        holds = [name for name in _PARTS if getattr(data, name) is not None]
        found = cls(
            types=data.tags.types,
            sources=data.sources,
            silence=dict(zip(data.sources, data.silence, strict=True)),
            precision={
                name: share
                for name, share in zip(data.sources, data.precision, strict=True)
                if share is not None
            },
            coarse=data.coarse,
            holds=tuple(holds),
            more=more,
        )
        if not isinstance(content, Predictions):
            return found
        holds += [name for name in _PREDICTED if getattr(content, name) is not None]
        settings = dict(content.settings)
        return replace(found, model=content.model, settings=settings, holds=tuple(holds))

    def values(self) -> dict[str, Any]:
        """The facts as `of_values` reads them."""
        found: dict[str, Any] = {
            "types": self.types,
            "sources": self.sources,
            "silence": self.silence,
        }
        if self.precision:
            found["precision"] = self.precision
        if self.coarse:
            found["coarse"] = self.coarse
        if self.model is not None:
            found |= {"model": self.model, "settings": self.settings}
        if self.holds:
            found["holds"] = self.holds
        return {**found, **self.more}

    def to_json(self) -> str:
        """One line of JSON."""
        return dumped({"version": VERSION, **self.values()}, "the model's settings")

    @classmethod
    def of_values(
        cls, values: Any, where: str, *, types: str = "types", sources: str = "sources"
    ) -> Facts:
        """The facts in a JSON object; types and sources are its names for them."""
        if not isinstance(values, dict):
            raise DataError(f"{where}: expected a JSON object, got {shown(values)}")
        silence, settings = values.get("silence") or {}, values.get("settings") or {}
        model = values.get("model")
        if values.get("version", VERSION) != VERSION:
            raise DataError(f"{where}: expected version {VERSION}, got {shown(values['version'])}")
        if not isinstance(silence, dict) or not all(
            isinstance(word, str) and word in SILENCES for word in silence.values()
        ):
            raise DataError(
                f"{where}: expected 'silence' as O or abstain by source, got {shown(silence)}"
            )
        precision = values.get("precision") or {}
        if not isinstance(precision, dict) or not all(
            isinstance(share, float) and 0 < share < 1 for share in precision.values()
        ):
            raise DataError(
                f"{where}: expected 'precision' as a number in (0, 1) by source, "
                f"got {shown(precision)}"
            )
        if not isinstance(settings, dict):
            raise DataError(f"{where}: expected 'settings' as an object, got {shown(settings)}")
        if not isinstance(model, str | None):
            raise DataError(f"{where}: expected 'model' as a string, got {shown(model)}")
        kinds = names_in(values, types, where)
        coarse = values.get("coarse") or {}
        if not isinstance(coarse, dict):
            raise DataError(f"{where}: expected 'coarse' as types by label, got {shown(coarse)}")
        coarse = {name: names_in(coarse, name, where) or () for name in coarse}
        with placed(where):
            if kinds is not None:
                tag_set(kinds)
            if coarse:
                fine_types(kinds or (), coarse)
                coarse = meanings(coarse, kinds or ())
        return cls(
            types=kinds,
            sources=names_in(values, sources, where),
            silence=silence,
            precision=precision,
            coarse=coarse,
            model=model,
            settings=settings,
            holds=names_in(values, "holds", where) or (),
            more=values,
        )

    @classmethod
    def parse(cls, raw: str, where: str) -> Facts:
        """The facts that `to_json` wrote."""
        where = f"{where}: convener's facts"
        facts = cls.of_values(parsed(raw, where), where)
        if facts.types is None or facts.sources is None:
            raise DataError(f"{where}: expected 'types' and 'sources', got {shown(facts.more)}")
        return facts

    def beyond_sentences(self, content: Content) -> Facts:
        """The facts with only those parts that no sentence and no span of the content shows."""
        hidden = set() if len(content) else set(self.holds)
        if isinstance(content, Predictions) and not len(content.spans):
            hidden.add("scores")
        return replace(self, holds=tuple(name for name in self.holds if name in hidden))

    def restored(self, content: Content) -> Content:
        """The content with what none of its sentences and spans shows.

        That is the precision of sources, what coarse labels allow, and columns that the file
        holds with nothing in them.
        """
        if self.precision or self.coarse:
            data = data_of(content).with_coarse(self.coarse)
            shares = tuple(self.precision.get(name) for name in data.sources)
            data = replace(data, precision=shares)
            content = replace(content, data=data) if isinstance(content, Predictions) else data
        empty = np.zeros(0, np.float32)
        if isinstance(content, Predictions) and "scores" in self.holds and not len(content.spans):
            content = replace(content, scores=empty)
        if len(content) or not self.holds:
            return content
        if isinstance(content, Predictions) and "probabilities" in self.holds:
            content = replace(content, probabilities=empty.reshape(0, len(content.data.fine_tags)))
        columns = {
            "gold": np.zeros(0, np.int16),
            "text": Text(Strings.of([]), np.zeros((0, 2), np.int32), np.zeros(0, np.int64)),
            "documents": Strings.of([]),
        }
        return with_data(content, **{name: columns[name] for name in _PARTS if name in self.holds})

    def asked_types(self, options: ReadOptions) -> tuple[str, ...] | None:
        """The types asked for and the file's coarse labels, or else the types it names."""
        if options.types is None:
            return self.types
        return (*(name for name in options.types if name not in self.coarse), *self.coarse)

    def silences(
        self, sources: Sequence[str], options: ReadOptions, default: Silence = "O"
    ) -> tuple[Silence, ...]:
        """What silence means for each of these sources."""
        return tuple(options.silence or self.silence.get(name, default) for name in sources)


def with_data(content: Content, **changes: Any) -> Content:
    """The same content with some fields of its dataset replaced."""
    data = replace(data_of(content), **changes)
    return replace(content, data=data) if isinstance(content, Predictions) else data


def names_in(values: Mapping[str, Any], key: str, where: str) -> tuple[str, ...] | None:
    """The list of different names under a key; None if there is none."""
    names = values.get(key)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"{where}: expected {key!r} as a list of names, got {shown(names)}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where}: {key!r} names {twice!r} twice")
    return tuple(names)


def tag_set(named: Sequence[str] | None, found: Iterable[str] = ()) -> TagSet:
    """The tag set of the types that are named, else of those found, in alphabetical order."""
    types = tuple(sorted(found) if named is None else named)
    if not types:
        raise NoTypesError("no entity types: none are named and none occur; give types=...")
    if len(types) > MOST_TYPES:
        raise DataError(f"expected at most {MOST_TYPES} entity types, got {len(types)}")
    return TagSet(types)


def asked_sources(
    known: Sequence[str],
    options: ReadOptions,
    where: str,
    recommended: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """The sources that the options ask for, in the order asked for."""
    if isinstance(options.sources, str):
        all_known = options.sources == "all" or recommended is None
        return tuple(known if all_known else recommended or ())
    for name in options.sources:
        if name not in known:
            raise UnknownNameError(f"{where}: {unknown_name('source', name, known)}")
    return options.sources


def as_asked(content: Content, options: ReadOptions, where: str) -> Content:
    """Content as its file states it, with the sources, types and silence that were asked for."""
    data = data_of(content)
    asked = data.select_sources(asked_sources(data.sources, options, where))
    if options.silence is not None:
        silence = (options.silence,) * len(asked.sources)
        asked = asked.with_sources(asked.sources, asked.votes, silence)
    content = asked if isinstance(content, Dataset) else replace(content, data=asked)
    if options.types is None:
        return content
    with placed(where):
        return content.with_types(options.types)


def everything(options: ReadOptions) -> ReadOptions:
    """The same options, asking for all that a file has: `as_asked` chooses afterwards."""
    return replace(options, sources="all", types=None, silence=None)
