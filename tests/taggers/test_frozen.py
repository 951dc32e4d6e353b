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

from .toys import HARD, believed, f1, sentences, text

QUICK: dict[str, Any] = {"encoder": "hashing", "epochs": 8, "lr": 0.01, "spelling": 32}


def tensors(tagger: FrozenTagger) -> dict[str, bytes]:
    weights = tagger.fitted.state.network.state_dict()
    return {name: tensor.numpy().tobytes() for name, tensor in weights.items()}


@pytest.mark.parametrize("crf", [True, False])
@pytest.mark.parametrize("kind", ["from_soft_labels", "from_hard_labels", "from_gold"])
def test_it_learns_what_text_decides(crf: bool, kind: str) -> None:
    train, test = sentences(120), sentences(60, seed=1)
    labels = train if kind == "from_gold" else believed(train)
    tagger = FrozenTagger(**QUICK, crf=crf).fit(getattr(Targets, kind)(labels))
    assert f1(tagger, test) > 0.95
    found = tagger.predict(test)
    assert found.model == "frozen tagger"
    assert found.settings.get("saw_gold", False) is (kind == "from_gold")
    assert found.probabilities is not None
    np.testing.assert_allclose(found.probabilities.sum(1), 1, atol=1e-5)


def test_soft_targets_keep_doubt() -> None:
    data = sentences(120)
    sure, unsure = (
        FrozenTagger(**QUICK).fit(believed(data, share)).predict(data).probabilities for share in (0.99, 0.6)
    )
    assert sure is not None
    assert unsure is not None
    assert sure.max(1).mean() > unsure.max(1).mean() + 0.2


def test_class_weights_raise_recall() -> None:
    data = sentences(60)
    blurred = believed(data, 0.45)
    assert data.gold is not None
    rows = np.array(blurred.probabilities)
    rows[data.gold > 0, 0] += 0.4  # O is believed more than any entity, a little
    labels = cv.Predictions(data=data, labels=data.gold, probabilities=rows / rows.sum(1)[:, None])
    how = {"encoder": "hashing", "epochs": 8, "lr": 0.01, "crf": False}
    plain, heavy = (
        len(FrozenTagger(**how, class_weights=weights).fit(labels).predict(data).spans)
        for weights in (None, {"LOC": 5, "ANI": 5})
    )
    assert heavy > plain


def test_it_never_sees_votes(toy: cv.Dataset) -> None:
    labels = cv.MajorityVote().fit(toy).predict(toy)
    tagger = FrozenTagger(**QUICK).fit(labels)
    mute = toy.with_sources(toy.sources, np.full_like(toy.votes, -1), toy.silence)
    for data in (toy, mute, toy.select_sources(()), toy.without_gold()):
        found = tagger.predict(data)
        assert found.labels.tobytes() == tagger.predict(toy).labels.tobytes()
        assert found.data.sources == data.sources


def test_a_sentence_is_judged_alone() -> None:
    data = sentences(40)
    tagger = FrozenTagger(**QUICK).fit(Targets.from_gold(data))
    together, alone = (
        tagger.predict(data).probabilities_by_sentence(),
        tagger.predict(data.take([7])),
    )
    np.testing.assert_allclose(together[7], alone.probabilities_by_sentence()[0], atol=1e-5)


def test_the_same_seed_repeats_and_another_does_not() -> None:
    targets = Targets.from_soft_labels(believed(sentences(40)))
    one, two, other = (FrozenTagger(**QUICK, seed=seed).fit(targets) for seed in (1, 1, 2))
    assert tensors(one) == tensors(two)
    assert tensors(one) != tensors(other)


def test_saved_and_loaded_it_says_the_same(tmp_path: Path) -> None:
    tagger = FrozenTagger(**QUICK, context=2, crf=False, class_weights={"LOC": 2})
    tagger.fit(Targets.from_gold(sentences(40))).save(tmp_path / "t")
    loaded = cv.load_tagger(tmp_path / "t")
    assert loaded.config == tagger.config
    data = text(HARD)
    assert loaded.predict(data).labels.tobytes() == tagger.predict(data).labels.tobytes()
    assert loaded.predict(data).settings["saw_gold"]
    assert "fitted" in repr(loaded)


