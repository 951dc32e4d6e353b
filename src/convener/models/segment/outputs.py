"""Outputs of the segment model: decision threshold, upper bounds of reported scores, label probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.ragged import concat_ranges
from convener.models.segment.observations import EXACT, Floats, SpanObservations, sum_by

THRESHOLD = 0.4
"""Minimum probability of a predicted span. The threshold that maximizes F1 is half the best F1 that can be reached;
0.4 assumes 0.8."""
MAX_ERROR_RATE = 0.9
"""Error rates of lone marks are taken as at most this, so that many marks of one span are never all presumed false."""
SCORE_BIAS, SCORE_SLOPE, SCORE_PER_MARK, MAX_SCORE_MARKS = -0.5, 0.35, 0.75, 4
"""Calibration of scores: the log-odds of a span that n labeling functions mark are bias + slope * (log-odds under the
model) + per_mark * min(n, max_marks). Logistic regression of what is correct, on generated corpora and on train of six
real sets."""


def default_threshold(observed: SpanObservations) -> float:
    """Default of the setting `threshold` for a model that is fitted to these observations.

    Without workers it is THRESHOLD. With A workers per token it is THRESHOLD (1 - 1 / A)^2: the fewer workers read a
    token, the less their votes show which marks are false, so more marks are kept. The form was found on generated
    corpora.
    """
    if not observed.is_worker.any():
        return THRESHOLD
    num_answers = float(observed.exposure[observed.is_worker].sum()) / max(observed.num_tokens, 1)
    return THRESHOLD * (1 - 1 / max(num_answers, 1)) ** 2


def highest_scores(observed: SpanObservations, error_rate: Floats) -> Floats:
    """Highest probability that is reported for each candidate: 1 - P(all its marks are false).  -> (n,)"""
    highest: Floats = -np.expm1(log_all_false(observed, error_rate))
    return highest


def log_all_false(observed: SpanObservations, error_rate: Floats) -> Floats:
    """Least log-probability that all marks on each candidate are false.  -> (n,)

    Labeling functions share errors, so a product of likelihoods over them is overconfident. The lone mark of a labeling
    function is false with probability error_rate (K,), by default f for all. The n marks that have the bounds and type
    of a candidate are all false with at least the product of their error rates, f^n. Without such a mark, it is the
    lowest error rate of a source with a mark on it. There is no bound (-inf) where a worker has a mark.
    """
    main_marks, num_candidates = observed.main_marks, len(observed.candidates)
    source = observed.marks.source[main_marks.mark]
    with np.errstate(divide="ignore"):
        log_error = np.log(np.minimum(error_rate, MAX_ERROR_RATE))[source]
    same_type = observed.marks.type[main_marks.mark] == observed.candidates.type[main_marks.candidate]
    exact = same_type & (main_marks.boundary == EXACT)
    supported = np.bincount(main_marks.candidate, exact, num_candidates) > 0
    has_worker = np.bincount(main_marks.candidate, observed.is_worker[source], num_candidates) > 0
    # Without an exact mark, the best source on the candidate.
    lowest = np.zeros(num_candidates)
    np.minimum.at(lowest, main_marks.candidate, log_error)
    all_wrong = np.where(supported, sum_by(main_marks.candidate, np.where(exact, log_error, 0), num_candidates), lowest)
    return np.where(has_worker, -np.inf, all_wrong)


def reported_scores(observed: SpanObservations, probability: Floats) -> Floats:
    """Scores to report for candidates with these probabilities under the model (n,).  -> (n,)

    They are calibrated if all marks on a candidate are of labeling functions without a known precision: the model takes
    agreeing functions for independent.
    """
    main_marks, num_candidates = observed.main_marks, len(observed.candidates)
    source = observed.marks.source[main_marks.mark]
    same_type = observed.marks.type[main_marks.mark] == observed.candidates.type[main_marks.candidate]
    is_exact = same_type & (main_marks.boundary == EXACT)
    num_marks = sum_by(main_marks.candidate, is_exact.astype(np.float64), num_candidates)
    is_known = observed.is_worker | ~np.isnan(observed.precision)
    known = np.bincount(main_marks.candidate, is_known[source], num_candidates) > 0
    return np.where(known, probability, calibrated_scores(probability, num_marks))


def calibrated_scores(probability: Floats, num_marks: Floats) -> Floats:
    """Calibrated probabilities of spans, from those under the model and the number of exact marks (n,).  -> (n,)"""
    p = np.clip(probability, 1e-6, 1 - 1e-6)
    log_odds = SCORE_BIAS + SCORE_SLOPE * np.log(p / (1 - p)) + SCORE_PER_MARK * np.minimum(num_marks, MAX_SCORE_MARKS)
    scores: Floats = 1 / (1 + np.exp(-log_odds))
    return scores


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
