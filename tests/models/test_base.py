"""What the base class does for every model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.io import checkpoint
from convener.models.base import Inference, LabelModel, Params


class Spy(LabelModel):
    """Remembers the gold it was shown."""

    summary = "a test double"

    def learn(self, train: cv.Dataset, valid: cv.Dataset | None, start: Params | None) -> Params:
        self.saw = (train.gold is not None, valid is not None and valid.gold is not None)
        self.start = start
        return {"fits": np.array([1 if start is None else start["fits"][0] + 1])}

    def infer(self, params: Params, data: cv.Dataset) -> Inference:
        labels = np.zeros(len(data.tokens), np.int16)
        return Inference(labels, np.eye(len(data.tags), dtype=np.float32)[labels])


def test_gold_of_valid_is_shown_only_when_asked_for(toy: cv.Dataset) -> None:
    assert Spy().fit(toy, toy).saw == (False, False)
    assert Spy().fit(toy, toy, use_gold=True).saw == (False, True)


def test_fit_goes_on_from_a_fitted_model(toy: cv.Dataset) -> None:
    model = Spy().fit(toy)
    assert model.start is None
    model.fit(toy)
    assert model.fitted.params["fits"].tolist() == [2]


def test_going_on_with_other_sources_is_refused(toy: cv.Dataset) -> None:
    model = Spy().fit(toy)
    with pytest.raises(cv.MismatchError, match="missing here: good"):
        model.fit(toy.select_sources(["fair"]))


def test_extra_sources_are_left_out(toy: cv.Dataset) -> None:
    some = toy.select_sources(["good", "fair"])
    model = cv.MajorityVote().fit(some)
    assert model.predict(toy).data.sources == ("good", "fair")


def test_another_meaning_of_silence_is_refused(toy: cv.Dataset) -> None:
    model = cv.MajorityVote().fit(toy)
    other = toy.with_sources(toy.sources, toy.votes, ("abstain",) * len(toy.sources))
    with pytest.raises(cv.MismatchError, match="silence of good meaning O; here it is abstain"):
        model.predict(other)


def test_types_in_another_order_are_understood(toy: cv.Dataset) -> None:
    model = cv.MajorityVote().fit(toy)
    turned = model.predict(toy.with_types(["LOC", "PER"]))
    assert turned.tags() == model.predict(toy).tags()


def test_an_unknown_model_is_named_with_a_suggestion() -> None:
    with pytest.raises(cv.UnknownNameError, match="did you mean 'majority-vote'"):
        cv.get("majority_vote")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.json").unlink(), "not a saved model"),
        (lambda f: (f / "model.json").write_text("{"), "not valid JSON"),
        (lambda f: (f / "model.json").write_text("[]"), "expected a model of version 1, got list"),
        (lambda f: (f / "model.json").write_text('{"version": 99}'), "version 1, got 99"),
        (lambda f: (f / "model.json").write_text('{"version": 1}'), "incomplete: 'model'"),
        (lambda f: (f / "params.safetensors").write_bytes(b"junk"), "params.safetensors: damaged"),
    ],
)
def test_a_damaged_checkpoint_is_named(
    toy: cv.Dataset, tmp_path: Path, damage: object, message: str
) -> None:
    folder = tmp_path / "model"
    cv.MajorityVote().fit(toy).save(folder)
    damage(folder)  # type: ignore[operator]
    with pytest.raises(cv.DataError, match=message):
        cv.load(folder)


def test_saving_over_a_model_replaces_it_whole(toy: cv.Dataset, tmp_path: Path) -> None:
    cv.MajorityVote(scheme="span").fit(toy).save(tmp_path / "m")
    cv.MajorityVote(scheme="bio").fit(toy).save(tmp_path / "m")
    assert cv.load(tmp_path / "m").config.scheme == "bio"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_checkpoint_is_plain_json_and_safetensors(toy: cv.Dataset, tmp_path: Path) -> None:
    cv.MajorityVote().fit(toy).save(tmp_path / "m")
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        checkpoint.FACTS,
        checkpoint.NUMBERS,
    ]
    facts = json.loads((tmp_path / "m" / checkpoint.FACTS).read_text())
    assert facts["sources"] == list(toy.sources)


def test_sources_that_vote_alike_are_named(toy: cv.Dataset) -> None:
    doubled = toy.with_sources(
        (*toy.sources, "echo"), np.concatenate([toy.votes, toy.votes[:, :1]], axis=1), ("O",) * 6
    )
    with pytest.warns(cv.ConvenerWarning, match="counted each: good = echo"):
        cv.MajorityVote().fit(doubled)