@pytest.mark.parametrize("step", [5, 12, 20])
def test_a_kill_costs_nothing(tmp_path: Path, step: int) -> None:
    targets = Targets.from_soft_labels(believed(sentences(60)))
    whole = FrozenTagger(**QUICK).fit(targets)
    with killed_at(step):
        FrozenTagger(**QUICK).fit(targets, checkpoint_dir=tmp_path)
    assert list(tmp_path.iterdir()) or step == 5
    resumed = FrozenTagger(**QUICK).fit(targets, checkpoint_dir=tmp_path)
    assert tensors(resumed) == tensors(whole)


def test_a_journal_of_other_targets_is_not_gone_on_with(tmp_path: Path) -> None:
    data = sentences(60)
    with killed_at(10):
        FrozenTagger(**QUICK).fit(believed(data, 0.6), checkpoint_dir=tmp_path)
    other = FrozenTagger(**QUICK).fit(believed(data), checkpoint_dir=tmp_path)
    assert tensors(other) == tensors(FrozenTagger(**QUICK).fit(believed(data)))


def test_fit_on_a_fitted_tagger_goes_on() -> None:
    targets = Targets.from_gold(sentences(60))
    tagger = FrozenTagger(**QUICK).fit(targets, targets)
    scaling = tagger.fitted.state.standardizer
    before = tensors(tagger)
    tagger.fit(Targets.from_soft_labels(believed(sentences(30, seed=4))), targets)
    assert tagger.fitted.state.standardizer is scaling
    assert tagger.fitted.uses_gold
    assert f1(tagger, sentences(40, seed=5)) > 0.97
    assert tensors(tagger).keys() == before.keys()


def test_valid_decides_when_to_stop() -> None:
    train, wrong = sentences(40), sentences(40, seed=3)
    nothing = Targets.from_gold(wrong.with_gold(np.zeros(len(wrong.tokens), np.int16)))
    tagger = FrozenTagger(**QUICK, crf=False).fit(Targets.from_gold(train), nothing)
    whole = FrozenTagger(**QUICK, crf=False).fit(Targets.from_gold(train), Targets.from_gold(train))
    assert f1(tagger, train) < 0.9 < f1(whole, train)


def test_a_fit_with_nothing_held_out(tmp_path: Path) -> None:
    targets = Targets.from_gold(sentences(2))
    tagger = FrozenTagger(**QUICK).fit(targets, targets.slice_sentences(0, 0))
    assert tagger.predict(text(HARD)).labels.shape == (sum(map(len, HARD)),)


def test_features_that_are_there_are_used_and_others_refused() -> None:
    data = cv.encode(sentences(20), "hashing", width=32, cache=False)
    tagger = FrozenTagger(**QUICK).fit(Targets.from_gold(data))
    assert tagger.fitted.state.encoder_spec.settings["width"] == 32
    assert tagger.predict(sentences(3)).labels.shape
    with pytest.raises(cv.MismatchError, match="was fitted on features"):
        tagger.predict(cv.encode(sentences(3), "hashing", width=64, cache=False))


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    targets = Targets.from_gold(sentences(20))
    tagger = FrozenTagger(**QUICK)
    with pytest.raises(cv.NotFittedError, match="call fit"):
        tagger.predict(sentences(1))
    with pytest.raises(cv.DataError, match="no tokens"):
        tagger.fit(targets.slice_sentences(0, 0))
    drugs = cv.Dataset.from_spans(["DRUG"], [["aspirin"]], {"s": [[(0, 1, "DRUG")]]})
    drugs = drugs.with_gold(np.array([1], np.int16))
    with pytest.raises(cv.MismatchError, match="expected types LOC, ANI; got DRUG"):
        tagger.fit(targets, Targets.from_gold(drugs))
    tagger.fit(targets)
    with pytest.raises(cv.MismatchError, match="no entity type 'DRUG'"):
        tagger.predict(drugs)


@pytest.mark.parametrize(
    "bad",
    [
        {"dropout": 1},
        {"context": -1},
        {"epochs": 0},
        {"batch": 0},
        {"class_weights": "balanced", "crf": True},
        {"class_weights": {"LOC": 0}, "crf": False},
        {"hiden": 3},
    ],
)
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError):
        FrozenTagger(**bad)


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    FrozenTagger(**QUICK).fit(Targets.from_gold(sentences(10)))
    assert torch.equal(torch.rand(1), expected)
