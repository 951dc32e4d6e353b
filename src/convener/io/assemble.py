"""Puts a dataset together from sentences and spans, as most formats hold them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset, Text
from convener.errors import DataError, UnknownNameError, unknown_name
from convener.io.align import Alignment
from convener.io.facts import Facts, tag_set
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.packed import Strings, offsets_of
from convener.predictions import Predictions
from convener.spans import Spans
from convener.tags import TagSet

GOLD = "\0gold"
LABELS = "\0labels"
"""Names under which gold and aggregated spans are added; no source can have them."""
SPOKEN = {GOLD: "gold", LABELS: "labels"}
_FAR = 2**31 - 1
"""Offsets beyond do not fit their column."""


@dataclass
class Marks:
    """All that one source marked: columns of its spans, and the sentences it abstained on."""

    sentence: array[int] = field(default_factory=lambda: array("q"))
    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    type: array[int] = field(default_factory=lambda: array("q"))
    score: array[float] = field(default_factory=lambda: array("f"))
    unseen: array[int] = field(default_factory=lambda: array("q"))


class StringsBuilder:
    """Collects strings into one UTF-8 buffer without keeping them as objects."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._lengths = array("q")

    def extend(self, strings: Iterable[str]) -> None:
        """Add strings."""
        pieces = list(strings)
        joined = "".join(pieces)
        self._bytes += joined.encode("utf-8", "surrogatepass")
        if joined.isascii():
            self._lengths.extend(map(len, pieces))
        else:
            self._lengths.extend(
                len(text if text.isascii() else text.encode("utf-8", "surrogatepass"))
                for text in pieces
            )

    def build(self) -> Strings:
        """All strings so far."""
        return Strings(
            np.frombuffer(bytes(self._bytes), np.uint8),
            offsets_of(np.frombuffer(self._lengths, np.int64)),
        )


