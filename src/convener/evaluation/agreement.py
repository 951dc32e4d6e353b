"""Agreement of sources: pairwise counts, Cohen's kappa and Krippendorff's alpha.

Tokens. A vote counts if it is informative (`Dataset.informative_votes`). Votes are compared by entity type or O: B-x
and I-x are equal. Two sources overlap at a token if the votes of both count, and conflict if their types differ. A
coarse label conflicts with another label only if no fine label is allowed by both.

Spans. The units of kappa and alpha are the distinct (sentence, start, end) that any source marked. The category a
source assigns to a unit is the type if it marked exactly this span, else "none"; a coarse label is a category of its
own. The category is missing if the source abstained on the complete sentence. Units that no source marked cannot be
listed, so "none" is rarer than in the text, and both coefficients are biased downwards.

No array is larger than tokens x sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.spans import Spans
from convener.data.tags import ABSTAIN
from convener.evaluation.metrics import span_keys

NO_VOTE = -1
"""Vote type of a source without an informative vote at a token."""
Matrix = NDArray[np.float64]


def token_vote_types(data: Dataset) -> NDArray[np.int16]:
    """Type each source votes for at each token: 0 for O, 1 + type index, or NO_VOTE.  -> (K, N)"""
    vote_types = ((data.votes.T + np.int16(1)) // np.int16(2)).astype(np.int16, order="C")
    vote_types[~data.informative_votes().T] = NO_VOTE
    return vote_types


def compatible_types(data: Dataset) -> NDArray[np.bool_] | None:
    """Which vote types allow a common fine label, numbered as in `token_vote_types`.  -> (1+E, 1+E)

    None if no label is coarse: then only equal types are compatible.
    """
    if not data.coarse:
        return None
    allowed = data.allowed_labels()
    allowed = np.concatenate([allowed[:1], allowed[1::2] | allowed[2::2]]).astype(np.int64)
    compatible: NDArray[np.bool_] = allowed @ allowed.T > 0
    return compatible


def conflicting(
    left: NDArray[np.int16], right: NDArray[np.int16], compatible: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Where two vote types conflict.  left, right (N,), compatible as from `compatible_types` -> (N,)"""
    return left != right if compatible is None else ~compatible[left, right]


