"""What the base class does for every model."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener import storage
from convener.data.diagnostics import Diagnostics
from convener.data.features import EncoderSpec, Features, from_float32
from convener.data.predictions import LabelOutput
from convener.encoders import get_encoder
from convener.models.base import FeatureConfig, LabelModel
from convener.models.fitted import Params

# Models of these tests do not learn to label.
pytestmark = pytest.mark.filterwarnings("ignore:.*probably worse than a simple vote")


class Spy(LabelModel):
    """Records whether it receives gold labels."""

    summary = "a test double"

    def _fit(
        self, train: cv.Dataset, valid: cv.Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        self.saw = (train.gold is not None, valid is not None and valid.gold is not None)
        self.start = previous
        return {"fits": np.array([1 if previous is None else previous["fits"][0] + 1])}, Diagnostics()

    def _infer(self, params: Params, data: cv.Dataset) -> LabelOutput:
        labels = np.zeros(len(data.tokens), np.int16)
        return LabelOutput(labels, np.eye(len(data.tags), dtype=np.float32)[labels])


def test_gold_of_valid_is_passed_only_if_allowed(toy: cv.Dataset) -> None:
    assert Spy().fit(toy, toy).saw == (False, False)
    assert Spy().fit(toy, toy, use_valid_gold=True).saw == (False, True)


def test_a_second_fit_continues_from_the_first(toy: cv.Dataset) -> None:
    model = Spy().fit(toy)
    assert model.start is None
    model.fit(toy)
    assert model.fitted.params["fits"].tolist() == [2]


def test_a_second_fit_with_other_sources_is_refused(toy: cv.Dataset) -> None:
    model = Spy().fit(toy)
    with pytest.raises(cv.MismatchError, match="the data lacks: good"):
        model.fit(toy.select_sources(["fair"]))


def test_additional_sources_are_ignored(toy: cv.Dataset) -> None:
    some = toy.select_sources(["good", "fair"])
    model = cv.MajorityVote().fit(some)
    assert model.predict(toy).data.sources == ("good", "fair")


def test_another_meaning_of_unmarked_tokens_is_refused(toy: cv.Dataset) -> None:
    model = cv.MajorityVote().fit(toy)
    other = toy.with_sources(toy.sources, toy.votes, ("outside",) * len(toy.sources))
    expected = "unmarked=abstain for source good; the data has outside; .* read it with the option unmarked=abstain"
    with pytest.raises(cv.MismatchError, match=expected):
        model.predict(other)


def test_types_may_be_in_another_order(toy: cv.Dataset) -> None:
    model = cv.MajorityVote().fit(toy)
    turned = model.predict(toy.with_types(["LOC", "PER"]))
    assert turned.tags() == model.predict(toy).tags()


def test_an_unknown_model_is_named_with_a_suggestion() -> None:
    with pytest.raises(cv.UnknownNameError, match="did you mean 'majority-vote'"):
        cv.get_model("majority_vote")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.json").unlink(), "not a saved model"),
        (lambda f: (f / "model.json").write_text("{"), "not valid JSON"),
        (lambda f: (f / "model.json").write_text("[]"), "expected a model of version 2, got list"),
        (lambda f: (f / "model.json").write_text('{"version": 99}'), "version 2, got 99"),
        (lambda f: (f / "model.json").write_text('{"version": 2}'), "incomplete: 'model'"),
        (lambda f: (f / "params.safetensors").write_bytes(b"junk"), "params.safetensors: damaged"),
    ],
)
def test_a_damaged_checkpoint_is_named(toy: cv.Dataset, tmp_path: Path, damage: object, message: str) -> None:
    folder = tmp_path / "model"
    cv.MajorityVote().fit(toy).save(folder)
    damage(folder)  # type: ignore[operator]
    with pytest.raises(cv.DataError, match=message):
        cv.load_model(folder)


def test_saving_over_a_model_replaces_it_whole(toy: cv.Dataset, tmp_path: Path) -> None:
    cv.MajorityVote(scheme="span").fit(toy).save(tmp_path / "m")
    cv.MajorityVote(scheme="bio").fit(toy).save(tmp_path / "m")
    assert cv.load_model(tmp_path / "m").config.scheme == "bio"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_checkpoint_is_plain_json_and_safetensors(toy: cv.Dataset, tmp_path: Path) -> None:
    cv.MajorityVote().fit(toy).save(tmp_path / "m")
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        storage.METADATA_FILE,
        storage.ARRAYS_FILE,
    ]
    metadata = json.loads((tmp_path / "m" / storage.METADATA_FILE).read_text())
    assert metadata["sources"] == list(toy.sources)


@pytest.fixture
def doubled(toy: cv.Dataset) -> cv.Dataset:
    """The first source is a copy of another under a new name."""
    toy = toy.select_sources(["good", "fair"])
    votes = np.concatenate([toy.votes[:, :1], toy.votes], axis=1)
    return toy.with_sources(("echo", *toy.sources), votes, ("abstain", *toy.unmarked))


def test_a_duplicate_source_is_counted_once(toy: cv.Dataset, doubled: cv.Dataset, tmp_path: Path) -> None:
    with pytest.warns(cv.ConvenerWarning, match="counted once: good duplicates echo"):
        model = cv.HMM().fit(doubled)
    once = cv.HMM().fit(toy.select_sources(["good", "fair"]))
    found = model.predict(doubled)
    np.testing.assert_array_equal(found.probabilities, once.predict(toy).probabilities)
    assert found.data.sources == doubled.sources
    rows = {(row[0], row[1]): row[2:] for row in model.reliability().rows}
    assert rows["echo", "PER"] == rows["good", "PER"]
    assert {source for source, _ in rows} == set(doubled.sources)
    model.save(tmp_path / "m")
    again = cv.load_model(tmp_path / "m").predict(doubled)
    np.testing.assert_array_equal(again.probabilities, found.probabilities)


def test_a_second_fit_uses_the_same_sources(doubled: cv.Dataset) -> None:
    with pytest.warns(cv.ConvenerWarning):
        model = cv.HMM(max_iter=2).fit(doubled)
    model.fit(doubled)
    assert model.fitted.used_sources == ("echo", *doubled.sources[2:])


def test_majority_vote_counts_duplicates(doubled: cv.Dataset) -> None:
    model = cv.MajorityVote().fit(doubled)
    assert model.fitted.used_sources == doubled.sources


# Models that read features


class Reader(LabelModel):
    """Records the features it receives; its only parameter is their mean on train."""

    summary = "a test double"
    Config = FeatureConfig
    needs_features = True

    def _fit(
        self, train: cv.Dataset, valid: cv.Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        self.train, self.valid = train.features, None if valid is None else valid.features
        self.start = previous
        assert train.features is not None
        return {"mean": train.features.token_vectors().mean(axis=0)}, Diagnostics()

    def _infer(self, params: Params, data: cv.Dataset) -> LabelOutput:
        self.seen = data.features
        assert data.features is not None
        labels = (data.features.token_vectors()[:, 0] > params["mean"][0]).astype(np.int16)
        return LabelOutput(labels, np.eye(len(data.tags), dtype=np.float32)[labels])


WIDTH = 256
Parts = tuple[cv.Dataset, cv.Dataset, cv.Dataset]


def hashed(data: cv.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Features of the hashing encoder, rounded as in storage, in float64."""
    found = get_encoder("hashing").encode(data.tokens, data.offsets)
    tokens, sentences = (from_float32(rows, "float16").astype(np.float64) for rows in found)
    return tokens, sentences


