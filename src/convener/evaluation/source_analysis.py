"""Analysis of the sources: coverage, overlap, conflict, agreement and, with gold, accuracy.

Coverage, overlap and conflict follow Snorkel: shares of all tokens where the source votes, where another source votes
too, and where another source votes differently. Only informative votes count (`Dataset.informative_votes`). They are
compared by entity type: B-x and I-x agree, and a coarse label agrees with every label it allows.

Precision, recall and F1 are entity-level, in conlleval mode. Gold spans in text that a source did not read (it abstains
on their first token) do not count, as for `reliability()`. A span with a coarse label is correct if gold has a span
with the same bounds and a type that the label allows; spans whose label allows O are not scored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convener.data.coarse import OUTSIDE
from convener.data.dataset import Dataset
from convener.data.spans import Spans
from convener.data.tables import PERCENT, Table
from convener.data.validation import Unmarked
from convener.data.votes import find_subset_sources
from convener.errors import UnknownNameError, unknown_name_message
from convener.evaluation.agreement import (
    NO_VOTE,
    Matrix,
    collect_span_units,
    compatible_types,
    conflicting,
    krippendorff_alpha,
    pairwise_span_counts,
    pairwise_token_counts,
    token_vote_types,
)
from convener.evaluation.metrics import Score, labels_to_spans, ratio, score_spans, span_keys

PairwiseMetric = Literal["overlap", "conflict", "agreement", "span_f1", "kappa"]
PAIRWISE_METRICS: tuple[PairwiseMetric, ...] = get_args(PairwiseMetric)
_PAIRWISE_TITLES: dict[str, str] = {
    "overlap": "Overlap: share of tokens where both sources vote",
    "conflict": "Conflict: share of tokens where both sources vote for different types",
    "agreement": "Agreement: share of the overlap where both sources vote for the same type",
    "span_f1": "F1 of the spans of one source against the other, over sentences that both saw",
    "kappa": "Cohen's kappa over the spans that any source marked",
}


@dataclass(frozen=True)
class SourceSummary:
    """Statistics of one source.

    coverage   share of the tokens where it votes
    overlap    share of the tokens where it and another source vote
    conflict   share of the tokens where it and another source vote for different types
    spans      number of spans it marks
    sentences  number of sentences in which it votes
    types      entity types it votes for
    score      score against gold; None without gold, or if every label of the source allows O
    """

    name: str
    unmarked: Unmarked
    coverage: float
    overlap: float
    conflict: float
    spans: int
    sentences: int
    types: tuple[str, ...]
    score: Score | None

    def to_json(self) -> dict[str, Any]:
        """All statistics by name; precision, recall and F1 are null without a score."""
        return {
            "name": self.name,
            "unmarked": self.unmarked,
            "coverage": self.coverage,
            "overlap": self.overlap,
            "conflict": self.conflict,
            "spans": self.spans,
            "sentences": self.sentences,
            "types": list(self.types),
            "precision": self.score and self.score.precision,
            "recall": self.score and self.score.recall,
            "f1": self.score and self.score.f1,
        }


@dataclass(frozen=True, eq=False)
class SourceAnalysis:
    """Statistics of the K sources of a dataset: individually, together and pairwise.

    sources             statistics of each source
    tokens, sentences   size of the dataset
    coverage            share of the tokens with a vote
    overlap             share of the tokens with votes of several sources
    conflict            share of the tokens with votes for different types
    pairwise            (K, K) matrix by metric, NaN where undefined
    krippendorff_alpha  agreement of all sources on spans, see `evaluation.agreement`; None if undefined
    redundant_sources   sources whose votes are nearly all contained in another: (source, other source, share)
    """

    sources: tuple[SourceSummary, ...]
    tokens: int
    sentences: int
    coverage: float
    overlap: float
    conflict: float
    pairwise: dict[PairwiseMetric, Matrix]
    krippendorff_alpha: float | None
    redundant_sources: tuple[tuple[str, str, float], ...] = ()

    def table(self) -> Table:
        """One row per source."""
        has_scores = any(source.score is not None for source in self.sources)
        metrics = ("precision", "recall", "f1") if has_scores else ()
        shares = ("coverage", "overlap", "conflict")
        keys = ("name", "types", "unmarked", "spans", "sentences", *shares, *metrics)
        records = [source.to_json() for source in self.sources]
        return Table(
            title="Sources" + (" (entity-level scores, conlleval mode)" if has_scores else ""),
            columns=keys,
            rows=[[record[key] for key in keys] for record in records],
            formats=dict.fromkeys((*shares, *metrics), PERCENT),
            notes=self._notes(),
        )

    def pairwise_table(self, metric: PairwiseMetric) -> Table:
        """Matrix of a pairwise metric: overlap, conflict, agreement, span_f1 or kappa."""
        if metric not in PAIRWISE_METRICS:
            raise UnknownNameError(unknown_name_message("pairwise metric", str(metric), PAIRWISE_METRICS))
        names = [source.name for source in self.sources]
        rows = zip(names, self.pairwise[metric].tolist(), strict=True)
        return Table(
            title=_PAIRWISE_TITLES[metric],
            columns=("source", *(f"{number}" for number in range(1, len(names) + 1))),
            rows=[(f"{number} {name}", *values) for number, (name, values) in enumerate(rows, start=1)],
            formats=dict.fromkeys(map(str, range(1, len(names) + 1)), ".3f" if metric == "kappa" else PERCENT),
        )

    def to_json(self) -> dict[str, Any]:
        """All statistics as JSON values; shares are in [0, 1]."""
        return {
            "tokens": self.tokens,
            "sentences": self.sentences,
            "coverage": self.coverage,
            "overlap": self.overlap,
            "conflict": self.conflict,
            "krippendorff_alpha": self.krippendorff_alpha,
            "redundant_sources": [list(pair) for pair in self.redundant_sources],
            "sources": [source.to_json() for source in self.sources],
            "pairwise": {metric: _nan_to_none(matrix) for metric, matrix in self.pairwise.items()},
        }

    def __str__(self) -> str:
        return str(self.table())

    def _notes(self) -> list[str]:
        alpha = "-" if self.krippendorff_alpha is None else f"{self.krippendorff_alpha:.3f}"
        redundant_pairs = [f"{name} in {other} ({share:.0%})" for name, other, share in self.redundant_sources]
        redundancy_note = f"redundant sources (votes contained in another): {', '.join(redundant_pairs)}"
        return [
            f"{self.sentences:,} sentences, {self.tokens:,} tokens: coverage {self.coverage:.2%}, "
            f"overlap {self.overlap:.2%}, conflict {self.conflict:.2%}",
            f"Krippendorff's alpha over marked spans: {alpha}",
            *([redundancy_note] if redundant_pairs else []),
        ]


def analyze(data: Dataset) -> SourceAnalysis:
    """Coverage, overlap, conflict, agreement and, with gold, precision, recall and F1 of every source.

    >>> data = Dataset.from_spans(
    ...     ["PER", "LOC"],
    ...     [["Paris", "met", "Ada", "Lovelace"]],
    ...     {"names": [[(0, 1, "PER"), (2, 4, "PER")]], "places": [[(0, 1, "LOC")]]},
    ... )
    >>> names, places = analyze(data).sources
    >>> names.coverage, names.overlap, names.conflict, places.types
    (0.75, 0.25, 0.25, ('LOC',))
    """
    num_tokens = len(data.tokens)
    vote_types = token_vote_types(data)
    compatible = compatible_types(data)
    vote_counts, conflicted = vote_counts_and_conflicts(data, vote_types)
    overlap, conflict = pairwise_token_counts(vote_types, compatible)
    source_spans = [labels_to_spans(column, data.offsets, data.tags) for column in data.votes.T]
    span_units = collect_span_units(data, source_spans)
    pair_counts = pairwise_span_counts(span_units)
    agreement = np.full(overlap.shape, np.nan)
    np.divide(overlap - conflict, overlap, out=agreement, where=overlap > 0)
    return SourceAnalysis(
        sources=_summarize_sources(data, vote_types, source_spans, vote_counts, conflicted),
        tokens=num_tokens,
        sentences=len(data),
        coverage=ratio(np.count_nonzero(vote_counts), num_tokens),
        overlap=ratio(np.count_nonzero(vote_counts > 1), num_tokens),
        conflict=ratio(np.count_nonzero(conflicted), num_tokens),
        pairwise={
            "overlap": overlap / max(num_tokens, 1),
            "conflict": conflict / max(num_tokens, 1),
            "agreement": agreement,
            "span_f1": pair_counts.span_f1(),
            "kappa": pair_counts.kappa(),
        },
        krippendorff_alpha=krippendorff_alpha(span_units),
        redundant_sources=tuple(
            (data.sources[source], data.sources[other], share)
            for source, other, share in find_subset_sources(data.votes)
        ),
    )


def vote_counts_and_conflicts(
    data: Dataset, vote_types: NDArray[np.int16] | None = None
) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """Number of sources that vote at each token, and where two of them conflict.  -> (N,), (N,)

    vote_types (K, N): result of `token_vote_types`, if already computed.
    """
    vote_types = token_vote_types(data) if vote_types is None else vote_types
    compatible, num_tokens = compatible_types(data), vote_types.shape[1]
    vote_counts = np.zeros(num_tokens, np.int16)
    conflicted = np.zeros(num_tokens, bool)
    first_vote = np.full(num_tokens, NO_VOTE, np.int16)
    for number, column in enumerate(vote_types):
        voted = column != NO_VOTE
        # Fine types equal to the first are equal to each other; coarse types may still conflict.
        for other in [first_vote] if compatible is None else vote_types[:number]:
            conflicted |= voted & (other != NO_VOTE) & conflicting(column, other, compatible)
        np.copyto(first_vote, column, where=voted & (vote_counts == 0))
        vote_counts += voted
    return vote_counts, conflicted


def _summarize_sources(
    data: Dataset,
    vote_types: NDArray[np.int16],
    source_spans: list[Spans],
    vote_counts: NDArray[np.int16],
    conflicted: NDArray[np.bool_],
) -> tuple[SourceSummary, ...]:
    num_tokens, types = len(data.tokens), data.tags.types
    gold = None if data.gold is None else labels_to_spans(data.gold, data.offsets, data.tags)
    overlapping = vote_counts > 1
    sentence_of_token = data.sentence_of_token()
    result = []
    for number, name in enumerate(data.sources):
        voted_tokens = np.flatnonzero(vote_types[number] != NO_VOTE)
        spans = source_spans[number]
        type_ids = np.flatnonzero(np.bincount(spans.type, minlength=len(types))).tolist()
        result.append(
            SourceSummary(
                name=name,
                unmarked=data.unmarked[number],
                coverage=ratio(len(voted_tokens), num_tokens),
                overlap=ratio(np.count_nonzero(overlapping[voted_tokens]), num_tokens),
                conflict=ratio(np.count_nonzero(conflicted[voted_tokens]), num_tokens),
                spans=len(spans),
                sentences=int(np.count_nonzero(np.diff(sentence_of_token[voted_tokens]))) + bool(len(voted_tokens)),
                types=tuple(types[type_id] for type_id in type_ids),
                score=None if gold is None else _source_score(spans, _spans_read(gold, data, number), data),
            )
        )
    return tuple(result)


def _spans_read(gold: Spans, data: Dataset, source: int) -> Spans:
    """The gold spans in text that a source read: it votes on their first token."""
    return gold.take(data.votes[data.offsets[gold.sentence] + gold.start, source] >= 0)


def _source_score(spans: Spans, gold: Spans, data: Dataset) -> Score | None:
    """Score of the spans of a source; None if every span has a label that allows O."""
    allows_outside = np.array([OUTSIDE in data.coarse.get(name, ()) for name in data.tags.types])
    scorable = spans.take(~allows_outside[spans.type])
    if len(spans) and not len(scorable):
        return None
    types, type_ids = data.tags.types, scorable.type.copy()
    keys, gold_keys = span_keys(scorable, gold, typed=False)
    gold_types = dict(zip(gold_keys.tolist(), gold.type.tolist(), strict=True))
    for number in np.flatnonzero(type_ids >= len(types) - len(data.coarse)).tolist():
        gold_type = gold_types.get(int(keys[number]))
        if gold_type is not None and types[gold_type] in data.coarse[types[type_ids[number]]]:
            type_ids[number] = gold_type
    return score_spans(replace(scorable, type=type_ids), gold, types).micro


def _nan_to_none(matrix: Matrix) -> list[list[float | None]]:
    """Nested lists with None instead of NaN."""
    return [[None if value != value else value for value in row] for row in matrix.tolist()]