def pairwise_token_counts(
    vote_types: NDArray[np.int16], compatible: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of tokens where two sources overlap and where they conflict.

    vote_types (K, N), compatible as from `compatible_types` -> (K, K), (K, K)
    """
    num_sources = len(vote_types)
    overlap = np.zeros((num_sources, num_sources), np.int64)
    conflict = np.zeros((num_sources, num_sources), np.int64)
    for i in range(num_sources):
        voted = np.flatnonzero(vote_types[i] != NO_VOTE)
        own = vote_types[i][voted]
        overlap[i, i] = len(voted)
        for j in range(i + 1, num_sources):
            other = vote_types[j][voted]
            shared = other != NO_VOTE
            overlap[i, j] = overlap[j, i] = np.count_nonzero(shared)
            conflict[i, j] = conflict[j, i] = np.count_nonzero(shared & conflicting(other, own, compatible))
    return overlap, conflict


@dataclass(frozen=True, eq=False)
class SpanUnits:
    """Distinct spans that any source marked (units), and the sources that marked them.

    sentence     (U,) sentence of each unit
    seen         (K, M) False if a source abstained on the complete sentence
    annotations  per source: indices of the units it marked, ascending, and the type of each
    """

    sentence: NDArray[np.int64]
    seen: NDArray[np.bool_]
    annotations: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    num_types: int


def collect_span_units(data: Dataset, spans: Sequence[Spans]) -> SpanUnits:
    """Units of the spans of all sources, in text order."""
    keys = span_keys(*spans, typed=False)
    all_keys = np.concatenate([np.zeros(0, np.int64), *keys])
    _, first, unit_index = np.unique(all_keys, return_index=True, return_inverse=True)
    sentences = np.concatenate([np.zeros(0, np.int64), *(part.sentence for part in spans)])
    units_by_source = np.split(unit_index.reshape(-1), np.cumsum([len(part) for part in spans])[:-1])
    seen = np.ones((len(data.sources), len(data)), bool)
    sentence_of_token = data.sentence_of_token()
    for source, column in enumerate(data.votes.T):
        if (column == ABSTAIN).any():
            seen[source] = False
            seen[source, sentence_of_token[column != ABSTAIN]] = True
    annotations = [(numbers, part.type.astype(np.int64)) for numbers, part in zip(units_by_source, spans, strict=False)]
    return SpanUnits(sentences[first], seen, annotations, len(data.tags.types))


@dataclass(frozen=True, eq=False)
class PairwiseSpanCounts:
    """Pairwise counts over the units of sentences that both sources saw.

    shared_units  (K, K) number of units
    type_counts   (K, K, E) units per type that the first source marked
    same_type     (K, K) units that both sources marked with the same type
    both_marked   (K, K) units that both sources marked
    """

    shared_units: NDArray[np.int64]
    type_counts: NDArray[np.int64]
    same_type: NDArray[np.int64]
    both_marked: NDArray[np.int64]

    def span_f1(self) -> Matrix:
        """F1 of the spans of one source against those of another; NaN if both marked none."""
        span_counts = self.type_counts.sum(axis=2)
        return _safe_divide((2 * self.same_type).astype(np.float64), span_counts + span_counts.T)

    def kappa(self) -> Matrix:
        """Cohen's kappa; NaN if the expected agreement is 1."""
        span_counts = self.type_counts.sum(axis=2)
        neither = self.shared_units - span_counts - span_counts.T + self.both_marked
        total = self.shared_units.astype(np.float64)
        observed = _safe_divide((self.same_type + neither).astype(np.float64), total)
        by_type = np.einsum("ijt,jit->ij", self.type_counts.astype(np.float64), self.type_counts)
        by_none = (total - span_counts) * (total - span_counts.T)
        expected = _safe_divide(by_type + by_none, total * total)
        return _safe_divide(observed - expected, 1 - expected)


def pairwise_span_counts(span_units: SpanUnits) -> PairwiseSpanCounts:
    """Count units for every pair of sources."""
    num_sources, num_units = len(span_units.annotations), len(span_units.sentence)
    units_per_sentence = np.bincount(span_units.sentence, minlength=span_units.seen.shape[1])
    shared_units, same_type, both_marked = (np.zeros((num_sources, num_sources), np.int64) for _ in range(3))
    type_counts = np.zeros((num_sources, num_sources, span_units.num_types), np.int64)
    type_of_unit = np.full(num_units, -1, np.int64)  # type that source j assigns to each unit
    for j in range(num_sources):
        type_of_unit[span_units.annotations[j][0]] = span_units.annotations[j][1]
        seen = span_units.seen[j]
        for i in range(num_sources):
            unit_ids, type_ids = span_units.annotations[i]
            visible = seen[span_units.sentence[unit_ids]]
            type_counts[i, j] = np.bincount(type_ids[visible], minlength=span_units.num_types)
            other_type = type_of_unit[unit_ids]
            same_type[i, j] = np.count_nonzero(other_type == type_ids)
            both_marked[i, j] = np.count_nonzero(other_type >= 0)
            shared_units[i, j] = units_per_sentence[seen & span_units.seen[i]].sum()
        type_of_unit[span_units.annotations[j][0]] = -1
    return PairwiseSpanCounts(shared_units, type_counts, same_type, both_marked)


def krippendorff_alpha(span_units: SpanUnits) -> float | None:
    """Krippendorff's alpha for nominal categories with missing values; None if no disagreement is expected.

    alpha = 1 - D_observed / D_expected over the units that at least two sources saw. If m sources saw a unit and n_c
    of them chose category c, the unit adds (m^2 - sum_c n_c^2) / (m - 1) to D_observed. D_expected follows from the
    totals of the categories over all units.
    """
    num_units, num_types = len(span_units.sentence), span_units.num_types
    num_raters = span_units.seen.sum(axis=0, dtype=np.int64)[span_units.sentence]
    pairable = num_raters > 1
    codes = [unit_ids * num_types + type_ids for unit_ids, type_ids in span_units.annotations]
    cells, counts = np.unique(np.concatenate([np.zeros(0, np.int64), *codes]), return_counts=True)
    unit, type_index = cells // max(num_types, 1), cells % max(num_types, 1)
    none_counts = num_raters - np.bincount(unit, weights=counts, minlength=num_units).astype(np.int64)
    squares = np.bincount(unit, weights=counts**2, minlength=num_units) + none_counts**2
    by_type = np.bincount(type_index, weights=counts * pairable[unit], minlength=num_types)
    totals = np.append(by_type, none_counts[pairable].sum())
    total = totals.sum()
    expected = total**2 - (totals**2).sum()
    if expected == 0:
        return None
    pairable_raters = num_raters[pairable]
    observed = ((pairable_raters**2 - squares[pairable]) / (pairable_raters - 1)).sum()
    return float(1 - (total - 1) * observed / expected)


def _safe_divide(numerator: Matrix, denominator: NDArray[np.float64] | NDArray[np.int64]) -> Matrix:
    """Element-wise quotient; NaN where the denominator is 0."""
    result = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) != 0)
    return result
