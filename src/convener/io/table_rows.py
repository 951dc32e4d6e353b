"""A long table as columns of arrays, and the way from there to a dataset.

The CSV and the Parquet reader both end here; nothing below loops over spans or tokens, except to
find the words of a text that came without tokens, or tokens that came without their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset, Silence
from convener.errors import DataError, unknown_name
from convener.io.align import check_inside, named_documents, settled, token_spans
from convener.io.facts import Facts, as_asked, placed, source_names
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.io.table_units import Units, sentences, text_lengths
from convener.predictions import Predictions
from convener.spans import Spans
from convener.tags import TagSet

EMPTY = np.iinfo(np.int64).min
GOLD, LABELS = "gold", "labels"


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """All rows of a table.

    unit      (R,) the number of each row's document or sentence
    source    (R,) the number of its source in `sources`; -1 in rows of documents
    start     (R,) as given, EMPTY where the cell is empty; end too
    label     (R,) the number of its type in `types`; -1 where empty
    score     (R,) NaN where empty, or None
    place     names a row, for messages: "crowd.csv:12"
    """

    path: str
    facts: Facts | None
    units: Units
    unit: NDArray[np.int64]
    source: NDArray[np.int64]
    sources: tuple[str, ...]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    label: NDArray[np.int64]
    types: tuple[str, ...]
    score: NDArray[np.float32] | None
    place: Callable[[int], str]

    def check(self) -> None:
        """Refuse rows that are neither a document, a span, nor "saw it, marked nothing"."""
        empty = (self.start == EMPTY).astype(int) + (self.end == EMPTY) + (self.label < 0)
        self._refuse(
            (empty == 1) | (empty == 2),
            lambda row: "expected start, end and label, or none of the three",
        )
        self._refuse((self.source < 0) & (empty < 3), lambda row: "a span needs a source, got none")
        self._refuse(
            self.marked & ((self.start < 0) | (self.end <= self.start) | (self.end >= 2**31)),
            lambda row: f"expected 0 <= start < end, got {self.start[row]} and {self.end[row]}",
        )
        documents = np.flatnonzero(self.source < 0)
        repeats = np.ones(len(documents), bool)
        repeats[np.unique(self.unit[documents], return_index=True)[1]] = False
        wrong = np.zeros(len(self.unit), bool)
        wrong[documents[repeats]] = True
        self._refuse(
            wrong, lambda row: f"a second row without a source of {self.units.name(self.unit[row])}"
        )

    def _refuse(self, wrong: NDArray[np.bool_], problem: Callable[[int], str]) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(f"{self.place(row)}: {problem(row)}")

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Rows that hold a span.  -> (R,)"""
        return self.label >= 0

    def by_source(self) -> dict[str, NDArray[np.int64]]:
        """The rows of each source, in the order of the file."""
        order = np.argsort(self.source, kind="stable")
        bounds = np.searchsorted(self.source[order], np.arange(len(self.sources) + 1))
        return {name: order[bounds[k] : bounds[k + 1]] for k, name in enumerate(self.sources)}


def assembled(rows: Rows, options: ReadOptions, report: Report) -> Dataset | Predictions:
    """The dataset of a table, or the predictions where it has aggregated labels."""
    if rows.facts is None:
        return _Assembly(rows, options, report).content()
    own = replace(options, sources="all", types=None, silence=None)
    return as_asked(_Assembly(rows, own, report).content(), options, rows.path)


