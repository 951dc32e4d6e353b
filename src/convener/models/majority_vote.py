"""Majority vote: by token over entity types, by token over labels, or by span."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.config import init_with
from convener.data.alignment import resolve_overlaps
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.data.spans import Spans
from convener.inference import voting
from convener.models.base import LabelModel, ModelConfig
from convener.models.em import labels_from_classes
from convener.models.fitted import Params

DEFAULT_PRECISION = 0.95
"""Assumed precision of a source without a prior precision, if other sources have one."""


@dataclass(frozen=True, kw_only=True)
class MajorityVoteConfig(ModelConfig):
    """Settings of majority vote."""

    scheme: Literal["io", "bio", "span"] = "io"
    """io: vote by entity type at each token; runs of a type are spans. bio: vote by label at each token, then repaired.
    span: the union of all spans, longest first, then leftmost."""
    tie_break: Literal["last", "first", "random"] | None = None
    """Which type or label wins a tie: by default the last in order for tokens, the first for spans. "random" depends
    on seed, position and votes only, so that the labels of a sentence do not depend on other sentences."""


class MajorityVote(LabelModel):
    """The type or label that most sources vote for.

    In the IO scheme a vote for B-x or I-x counts for type x: c(t, x) is the number of such votes at token t, and
    y(t) = argmax_x c(t, x), or O if there are none. Maximal runs of one type are spans. An unmarked token is a vote
    for O only if the source votes O where it marks nothing. Probabilities are shares of the votes.

    >>> data = Dataset.from_spans(
    ...     ["PER", "LOC"],
    ...     [["Paris", "Hilton", "sang"]],
    ...     {"places": [[(0, 1, "LOC")]], "names": [[(0, 2, "PER")]], "shape": [[(0, 2, "PER")]]},
    ... )
    >>> MajorityVote().fit(data).predict(data).tags()
    [['B-PER', 'I-PER', 'O']]
    """

    Config = MajorityVoteConfig
    config: MajorityVoteConfig
    keeps_duplicate_sources = True
    summary = "the label that most sources vote for: by type (IO), by label (BIO) or by span"

    @init_with(MajorityVoteConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """A vote has no parameters."""
        return {}, Diagnostics()

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Vote in the configured scheme."""
        informative, scheme = data.informative_votes(), self.config.scheme
        if scheme == "bio":
            counts = voting.label_counts(data.votes, informative, len(data.tags))
        else:
            counts = voting.type_counts(data.votes, informative, len(data.tags.types))
        vote_shares = _vote_shares(counts)
        if scheme == "span":
            labels = self._union_labels(data)
            return LabelOutput(labels, voting.type_to_label_probabilities(vote_shares, labels))
        return labels_from_classes(self._winning_class(counts, data), vote_shares, data, scheme)

    def _warn_if_worse_than_a_vote(self, train: Dataset, labels: NDArray[np.int16]) -> None:
        """Nothing to compare: this is the vote."""

    def _winning_class(self, counts: NDArray[np.int32], data: Dataset) -> NDArray[np.int64]:
        tie_break = self.config.tie_break or "last"
        if tie_break == "last":
            return voting.argmax_last(counts)
        if tie_break == "first":
            return voting.argmax_first(counts)
        position = np.arange(len(counts)) - np.repeat(data.offsets[:-1], data.lengths)
        return voting.argmax_random(counts, position, self.config.seed)

    def _union_labels(self, data: Dataset) -> NDArray[np.int16]:
        """Labels of the union of all sources' spans, longest first."""
        spans = unique_spans([data.tags.spans(column, data.offsets) for column in data.votes.T], data.offsets)
        preference = spans.type.astype(np.int64)
        if self.config.tie_break == "last":
            preference = -preference
        elif self.config.tie_break == "random":
            preference = voting.hash_ints(preference + spans.start * 64, self.config.seed)
        kept = voting.union_spans(spans.sentence, spans.start, spans.end, preference)
        return data.tags.labels(spans.take(kept), data.offsets)


