"""All sentences as one looks at them: what everybody says of each, and what is odd about it.

Everything is packed, so that a million sentences can lie on disk and be read page by page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError, UnknownNameError, unknown_name
from convener.evaluate.metrics import span_keys, spans_of
from convener.evaluate.sources import crowd
from convener.packed import Strings, offsets_of
from convener.predictions import Predictions
from convener.report.marks import unmarked
from convener.spans import Spans

LaneKind = Literal["model", "gold", "vote", "source"]
Oddity = Literal["disagreement", "uncertain", "error", "unmarked", "vote", "silent", "models"]
ODDITIES: tuple[Oddity, ...] = get_args(Oddity)
Order = Literal["text", "entropy", "conflict"]
ORDERS: tuple[Order, ...] = get_args(Order)
UNSURE = 0.7
"""A label with less probability makes its sentence uncertain."""
DIGITS = 3
"""Of entropies and scores: what is shown is what is sorted by."""
BLOCK = 1 << 20
"""So many tokens are looked at together."""
_FACTS = "sheet.json"
_COLUMNS = ("bounds", "lane", "start", "end", "type", "score", "entropy", "conflict", "odd")


class Lane(NamedTuple):
    """Somebody who marks spans."""

    kind: LaneKind
    name: str


class Query(NamedTuple):
    """Which sentences to show, in which order."""

    text: str = ""
    odd: str = ""
    """One of `ODDITIES`, or nothing."""
    type: str = ""
    source: str = ""
    order: str = "text"

    def check(self, sheet: Sheet) -> None:
        """Refuse names that are not there."""
        names = [lane.name for lane in sheet.lanes if lane.kind == "source"]
        for what, value, known in (
            ("filter", self.odd, ODDITIES),
            ("type", self.type, sheet.types),
            ("source", self.source, names),
        ):
            if value and value not in known:
                raise UnknownNameError(unknown_name(what, value, known))
        if self.order not in ORDERS:
            raise UnknownNameError(unknown_name("order", self.order, ORDERS))


@dataclass(frozen=True, eq=False, kw_only=True)
class Sheet:
    """Spans of all lanes by sentence, and figures of each sentence.

    types, lanes      names; spans refer to them by number
    tokens, offsets   the text, as in `Dataset`
    bounds (M+1,)     where each sentence's spans begin; lane, start, end, type, score (S,):
                      the spans, lane by lane; score is NaN where there is none
    entropy (M,)      nats, summed over tokens; conflict (M,): tokens on which sources disagree
    odd (M,)          what is odd, one bit for each of `ODDITIES`
    """

    types: tuple[str, ...]
    lanes: tuple[Lane, ...]
    tokens: Strings
    offsets: NDArray[np.int64]
    bounds: NDArray[np.int64]
    lane: NDArray[np.int16]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    type: NDArray[np.int16]
    score: NDArray[np.float32]
    entropy: NDArray[np.float32]
    conflict: NDArray[np.int32]
    odd: NDArray[np.uint8]
    folded: Strings | None = None
    """Sentences in lower case, to search in; made when first needed."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def record(self, number: int) -> dict[str, Any]:
        """One sentence, fit for JSON: t tokens, s spans as [lane, start, end, type, score]."""
        if not 0 <= number < len(self):
            raise UnknownNameError(f"sentence {number} of {len(self)}")
        here = slice(int(self.bounds[number]), int(self.bounds[number + 1]))
        columns = (self.lane, self.start, self.end, self.type, self.score)
        spans = zip(*(column[here].tolist() for column in columns), strict=True)
        words = self.tokens[int(self.offsets[number]) : int(self.offsets[number + 1])]
        return {
            "n": number,
            "t": words.to_list(),
            "s": [
                [lane, start, end, kind, *([] if score != score else [round(score, DIGITS)])]
                for lane, start, end, kind, score in spans
            ],
            "e": round(float(self.entropy[number]), DIGITS),
            "c": int(self.conflict[number]),
            "f": int(self.odd[number]),
        }

    def find(self, query: Query) -> NDArray[np.int64]:
        """Numbers of the sentences asked for, in the order asked for."""
        query.check(self)
        chosen = np.ones(len(self), bool)
        if query.odd:
            chosen &= self._is(query.odd)
        if query.type or query.source:
            chosen &= self._speaking(query.type, query.source)
        if query.text:
            chosen &= self._holding(query.text)
        found = np.flatnonzero(chosen)
        if query.order == "text":
            return found
        figure = self.entropy if query.order == "entropy" else self.conflict
        return found[np.argsort(-figure[found], kind="stable")]

    def counts(self) -> dict[Oddity, int]:
        """How many sentences are odd in each way."""
        return {name: int(np.count_nonzero(self._is(name))) for name in ODDITIES}

    def _is(self, oddity: str) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (self.odd >> ODDITIES.index(oddity)) & 1 > 0
        return found

    def _speaking(self, kind: str, source: str) -> NDArray[np.bool_]:
        """Where somebody marks the type, or the source marks anything; both: the source it."""
        wanted = np.ones(len(self.lane), bool)
        if kind:
            wanted &= self.type == self.types.index(kind)
        if source:
            wanted &= self.lane == self.lanes.index(Lane("source", source))
        found = np.zeros(len(self), bool)
        found[np.searchsorted(self.bounds, np.flatnonzero(wanted), side="right") - 1] = True
        return found

    def _holding(self, text: str) -> NDArray[np.bool_]:
        """Where the text is found, whatever its case."""
        where = self.searched
        wanted = text.replace("\n", " ").lower().encode("utf-8", "surrogatepass")
        # What follows in the sentence is skipped: one find in each is enough.
        found = re.finditer(re.escape(wanted) + rb"[^\n]*", where.data.tobytes())
        starts = np.fromiter((match.start() for match in found), np.int64)
        holds = np.zeros(len(self), bool)
        holds[np.searchsorted(where.offsets, starts, side="right") - 1] = True
        return holds

    @cached_property
    def searched(self) -> Strings:
        """Sentences in lower case, a line each."""
        return folded(self.tokens, self.offsets) if self.folded is None else self.folded

    def save(self, folder: Path) -> None:
        """Write everything into an existing folder."""
        facts = {"types": self.types, "lanes": self.lanes}
        (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
        for name in ("offsets", *_COLUMNS):
            np.save(folder / f"{name}.npy", getattr(self, name))
        for name, strings in (("tokens", self.tokens.compact()), ("folded", self.searched)):
            np.save(folder / f"{name}.data.npy", strings.data)
            np.save(folder / f"{name}.offsets.npy", strings.offsets)

    @classmethod
    def open(cls, folder: Path) -> Sheet:
        """What `save` wrote, read as it is needed."""
        try:
            facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
            strings: dict[str, Any] = {
                name: Strings(_mapped(folder, f"{name}.data"), _mapped(folder, f"{name}.offsets"))
                for name in ("tokens", "folded")
            }
            columns: dict[str, Any] = {
                name: _mapped(folder, name) for name in ("offsets", *_COLUMNS)
            }
            lanes = tuple(Lane(*lane) for lane in facts["lanes"])
            sheet = cls(types=tuple(facts["types"]), lanes=lanes, **strings, **columns)
            sheet._check()
        except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
            raise DataError(f"{folder}: damaged: {error}") from error
        return sheet

    def _check(self) -> None:
        """Refuse parts that do not belong together."""
        held = [len(getattr(self, name)) for name in ("tokens", "searched", *_COLUMNS)]
        sentences, spans = len(self), int(self.bounds[-1])
        wanted = [int(self.offsets[-1]), sentences, sentences + 1, *[spans] * 5, *[sentences] * 3]
        if held != wanted:
            raise ValueError(f"expected parts of {wanted}, got {held}")


def sheet_of(
    data: Dataset, answers: Sequence[Predictions], vote: NDArray[np.int16] | None = None
) -> Sheet:
    """The sheet of a dataset, the answers of one model or of several, and a vote's labels."""
    marks = [spans_of(column, data.offsets, data.tags) for column in data.votes.T]
    found = [answer.spans for answer in answers]
    gold = None if data.gold is None else data.tags.spans(data.gold, data.offsets)
    voted = None if vote is None else data.tags.spans(vote, data.offsets)
    lanes = [(Lane("model", answer.model), answer.spans) for answer in answers]
    lanes += [] if gold is None else [(Lane("gold", "gold"), gold)]
    lanes += [] if voted is None else [(Lane("vote", "majority vote"), voted)]
    lanes += [(Lane("source", name), s) for name, s in zip(data.sources, marks, strict=True)]
    _, conflicted = crowd(data)
    conflict = _summed(conflicted, data.offsets).astype(np.int32)
    entropy, doubts = _doubts(answers[0])
    flags = {
        "disagreement": (conflict > 0) | _crossing(marks, data),
        "uncertain": doubts > 0,
        "error": None if gold is None else _unlike([found[0], gold], len(data)),
        "unmarked": _where(found[0].sentence[unmarked(found[0], data)], len(data)),
        "vote": None if voted is None else _unlike([found[0], voted], len(data)),
        "silent": _summed(np.logical_or.reduce(data.votes > 0, axis=1), data.offsets) == 0,
        "models": _unlike(found, len(data)),
    }
    odd = np.zeros(len(data), np.uint8)
    for bit, name in enumerate(ODDITIES):
        if (where := flags[name]) is not None:
            odd |= where.astype(np.uint8) << np.uint8(bit)
    return Sheet(
        types=data.tags.types,
        lanes=tuple(lane for lane, _ in lanes),
        tokens=data.tokens,
        offsets=data.offsets,
        entropy=np.round(entropy, DIGITS).astype(np.float32),
        conflict=conflict,
        odd=odd,
        **_together([spans for _, spans in lanes], len(data)),
    )


def folded(tokens: Strings, offsets: NDArray[np.int64]) -> Strings:
    r"""Sentences in lower case, words apart by a blank, a line each.

    >>> list(folded(Strings.of(["Ada", "WROTE", "Ö"]), np.array([0, 2, 3])))
    ['ada wrote\n', 'ö\n']
    """
    parts = []
    for first in range(0, len(offsets) - 1, BLOCK):
        bounds = offsets[first : first + BLOCK + 1]
        words = tokens[int(bounds[0]) : int(bounds[-1])].to_list()
        for a, b in pairwise((bounds - bounds[0]).tolist()):
            line = " ".join(words[a:b]).replace("\n", " ").lower() + "\n"
            parts.append(line.encode("utf-8", "surrogatepass"))
    data = np.frombuffer(b"".join(parts), np.uint8)
    return Strings(data, offsets_of(len(part) for part in parts))


def _mapped(folder: Path, name: str) -> NDArray[Any]:
    found: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return found


def _together(lanes: Sequence[Spans], sentences: int) -> dict[str, Any]:
    """Spans of all lanes as columns, sentence by sentence and there lane by lane."""
    lane = np.repeat(np.arange(len(lanes)), [len(spans) for spans in lanes])
    sentence = np.concatenate([spans.sentence for spans in lanes])
    order = np.lexsort((lane, sentence))
    scores = [
        np.full(len(spans), np.nan, np.float32) if spans.score is None else spans.score
        for spans in lanes
    ]
    columns = {
        name: np.concatenate([getattr(spans, name) for spans in lanes])[order]
        for name in ("start", "end", "type")
    }
    return {
        **columns,
        "lane": lane[order].astype(np.int16),
        "score": np.concatenate(scores)[order].astype(np.float32),
        "bounds": np.searchsorted(sentence[order], np.arange(sentences + 1)).astype(np.int64),
    }


def _doubts(answer: Predictions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Entropy and number of unsure labels of each sentence.  -> (M,), (M,)"""
    offsets = answer.data.offsets
    if answer.probabilities is None:
        return np.zeros((2, len(offsets) - 1))[0], np.zeros(len(offsets) - 1)
    entropy, unsure = np.zeros((2, len(answer.labels)))
    for first in range(0, len(entropy), BLOCK):
        here = slice(first, first + BLOCK)
        shares = np.asarray(answer.probabilities[here], np.float64)
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        entropy[here] = -(shares * logs).sum(axis=1)
        unsure[here] = shares[np.arange(len(shares)), answer.labels[here]] < UNSURE
    return _summed(entropy, offsets), _summed(unsure, offsets)


def _summed(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums over the tokens of each sentence.  (N,) -> (M,)"""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    found: NDArray[np.float64] = np.maximum(total[offsets[1:]] - total[offsets[:-1]], 0.0)
    return found


def _unlike(answers: Sequence[Spans], sentences: int) -> NDArray[np.bool_]:
    """Sentences in which not all answers hold the same spans.  -> (M,)"""
    found = np.zeros(sentences, bool)
    keys = span_keys(*answers)
    for spans, key in zip(answers[1:], keys[1:], strict=True):
        found[answers[0].sentence[~np.isin(keys[0], key)]] = True
        found[spans.sentence[~np.isin(key, keys[0])]] = True
    return found


def _where(chosen: NDArray[np.int64], sentences: int) -> NDArray[np.bool_]:
    """A mask of these sentences.  -> (M,)"""
    found = np.zeros(sentences, bool)
    found[chosen] = True
    return found


def _crossing(marks: Sequence[Spans], data: Dataset) -> NDArray[np.bool_]:
    """Sentences in which spans of two sources overlap with different bounds.  -> (M,)"""
    if not marks:
        return np.zeros(len(data), bool)
    sentence, start, end = (
        np.concatenate([getattr(spans, name) for spans in marks]).astype(np.int64)
        for name in ("sentence", "start", "end")
    )
    rows = np.unique(np.stack([sentence, start, end], axis=1), axis=0)
    begins = data.offsets[rows[:, 0]]
    first, last = begins + rows[:, 1], np.maximum.accumulate(begins + rows[:, 2])
    return _where(rows[1:, 0][first[1:] < last[:-1]], len(data))
