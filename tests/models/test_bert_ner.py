"""BERT-NER: a tagger trained on gold, with the interface of a label model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.models.bert_ner import BertNER
from convener.neural.checkpoint import weights_to_arrays
from tests.encoders.toys import build
from tests.models.kills import killed_at
from tests.taggers import toys

QUICK: dict[str, Any] = {"max_epochs": 5, "learning_rate": 0.01}


def text_data(count: int, seed: int = 0) -> cv.Dataset:
    """Sentences whose words determine the labels, and a source that marks nothing."""
    data = toys.sentences(count, seed, longest=1)
    return data.with_sources(("dumb",), np.zeros((len(data.tokens), 1), np.int16), ("abstain",))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("distilbert", tmp_path_factory.mktemp("distilbert"))


def f1(model: cv.LabelModel, data: cv.Dataset) -> float:
    found = cv.evaluate(model.predict(data), data).f1
    assert found is not None
    return found


def test_it_learns_from_gold_entities_that_no_source_marks() -> None:
    model = BertNER(encoder="hashing", **QUICK).fit(text_data(120), text_data(30, seed=1))
    test = text_data(60, seed=2)
    assert f1(model, test) > 0.97
    assert not model.fine_tunes
    assert model.predict(test).uses_gold == "train"


def test_predictions_depend_on_the_text_only() -> None:
    model = BertNER(encoder="hashing", **QUICK).fit(text_data(60))
    data = text_data(20, seed=2)
    other = data.with_gold(np.zeros(len(data.tokens), np.int16))
    other_votes = data.with_sources(("dumb",), np.ones((len(data.tokens), 1), np.int16), ("abstain",))
    expected = model.predict(data).labels.tobytes()
    assert model.predict(other).labels.tobytes() == expected
    assert model.predict(other_votes).labels.tobytes() == expected


def test_it_predicts_text_without_gold() -> None:
    model = BertNER(encoder="hashing", **QUICK).fit(text_data(60))
    data = text_data(20, seed=2)
    alone = model.predict(data.without_gold())
    assert alone.labels.tobytes() == model.predict(data).labels.tobytes()
    assert alone.uses_gold == "train"


def test_a_fine_tuned_encoder_is_trained_saved_and_loaded(folder: Path, tmp_path: Path) -> None:
    model = BertNER(encoder=str(folder), max_epochs=5, learning_rate=5e-3)
    assert model.fine_tunes
    data = cv.encode(text_data(120), "hashing", cache=False)  # unused features
    model.fit(data, text_data(30, seed=1)).save(tmp_path / "m")
    test = text_data(60, seed=2)
    assert f1(model, test) > 0.9
    assert model.fitted.encoder_spec is None
    loaded = cv.load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(test).probabilities, model.predict(test).probabilities)


def test_an_encoder_may_be_frozen(folder: Path) -> None:
    model = BertNER(encoder=str(folder), fine_tune=False, **QUICK).fit(text_data(40))
    assert model.fitted.encoder_spec is not None
    assert model.predict(text_data(5)).probabilities is not None


def test_hashing_cannot_be_fine_tuned() -> None:
    with pytest.raises(cv.ConfigError, match="has no weights to train"):
        BertNER(encoder="hashing", fine_tune=True).fit(text_data(10))


def test_a_second_fit_continues_from_the_first() -> None:
    model = BertNER(encoder="hashing", **QUICK).fit(text_data(120))
    before = f1(model, text_data(60, seed=2))
    model.fit(text_data(20, seed=7))
    assert f1(model, text_data(60, seed=2)) > before - 0.05


def test_a_killed_fit_resumes_with_the_same_result(tmp_path: Path) -> None:
    whole = BertNER(encoder="hashing", **QUICK).fit(text_data(60)).fitted.params
    with killed_at(12):
        BertNER(encoder="hashing", **QUICK).fit(text_data(60), checkpoint_dir=tmp_path)
    again = BertNER(encoder="hashing", **QUICK).fit(text_data(60), checkpoint_dir=tmp_path).fitted.params
    weights = [weights_to_arrays(tagger.fitted.state.network) for tagger in (again, whole)]
    assert {name: array.tobytes() for name, array in weights[0].items()} == {
        name: array.tobytes() for name, array in weights[1].items()
    }


@pytest.mark.parametrize("bad", [{"max_epochs": 0}, {"learning_rate": -1}])
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        BertNER(**bad)
