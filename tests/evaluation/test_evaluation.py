"""Evaluation of predictions, with majority vote as the baseline."""

import json
from dataclasses import replace

import numpy as np
import pytest

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.errors import ConfigError, DataError, MismatchError
from convener.evaluation.error_types import ErrorType
from convener.evaluation.evaluation import compare_predictions, evaluate
from convener.evaluation.metrics import score_labels
from convener.inference.voting import majority_vote_io

SENTENCES = [["Ada", "Lovelace", "met", "Paris"], [], ["Paris", "sleeps"]]
GOLD = [[(0, 2, "PER"), (3, 4, "PER")], [], [(0, 1, "LOC")]]
VOTES = {
    "names": [[(0, 1, "PER"), (3, 4, "PER")], [], []],
    "places": [[], [], [(0, 1, "LOC")]],
}


def data(**changes):
    found = Dataset.from_spans(["PER", "LOC"], SENTENCES, VOTES, gold=GOLD)
    return replace(found, **changes) if changes else found


def predict(labels, of=None, **more):
    return Predictions(data=of or data(), labels=np.array(labels, np.int16), model="by hand", **more)


PERFECT = [1, 2, 0, 1, 3, 0]
POOR = [1, 0, 0, 0, 1, 2]


def test_scores_of_model_and_majority_vote_equal_the_metrics():
    truth = data()
    found = evaluate(predict(POOR), truth)
    scores = score_labels(np.array(POOR), truth.gold, truth.offsets, truth.tags)
    assert (found.precision, found.recall, found.f1, found.macro_f1) == (
        scores.micro.precision,
        scores.micro.recall,
        scores.micro.f1,
        scores.macro_f1,
    )
    vote = majority_vote_io(truth.votes, truth.informative_votes(), truth.offsets, 2)
    assert found.majority_vote == score_labels(vote, truth.gold, truth.offsets, truth.tags)
    assert found.token_accuracy == pytest.approx(2 / 6)
    assert found.error_types.counts[ErrorType.BOUNDARY] == 1
    assert found.per_type["PER"]["support"] == 2
    assert evaluate(predict(PERFECT), truth).f1 == 1.0


def test_table_names_the_mode_and_notes_if_majority_vote_is_better():
    text = str(evaluate(predict(POOR), data()))
    assert "conlleval mode" in text
    assert "by hand" in text
    assert "majority vote (IO)" in text
    assert text.count("below majority vote") == 1
    assert "by hand by entity type" in text
    good = str(evaluate(predict(PERFECT), data(), mode="strict"))
    assert "strict mode" in good
    assert "below" not in good


def test_mode_decides_how_illegal_gold_is_read():
    illegal = data(gold=np.array([2, 2, 0, 1, 3, 0], np.int16))
    assert evaluate(predict(PERFECT), illegal).recall == 1.0
    assert evaluate(predict(PERFECT), illegal).precision == 1.0
    assert evaluate(predict(PERFECT), illegal, mode="strict").precision == pytest.approx(2 / 3)


def test_json():
    plain = json.loads(json.dumps(evaluate(predict(POOR), data()).to_json(), allow_nan=False))
    assert set(plain) >= {"precision", "recall", "f1", "mode", "per_type", "majority_vote"}
    assert set(plain["per_type"]["LOC"]) == {"precision", "recall", "f1", "support"}
    assert plain["majority_vote"]["f1"] == pytest.approx(2 / 3)
    assert plain["breakdown"]["missed"] == 1
    assert plain["intervals"] is None


def test_without_gold_every_metric_is_none():
    found = evaluate(predict(POOR), data().without_gold(), bootstrap_samples=10)
    assert (found.f1, found.macro_f1, found.majority_vote, found.intervals) == (None,) * 4
    plain = json.loads(json.dumps(found.to_json()))
    assert plain["f1"] is None
    assert plain["per_type"]["PER"] == dict.fromkeys(("precision", "recall", "f1", "support"))
    assert plain["majority_vote"] is None
    assert "no gold" in str(found)


def test_without_sources_there_is_no_majority_vote():
    bare = Dataset.from_spans(["PER", "LOC"], SENTENCES, {}, gold=GOLD)
    found = evaluate(predict(POOR), bare, bootstrap_samples=5)
    assert found.majority_vote is None
    assert found.difference_to_majority_vote is None
    assert found.to_json()["majority_vote"] is None
    assert "majority" not in str(found)


