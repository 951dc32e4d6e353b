"""What the posterior of the candidates tells: scores of spans, probabilities of labels, reliability of sources."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.ragged import concat_ranges
from convener.models.segment.marks import Ints, Marks, first_of_run
from convener.models.segment.observations import EXACT, Floats, SpanObservations, sum_by

THRESHOLD, CROWD_THRESHOLD = 0.4, 0.2
"""Probability that a span needs to be predicted: half the F1 to expect. That of a crowd is low where each text has few
answers, and where it has many, few spans lie between both values."""


def span_threshold(setting: float | None, outside: NDArray[np.bool_]) -> float:
    """The setting, or its default: it is lower if unmarked tokens of a source are votes for O (outside (K,))."""
    if setting is not None:
        return setting
    return CROWD_THRESHOLD if outside.any() else THRESHOLD


def highest_scores(observed: SpanObservations, error_rate: Floats) -> Floats:
    """Highest probability that is reported for each candidate.  -> (n,)

    Sources that mark only what they know share their errors, so likelihoods that multiply over them are too sure. The
    lone mark of such a source is false with probability error_rate (K,); a span that several mark exactly is presumed
    false with at least the product of theirs. There is no bound where a source marks whose unmarked tokens are votes.
    """
    hits, num_candidates = observed.hits, len(observed.candidates)
    source = observed.marks.source[hits.mark]
    log_error = np.log(np.maximum(error_rate, 1e-6))[source]
    same_type = observed.marks.type[hits.mark] == observed.candidates.type[hits.candidate]
    exact = same_type & (hits.boundary == EXACT)
    supported = np.bincount(hits.candidate, exact, num_candidates) > 0
    from_crowd = np.bincount(hits.candidate, observed.outside[source], num_candidates) > 0
    # Without an exact mark, the best source on the candidate.
    lowest = np.zeros(num_candidates)
    np.minimum.at(lowest, hits.candidate, log_error)
    all_wrong = np.where(supported, sum_by(hits.candidate, exact * log_error, num_candidates), lowest)
    return np.where(from_crowd, 1.0, -np.expm1(all_wrong))


def label_probabilities(observed: SpanObservations, posterior: Floats, data: Dataset) -> NDArray[np.float32]:
    """Marginal probabilities of the labels, from those of the candidates (n,).  -> (N, L)

    Candidates on a token exclude each other, so their probabilities add up; the rest is that of O.
    """
    spans, probabilities = observed.candidates, np.zeros((len(data.tokens), len(data.tags)), np.float32)
    first = data.offsets[spans.sentence] - data.offsets[0] + spans.start
    num_inside = spans.end.astype(np.int64) - spans.start - 1
    np.add.at(probabilities, (first, 2 * spans.type + 1), posterior)
    inside = concat_ranges(first + 1, num_inside), np.repeat(2 * spans.type + 2, num_inside)
    np.add.at(probabilities, inside, np.repeat(posterior, num_inside))
    probabilities[:, 0] = np.maximum(1 - probabilities.sum(axis=1), 0)
    normalized: NDArray[np.float32] = probabilities / probabilities.sum(axis=1, keepdims=True)
    return normalized


def span_reliability(observed: SpanObservations, posterior: Floats, marks: Marks) -> tuple[Floats, Floats]:
    """Expected recall and precision of each source for each type, by span.  -> (K, E), (K, E)

    posterior (n,) of the candidates. A mark is correct if its bounds and type are. `marks` are those of all sources:
    near copies are rated one by one, on what the head of their family looked at. NaN where there is nothing to count.
    """
    num_sources, num_types = observed.num_sources, observed.num_types
    correct = np.append(posterior, 0.0)[_candidate_of_mark(observed, marks)]
    cells = sum_by(marks.source * num_types + marks.type, correct, num_sources * num_types)
    hits, totals = cells.reshape(num_sources, num_types), marks.counts(num_sources, num_types)
    present = observed.present(posterior)[observed.heads]
    with np.errstate(divide="ignore", invalid="ignore"):
        return (
            np.where(present > 0, np.minimum(hits / present, 1), np.nan),
            np.where(totals > 0, np.minimum(hits / totals, 1), np.nan),
        )


def _candidate_of_mark(observed: SpanObservations, marks: Marks) -> Ints:
    """Index of the candidate with the bounds and type of each mark; -1 if there is none.  -> (m,)"""
    candidates = observed.lattice.start, observed.lattice.end, observed.candidates.type.astype(np.int64)
    columns = [np.concatenate(pair) for pair in zip(candidates, (marks.start, marks.end, marks.type), strict=True)]
    # Of equal spans the candidate comes first, since the sort is stable.
    order = np.lexsort((columns[2], columns[1], columns[0]))
    first = first_of_run(*(column[order] for column in columns))
    group = np.empty(len(order), np.int64)
    group[order] = order[first][np.cumsum(first) - 1]
    found = group[len(observed.candidates) :]
    return np.where(found < len(observed.candidates), found, -1)
