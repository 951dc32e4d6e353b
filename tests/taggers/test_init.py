"""Taggers by name; loading of saved taggers."""

from __future__ import annotations

from pathlib import Path

import pytest

import convener as cv
from convener import taggers
from convener.taggers.targets import Targets

from .toys import sentences


def test_tagger_classes_are_public() -> None:
    for name, class_name in taggers.TAGGER_CLASSES.items():
        assert taggers.get_tagger(name) is getattr(cv, class_name)
        assert taggers.get_tagger(name).name == name
        assert taggers.get_tagger(name).summary


def test_loading_distinguishes_models_and_taggers(toy: cv.Dataset, tmp_path: Path) -> None:
    cv.MajorityVote().fit(toy).save(tmp_path / "model")
    cv.FrozenTagger(encoder="hashing", max_epochs=1).fit(Targets.from_gold(sentences(5))).save(tmp_path / "tagger")
    assert taggers.is_tagger(tmp_path / "tagger")
    assert not taggers.is_tagger(tmp_path / "model")
    assert not taggers.is_tagger(tmp_path)
    with pytest.raises(cv.DataError, match=r"a tagger, not a label model: .*load_tagger"):
        cv.load_model(tmp_path / "tagger")
    with pytest.raises(cv.DataError, match="expected a tagger, found a label model"):
        cv.load_tagger(tmp_path / "model")
    with pytest.raises(cv.DataError, match="not a saved model"):
        cv.load_tagger(tmp_path / "nothing")


@pytest.mark.parametrize("text", ['{"version": 2, "tagger": "frozen"}', "[", '{"version": 7}'])
def test_a_damaged_folder_is_an_error_with_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(cv.DataError, match=r"model\.json"):
        cv.load_tagger(tmp_path)


def test_missing_weights_are_an_error_with_the_file(tmp_path: Path) -> None:
    cv.FrozenTagger(encoder="hashing", max_epochs=1).fit(Targets.from_gold(sentences(5))).save(tmp_path / "t")
    (tmp_path / "t" / "params.safetensors").unlink()
    with pytest.raises(cv.DataError, match=r"params\.safetensors"):
        cv.load_tagger(tmp_path / "t")