def standardized(rows: np.ndarray, train: np.ndarray) -> np.ndarray:
    spread = train.std(axis=0)
    return (rows - train.mean(axis=0)) / np.where(spread > 1e-9, spread, 1)


@pytest.fixture
def parts(toy: cv.Dataset) -> Parts:
    return toy[:20], toy[20:30], toy[30:]


def test_a_model_encodes_data_and_standardizes_features(
    parts: Parts,
) -> None:
    train, *_ = parts
    model = Reader(encoder="hashing").fit(train)
    assert model.train is not None
    assert model.train.encoder_spec == get_encoder("hashing").spec
    for rows, raw in zip((model.train.token_vectors(), model.train.sentence_vectors()), hashed(train), strict=True):
        np.testing.assert_allclose(rows, standardized(raw, raw), atol=1e-3)
        moving = raw.std(axis=0) > 1e-6
        assert moving.sum() > WIDTH / 2
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-3)
        np.testing.assert_allclose(rows.std(axis=0)[moving], 1, atol=1e-3)
    assert train.features is None


def test_other_data_is_standardized_like_train(
    parts: Parts,
) -> None:
    train, valid, test = parts
    model = Reader(encoder="hashing").fit(train, valid)
    labels = model.predict(test)
    for seen, data in ((model.valid, valid), (model.seen, test)):
        assert seen is not None
        for rows, raw, base in zip(
            (seen.token_vectors(), seen.sentence_vectors()),
            hashed(data),
            hashed(train),
            strict=True,
        ):
            np.testing.assert_allclose(rows, standardized(raw, base), atol=2e-3)
    assert labels.data.features is None  # predictions refer to the given data