class Assembler:
    """Collects sentences, then the spans of each, and builds the dataset.

    Call `sentence` and then, for that sentence, `span` and `unseen` as often as needed. Spans
    count characters where the sentence has text, unless they are `in_tokens`. `build` settles
    overlaps and alignment by the options and notes each case in the report.
    """

    def __init__(self, options: ReadOptions, report: Report, *, in_tokens: bool = False) -> None:
        self._options, self._report, self._in_tokens = options, report, in_tokens
        self._tokens, self._texts, self._places = (StringsBuilder() for _ in range(3))
        self._documents, self._with_documents = StringsBuilder(), False
        self._lengths, self._starts = array("q"), array("q")
        self._chars: list[NDArray[np.int32]] = []
        self._marks: dict[str, Marks] = {}
        self._types: dict[str, int] = {}
        self._has_text: bool | None = None

    def sentence(
        self,
        tokens: Sequence[str],
        *,
        where: str,
        text: str | None = None,
        chars: NDArray[np.int32] | None = None,
        document: str | None = None,
        start: int = 0,
    ) -> None:
        """Begin the next sentence; with text, `chars` (T, 2) places its tokens in it."""
        if self._has_text is None:
            self._has_text = text is not None
        if self._has_text != (text is not None):
            raise DataError(f"{where}: some sentences have text and some do not")
        if text is not None:
            if chars is None or chars.shape != (len(tokens), 2):
                raise DataError(f"{where}: expected a start and end for each of the tokens")
            self._texts.extend([text])
            self._chars.append(chars)
        self._tokens.extend(tokens)
        self._lengths.append(len(tokens))
        self._starts.append(start)
        self._places.extend([where])
        self._documents.extend([str(len(self) - 1) if document is None else document])
        self._with_documents |= document is not None

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def found_types(self) -> tuple[str, ...]:
        """The entity types of all spans so far, in the order in which they came."""
        return tuple(self._types)

    def source(self, name: str) -> Marks:
        """What a source marked so far; names it if it was not known."""
        marks = self._marks.get(name)
        if marks is None:
            marks = self._marks[name] = Marks()
        return marks

    def span(
        self, source: str, start: int, end: int, kind: str, score: float = float("nan")
    ) -> None:
        """Add a span of a source to the current sentence."""
        if not (-_FAR < start < _FAR and -_FAR < end < _FAR):
            place = self._places.build()[-1]
            spoken = SPOKEN.get(source, source)
            raise DataError(f"{place}: span {start}-{end} of {spoken} is out of range")
        marks = self.source(source)
        marks.sentence.append(len(self) - 1)
        marks.start.append(start)
        marks.end.append(end)
        marks.type.append(self._types.setdefault(kind, len(self._types)))
        marks.score.append(score)

    def unseen(self, source: str) -> None:
        """The source abstains on the current sentence."""
        self.source(source).unseen.append(len(self) - 1)

    def build(
        self,
        *,
        types: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        facts: Facts = Facts(),  # noqa: B008
        probabilities: NDArray[np.float32] | None = None,
    ) -> Dataset | Predictions:
        """The dataset, or the predictions where aggregated labels were added.

        types and sources in order; the facts say the rest of what the file says of itself.
        """
        names = self._source_names(sources)
        tags = tag_set(types or self._options.types, self._types)
        data = self._text_only(tags).with_coarse(facts.coarse)
        places = self._places.build()
        alignment = Alignment(
            data, self._options, self._report, places.__getitem__, self._in_tokens
        )
        votes = np.empty((len(data.tokens), len(names)), np.int16)
        for column, name in enumerate(names):
            votes[:, column] = self._labels(name, alignment)[0]
        data = data.with_sources(names, votes, facts.silences(names, self._options))
        if GOLD in self._marks:
            data = data.with_gold(self._labels(GOLD, alignment)[0])
        if LABELS not in self._marks and (facts.model is None or len(self)):
            return facts.restored(data)
        labels, scores = self._labels(LABELS, alignment)
        found = Predictions(
            data=data,
            labels=labels,
            probabilities=probabilities,
            model=facts.model or "",
            settings=facts.settings,
        )
        default = found.spans.score
        same = default is not None and np.array_equal(scores, default)
        if not same and len(scores) and not np.isnan(scores).any():
            found = replace(found, scores=scores)
        return facts.restored(found)

    def _source_names(self, sources: Sequence[str] | None) -> list[str]:
        known = list(sources or ())
        known += [name for name in self._marks if name not in SPOKEN and name not in known]
        if isinstance(self._options.sources, str):
            return known
        for name in self._options.sources:
            if name not in known:
                raise UnknownNameError(unknown_name("source", name, known))
        return list(self._options.sources)

    def _text_only(self, tags: TagSet) -> Dataset:
        offsets = offsets_of(np.frombuffer(self._lengths, np.int64))
        text = None
        if self._has_text:
            chars = np.concatenate([np.zeros((0, 2), np.int32), *self._chars])
            text = Text(self._texts.build(), chars, np.array(self._starts, np.int64))
        return Dataset(
            tags=tags,
            tokens=self._tokens.build(),
            offsets=offsets,
            sources=(),
            votes=np.zeros((int(offsets[-1]), 0), np.int16),
            silence=(),
            text=text,
            documents=self._documents.build() if self._with_documents else None,
        )

    def _labels(
        self, name: str, alignment: Alignment
    ) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
        """One label per token, and the scores of the spans that stayed."""
        marks, data = self.source(name), alignment.data
        spoken = SPOKEN.get(name, name)
        numbers = np.zeros(len(self._types), np.int16)
        for kind, number in self._types.items():
            if kind in data.tags.types:
                numbers[number] = data.tags.type_number(kind)
            elif (found := np.flatnonzero(np.frombuffer(marks.type, np.int64) == number)).size:
                place = alignment.where(marks.sentence[int(found[0])])
                problem = unknown_name("entity type", kind, data.tags.types)
                raise DataError(f"{place}: {problem} ({spoken})")
        spans = Spans(
            np.array(marks.sentence, np.int64),
            np.array(marks.start, np.int32),
            np.array(marks.end, np.int32),
            numbers[np.array(marks.type, np.int64)],
        )
        labels, stays = alignment.labels(spans, spoken)
        unseen = np.zeros(len(data), bool)
        unseen[np.array(marks.unseen, np.int64)] = True
        labels[np.repeat(unseen, data.lengths)] = ABSTAIN
        return labels, np.array(marks.score, np.float32)[stays]
