"""The contract of a label model, for every model there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv

# The toy data hold a source without votes, of which some models rightly warn.
pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
# Models that learn too little from the toy data in three epochs.
ENOUGH: dict[str, dict[str, Any]] = {"bert-ner": {"max_epochs": 20, "learning_rate": 0.01}}


@pytest.fixture(params=cv.list_models())
def model(request: pytest.FixtureRequest) -> cv.LabelModel:
    return new_model(request.param)


def new_model(name: str) -> cv.LabelModel:
    """A new model; with hashing features and few epochs if it needs features."""
    kind = cv.get_model(name)
    if not kind.needs_features:
        return kind()
    if name in ENOUGH:
        return kind(encoder="hashing", **ENOUGH[name])
    known = {field.name for field in fields(kind.Config)}
    return kind(encoder="hashing", **({"max_epochs": 3} if "max_epochs" in known else {}))


def fit_model(model: cv.LabelModel, data: cv.Dataset) -> cv.LabelModel:
    """Fit the model; taggers also get train as validation data, because only memorizing helps on random words."""
    return model.fit(data, data if model.name in ENOUGH else None)


def prediction_data(model: cv.LabelModel, data: cv.Dataset) -> cv.Dataset:
    """The data without gold, unless the model needs it at prediction."""
    return data if model.needs_gold_to_predict else data.without_gold()


def bytes_of(labels: cv.Predictions) -> tuple[bytes, bytes]:
    assert labels.probabilities is not None
    return labels.labels.tobytes(), labels.probabilities.tobytes()


def test_rows_sum_to_one(model: cv.LabelModel, toy: cv.Dataset) -> None:
    labels = model.fit(toy).predict(toy)
    assert labels.probabilities is not None
    np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1, atol=1e-5)
    assert (labels.probabilities >= 0).all()


def test_labels_are_legal_and_spans_are_scored(model: cv.LabelModel, toy: cv.Dataset) -> None:
    labels = fit_model(model, toy).predict(toy)
    assert toy.tags.repair(labels.labels, toy.offsets)[1] == 0
    assert labels.spans.score is not None
    assert len(labels.spans)
    assert ((labels.spans.score >= 0) & (labels.spans.score <= 1 + 1e-6)).all()


def test_gold_of_train_is_never_read(model: cv.LabelModel, toy: cv.Dataset) -> None:
    if model.supervised:
        pytest.skip("declared supervised")
    nonsense = toy.with_gold(np.zeros_like(toy.gold))
    assert bytes_of(model.fit(toy, toy).predict(toy)) == bytes_of(
        new_model(model.name).fit(nonsense, nonsense).predict(toy)
    )


def test_gold_is_not_read_in_prediction(model: cv.LabelModel, toy: cv.Dataset) -> None:
    if model.needs_gold_to_predict:
        pytest.skip("declared an oracle")
    model.fit(toy)
    assert bytes_of(model.predict(toy)) == bytes_of(model.predict(toy.without_gold()))


def test_a_supervised_model_asks_for_gold(model: cv.LabelModel, toy: cv.Dataset) -> None:
    if not model.supervised:
        pytest.skip("sees no gold")
    with pytest.raises(cv.DataError, match="needs gold"):
        model.fit(toy.without_gold())


def test_an_oracle_asks_for_gold_of_the_data_that_it_labels(model: cv.LabelModel, toy: cv.Dataset) -> None:
    if not model.needs_gold_to_predict:
        pytest.skip("needs no gold to predict")
    assert model.supervised
    with pytest.raises(cv.DataError, match="needs gold"):
        model.fit(toy).predict(toy.without_gold())


def test_sentences_are_labeled_independently(model: cv.LabelModel, toy: cv.Dataset) -> None:
    model.fit(toy)
    together = model.predict_proba(toy)
    for number in (0, 7, len(toy) - 1):
        alone = model.predict_proba(toy.take([number]))[0]
        np.testing.assert_allclose(together[number], alone, atol=1e-5)


def test_order_of_sentences_does_not_matter(model: cv.LabelModel, toy: cv.Dataset) -> None:
    order = np.random.default_rng(0).permutation(len(toy))
    model.fit(toy)
    straight, mixed = model.predict_proba(toy), model.predict_proba(toy.take(order))
    for place, number in enumerate(order):
        np.testing.assert_allclose(mixed[place], straight[int(number)], atol=1e-5)


def test_the_same_seed_repeats_byte_for_byte(model: cv.LabelModel, toy: cv.Dataset) -> None:
    again = new_model(model.name)
    assert bytes_of(model.fit(toy).predict(toy)) == bytes_of(again.fit(toy).predict(toy))


def test_save_and_load_give_the_same(model: cv.LabelModel, toy: cv.Dataset, tmp_path: Path) -> None:
    model.fit(toy).save(tmp_path / "model")
    loaded = cv.load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    assert bytes_of(loaded.predict(toy)) == bytes_of(model.predict(toy))
    assert str(loaded.reliability()) == str(model.reliability())


def test_saving_the_same_fit_twice_gives_the_same_bytes(model: cv.LabelModel, toy: cv.Dataset, tmp_path: Path) -> None:
    model.fit(toy).save(tmp_path / "a")
    new_model(model.name).fit(toy).save(tmp_path / "b")
    for file in ("model.json", "params.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_empty_and_all_abstain_sentences_work(model: cv.LabelModel, toy: cv.Dataset) -> None:
    model.fit(toy)
    mute = toy.with_sources(toy.sources, np.full_like(toy.votes, -1), toy.unmarked)
    for data in (mute, toy[:0], toy.take([5])):
        labels = model.predict(prediction_data(model, data))
        assert labels.probabilities is not None
        assert np.isfinite(labels.probabilities).all()
        assert len(labels.labels) == len(data.tokens)


def test_renamed_and_missing_sources_are_refused_by_name(model: cv.LabelModel, toy: cv.Dataset) -> None:
    model.fit(toy)
    renamed = toy.with_sources(("great", *toy.sources[1:]), toy.votes, toy.unmarked)
    with pytest.raises(cv.MismatchError, match=r"the data lacks: good"):
        model.predict(renamed)
    with pytest.raises(cv.MismatchError, match=r"lacks: poor"):
        model.predict(toy.select_sources(["good", "fair", "guest", "silent"]))


def test_other_types_are_refused_by_name(model: cv.LabelModel, toy: cv.Dataset) -> None:
    model.fit(toy)
    other = cv.Dataset.from_spans(["DRUG"], [["aspirin"]], {name: [[(0, 1, "DRUG")]] for name in toy.sources})
    with pytest.raises(cv.MismatchError, match="no entity type 'DRUG'"):
        model.predict(other)


def test_order_of_sources_in_the_data_does_not_matter(model: cv.LabelModel, toy: cv.Dataset) -> None:
    model.fit(toy)
    turned = toy.select_sources(reversed(toy.sources))
    assert bytes_of(model.predict(turned)) == bytes_of(model.predict(toy))


def test_predicting_before_fit_is_an_error(model: cv.LabelModel, toy: cv.Dataset) -> None:
    with pytest.raises(cv.NotFittedError, match="call fit"):
        model.predict(toy)


def test_no_sources_is_an_error(model: cv.LabelModel, toy: cv.Dataset) -> None:
    with pytest.raises(cv.DataError, match="no sources"):
        model.fit(toy.select_sources([]))


def test_an_unknown_setting_is_an_error_with_a_suggestion(model: cv.LabelModel) -> None:
    with pytest.raises(cv.ConfigError, match="did you mean 'seed'"):
        cv.get_model(model.name)(sead=1)


def test_reliability_has_a_consistent_row_for_each_type_that_a_source_gives(
    model: cv.LabelModel, toy: cv.Dataset
) -> None:
    records = model.fit(toy).reliability().to_records()
    given = [
        (source, kind)
        for source, votes in zip(toy.sources, toy.votes.T, strict=True)
        for e, kind in enumerate(toy.tags.types)
        if np.isin(votes, (2 * e + 1, 2 * e + 2)).any()
    ]
    assert [(row["source"], row["type"]) for row in records] == given
    for row in records:
        both = row["recall"] + row["precision"]
        assert row["F1"] == pytest.approx(2 * row["recall"] * row["precision"] / both if both else 0)
        for metric in ("recall", "precision", "F1"):
            assert 0 <= row[f"{metric} low"] <= row[metric] <= row[f"{metric} high"] <= 1


def test_a_good_source_is_rated_above_a_poor_one(model: cv.LabelModel, toy: cv.Dataset) -> None:
    records = model.fit(toy).reliability().to_records()
    recall = {name: np.mean([row["recall"] for row in records if row["source"] == name]) for name in ("good", "poor")}
    assert recall["good"] > recall["poor"]


def test_one_source_only(model: cv.LabelModel, toy: cv.Dataset) -> None:
    alone = toy.select_sources(["good"])
    labels = fit_model(model, alone).predict(alone)
    assert len(labels.spans)


def test_duplicate_sources(model: cv.LabelModel, toy: cv.Dataset) -> None:
    doubled = toy.with_sources(
        (*toy.sources, *(f"{name}-again" for name in toy.sources)),
        np.concatenate([toy.votes, toy.votes], axis=1),
        toy.unmarked * 2,
    )
    labels = model.fit(doubled).predict(doubled)
    assert labels.probabilities is not None
    assert np.isfinite(labels.probabilities).all()


def test_order_of_the_training_data_does_not_change_labels(model: cv.LabelModel, toy: cv.Dataset) -> None:
    order = np.random.default_rng(1).permutation(len(toy))
    straight = fit_model(model, toy).predict(toy)
    for data in (toy.take(order), toy.select_sources(reversed(toy.sources))):
        other = fit_model(new_model(model.name), data).predict(toy)
        if model.needs_features:  # trained by batches, and what is in them depends on the order
            assert np.mean(other.labels == straight.labels) > 0.95
            continue
        best = np.sort(straight.probabilities, axis=1)
        clear = best[:, -1] - best[:, -2] > 1e-5
        np.testing.assert_array_equal(other.labels[clear], straight.labels[clear])
        np.testing.assert_allclose(other.probabilities, straight.probabilities, atol=1e-4)
