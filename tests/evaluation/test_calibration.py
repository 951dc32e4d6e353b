"""Calibration equals a direct loop over the confidences."""

import json
from itertools import pairwise

import numpy as np
import pytest

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.spans import Spans
from convener.errors import ConfigError, DataError, MismatchError
from convener.evaluation.calibration import calibration, span_calibration, token_calibration


def ece_by_loop(confidence, correct, edges):
    total = 0.0
    for number, (low, high) in enumerate(pairwise(edges)):
        inside = [i for i, c in enumerate(confidence) if low < c <= high or (number == 0 and c == low)]
        if inside:
            accuracy = sum(correct[i] for i in inside) / len(inside)
            mean = sum(float(confidence[i]) for i in inside) / len(inside)
            total += len(inside) * abs(accuracy - mean)
    return total / len(confidence)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_equals_a_direct_loop(bins):
    rng = np.random.default_rng(bins)
    confidence = np.concatenate([rng.random(500), [0.0, 1.0, 0.2, 0.2, 1.0]]).astype(np.float32)
    correct = rng.random(len(confidence)) < confidence
    result = calibration(confidence, correct, bins=bins)
    edges = np.linspace(0, 1, bins + 1)
    assert result.ece == pytest.approx(ece_by_loop(confidence.astype(float), correct, edges))
    assert result.count.sum() == len(confidence)


def test_ece_of_a_perfect_and_of_an_overconfident_model():
    assert calibration(np.ones(8), np.ones(8, bool)).ece == 0.0
    assert calibration(np.ones(8), np.zeros(8, bool)).ece == 1.0


def test_no_predictions_have_no_ece():
    result = calibration(np.zeros(0), np.zeros(0, bool))
    assert result.ece is None
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["count"] == 0
    assert "expected calibration error -" in str(result)


def make_predictions():
    data = Dataset.from_spans(["X"], [["a", "b", "c", "d"]], {})
    labels = np.array([1, 2, 0, 0], np.int16)
    rows = [[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.9, 0.05, 0.05], [0.6, 0.4, 0.0]]
    return Predictions(data=data, labels=labels, probabilities=np.array(rows, np.float32))


def test_scope_entities_restricts_tokens_to_predicted_or_gold_entities():
    predictions, gold = make_predictions(), np.array([1, 2, 0, 1])
    correct, gold_entity = predictions.labels == gold, gold > 0
    all_tokens = token_calibration(predictions, correct, gold_entity, bins=1)
    assert all_tokens.count.tolist() == [4]
    assert all_tokens.confidence[0] == pytest.approx(0.75)
    assert all_tokens.accuracy[0] == pytest.approx(0.75)
    entities = token_calibration(predictions, correct, gold_entity, scope="entities", bins=1)
    assert entities.count.tolist() == [3]
    assert entities.accuracy[0] == pytest.approx(2 / 3)


def test_a_span_is_correct_if_bounds_and_type_are():
    spans = make_predictions().spans
    assert spans.score == pytest.approx([0.7])
    assert span_calibration(spans, Spans.from_rows([(0, 0, 2, 0)])).ece == pytest.approx(0.3)
    assert span_calibration(spans, Spans.from_rows([(0, 0, 1, 0)])).ece == pytest.approx(0.7)


def test_table_and_json_omit_empty_bins():
    result = calibration(np.array([0.95, 0.9]), np.array([True, False]), bins=10)
    assert len(result.table().rows) == 2
    bins = json.loads(json.dumps(result.to_json(), allow_nan=False))["bins"]
    assert bins[0]["accuracy"] is None
    assert bins[9]["accuracy"] == 1.0


def test_invalid_input_is_rejected():
    one, correct = np.ones(1), np.ones(1, bool)
    with pytest.raises(MismatchError):
        calibration(one, np.ones(2, bool))
    with pytest.raises(DataError, match=r"in \[0, 1\]"):
        calibration(np.array([np.nan]), correct)
    with pytest.raises(ConfigError, match="bins must be at least 1"):
        calibration(one, correct, bins=0)
    predictions = make_predictions()
    with pytest.raises(ConfigError, match="no scope"):
        token_calibration(predictions, one > 0, one > 0, scope="some")
    labels_only = Predictions(data=predictions.data, labels=predictions.labels)
    with pytest.raises(DataError, match="needs probabilities"):
        token_calibration(labels_only, one > 0, one > 0)
    with pytest.raises(DataError, match="needs span scores"):
        span_calibration(labels_only.spans, Spans.from_rows([]))
