"""Coarse labels in files: asked for, or stated by files of ours."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.errors import ConfigError, DataError
from tests.io.test_roundtrip import SUFFIXES, there_and_back

COARSE = {"ENT": ("PER", "LOC"), "NOT-PER": ("O", "LOC")}


def column(folder: Path, name: str, *tags: str) -> Path:
    """A CoNLL file of one sentence, with gold and the tags of a source."""
    gold = ["B-PER", "O", "B-LOC"]
    lines = [f"w{n}\t{tag}\t{true}" for n, (tag, true) in enumerate(zip(tags, gold, strict=True))]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


COLUMNS = ("token", "source:s", "gold")


@pytest.mark.parametrize("meant", [{"ENT": "any", "NOT-PER": "not PER"}, COARSE])
@pytest.mark.parametrize("types", [None, ("PER", "LOC"), ("LOC", "ENT", "PER")])
def test_any_file_can_be_read_with_coarse_labels(meant: dict[str, Any], types: Any, tmp_path: Path) -> None:
    path = column(tmp_path, "x.conll", "B-ENT", "B-NOT-PER", "B-LOC")
    data = cv.read(path, columns=COLUMNS, coarse=meant, types=types)
    fine = tuple(name for name in types or ("LOC", "PER") if name != "ENT")
    assert data.tags.types == (*fine, "ENT", "NOT-PER")
    assert {name: set(allowed) for name, allowed in data.coarse.items()} == {
        name: set(allowed) for name, allowed in COARSE.items()
    }
    tags = [data.tags.names[label] for label in data.votes[:, 0]]
    assert tags == ["B-ENT", "B-NOT-PER", "B-LOC"]
    assert data.coarse == cv.io.read_content(path, columns=COLUMNS, coarse=meant, types=types).coarse


def test_on_the_command_line_meanings_are_one_string(tmp_path: Path) -> None:
    path = column(tmp_path, "x.conll", "B-ENT", "O", "O")
    data = cv.read(path, columns=COLUMNS, coarse="ENT=any; NOT-PER=not PER")
    assert set(data.coarse["ENT"]) == {"PER", "LOC"}
    with pytest.raises(ConfigError, match="coarse must be name=value"):
        cv.read(path, columns=COLUMNS, coarse="ENT")


def test_any_type_is_any_of_the_whole_corpus(tmp_path: Path) -> None:
    column(tmp_path, "train.conll", "B-ENT", "O", "O")
    (tmp_path / "test.conll").write_text("Acme\tO\tB-ORG\n")
    corpus = cv.read(tmp_path, columns=COLUMNS, coarse={"ENT": "any"})
    for data in corpus.splits.values():
        assert data.tags.types == ("LOC", "ORG", "PER", "ENT")
        assert data.coarse == {"ENT": ("LOC", "ORG", "PER")}


def voted() -> cv.Dataset:
    data = cv.Dataset.from_spans(
        ["PER", "LOC", "ENT", "NOT-PER"],
        [["Ada", "in", "Oslo"]],
        {"s": [[(0, 1, "ENT"), (1, 2, "NOT-PER"), (2, 3, "LOC")]]},
    )
    return replace(data.with_coarse(COARSE), prior_precision=(0.75,))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_predictions_keep_coarse_votes_and_have_no_coarse_labels(suffix: str, tmp_path: Path) -> None:
    rows = np.eye(5, dtype=np.float32)[[1, 0, 3]]
    labels = cv.Predictions(data=voted(), labels=np.array([1, 0, 3], np.int16), probabilities=rows, model="m")
    if suffix == ".conll":
        labels = replace(labels, probabilities=None)
    back = there_and_back(labels, tmp_path / f"x{suffix}")
    assert isinstance(back, cv.Predictions)
    assert back.data == voted()
    assert back.tags() == [["B-PER", "O", "B-LOC"]]
    if labels.probabilities is not None:
        np.testing.assert_array_equal(back.probabilities, rows)
    chosen = cv.io.read_content(tmp_path / f"x{suffix}", types=("LOC", "PER"))
    assert isinstance(chosen, cv.Predictions)
    assert chosen.data.tags.types == ("LOC", "PER", "ENT", "NOT-PER")
    assert chosen.tags() == back.tags()


def test_splits_must_agree_on_what_a_label_allows(tmp_path: Path) -> None:
    cv.write(voted(), tmp_path / "train.jsonl")
    other = voted().without_coarse().with_coarse({"ENT": "PER"})
    cv.write(replace(other, votes=other.votes * 0), tmp_path / "test.jsonl")
    with pytest.raises(DataError, match="'ENT' allows PER, LOC in one split, PER in another"):
        cv.read(tmp_path)


@pytest.mark.parametrize(
    ("coarse", "message"),
    [
        (["ENT"], "expected 'coarse' as types by label"),
        ({"ENT": "any"}, "expected 'ENT' as a list of names"),
        ({"ENT": ["ORG"]}, "coarse label 'ENT': no entity type 'ORG'"),
        ({"PER": ["ENT"]}, "must be the last of the types"),
        ({"ENT": []}, "allows nothing"),
    ],
)
def test_facts_that_make_no_sense_are_refused(coarse: Any, message: str, tmp_path: Path) -> None:
    corpus = {"types": ["PER", "ENT"], "sources": [], "coarse": coarse}
    (tmp_path / "x.jsonl").write_text(json.dumps({"corpus": corpus, "tokens": ["Ada"]}) + "\n")
    with pytest.raises(DataError, match=message):
        cv.read(tmp_path / "x.jsonl")