def baseline_labels(data: Dataset, method: Literal["union", "majority"] | None = None) -> NDArray[np.int16]:
    """Labels of a simple vote: the union of all spans, or majority vote by type.  -> (N,)

    By default the union if all sources have unmarked="abstain", because each of them misses most entities. If the
    precision of a source is known, spans of more precise sources take precedence, and votes are weighted by their odds.
    """
    method = method or ("union" if data.unmarked_is_abstain().all() else "majority")
    if method == "union":
        return union_labels(data)
    return _weighted_majority_labels(data) if any(data.prior_precision) else _majority_labels(data)


def initial_labels(data: Dataset, method: Literal["union", "majority"] | None = None) -> NDArray[np.int16]:
    """Initial labels of other models: `baseline_labels`, with spans split where most sources begin one.  -> (N,)"""
    counts = voting.label_counts(data.votes, data.informative_votes(), len(data.tags))
    return voting.split_where_majority_begins(baseline_labels(data, method), counts)


def union_labels(data: Dataset) -> NDArray[np.int16]:
    """Labels of the union of all sources' spans.

    Of overlapping spans the one of the most precise source is kept, then the longest, then the leftmost, then the one
    whose type has the most votes.
    """
    spans_by_source = [data.tags.spans(column, data.offsets) for column in data.votes.T]
    rows = [np.stack([s.sentence, s.start, s.end, s.type], axis=1) for s in spans_by_source]
    spans = Spans.from_array(np.concatenate(rows).astype(np.int64))
    precision = np.repeat(
        data.prior_precision_or(DEFAULT_PRECISION),
        [len(source_spans) for source_spans in spans_by_source],
    )
    order = np.lexsort((spans.type, -_support(spans, data), spans.start, spans.start - spans.end, -precision))
    kept = resolve_overlaps(spans.sentence, spans.start, spans.end, order) < 0
    return data.tags.labels(spans.take(kept), data.offsets)


def _support(spans: Spans, data: Dataset) -> NDArray[np.int64]:
    """Votes for each span's type on all of its tokens.  -> (S,)"""
    counts = voting.type_counts(data.votes, data.informative_votes(), len(data.tags.types))
    cumulative = np.concatenate([np.zeros_like(counts[:1]), np.cumsum(counts, axis=0, dtype=np.int64)])
    sentence_start, column = data.offsets[spans.sentence], spans.type.astype(np.int64) + 1
    support: NDArray[np.int64] = (
        cumulative[sentence_start + spans.end, column] - cumulative[sentence_start + spans.start, column]
    )
    return support


def _majority_labels(data: Dataset) -> NDArray[np.int16]:
    return MajorityVote(scheme="io")._infer({}, data).labels


def _weighted_majority_labels(data: Dataset) -> NDArray[np.int16]:
    """Majority vote by type, with votes weighted by the odds that they are correct."""
    weights = voting.odds(data.prior_precision_or(DEFAULT_PRECISION))
    counts = voting.weighted_counts((data.votes + 1) // 2, data.informative_votes(), weights, len(data.tags.types) + 1)
    return voting.type_runs_to_bio(voting.argmax_last(counts), data.offsets)


def unique_spans(spans_by_source: list[Spans], offsets: NDArray[np.int64]) -> Spans:
    """The distinct spans of all parts, in the order of the text."""
    position, length, type_id = np.concatenate(
        [np.zeros((3, 0), np.int64)]
        + [np.stack([offsets[s.sentence] + s.start, s.end - s.start, s.type]) for s in spans_by_source],
        axis=1,
    )
    bases = int(length.max(initial=0)) + 1, int(type_id.max(initial=0)) + 1
    keys = np.unique((position * bases[0] + length) * bases[1] + type_id)
    keys, type_id = np.divmod(keys, bases[1])
    position, length = np.divmod(keys, bases[0])
    sentence = np.searchsorted(offsets, position, side="right") - 1
    start = position - offsets[sentence]
    return Spans.from_array(np.stack([sentence, start, start + length, type_id], axis=1))


def _vote_shares(counts: NDArray[np.int32]) -> NDArray[np.float32]:
    """Shares of the votes; all on O at tokens without votes."""
    counts = counts.copy()
    counts[~counts.any(axis=1), 0] = 1
    vote_shares: NDArray[np.float32] = counts / counts.sum(axis=1, keepdims=True, dtype=np.float32)
    return vote_shares