def test_a_saved_model_keeps_encoder_and_standardizer(parts: Parts, tmp_path: Path) -> None:
    train, _, test = parts
    model = Reader().fit(cv.encode(train, "hashing", width=64, seed=3))
    model.save(tmp_path / "m")
    metadata = json.loads((tmp_path / "m" / storage.METADATA_FILE).read_text())
    assert metadata["encoder"]["name"] == "hashing"
    assert metadata["encoder"]["digest"] == get_encoder("hashing", width=64, seed=3).spec.digest
    assert metadata["encoder"]["settings"]["width"] == 64
    again = Reader().load_files(tmp_path / "m", storage.read_metadata(tmp_path / "m"))
    expected, found = model.predict(test), again.predict(test)  # encoded as train was
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert 0 < expected.labels.mean() < 1
    assert again.seen is not None
    assert again.seen.dim == 64
    for one, two in zip(again.fitted.standardizer, model.fitted.standardizer, strict=True):
        np.testing.assert_array_equal(one, two)
    assert again.fitted.encoder_spec == model.fitted.encoder_spec
    assert again.fitted.encoder_spec.settings == model.fitted.encoder_spec.settings


def test_a_model_without_features_saves_no_encoder(toy: cv.Dataset, tmp_path: Path) -> None:
    model = cv.MajorityVote().fit(cv.encode(toy, "hashing"))
    assert model.fitted.encoder_spec is None
    assert model.fitted.standardizer is None
    model.save(tmp_path / "m")
    assert "encoding" not in json.loads((tmp_path / "m" / storage.METADATA_FILE).read_text())
    assert cv.load_model(tmp_path / "m").fitted.standardizer is None