def test_types_are_matched_by_name_and_unknown_ones_lower_precision():
    other = Dataset.from_spans(["LOC", "DRUG", "PER"], SENTENCES, {})
    labels = np.array([5, 6, 0, 3, 1, 0], np.int16)  # PER, DRUG, LOC
    found = evaluate(Predictions(data=other, labels=labels), data())
    assert found.types == ("PER", "LOC", "DRUG")
    assert found.precision == pytest.approx(2 / 3)
    assert found.per_type["DRUG"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    assert found.error_types.counts[ErrorType.TYPE] == 1


def test_calibration_does_not_depend_on_the_order_of_types():
    same = predict(PERFECT, probabilities=np.full((6, 5), 0.2, np.float32))
    other = Dataset.from_spans(["LOC", "PER"], SENTENCES, {})
    reordered = Predictions(
        data=other,
        labels=np.array([3, 4, 0, 3, 1, 0], np.int16),
        probabilities=np.full((6, 5), 0.2, np.float32),
    )
    for predictions in (same, reordered):
        found = evaluate(predictions, data())
        assert set(found.calibration) == {"tokens", "entity_tokens", "spans"}
        assert found.calibration["tokens"].ece == pytest.approx(0.8)
        assert found.calibration["entity_tokens"].count.sum() == 4
        assert found.calibration["spans"].count.sum() == 3
    assert "expected calibration error of entity tokens 0.8000" in str(found)
    assert evaluate(predict(POOR), data()).calibration == {}


def test_intervals_are_computed_on_request():
    truth = Dataset.concat([data()] * 30)
    labels = np.tile(np.array(POOR, np.int16), 30)
    found = evaluate(Predictions(data=truth, labels=labels), truth, bootstrap_samples=200, seed=1)
    assert found.intervals.f1.low <= found.f1 <= found.intervals.f1.high
    assert found.difference_to_majority_vote.f1.value == pytest.approx(found.f1 - found.majority_vote.micro.f1)
    assert "95% confidence interval" in str(found)
    again = evaluate(Predictions(data=truth, labels=labels), truth, bootstrap_samples=200, seed=1)
    assert again.intervals == found.intervals


def test_comparison_is_paired():
    found = compare_predictions(predict(PERFECT), predict(POOR), data(), samples=50)
    assert found.f1.value == pytest.approx(1.0)
    swapped = compare_predictions(predict(POOR), predict(PERFECT), data(), samples=50)
    assert swapped.f1.value == -found.f1.value
    with pytest.raises(DataError, match="needs gold labels"):
        compare_predictions(predict(POOR), predict(POOR), data().without_gold())


def replace_token(number, word):
    words = [token for sentence in SENTENCES for token in sentence]
    words[number] = word
    return data(tokens=StringArray.from_list(words))


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (replace_token(5, "sleept"), "sentence 2, token 1 is 'sleeps' in the predictions, 'sleept' in"),
        (replace_token(1, "L"), "sentence 0, token 1 is 'Lovelace' in the predictions, 'L' in"),
        (replace_token(3, "Paris!"), "sentence 0, token 3 is 'Paris' in the predictions, 'Paris!' in"),
        (data()[:2], "expected 2 sentences as in the data, found 3 in the predictions; the first 2 are equal"),
        (data(offsets=np.array([0, 4, 5, 6])), "sentence 1 has 0 tokens in the predictions, 1 in"),
    ],
)
def test_other_sentences_are_rejected_with_the_first_difference(truth, message):
    with pytest.raises(MismatchError, match=message.replace("?", r"\?")):
        evaluate(predict(POOR), truth)


def test_equal_text_in_another_buffer_is_accepted():
    twice = Dataset.concat([data(), data()])
    assert evaluate(predict(PERFECT), twice[3:]).f1 == 1.0


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="no mode 'exact'"):
        evaluate(predict(POOR), data(), mode="exact")
    with pytest.raises(ConfigError, match="bootstrap_samples must be at least 0, got -1"):
        evaluate(predict(POOR), data(), bootstrap_samples=-1)


def test_no_sentences():
    empty = Dataset.from_spans(["PER"], [], {"a": []}, gold=[])
    found = evaluate(Predictions(data=empty, labels=np.zeros(0, np.int16)), empty, bootstrap_samples=3)
    assert (found.f1, found.majority_vote.micro.f1, found.token_accuracy) == (0.0, 0.0, 0.0)
    assert "0.00%" in str(found)


def test_coarse_votes_are_ignored() -> None:
    data = Dataset.from_spans(
        ["PER", "LOC", "ENT"],
        [["Ada", "in", "Oslo"]],
        {"s": [[(0, 1, "PER"), (2, 3, "ENT")]], "t": [[(2, 3, "ENT")]]},
        gold=[[(0, 1, "PER"), (2, 3, "LOC")]],
    ).with_coarse({"ENT": "any"})
    labels = Predictions(data=data, labels=np.array([1, 0, 3], np.int16), model="m")
    fine = replace(labels, data=data.without_coarse())
    assert evaluate(labels, data).to_json() == evaluate(fine, data.without_coarse()).to_json()
    assert evaluate(labels, data).types == ("PER", "LOC")
    found = compare_predictions(labels, fine, data, samples=10)
    assert str(found) == str(compare_predictions(fine, fine, data.without_coarse(), samples=10))
