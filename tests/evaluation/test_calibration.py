"""Calibration against a direct loop."""

import json
from itertools import pairwise

import numpy as np
import pytest

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.spans import Spans
from convener.errors import ConfigError, DataError, MismatchError
from convener.evaluation.calibration import calibration, span_calibration, token_calibration


def ece_by_loop(confidence, right, edges):
    total = 0.0
    for number, (low, high) in enumerate(pairwise(edges)):
        inside = [i for i, c in enumerate(confidence) if low < c <= high or (number == 0 and c == low)]
        if inside:
            accuracy = sum(right[i] for i in inside) / len(inside)
            mean = sum(float(confidence[i]) for i in inside) / len(inside)
            total += len(inside) * abs(accuracy - mean)
    return total / len(confidence)


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("bins", [1, 10, 15])
def test_equals_a_direct_loop(binning, bins):
    rng = np.random.default_rng(bins)
    confidence = np.concatenate([rng.random(500), [0.0, 1.0, 0.2, 0.2, 1.0]]).astype(np.float32)
    right = rng.random(len(confidence)) < confidence
    result = calibration(confidence, right, bins=bins, binning=binning)
    edges = np.linspace(0, 1, bins + 1) if binning == "width" else result.edges
    assert result.ece == pytest.approx(ece_by_loop(confidence.astype(float), right, edges))
    assert result.count.sum() == len(confidence)


def test_bins_of_equal_mass_hold_about_the_same_number():
    confidence = np.random.default_rng(1).random(1500) ** 0.1
    result = calibration(confidence, np.ones(1500, bool), binning="mass")
    assert len(result.count) == 15
    assert result.count.min() >= 99


def test_equal_confidences_share_a_bin():
    confidence = np.array([0.5] * 90 + [0.9] * 10)
    result = calibration(confidence, np.ones(100, bool), binning="mass")
    assert result.count.tolist() == [90, 10]


def test_a_perfect_and_an_overconfident_model():
    assert calibration(np.ones(8), np.ones(8, bool)).ece == 0.0
    assert calibration(np.ones(8), np.zeros(8, bool)).ece == 1.0


def test_nothing_to_measure():
    result = calibration(np.zeros(0), np.zeros(0, bool))
    assert result.ece is None
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["count"] == 0
    assert "expected error -" in str(result)


def toy():
    data = Dataset.from_spans(["X"], [["a", "b", "c", "d"]], {})
    labels = np.array([1, 2, 0, 0], np.int16)
    table = [[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.9, 0.05, 0.05], [0.6, 0.4, 0.0]]
    return Predictions(data=data, labels=labels, probabilities=np.array(table, np.float32))


def test_tokens_all_or_where_an_entity_is_involved():
    predictions, truth = toy(), np.array([1, 2, 0, 1])
    right, entity = predictions.labels == truth, truth > 0
    everything = token_calibration(predictions, right, entity, bins=1)
    assert everything.count.tolist() == [4]
    assert everything.confidence[0] == pytest.approx(0.75)
    assert everything.accuracy[0] == pytest.approx(0.75)
    entities = token_calibration(predictions, right, entity, scope="entities", bins=1)
    assert entities.count.tolist() == [3]
    assert entities.accuracy[0] == pytest.approx(2 / 3)


def test_spans_are_right_when_bounds_and_type_are():
    spans = toy().spans
    assert spans.score == pytest.approx([0.7])
    assert span_calibration(spans, Spans.from_rows([(0, 0, 2, 0)])).ece == pytest.approx(0.3)
    assert span_calibration(spans, Spans.from_rows([(0, 0, 1, 0)])).ece == pytest.approx(0.7)


def test_table_and_json_leave_out_what_is_empty():
    result = calibration(np.array([0.95, 0.9]), np.array([True, False]), bins=10)
    assert len(result.table().rows) == 2
    bins = json.loads(json.dumps(result.to_json(), allow_nan=False))["bins"]
    assert bins[0]["accuracy"] is None
    assert bins[9]["accuracy"] == 1.0


def test_refusals():
    one, yes = np.ones(1), np.ones(1, bool)
    with pytest.raises(MismatchError):
        calibration(one, np.ones(2, bool))
    with pytest.raises(DataError, match=r"in \[0, 1\]"):
        calibration(np.array([np.nan]), yes)
    with pytest.raises(ConfigError, match="bins must be at least 1"):
        calibration(one, yes, bins=0)
    with pytest.raises(ConfigError, match="no binning 'weight'"):
        calibration(one, yes, binning="weight")
    predictions = toy()
    with pytest.raises(ConfigError, match="no scope"):
        token_calibration(predictions, one > 0, one > 0, scope="some")
    bare = Predictions(data=predictions.data, labels=predictions.labels)
    with pytest.raises(DataError, match="needs probabilities"):
        token_calibration(bare, one > 0, one > 0)
    with pytest.raises(DataError, match="needs span scores"):
        span_calibration(bare.spans, Spans.from_rows([]))
