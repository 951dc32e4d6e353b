"""The validation score of taggers."""

from __future__ import annotations

import numpy as np
import pytest

from convener.data.predictions import LabelOutput
from convener.taggers.base import validation_score
from convener.taggers.targets import Targets

from .toys import sentences, soft_predictions


def test_validation_score_is_f1_against_the_labels() -> None:
    data = sentences(20)
    assert data.gold is not None
    predictions = soft_predictions(data)
    for targets in (
        Targets.from_hard_labels(predictions),
        Targets.from_soft_labels(predictions),
        Targets.from_gold(data),
    ):
        assert validation_score(LabelOutput(data.gold, predictions.probabilities), targets) == 1.0
    partial = data.gold.copy()
    partial[partial > 2] = 0
    gold_spans, spans = (data.tags.spans(labels, data.offsets) for labels in (data.gold, partial))
    expected = 2 * len(spans) / (len(spans) + len(gold_spans))
    assert validation_score(LabelOutput(partial), Targets.from_gold(data)) == pytest.approx(expected)


def test_without_a_correct_span_it_is_the_negative_cross_entropy() -> None:
    data = sentences(20)
    targets = Targets.from_soft_labels(soft_predictions(data, 0.8))
    all_outside = np.zeros(len(data.tokens), np.int16)
    uniform = np.full((len(all_outside), 5), 0.2, np.float32)
    exact = targets.label_probs()
    scores = [validation_score(LabelOutput(all_outside, rows), targets) for rows in (uniform, exact)]
    assert scores[0] == pytest.approx(-np.log(5), abs=1e-5)
    assert scores[0] < scores[1] < 0
    entropy = -(exact * np.log(exact)).sum(1).mean()
    assert scores[1] == pytest.approx(-entropy, abs=1e-5)
    assert validation_score(LabelOutput(all_outside), targets) == 0


def test_class_weights_apply_to_the_cross_entropy() -> None:
    data = sentences(20)
    targets = Targets.from_gold(data)
    all_outside, rows = np.zeros(len(data.tokens), np.int16), np.full((len(data.tokens), 5), 0.1)
    rows[:, 0] = 0.6
    output = LabelOutput(all_outside, rows.astype(np.float32))
    scores = [validation_score(output, targets, np.eye(5, dtype=np.float32)[label]) for label in (0, 1)]
    assert scores == pytest.approx([np.log(0.6), np.log(0.1)], abs=1e-4)