def test_existing_features_are_used(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    train, valid, test = (cv.encode(part, "hashing", width=32) for part in parts)
    for name in ("get_encoder", "encode", "restore_encoder"):
        monkeypatch.delattr(sys.modules["convener.encoders"], name)
    model = Reader(encoder="minilm").fit(train, valid)
    model.predict(test)
    for seen, data in ((model.train, train), (model.valid, valid)):
        assert seen is not None
        assert data.features is not None
        assert np.shares_memory(seen.tokens, data.features.tokens)
    assert model.fitted.encoder_spec == get_encoder("hashing", width=32).spec


def test_data_without_features_is_encoded_like_train(
    parts: Parts,
) -> None:
    train, valid, test = parts
    model = Reader(encoder="minilm").fit(cv.encode(train, "hashing", width=32), valid)
    model.predict(test)
    for seen in (model.valid, model.seen):
        assert seen is not None
        assert seen.encoder_spec == get_encoder("hashing", width=32).spec


def test_another_encoder_is_refused(parts: Parts) -> None:
    train, valid, test = parts
    names = r"test-base was fitted on features of hashing \(\w{12}\); these are of mine \(m\)"
    mine = Features(*(a.astype(np.float32) for a in hashed(test)), EncoderSpec("mine", "m"))
    model = Reader(encoder="hashing").fit(train)
    with pytest.raises(cv.MismatchError, match=names):
        model.predict(test.with_features(mine))
    with pytest.raises(cv.MismatchError, match=names):
        model.fit(test.with_features(mine))
    other = cv.encode(valid, "hashing", seed=1)
    with pytest.raises(cv.MismatchError, match=r"features of hashing .* of hashing"):
        Reader(encoder="hashing").fit(train, other)


def test_features_of_another_width_are_refused(
    parts: Parts,
) -> None:
    train, _, test = (cv.encode(part, "hashing", cache=False) for part in parts)
    model = Reader().fit(train)
    assert test.features is not None
    narrow = replace(
        test.features,
        tokens=test.features.tokens[:, :9],
        sentences=test.features.sentences[:, :9],
    )
    with pytest.raises(cv.MismatchError, match="must be 256 wide as in training, got 9"):
        model.predict(test.with_features(narrow))


def test_a_changed_encoder_is_refused(parts: Parts, tmp_path: Path) -> None:
    train, _, test = parts
    Reader(encoder="hashing").fit(train).save(tmp_path / "m")
    metadata = storage.read_metadata(tmp_path / "m")
    old = metadata | {"encoder": metadata["encoder"] | {"digest": "0" * 64}}
    model = Reader().load_files(tmp_path / "m", old)
    with pytest.raises(cv.ConfigError, match=r"'hashing' has changed since fitting: expected hashing \(0{12}\)"):
        model.predict(test)


def test_a_second_fit_keeps_encoder_and_standardizer(
    parts: Parts,
) -> None:
    train, valid, _ = parts
    model = Reader(encoder="hashing").fit(train)
    before = model.fitted
    model.fit(valid)
    assert model.start is before.params
    assert model.fitted.standardizer is before.standardizer
    assert model.train is not None
    np.testing.assert_allclose(model.train.token_vectors(), standardized(hashed(valid)[0], hashed(train)[0]), atol=2e-3)


def test_the_encoder_of_a_model_is_a_setting(toy: cv.Dataset) -> None:
    assert Reader().config.encoder == "auto"
    with pytest.raises(cv.UnknownNameError, match="did you mean 'hashing'"):
        Reader(encoder="hashng").fit(toy)
    assert Reader(encoder="hashing").encode(toy).features is not None
    assert cv.MajorityVote().encode(toy) is toy


class UsesValidGold(cv.MajorityVote):
    """Declares that gold labels of valid may stop its training."""

    uses_valid_gold = True


def test_predictions_state_which_gold_labels_were_used(toy: cv.Dataset, tmp_path: Path) -> None:
    plain = cv.MajorityVote().fit(toy, toy, use_valid_gold=True)
    assert plain.predict(toy).uses_gold == "none"
    model = UsesValidGold().fit(toy, toy)
    assert model.predict(toy).uses_gold == "none"
    assert model.fit(toy, toy.without_gold(), use_valid_gold=True).fitted.uses_gold == "none"
    assert model.fit(toy, toy, use_valid_gold=True).predict(toy).uses_gold == "valid"
    assert model.fit(toy, toy).predict(toy).uses_gold == "valid"  # it continues from that fit
    assert "used gold labels of the validation split" in str(cv.evaluate(model.predict(toy), toy))
    oracle = cv.BestConsensus().fit(toy)
    oracle.save(tmp_path / "oracle")
    assert cv.load_model(tmp_path / "oracle").predict(toy).uses_gold == "test"
