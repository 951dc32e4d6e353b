"""Character features: their values, and their benefit when the encoder is uninformative."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.features import DTYPES, EncoderSpec, Features, from_float32, to_float32
from convener.taggers.frozen import FrozenTagger, add_char_features, make_char_encoder
from convener.taggers.targets import Targets


def _with_constant_features(data: cv.Dataset) -> cv.Dataset:
    """Data with features that carry no information."""
    features = Features(
        np.zeros((len(data.tokens), 3), np.float32),
        np.zeros((len(data), 3), np.float32),
        EncoderSpec("constant", "constant"),
    )
    return data.with_features(features)


def _capitals(count: int) -> cv.Dataset:
    """Equal sentences in which the capitalized word is a name."""
    words, gold = [["we", "met", "Will", "there", "will"]] * count, [[(2, 3, "PER")]] * count
    return _with_constant_features(cv.Dataset.from_spans(["PER"], words, {}, gold=gold))


@pytest.mark.parametrize("dtype", DTYPES)
def test_character_features_are_appended_and_the_others_unchanged(dtype: str) -> None:
    plain = cv.demo.load_corpus().test
    data = cv.encode(plain, "hashing", width=64, dtype=dtype, cache=False)
    char_encoder = make_char_encoder(32)
    features = add_char_features(data, char_encoder).features
    assert features.dtype == dtype
    assert features.encoder_spec == data.features.encoder_spec
    expected = char_encoder.encode(data.tokens, data.offsets)
    for name in ("tokens", "sentences"):
        joined, original = getattr(features, name), getattr(data.features, name)
        assert np.array_equal(joined[:, :64], original)
        stored = to_float32(from_float32(getattr(expected, name), dtype))
        assert np.array_equal(to_float32(joined[:, 64:]), stored)
    assert add_char_features(data, make_char_encoder(0)) is data


def test_character_features_inform_where_the_encoder_does_not(tmp_path: Path) -> None:
    train, test = _capitals(40), _capitals(5)
    quick = {"max_epochs": 8, "learning_rate": 0.01, "context_window": 0}
    without = FrozenTagger(**quick, char_dim=0).fit(Targets.from_gold(train))
    assert not cv.evaluate(without.predict(test), test).f1
    with_chars = FrozenTagger(**quick, char_dim=32).fit(Targets.from_gold(train))
    labels = with_chars.predict(test)
    assert cv.evaluate(labels, test).f1 == 1
    with_chars.save(tmp_path / "tagger")
    loaded = cv.load_tagger(tmp_path / "tagger").predict(test)
    assert np.array_equal(loaded.probabilities, labels.probabilities)


def test_features_are_required() -> None:
    with pytest.raises(cv.DataError, match="features are needed"):
        add_char_features(_capitals(1).with_features(None), make_char_encoder(8))
