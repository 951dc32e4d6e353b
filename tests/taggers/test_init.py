"""Taggers by kind, saved and found again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import convener as cv
from convener import taggers
from convener.taggers.targets import Targets

from .toys import sentences

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import convener as cv
try:
    cv.tagger.get_tagger("frozen")
except cv.MissingDependencyError as error:
    print(error)
print(cv.SpacyTagger.kind)
"""


def test_kinds_are_public_names() -> None:
    for kind, name in taggers.TAGGER_CLASSES.items():
        assert taggers.get_tagger(kind) is getattr(cv, name)
        assert taggers.get_tagger(kind).kind == kind
        assert taggers.get_tagger(kind).summary


def test_without_torch_the_way_to_it_is_told() -> None:
    said = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert "a frozen tagger needs torch: pip install 'convener[encoders]'" in said.stdout
    assert "spacy" in said.stdout


@pytest.mark.parametrize(("name", "error"), [("torch", cv.MissingDependencyError), ("x", ImportError)])
def test_only_a_missing_torch_is_told_so(monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception]) -> None:
    def fail(_: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(taggers, "import_module", fail)
    with pytest.raises(error):
        taggers.get_tagger("frozen")


def test_models_and_taggers_are_told_apart(toy: cv.Dataset, tmp_path: Path) -> None:
    cv.MajorityVote().fit(toy).save(tmp_path / "model")
    cv.FrozenTagger(encoder="hashing", epochs=1).fit(Targets.from_gold(sentences(5))).save(tmp_path / "tagger")
    assert taggers.is_tagger(tmp_path / "tagger")
    assert not taggers.is_tagger(tmp_path / "model")
    assert not taggers.is_tagger(tmp_path)
    with pytest.raises(cv.DataError, match=r"a tagger, not a label model: .*load_tagger"):
        cv.load_model(tmp_path / "tagger")
    with pytest.raises(cv.DataError, match="a label model, not a tagger"):
        cv.load_tagger(tmp_path / "model")
    with pytest.raises(cv.DataError, match="not a saved model"):
        cv.load_tagger(tmp_path / "nothing")


@pytest.mark.parametrize("text", ['{"version": 1, "tagger": "frozen"}', "[", '{"version": 7}'])
def test_a_damaged_folder_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(cv.DataError, match=r"model\.json"):
        cv.load_tagger(tmp_path)


def test_missing_numbers_are_one_clear_error(tmp_path: Path) -> None:
    cv.FrozenTagger(encoder="hashing", epochs=1).fit(Targets.from_gold(sentences(5))).save(tmp_path / "t")
    (tmp_path / "t" / "params.safetensors").unlink()
    with pytest.raises(cv.DataError, match=r"params\.safetensors"):
        cv.load_tagger(tmp_path / "t")
