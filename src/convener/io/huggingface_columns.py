"""Columns of Hugging Face data on their way to a dataset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset, Text
from convener.errors import DataError, unknown_name
from convener.io import arrow
from convener.io.align import named_documents
from convener.io.facts import Facts, placed, readable, source_names
from convener.io.formats import Content
from convener.io.huggingface_folder import VOTES
from convener.io.options import ReadOptions
from convener.io.repair import repaired
from convener.io.report import Report
from convener.io.table_units import disordered
from convener.packed import Strings, offsets_of
from convener.predictions import Predictions
from convener.schemes import Place, parse_tag
from convener.tags import TagSet

TAGS = ("ner_tags", "tags", "labels")
"""Names of the column of tags; the first that is there counts."""


class Columns:
    """Columns of one table on their way to a dataset."""

    def __init__(
        self,
        table: Any,
        where: str,
        features: Mapping[str, Any],
        options: ReadOptions,
        report: Report,
    ) -> None:
        self.table, self.where, self.options, self.report = table, where, options, report
        self.names: list[str] = table.column_names
        self.features = features or _features(table.schema)
        with readable(where, "Arrow table"):
            table.validate(full=True)
        self.lengths, words = arrow.opened(self._column("tokens"), f"{where}: tokens")
        if len(words) and not arrow.is_string(words.type):
            raise DataError(f"{where}: tokens: expected lists of strings, got {words.type}")
        self.tokens = arrow.strings(words) if len(words) else Strings.of([])
        self.offsets = offsets_of(self.lengths)

    def own(self, facts: Facts) -> Content:
        """What a folder of ours holds, as it was."""
        holds = facts.holds
        tagged = self._ids("ner_tags") if {"labels", "gold"} & set(holds) else None
        data = self._dataset(
            TagSet(facts.types),
            {name: self._ids(VOTES + name) for name in facts.sources},
            silence=facts.silence,
            gold=None if "labels" in holds else tagged,
            text=self._text() if "text" in holds else None,
            documents=self._strings("doc_id") if "documents" in holds else None,
        )
        if "labels" not in holds or tagged is None:
            return data
        size = len(data.tags)
        return Predictions(
            data=data,
            labels=tagged,
            probabilities=self._probabilities(size) if "probabilities" in holds else None,
            scores=self._scores() if "scores" in holds else None,
            model=facts.model,
            settings=facts.settings,
        )

    def foreign(self) -> Content:
        """What the columns of others say; soft labels or scores tell predictions from gold."""
        tagged = next((name for name in TAGS if name in self.names), None)
        known = tuple(name[len(VOTES) :] for name in self.names if name.startswith(VOTES))
        sources = source_names(known, self.options, self.where)
        spelled = {name: self._spelled(name, low=0) for name in (tagged,) if name is not None}
        spelled |= {VOTES + name: self._spelled(VOTES + name, low=-1) for name in sources}
        with placed(self.where):
            tags = TagSet(self._types(spelled.values()))
        labels = {name: self._labels(name, codes, tags) for name, codes in spelled.items()}
        aggregated = tagged is not None and bool({"soft_labels", "scores"} & set(self.names))
        used = {"tokens", tagged, *spelled, *(VOTES + name for name in known)}
        used |= {"soft_labels", "scores"} if aggregated else set()
        used |= {"text", "chars", "char_start"} if {"text", "chars"} <= set(self.names) else set()
        if ignored := [name for name in self.names if name not in used | {"doc_id"}]:
            self.report.add("ignored", self.where, "columns", ", ".join(ignored))
        data = self._dataset(
            tags,
            {name: labels[VOTES + name] for name in sources},
            silence=(self.options.silence or "abstain",) * len(sources),
            gold=None if tagged is None or aggregated else labels[tagged],
            text=self._text(ordered=True) if "text" in used else None,
            documents=named_documents(self._strings("doc_id")) if "doc_id" in self.names else None,
        )
        if not aggregated or tagged is None:
            return data
        with placed(self.where):
            return Predictions(
                data=data,
                labels=labels[tagged],
                probabilities=self._soft_labels(spelled[tagged].names, tags),
                scores=self._scores() if "scores" in self.names else None,
            )

    def _dataset(
        self, tags: TagSet, votes: Mapping[str, NDArray[np.int16]], **parts: Any
    ) -> Dataset:
        columns = list(votes.values())
        empty = np.zeros((len(self.tokens), 0), np.int16)
        return Dataset(
            tags=tags,
            tokens=self.tokens,
            offsets=self.offsets,
            sources=tuple(votes),
            votes=np.stack(columns, axis=1) if columns else empty,
            **parts,
        )

    def _column(self, name: str) -> Any:
        if self.names.count(name) != 1:
            listed = ", ".join(self.names) or "none"
            raise DataError(f"{self.where}: expected one column {name!r}, got {listed}")
        return self.table.column(name)

    def _row(self, token: int) -> str:
        return f"{self.where}: row {int(np.searchsorted(self.offsets, token, side='right')) - 1}"

    def _by_token(self, name: str) -> Any:
        """The values of a list column that has one for each token."""
        lengths, values = arrow.opened(self._column(name), f"{self.where}: {name}")
        wrong = np.flatnonzero(lengths != self.lengths)
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"{self.where}: row {row}: expected {name} of {self.lengths[row]} tokens, "
                f"got {lengths[row]}"
            )
        return values

    def _ids(self, name: str) -> NDArray[np.int16]:
        """Label ids as they are; whether they are in range is the dataset's question."""
        values = self._by_token(name)
        if not len(values):
            return np.zeros(0, np.int16)
        found = arrow.numbers(values)
        if found.dtype.kind not in "iu" or not -1 <= found.min() <= found.max() < 2**15:
            raise DataError(f"{self.where}: {name}: expected label ids, got {values.type}")
        return found.astype(np.int16)

    def _spelled(self, name: str, *, low: int) -> Spelled:
        """A column of tags, as numbers and the names they stand for."""
        values = self._by_token(name)
        if not len(values):
            return Spelled(np.zeros(0, np.int64), _class_names(self.features.get(name)) or ())
        if arrow.is_string(values.type):
            codes, strings = arrow.codes(values)
            return Spelled(codes, tuple(strings.to_list()), ordered=False)
        numbers = arrow.numbers(values)
        if numbers.dtype.kind not in "iu":
            raise DataError(f"{self.where}: {name}: expected class labels or strings")
        names = _class_names(self.features.get(name))
        if names is None and self.options.types is not None:
            names = TagSet(self.options.types).names
        if names is None:
            raise DataError(
                f"{self.where}: {name} holds numbers without names: expected class labels or "
                "strings; give types=... if they are BIO ids"
            )
        wrong = np.flatnonzero((numbers < low) | (numbers >= len(names)))
        if len(wrong):
            token = int(wrong[0])
            raise DataError(
                f"{self._row(token)}: {name}: expected numbers from {low} to below {len(names)}, "
                f"got {numbers[token]}"
            )
        return Spelled(numbers.astype(np.int64), names)

    def _types(self, columns: Iterable[Spelled]) -> tuple[str, ...]:
        """The options' types; else as class labels order them, and other ones by alphabet."""
        if self.options.types is not None:
            return self.options.types
        listed: list[str] = []
        others: set[str] = set()
        for column in columns:
            names = [kind for place, kind in map(parse_tag, column.names) if place]
            if column.ordered:
                listed += names
            else:
                others |= set(names)
        if not listed and not others:
            raise DataError("no entity types: no tag names one; give types=...")
        return tuple(dict.fromkeys([*listed, *sorted(others)]))

    def _labels(self, name: str, column: Spelled, tags: TagSet) -> NDArray[np.int16]:
        """Legal BIO labels of a column of tags."""
        source = name.removeprefix(VOTES)
        places = np.full(len(column.names) + 1, Place.ABSTAIN, np.int8)  # the last is for -1
        kinds = np.zeros(len(column.names) + 1, np.int16)
        for number, text in enumerate(column.names):
            with placed(f"{self.where}: {name}"):
                place, kind = parse_tag(text)
            places[number] = place
            if place and kind in tags.types:
                kinds[number] = tags.type_number(kind)
            elif place and (found := np.flatnonzero(column.codes == number)).size:
                problem = unknown_name("entity type", kind, tags.types)
                raise DataError(f"{self._row(int(found[0]))}: {problem} ({source})")
        return repaired(
            places[column.codes],
            kinds[column.codes],
            self.offsets,
            self.options.on_illegal,
            tag=lambda token: column.names[column.codes[token]],
            where=self._row,
            source=source,
            report=self.report,
        )

    def _strings(self, name: str) -> Strings:
        column = self._column(name)
        types = arrow.pyarrow("pyarrow.types")
        if column.null_count or not (arrow.is_string(column.type) or types.is_integer(column.type)):
            raise DataError(f"{self.where}: {name}: expected strings without nulls")
        return arrow.strings(column)

    def _text(self, *, ordered: bool = False) -> Text:
        pairs = self._by_token("chars")
        chars = np.zeros((0, 2), np.int32)
        if len(pairs):
            chars = arrow.matrix(pairs, 2, np.int32, f"{self.where}: chars")
        text = self._strings("text")
        starts = np.zeros(len(self.lengths), np.int64)
        if "char_start" in self.names:
            column = self._column("char_start")
            if column.null_count or not arrow.pyarrow("pyarrow.types").is_integer(column.type):
                raise DataError(f"{self.where}: char_start: expected whole numbers without nulls")
            starts = arrow.numbers(column).astype(np.int64)
        wrong = disordered(chars, self.offsets, text) if ordered else np.zeros(0, bool)
        if wrong.any():
            token = int(np.flatnonzero(wrong)[0])
            start, end = chars[token].tolist()
            raise DataError(
                f"{self._row(token)}: chars {start}-{end} do not follow those before in the text"
            )
        return Text(text, chars, starts)

    def _probabilities(self, size: int) -> NDArray[np.float32]:
        rows = self._by_token("soft_labels")
        if not len(rows):
            return np.zeros((0, size), np.float32)
        return arrow.matrix(rows, size, np.float32, f"{self.where}: soft_labels")

    def _soft_labels(self, names: tuple[str, ...], tags: TagSet) -> NDArray[np.float32] | None:
        """Probabilities of others, if their columns are our labels."""
        if "soft_labels" not in self.names:
            return None
        if names != tags.names:
            detail = "soft_labels: the class labels are not O, B-x, I-x for each type in order"
            self.report.add("ignored", self.where, "columns", detail)
            return None
        return self._probabilities(len(tags))

    def _scores(self) -> NDArray[np.float32]:
        _, values = arrow.opened(self._column("scores"), f"{self.where}: scores")
        if not len(values):
            return np.zeros(0, np.float32)
        if not arrow.pyarrow("pyarrow.types").is_floating(values.type):
            raise DataError(f"{self.where}: scores: expected numbers, got {values.type}")
        return arrow.numbers(values).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Spelled:
    """Tags of all tokens: codes (N,) into the names, -1 = abstain."""

    codes: NDArray[np.int64]
    names: tuple[str, ...]
    ordered: bool = True
    """Whether the order of the names means something."""


def _features(schema: Any) -> Mapping[str, Any]:
    """The features that `datasets` notes in a schema; empty where it did not."""
    try:
        values = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = values["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(feature: Any) -> tuple[str, ...] | None:
    """The names of class labels, in a feature or in lists of it."""
    while feature:
        if isinstance(feature, list):
            feature = feature[0]
        elif not isinstance(feature, dict):
            return None
        elif feature.get("_type") == "ClassLabel":
            names = feature.get("names")
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                return tuple(names)
            return None
        else:
            feature = feature.get("feature")
    return None
