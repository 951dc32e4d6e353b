"""Spelling beside features: the numbers, and what they are worth to an encoder that is blind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.features import DTYPES, EncoderSpec, Features, from_float32, to_float32
from convener.taggers.frozen import FrozenTagger, add_char_features, make_char_encoder
from convener.taggers.targets import Targets


def _blind(data: cv.Dataset) -> cv.Dataset:
    """With features that tell nothing."""
    none = Features(
        np.zeros((len(data.tokens), 3), np.float32),
        np.zeros((len(data), 3), np.float32),
        EncoderSpec("blind", "blind"),
    )
    return data.with_features(none)


def _capitals(count: int) -> cv.Dataset:
    """The same words all over: those with a capital are names."""
    words, gold = [["we", "met", "Will", "there", "will"]] * count, [[(2, 3, "PER")]] * count
    return _blind(cv.Dataset.from_spans(["PER"], words, {}, gold=gold))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_was_there_stays_and_spelling_stands_to_the_right(dtype: str) -> None:
    plain = cv.demo.load_corpus().test
    data = cv.encode(plain, "hashing", width=64, dtype=dtype, cache=False)
    speller = make_char_encoder(32)
    found = add_char_features(data, speller).features
    assert found.dtype == dtype
    assert found.encoder_spec == data.features.encoder_spec
    expected = speller.encode(data.tokens, data.offsets)
    for name in ("tokens", "sentences"):
        joined, known = getattr(found, name), getattr(data.features, name)
        assert np.array_equal(joined[:, :64], known)
        stored = to_float32(from_float32(getattr(expected, name), dtype))
        assert np.array_equal(to_float32(joined[:, 64:]), stored)
    assert add_char_features(data, make_char_encoder(0)) is data


def test_it_tells_what_features_do_not(tmp_path: Path) -> None:
    train, test = _capitals(40), _capitals(5)
    quick = {"epochs": 8, "lr": 0.01, "context": 0}
    blind = FrozenTagger(**quick, spelling=0).fit(Targets.from_gold(train))
    assert not cv.evaluate(blind.predict(test), test).f1
    seeing = FrozenTagger(**quick, spelling=32).fit(Targets.from_gold(train))
    labels = seeing.predict(test)
    assert cv.evaluate(labels, test).f1 == 1
    seeing.save(tmp_path / "tagger")
    again = cv.load_tagger(tmp_path / "tagger").predict(test)
    assert np.array_equal(again.probabilities, labels.probabilities)


def test_features_are_needed() -> None:
    with pytest.raises(cv.DataError, match="features are needed"):
        add_char_features(_capitals(1).with_features(None), make_char_encoder(8))
