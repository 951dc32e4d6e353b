"""From the rows of a long table to a dataset or predictions.

The CSV and the Parquet reader both end here; nothing below loops over spans or tokens, except to
find the words of a text that came without tokens, or tokens that came without their place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import DataError, unknown_name
from convener.io.align import Alignment, named_documents
from convener.io.facts import Facts, as_asked, asked_sources, everything, tag_set
from convener.io.formats import Content
from convener.io.messages import placed
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.io.table.rows import GOLD, LABELS, Rows
from convener.io.table.sentences import sentences
from convener.predictions import Predictions
from convener.spans import Spans


def folded(rows: Rows, options: ReadOptions, report: Report) -> Content:
    """The dataset of a table, or the predictions where it has aggregated labels."""
    with placed(rows.path):
        if rows.facts is None:
            return _Folding(rows, options, report).content()
        content = _Folding(rows, everything(options), report).content()
    return as_asked(rows.facts.restored(content), options, rows.path)


class _Folding:
    """One table on its way to a dataset."""

    def __init__(self, rows: Rows, options: ReadOptions, report: Report) -> None:
        rows.check()
        self.rows, self.options, self.report = rows, options, report
        self.own, self.facts = rows.facts is not None, rows.facts or Facts()
        self.marks = rows.by_source()
        tokens, offsets, text = sentences(rows.units, rows.facts)
        documents: Any = rows.units.documents
        if not self.own:
            documents = named_documents(documents)
        elif "documents" not in self.facts.holds:
            documents = None
        self.data = Dataset(
            tags=tag_set(self.facts.asked_types(options), rows.types),
            tokens=tokens,
            offsets=offsets,
            sources=(),
            votes=np.zeros((len(tokens), 0), np.int16),
            silence=(),
            text=text,
            documents=documents,
        ).with_coarse(self.facts.coarse)
        self.alignment = Alignment(
            self.data,
            options,
            report,
            where=lambda unit: f"{rows.path}: {rows.units.name(unit)}",
            in_tokens=self.facts.more.get("offsets") == "tokens",
        )

    def content(self) -> Content:
        """The dataset, or the predictions."""
        path, probabilities = self.rows.path, self.rows.units.probabilities
        gold = self._complete(GOLD)[0] if GOLD in self.marks else None
        data = self._voted()
        if LABELS not in self.marks and self.facts.model is None:
            if probabilities is not None:
                self.report.add("ignored", path, "columns", "probabilities without labels")
            return data if gold is None else data.with_gold(gold)
        if gold is not None:
            self.report.add("ignored", path, GOLD, "left out beside aggregated labels")
        labels, scores = self._complete(LABELS)
        return Predictions(
            data=data,
            labels=labels,
            probabilities=self._probabilities(),
            scores=self._scores(scores),
            model=self.facts.model or "",
            settings=self.facts.settings,
        )

    def _voted(self) -> Dataset:
        rows, facts = self.rows, self.facts
        sees_all = facts.more.get("sees_all") or []
        if not isinstance(sees_all, list):
            raise DataError("convener's facts: sees_all must list sources")
        found = [name for name in self.marks if name not in (GOLD, LABELS)]
        known = tuple(dict.fromkeys([*(facts.sources or ()), *found]))
        names = asked_sources(known, self.options, rows.path)
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
        silence = facts.silences(names, self.options, default="abstain")
        return self.data.with_sources(names, votes, silence)

    def _complete(self, name: str) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
        """Labels of gold or of the aggregation, which must speak of every unit."""
        labels, scores, seen = self._labels(name)
        if not seen.all():
            unit = self.rows.units.name(int(np.flatnonzero(~seen)[0]))
            raise DataError(f"{name} is known for only a part: {unit} has no row of it")
        return labels, scores

    def _labels(
        self, name: str
    ) -> tuple[NDArray[np.int16], NDArray[np.float32], NDArray[np.bool_]]:
        """Labels of a source's spans, their scores, and the units it has a row for."""
        rows = self.rows
        index = self.marks.get(name, np.zeros(0, np.int64))
        seen = np.zeros(len(self.data), bool)
        seen[rows.unit[index]] = True
        index = index[rows.label[index] >= 0]
        spans = Spans(
            rows.unit[index],
            rows.start[index].astype(np.int32),
            rows.end[index].astype(np.int32),
            self._type_numbers(index),
        )
        labels, stays = self.alignment.labels(spans, name)
        if rows.score is None:
            return labels, np.full(len(stays), np.nan, np.float32), seen
        return labels, rows.score[index[stays]], seen

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
        if self.own and "scores" not in self.facts.holds:
            return None  # those in the file follow from the probabilities
        missing = np.isnan(scores)
        if missing.all():
            return None
        if missing.any():
            detail = f"{missing.sum()} of {len(scores)} labels have none, so none is kept"
            self.report.add("ignored", self.rows.path, "scores", detail)
            return None
        return scores

    def _probabilities(self) -> NDArray[np.float32] | None:
        found = self.rows.units.probabilities
        if found is None:
            return None
        if not len(self.data.tokens):
            return np.zeros((0, len(self.data.fine_tags)), np.float32)
        wrong = np.maximum(found.lengths, 0) != self.data.lengths
        self.rows.units.refuse(wrong, "needs probabilities for each of its tokens")
        rows: NDArray[np.float32] = found.values
        return rows
