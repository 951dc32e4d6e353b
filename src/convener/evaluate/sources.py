"""Analysis of the sources: what they cover, where they meet, and how good they are.

Coverage, overlap and conflict follow Snorkel: shares of all tokens where the source votes, where
another source votes too, and where another source votes differently. A vote here is an opinion
(`Dataset.opinions`: an O that is mere silence does not count), and votes are compared by entity
type: B-x and I-x agree, and coarse labels agree with what they allow. Precision, recall and F1 are
entity-level and lenient; a sentence on which a source abstained counts against its recall. A span
with a coarse label is right where gold has one there of a type it allows; what may be O is no span.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convener.coarse import OUTSIDE
from convener.data import ABSTAIN, Dataset, Silence
from convener.errors import UnknownNameError, unknown_name
from convener.evaluate.agreement import (
    NO_OPINION,
    Matrix,
    differ,
    in_common,
    krippendorff_alpha,
    opinion_kinds,
    span_pairs,
    token_pairs,
    units,
)
from convener.evaluate.metrics import (
    Score,
    ratio,
    score_labels,
    score_spans,
    span_keys,
    spans_of,
)
from convener.kernels.repeats import within
from convener.spans import Spans
from convener.tables import PERCENT, Table

PairKind = Literal["overlap", "conflict", "agreement", "span_f1", "kappa"]
PAIR_KINDS: tuple[PairKind, ...] = get_args(PairKind)
_PAIR_TITLES: dict[str, str] = {
    "overlap": "Overlap: share of tokens where both have an opinion",
    "conflict": "Conflict: share of tokens where both have an opinion and the types differ",
    "agreement": "Agreement: share of the tokens where both have an opinion that are alike",
    "span_f1": "Span F1 of one source against the other, over sentences both saw",
    "kappa": "Cohen's kappa over the spans any source marked",
}


@dataclass(frozen=True)
class SourceSummary:
    """What one source does.

    coverage, overlap, conflict  shares of all tokens
    spans, sentences             spans it marks; sentences in which it has an opinion
    types                        its polarity: the entity types it says
    score                        against gold, None without gold
    """

    name: str
    silence: Silence
    coverage: float
    overlap: float
    conflict: float
    spans: int
    sentences: int
    types: tuple[str, ...]
    score: Score | None

    def to_json(self) -> dict[str, Any]:
        """All figures by name; precision, recall and F1 are null without gold."""
        return {
            "name": self.name,
            "silence": self.silence,
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
class Analysis:
    """What the sources of a dataset do, one by one, together and pairwise.

    coverage, overlap, conflict: shares of tokens with an opinion, with more than one, with opinions
    of different types. pairwise: by kind a (K, K) matrix, NaN where undefined. alpha:
    Krippendorff's, None where undefined. Units of kappa and alpha: see `evaluate.agreement`.
    """

    sources: tuple[SourceSummary, ...]
    tokens: int
    sentences: int
    coverage: float
    overlap: float
    conflict: float
    pairwise: dict[PairKind, Matrix]
    alpha: float | None
    within: tuple[tuple[str, str, float], ...] = ()
    """Sources whose marks nearly all are another's, too: (source, the other, share)."""

    def table(self) -> Table:
        """One row per source."""
        scored = any(source.score is not None for source in self.sources)
        figures = ("precision", "recall", "f1") if scored else ()
        keys = ("name", "types", "spans", "sentences", "coverage", "overlap", "conflict", *figures)
        records = [source.to_json() for source in self.sources]
        shares = (*keys[4:7], *figures)
        return Table(
            title="Sources" + (" (entity-level scores, lenient)" if scored else ""),
            columns=keys,
            rows=[[record[key] for key in keys] for record in records],
            formats=dict.fromkeys(shares, PERCENT),
            notes=self._notes(),
        )

    def pairwise_table(self, kind: PairKind) -> Table:
        """Sources against sources; kinds: overlap, conflict, agreement, span_f1, kappa."""
        if kind not in PAIR_KINDS:
            raise UnknownNameError(unknown_name("pairwise figure", str(kind), PAIR_KINDS))
        names = [source.name for source in self.sources]
        rows = zip(names, self.pairwise[kind].tolist(), strict=True)
        return Table(
            title=_PAIR_TITLES[kind],
            columns=("source", *(f"{number}" for number in range(1, len(names) + 1))),
            rows=[
                (f"{number} {name}", *values) for number, (name, values) in enumerate(rows, start=1)
            ],
            formats=dict.fromkeys(
                map(str, range(1, len(names) + 1)), ".3f" if kind == "kappa" else PERCENT
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain values; shares are 0 to 1."""
        return {
            "tokens": self.tokens,
            "sentences": self.sentences,
            "coverage": self.coverage,
            "overlap": self.overlap,
            "conflict": self.conflict,
            "alpha": self.alpha,
            "within": [list(pair) for pair in self.within],
            "sources": [source.to_json() for source in self.sources],
            "pairwise": {kind: _nulls(matrix) for kind, matrix in self.pairwise.items()},
        }

    def __str__(self) -> str:
        return str(self.table())

    def _notes(self) -> list[str]:
        alpha = "-" if self.alpha is None else f"{self.alpha:.3f}"
        inside = [f"{name} in {other} ({share:.0%})" for name, other, share in self.within]
        said = f"no second opinion, for their marks are another's: {', '.join(inside)}"
        return [
            f"{self.sentences:,} sentences, {self.tokens:,} tokens: {self.coverage:.2%} with an "
            f"opinion, {self.overlap:.2%} with several, {self.conflict:.2%} in conflict",
            f"Krippendorff's alpha over marked spans: {alpha}",
            *([said] if inside else []),
        ]


def analyze(data: Dataset) -> Analysis:
    """Coverage, conflicts, agreement and, where there is gold, quality of every source.

    >>> data = Dataset.from_spans(
    ...     ["PER", "LOC"],
    ...     [["Paris", "met", "Ada", "Lovelace"]],
    ...     {"names": [[(0, 1, "PER"), (2, 4, "PER")]], "places": [[(0, 1, "LOC")]]},
    ... )
    >>> names, places = analyze(data).sources
    >>> names.coverage, names.overlap, names.conflict, places.types
    (0.75, 0.25, 0.25, ('LOC',))
    """
    tokens = len(data.tokens)
    kinds = opinion_kinds(data)
    common = in_common(data)
    voters, conflicted = crowd(data, kinds)
    overlap, conflict = token_pairs(kinds, common)
    marks = [spans_of(column, data.offsets, data.tags) for column in data.votes.T]
    table = units(data, marks)
    pairs = span_pairs(table)
    agreement = np.full(overlap.shape, np.nan)
    np.divide(overlap - conflict, overlap, out=agreement, where=overlap > 0)
    return Analysis(
        sources=_summaries(data, kinds, marks, voters, conflicted),
        tokens=tokens,
        sentences=len(data),
        coverage=ratio(np.count_nonzero(voters), tokens),
        overlap=ratio(np.count_nonzero(voters > 1), tokens),
        conflict=ratio(np.count_nonzero(conflicted), tokens),
        pairwise={
            "overlap": overlap / max(tokens, 1),
            "conflict": conflict / max(tokens, 1),
            "agreement": agreement,
            "span_f1": pairs.span_f1(),
            "kappa": pairs.kappa(),
        },
        alpha=krippendorff_alpha(table),
        within=tuple(
            (data.sources[source], data.sources[other], share)
            for source, other, share in within(data.votes)
        ),
    )


def crowd(
    data: Dataset, kinds: NDArray[np.int16] | None = None
) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """How many sources have an opinion on each token, and where two conflict.  -> (N,), (N,)

    kinds (K, N): the opinions, where they are known already.
    """
    kinds = opinion_kinds(data) if kinds is None else kinds
    common, size = in_common(data), kinds.shape[1]
    voters = np.zeros(size, np.int16)
    conflicted = np.zeros(size, bool)
    first = np.full(size, NO_OPINION, np.int16)
    for number, column in enumerate(kinds):
        said = column != NO_OPINION
        # Fine opinions that agree with the first agree with each other; coarse ones may not.
        for other in [first] if common is None else kinds[:number]:
            conflicted |= said & (other != NO_OPINION) & differ(column, other, common)
        np.copyto(first, column, where=said & (voters == 0))
        voters += said
    return voters, conflicted


def _summaries(
    data: Dataset,
    kinds: NDArray[np.int16],
    marks: list[Spans],
    voters: NDArray[np.int16],
    conflicted: NDArray[np.bool_],
) -> tuple[SourceSummary, ...]:
    tokens, types = len(data.tokens), data.tags.types
    gold = None if data.gold is None else spans_of(data.gold, data.offsets, data.tags)
    met = voters > 1
    of_token = data.sentence_of_token()
    result = []
    for number, name in enumerate(data.sources):
        where = np.flatnonzero(kinds[number] != NO_OPINION)
        spans = marks[number]
        used = np.flatnonzero(np.bincount(spans.type, minlength=len(types))).tolist()
        result.append(
            SourceSummary(
                name=name,
                silence=data.silence[number],
                coverage=ratio(len(where), tokens),
                overlap=ratio(np.count_nonzero(met[where]), tokens),
                conflict=ratio(np.count_nonzero(conflicted[where]), tokens),
                spans=len(spans),
                sentences=int(np.count_nonzero(np.diff(of_token[where]))) + bool(len(where)),
                types=tuple(types[kind] for kind in used),
                score=None if gold is None else _scored(spans, gold, data),
            )
        )
    return tuple(result)


def _scored(spans: Spans, gold: Spans, data: Dataset) -> Score | None:
    """The score of a source; None where all that it says may be no entity."""
    outside = np.array([OUTSIDE in data.coarse.get(name, ()) for name in data.tags.types])
    left = spans.take(~outside[spans.type])
    if len(spans) and not len(left):
        return None
    types, kinds = data.tags.types, left.type.copy()
    keys, true = span_keys(left, gold, typed=False)
    known = dict(zip(true.tolist(), gold.type.tolist(), strict=True))
    for number in np.flatnonzero(kinds >= len(types) - len(data.coarse)).tolist():
        kind = known.get(int(keys[number]))
        if kind is not None and types[kind] in data.coarse[types[kinds[number]]]:
            kinds[number] = kind
    return score_spans(replace(left, type=kinds), gold, types).micro


def _nulls(matrix: Matrix) -> list[list[float | None]]:
    """Nested lists with null where a figure is undefined."""
    return [[None if value != value else value for value in row] for row in matrix.tolist()]


def f1_of_sources(data: Dataset, truth: NDArray[np.int16]) -> NDArray[np.float64]:
    """F1 of every source's spans for every type where these labels are true.  -> (K, E)

    Where a source abstains, or gives a coarse label, does not count for it; NaN where it gives
    coarse labels alone.

    >>> data = Dataset.from_spans(
    ...     ["X"], [["a", "b"], ["c"]], {"s": [[(0, 1, "X")], None], "t": [[], [(0, 1, "X")]]}
    ... )
    >>> f1_of_sources(data, np.array([1, 0, 1], np.int16)).round(2).tolist()
    [[1.0], [0.67]]
    """
    rows, fine = [], data.fine()
    for votes in fine.votes.T:
        heard = votes != ABSTAIN
        score = score_labels(votes * heard, truth * heard, data.offsets, fine.tags)
        rows.append([kind.f1 for kind in score.per_type.values()])
    found = np.array(rows, np.float64).reshape(len(data.sources), len(fine.tags.types))
    found[only_coarse(data)] = np.nan
    return found


def only_coarse(data: Dataset) -> NDArray[np.bool_]:
    """Sources that give coarse labels and no others.  -> (K,)"""
    size = len(data.fine_tags)
    coarse = np.logical_or.reduce(data.votes >= size, axis=0)
    fine = np.logical_or.reduce((data.votes > 0) & (data.votes < size), axis=0)
    found: NDArray[np.bool_] = coarse & ~fine
    return found
