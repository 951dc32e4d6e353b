"""Majority vote: by token over entity types, by token over labels, or by span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.kernels import vote
from convener.kernels.overlap import rivals
from convener.models.base import Inference, LabelModel, ModelConfig, Params
from convener.spans import Spans
from convener.train.tokens import labelled

USUAL = 0.95
"""Precision of a source of which nobody says it, beside others of which it is known."""


@dataclass(frozen=True, kw_only=True)
class MajorityVoteConfig(ModelConfig):
    """Settings of majority vote."""

    scheme: Literal["io", "bio", "span"] = "io"
    """io: each token by entity type, runs are spans. bio: each token by label, then repaired.
    span: the union of all spans, longest first, then leftmost."""
    ties: Literal["last", "first", "random"] | None = None
    """Which type or label wins a tie. By default the last in order for tokens, the first for
    spans. Random depends on seed, place and votes only, so a sentence is judged alone."""


class MajorityVote(LabelModel):
    """What most sources say.

    In the IO scheme every vote for an entity counts for its type, c(t, x) = number of sources
    whose vote at t is B-x or I-x; y(t) = argmax_x c(t, x), O where nobody votes; maximal runs of
    one type are spans. O votes only for sources whose silence is "abstain": for the others it is
    the absence of an opinion. Probabilities are shares of the votes.

    >>> data = Dataset.from_spans(
    ...     ["PER", "LOC"],
    ...     [["Paris", "Hilton", "sang"]],
    ...     {"places": [[(0, 1, "LOC")]], "names": [[(0, 2, "PER")]], "shape": [[(0, 2, "PER")]]},
    ... )
    >>> MajorityVote().fit(data).predict(data).tags()
    [['B-PER', 'I-PER', 'O']]
    """

    Config = MajorityVoteConfig
    counts_repeats = True
    summary = "what most sources say; in the IO scheme, in BIO, or by span"

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """Nothing to learn."""
        return {}

    def infer(self, params: Params, data: Dataset) -> Inference:
        """Vote in the chosen scheme."""
        opinions, scheme = data.opinions(), self.config.scheme
        if scheme == "bio":
            counts = vote.label_counts(data.votes, opinions, len(data.tags))
        else:
            counts = vote.type_counts(data.votes, opinions, len(data.tags.types))
        shares = _shares(counts)
        if scheme == "span":
            labels = self._union(data)
            return Inference(labels, vote.label_probabilities(shares, labels))
        return Inference(*labelled(self._winner(counts, data), shares, data, scheme))

    def _winner(self, counts: NDArray[np.int32], data: Dataset) -> NDArray[np.int64]:
        ties = self.config.ties or "last"
        if ties == "last":
            return vote.last_of_best(counts)
        if ties == "first":
            return vote.first_of_best(counts)
        place = np.arange(len(counts)) - np.repeat(data.offsets[:-1], data.lengths)
        return vote.any_of_best(counts, place, self.config.seed)

    def _union(self, data: Dataset) -> NDArray[np.int16]:
        """Labels of the union of all sources' spans, longest first."""
        spans = distinct(
            [data.tags.spans(column, data.offsets) for column in data.votes.T], data.offsets
        )
        preference = spans.type.astype(np.int64)
        if self.config.ties == "last":
            preference = -preference
        elif self.config.ties == "random":
            preference = vote.scrambled(preference + spans.start * 64, self.config.seed)
        stays = vote.span_union(spans.sentence, spans.start, spans.end, preference)
        return data.tags.labels(spans.take(stays), data.offsets)


def simple_labels(
    data: Dataset, kind: Literal["union", "majority"] | None = None
) -> NDArray[np.int16]:
    """Labels for other models to start from: the union of all spans, or majority vote by type.

    By default the union where every source's silence is O: each of them misses most. Where the
    precision of a source is known, spans of the more precise ones come first, and its vote counts
    by its odds.
    """
    kind = kind or ("union" if set(data.silence) <= {"O"} else "majority")
    if kind == "union":
        return _union(data)
    return _precise_majority(data) if any(data.precision) else _majority(data)


def start_labels(
    data: Dataset, kind: Literal["union", "majority"] | None = None
) -> NDArray[np.int16]:
    """Simple labels, with spans that begin where most sources begin one."""
    counts = vote.label_counts(data.votes, data.opinions(), len(data.tags))
    return vote.majority_begins(simple_labels(data, kind), counts)


def _union(data: Dataset) -> NDArray[np.int16]:
    """Labels of the union of all sources' spans.

    The most precise first, then the longest, the leftmost, and the type that most sources name.
    """
    parts = [data.tags.spans(column, data.offsets) for column in data.votes.T]
    rows = [np.stack([s.sentence, s.start, s.end, s.type], axis=1) for s in parts]
    spans = Spans.of_columns(np.concatenate(rows).astype(np.int64))
    trust = np.repeat(data.presumed(USUAL), [len(part) for part in parts])
    order = np.lexsort(
        (spans.type, -_support(spans, data), spans.start, spans.start - spans.end, -trust)
    )
    stays = rivals(spans.sentence, spans.start, spans.end, order) < 0
    return data.tags.labels(spans.take(stays), data.offsets)


def _support(spans: Spans, data: Dataset) -> NDArray[np.int64]:
    """Votes for each span's type on all of its tokens.  -> (S,)"""
    counts = vote.type_counts(data.votes, data.opinions(), len(data.tags.types))
    before = np.concatenate([np.zeros_like(counts[:1]), np.cumsum(counts, axis=0, dtype=np.int64)])
    begins, kind = data.offsets[spans.sentence], spans.type.astype(np.int64) + 1
    found: NDArray[np.int64] = before[begins + spans.end, kind] - before[begins + spans.start, kind]
    return found


def _majority(data: Dataset) -> NDArray[np.int16]:
    return MajorityVote(scheme="io").infer({}, data).labels


def _precise_majority(data: Dataset) -> NDArray[np.int16]:
    """Majority vote by type, each vote weighed by the odds that it is right."""
    weights = vote.odds(data.presumed(USUAL))
    counts = vote.weighed_counts(
        (data.votes + 1) // 2, data.opinions(), weights, len(data.tags.types) + 1
    )
    return vote.runs(vote.last_of_best(counts), data.offsets)


def distinct(parts: list[Spans], offsets: NDArray[np.int64]) -> Spans:
    """Every span that occurs in any part, once, in the order of the text."""
    at, length, kind = np.concatenate(
        [np.zeros((3, 0), np.int64)]
        + [np.stack([offsets[s.sentence] + s.start, s.end - s.start, s.type]) for s in parts],
        axis=1,
    )
    widths = int(length.max(initial=0)) + 1, int(kind.max(initial=0)) + 1
    keys = np.unique((at * widths[0] + length) * widths[1] + kind)
    keys, kind = np.divmod(keys, widths[1])
    at, length = np.divmod(keys, widths[0])
    sentence = np.searchsorted(offsets, at, side="right") - 1
    start = at - offsets[sentence]
    return Spans.of_columns(np.stack([sentence, start, start + length, kind], axis=1))


def _shares(counts: NDArray[np.int32]) -> NDArray[np.float32]:
    """Shares of the votes; all on O where nobody voted."""
    counts = counts.copy()
    counts[~counts.any(axis=1), 0] = 1
    shares: NDArray[np.float32] = counts / counts.sum(axis=1, keepdims=True, dtype=np.float32)
    return shares