class _Assembly:
    """One table on its way to a dataset."""

    def __init__(self, rows: Rows, options: ReadOptions, report: Report) -> None:
        rows.check()
        self.rows, self.options, self.report = rows, options, report
        self.holds = () if rows.facts is None else rows.facts.holds
        self.marks = rows.by_source()
        tokens, offsets, text = sentences(rows.units, rows.path, rows.facts)
        with placed(rows.path):
            tags = TagSet(self._types())
        documents: Any = rows.units.documents
        if rows.facts is None:
            documents = named_documents(documents)
        elif "documents" not in self.holds:
            documents = None
        self.data = Dataset(
            tags=tags,
            tokens=tokens,
            offsets=offsets,
            sources=(),
            votes=np.zeros((len(tokens), 0), np.int16),
            silence=(),
            text=text,
            documents=documents,
        )
        self.text_lengths = None if text is None else text_lengths(text.text)
        self.by_tokens = text is None or _more(rows.facts, "offsets") == "tokens"

    def _types(self) -> tuple[str, ...]:
        if self.options.types is not None:
            return self.options.types
        if self.rows.facts is not None:
            return self.rows.facts.types
        if not self.rows.types:
            raise DataError("no entity types: no row has a label; give types=...")
        return tuple(sorted(self.rows.types))

    def content(self) -> Dataset | Predictions:
        gold = None
        if GOLD in self.marks or GOLD in self.holds:
            gold = self._complete(GOLD)[0]
        data = self._voted(gold)
        if LABELS not in self.marks and LABELS not in self.holds:
            if self.rows.units.probabilities is not None:
                self.report.add(
                    "ignored", self.rows.path, "columns", "probabilities without labels"
                )
            return data
        if gold is not None:
            self.report.add("ignored", self.rows.path, GOLD, "left out beside aggregated labels")
        labels, scores = self._complete(LABELS)
        facts = self.rows.facts
        with placed(self.rows.path):
            return Predictions(
                data=data,
                labels=labels,
                probabilities=self._probabilities(),
                scores=self._scores(scores),
                model="" if facts is None else facts.model,
                settings={} if facts is None else facts.settings,
            )

    def _voted(self, gold: NDArray[np.int16] | None) -> Dataset:
        rows, facts = self.rows, self.rows.facts
        known = () if facts is None else facts.sources
        sees_all = _more(facts, "sees_all") or []
        if not isinstance(sees_all, list):
            raise DataError(f"{rows.path}: convener's facts: sees_all must list sources")
        found = tuple(
            name for name in self.marks if name not in (GOLD, LABELS) and name not in known
        )
        names = source_names(known + found, self.options, rows.path)
        silence: dict[str, Silence] = dict.fromkeys(names, self.options.silence or "abstain")
        if facts is not None:
            silence |= dict(zip(facts.sources, facts.silence, strict=True))
        votes = np.empty((len(self.data.tokens), len(names)), np.int16)
        for k, name in enumerate(names):
            labels, _, seen = self._labels(name)
            if name not in sees_all and self.options.silence != "O":
                labels[np.repeat(~seen, self.data.lengths)] = ABSTAIN
            votes[:, k] = labels
        if rows.score is not None:
            others = [self.marks[name] for name in names if name in self.marks]
            if any(not np.isnan(rows.score[index]).all() for index in others):
                self.report.add("ignored", rows.path, "scores", "kept only for source 'labels'")
        data = self.data.with_sources(names, votes, [silence[name] for name in names])
        return data if gold is None else data.with_gold(gold)

    def _complete(self, name: str) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
        """Labels of gold or of the aggregation, which must speak of every unit."""
        labels, scores, seen = self._labels(name)
        if not seen.all():
            unit = self.rows.units.name(int(np.flatnonzero(~seen)[0]))
            raise DataError(
                f"{self.rows.path}: {name} is known for only a part: {unit} has no row of it"
            )
        return labels, scores

    def _labels(
        self, name: str
    ) -> tuple[NDArray[np.int16], NDArray[np.float32], NDArray[np.bool_]]:
        """Labels of a source's spans, their scores, and the units it has a row for."""
        rows, data = self.rows, self.data
        index = self.marks.get(name, np.zeros(0, np.int64))
        seen = np.zeros(len(data), bool)
        seen[rows.unit[index]] = True
        index = index[rows.marked[index]]

        def where(unit: int) -> str:
            return f"{rows.path}: {rows.units.name(unit)}"

        spans = Spans(
            rows.unit[index],
            rows.start[index].astype(np.int32),
            rows.end[index].astype(np.int32),
            self._type_numbers(index),
        )
        kept = np.arange(len(spans))
        if self.by_tokens or data.text is None:
            check_inside(spans, data.offsets, source=name, where=where)
        else:
            spans, kept = token_spans(
                spans,
                data.text,
                data.offsets,
                self.options.on_misaligned,
                source=name,
                where=where,
                report=self.report,
                lengths=self.text_lengths,
            )
        stays = settled(
            spans,
            data.tags,
            self.options.on_overlap,
            source=name,
            where=where,
            report=self.report,
        )
        labels = data.tags.labels(spans.take(stays), data.offsets)
        index = index[kept[stays]]
        nothing = np.full(len(index), np.nan, np.float32)
        return labels, nothing if rows.score is None else rows.score[index], seen

    def _type_numbers(self, index: NDArray[np.int64]) -> NDArray[np.int16]:
        tags = self.data.tags
        known = [tags.type_number(name) if name in tags.types else -1 for name in self.rows.types]
        found = np.array([*known, -1], np.int16)[self.rows.label[index]]
        if (found < 0).any():
            row = int(index[np.flatnonzero(found < 0)[0]])
            problem = unknown_name("entity type", self.rows.types[self.rows.label[row]], tags.types)
            raise DataError(f"{self.rows.place(row)}: {problem}")
        return found

    def _scores(self, scores: NDArray[np.float32]) -> NDArray[np.float32] | None:
        if self.rows.facts is not None and "scores" not in self.holds:
            return None  # those in the file follow from the probabilities
        missing = np.isnan(scores)
        if missing.all() and "scores" not in self.holds:
            return None
        if missing.any():
            self.report.add(
                "ignored",
                self.rows.path,
                "scores",
                f"{missing.sum()} of {len(scores)} labels have none, so none is kept",
            )
            return None
        return scores

    def _probabilities(self) -> NDArray[np.float32] | None:
        units, size = self.rows.units, len(self.data.tags)
        if "probabilities" in self.holds and not len(self.data.tokens):
            return np.zeros((0, size), np.float32)
        if units.probabilities is None or units.probability_lengths is None:
            return None
        wrong = np.maximum(units.probability_lengths, 0) != self.data.lengths
        if wrong.any():
            name = units.name(int(np.flatnonzero(wrong)[0]))
            raise DataError(f"{self.rows.path}: {name} needs probabilities for each of its tokens")
        return units.probabilities


def _more(facts: Facts | None, key: str) -> Any:
    return None if facts is None else facts.more.get(key)
