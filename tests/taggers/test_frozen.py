"""The tagger on frozen features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import convener as cv
from convener.taggers.frozen import FrozenTagger
from convener.taggers.targets import Targets
from tests.models.kills import killed_at

from .toys import UNUSUAL_SENTENCES, f1, sentences, soft_predictions, unlabeled

QUICK: dict[str, Any] = {"encoder": "hashing", "max_epochs": 8, "learning_rate": 0.01, "char_dim": 32}


def weight_bytes(tagger: FrozenTagger) -> dict[str, bytes]:
    weights = tagger.fitted.state.network.state_dict()
    return {name: tensor.numpy().tobytes() for name, tensor in weights.items()}


@pytest.mark.parametrize("crf", [True, False])
@pytest.mark.parametrize("source", ["from_soft_labels", "from_hard_labels", "from_gold"])
def test_it_learns_labels_that_depend_on_the_text(crf: bool, source: str) -> None:
    train, test = sentences(120), sentences(60, seed=1)
    labels = train if source == "from_gold" else soft_predictions(train)
    tagger = FrozenTagger(**QUICK, use_crf=crf).fit(getattr(Targets, source)(labels))
    assert f1(tagger, test) > 0.95
    predictions = tagger.predict(test)
    assert predictions.model == "frozen tagger"
    assert predictions.uses_gold == ("train" if source == "from_gold" else "none")
    assert predictions.probabilities is not None
    np.testing.assert_allclose(predictions.probabilities.sum(1), 1, atol=1e-5)


def test_soft_targets_preserve_uncertainty() -> None:
    data = sentences(120)
    sure, unsure = (
        FrozenTagger(**QUICK).fit(soft_predictions(data, share)).predict(data).probabilities for share in (0.99, 0.6)
    )
    assert sure is not None
    assert unsure is not None
    assert sure.max(1).mean() > unsure.max(1).mean() + 0.2


def test_class_weights_raise_recall() -> None:
    data = sentences(60)
    uncertain = soft_predictions(data, 0.45)
    assert data.gold is not None
    rows = np.array(uncertain.probabilities)
    rows[data.gold > 0, 0] += 0.4  # O is slightly more probable than any entity
    labels = cv.Predictions(data=data, labels=data.gold, probabilities=rows / rows.sum(1)[:, None])
    settings = {"encoder": "hashing", "max_epochs": 8, "learning_rate": 0.01, "use_crf": False}
    plain, heavy = (
        len(FrozenTagger(**settings, class_weights=weights).fit(labels).predict(data).spans)
        for weights in (None, {"LOC": 5, "ANI": 5})
    )
    assert heavy > plain


def test_predictions_do_not_depend_on_votes(toy: cv.Dataset) -> None:
    labels = cv.MajorityVote().fit(toy).predict(toy)
    tagger = FrozenTagger(**QUICK).fit(labels)
    abstaining = toy.with_sources(toy.sources, np.full_like(toy.votes, -1), toy.unmarked)
    for data in (toy, abstaining, toy.select_sources(()), toy.without_gold()):
        predictions = tagger.predict(data)
        assert predictions.labels.tobytes() == tagger.predict(toy).labels.tobytes()
        assert predictions.data.sources == data.sources


def test_a_sentence_is_labeled_independently_of_the_others() -> None:
    data = sentences(40)
    tagger = FrozenTagger(**QUICK).fit(Targets.from_gold(data))
    together, alone = (
        tagger.predict(data).probabilities_by_sentence(),
        tagger.predict(data.take([7])),
    )
    np.testing.assert_allclose(together[7], alone.probabilities_by_sentence()[0], atol=1e-5)


def test_weights_depend_on_the_seed() -> None:
    targets = Targets.from_soft_labels(soft_predictions(sentences(40)))
    one, two, other = (FrozenTagger(**QUICK, seed=seed).fit(targets) for seed in (1, 1, 2))
    assert weight_bytes(one) == weight_bytes(two)
    assert weight_bytes(one) != weight_bytes(other)


def test_saving_and_loading_changes_nothing(tmp_path: Path) -> None:
    tagger = FrozenTagger(**QUICK, context_window=2, use_crf=False, class_weights={"LOC": 2})
    tagger.fit(Targets.from_gold(sentences(40))).save(tmp_path / "t")
    loaded = cv.load_tagger(tmp_path / "t")
    assert loaded.config == tagger.config
    data = unlabeled(UNUSUAL_SENTENCES)
    assert loaded.predict(data).labels.tobytes() == tagger.predict(data).labels.tobytes()
    assert loaded.predict(data).uses_gold == "train"
    assert "fitted" in repr(loaded)


@pytest.mark.parametrize("step", [5, 12, 20])
def test_interrupted_training_resumes_with_the_same_result(tmp_path: Path, step: int) -> None:
    targets = Targets.from_soft_labels(soft_predictions(sentences(60)))
    uninterrupted = FrozenTagger(**QUICK).fit(targets)
    with killed_at(step):
        FrozenTagger(**QUICK).fit(targets, checkpoint_dir=tmp_path)
    assert list(tmp_path.iterdir()) or step == 5
    resumed = FrozenTagger(**QUICK).fit(targets, checkpoint_dir=tmp_path)
    assert weight_bytes(resumed) == weight_bytes(uninterrupted)


def test_a_checkpoint_of_other_targets_is_not_resumed(tmp_path: Path) -> None:
    data = sentences(60)
    with killed_at(10):
        FrozenTagger(**QUICK).fit(soft_predictions(data, 0.6), checkpoint_dir=tmp_path)
    other = FrozenTagger(**QUICK).fit(soft_predictions(data), checkpoint_dir=tmp_path)
    assert weight_bytes(other) == weight_bytes(FrozenTagger(**QUICK).fit(soft_predictions(data)))


def test_fit_continues_from_the_fitted_state() -> None:
    targets = Targets.from_gold(sentences(60))
    tagger = FrozenTagger(**QUICK).fit(targets, targets)
    standardizer = tagger.fitted.state.standardizer
    before = weight_bytes(tagger)
    tagger.fit(Targets.from_soft_labels(soft_predictions(sentences(30, seed=4))), targets)
    assert tagger.fitted.state.standardizer is standardizer
    assert tagger.fitted.uses_gold
    assert f1(tagger, sentences(40, seed=5)) > 0.97
    assert weight_bytes(tagger).keys() == before.keys()


def test_early_stopping_uses_valid() -> None:
    train, other = sentences(40), sentences(40, seed=3)
    no_entities = Targets.from_gold(other.with_gold(np.zeros(len(other.tokens), np.int16)))
    tagger = FrozenTagger(**QUICK, use_crf=False).fit(Targets.from_gold(train), no_entities)
    complete = FrozenTagger(**QUICK, use_crf=False).fit(Targets.from_gold(train), Targets.from_gold(train))
    assert f1(tagger, train) < 0.9 < f1(complete, train)


def test_fit_without_validation_data() -> None:
    targets = Targets.from_gold(sentences(2))
    tagger = FrozenTagger(**QUICK).fit(targets, targets.slice_sentences(0, 0))
    assert tagger.predict(unlabeled(UNUSUAL_SENTENCES)).labels.shape == (sum(map(len, UNUSUAL_SENTENCES)),)


def test_existing_features_are_used_and_others_rejected() -> None:
    data = cv.encode(sentences(20), "hashing", width=32, cache=False)
    tagger = FrozenTagger(**QUICK).fit(Targets.from_gold(data))
    assert tagger.fitted.state.encoder_spec.settings["width"] == 32
    assert tagger.predict(sentences(3)).labels.shape
    with pytest.raises(cv.MismatchError, match="was fitted on features"):
        tagger.predict(cv.encode(sentences(3), "hashing", width=64, cache=False))


def test_mismatching_data_is_rejected() -> None:
    targets = Targets.from_gold(sentences(20))
    tagger = FrozenTagger(**QUICK)
    with pytest.raises(cv.NotFittedError, match="call fit"):
        tagger.predict(sentences(1))
    with pytest.raises(cv.DataError, match="has no tokens"):
        tagger.fit(targets.slice_sentences(0, 0))
    drugs = cv.Dataset.from_spans(["DRUG"], [["aspirin"]], {"s": [[(0, 1, "DRUG")]]})
    drugs = drugs.with_gold(np.array([1], np.int16))
    with pytest.raises(cv.MismatchError, match="expected types LOC, ANI; found DRUG"):
        tagger.fit(targets, Targets.from_gold(drugs))
    tagger.fit(targets)
    with pytest.raises(cv.MismatchError, match="no entity type 'DRUG'"):
        tagger.predict(drugs)


@pytest.mark.parametrize(
    "invalid",
    [
        {"dropout": 1},
        {"context_window": -1},
        {"max_epochs": 0},
        {"batch_size": 0},
        {"class_weights": "balanced", "use_crf": True},
        {"class_weights": {"LOC": 0}, "use_crf": False},
        {"hiden": 3},
    ],
)
def test_invalid_settings_are_rejected(invalid: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError):
        FrozenTagger(**invalid)


def test_the_global_generator_is_restored() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    FrozenTagger(**QUICK).fit(Targets.from_gold(sentences(10)))
    assert torch.equal(torch.rand(1), expected)
