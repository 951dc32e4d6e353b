"""Coarse labels in files: given as an option, or stated in native files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.errors import ConfigError, DataError
from tests.helpers.reading import read_content
from tests.io.test_roundtrip import SUFFIXES, round_trip

COARSE = {"ENT": ("PER", "LOC"), "NOT-PER": ("O", "LOC")}


def write_column(folder: Path, name: str, *tags: str) -> Path:
    """Write a CoNLL file of one sentence, with gold and the tags of a source."""
    gold = ["B-PER", "O", "B-LOC"]
    lines = [f"w{n}\t{tag}\t{true}" for n, (tag, true) in enumerate(zip(tags, gold, strict=True))]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


COLUMNS = ("token", "source:s", "gold")


@pytest.mark.parametrize("coarse", [{"ENT": "any", "NOT-PER": "not PER"}, COARSE])
@pytest.mark.parametrize("types", [None, ("PER", "LOC"), ("LOC", "ENT", "PER")])
def test_coarse_labels_can_be_given_for_any_file(coarse: dict[str, Any], types: Any, tmp_path: Path) -> None:
    path = write_column(tmp_path, "x.conll", "B-ENT", "B-NOT-PER", "B-LOC")
    data = cv.read(path, columns=COLUMNS, coarse=coarse, types=types)
    fine = tuple(name for name in types or ("LOC", "PER") if name != "ENT")
    assert data.tags.types == (*fine, "ENT", "NOT-PER")
    assert {name: set(allowed) for name, allowed in data.coarse.items()} == {
        name: set(allowed) for name, allowed in COARSE.items()
    }
    tags = [data.tags.names[label] for label in data.votes[:, 0]]
    assert tags == ["B-ENT", "B-NOT-PER", "B-LOC"]
    assert data.coarse == read_content(path, columns=COLUMNS, coarse=coarse, types=types).coarse


def test_coarse_labels_can_be_given_as_one_string(tmp_path: Path) -> None:
    path = write_column(tmp_path, "x.conll", "B-ENT", "O", "O")
    data = cv.read(path, columns=COLUMNS, coarse="ENT=any; NOT-PER=not PER")
    assert set(data.coarse["ENT"]) == {"PER", "LOC"}
    with pytest.raises(ConfigError, match="coarse must be name=value"):
        cv.read(path, columns=COLUMNS, coarse="ENT")


def test_any_means_every_type_of_the_corpus(tmp_path: Path) -> None:
    write_column(tmp_path, "train.conll", "B-ENT", "O", "O")
    (tmp_path / "test.conll").write_text("Acme\tO\tB-ORG\n")
    corpus = cv.read_corpus(tmp_path, columns=COLUMNS, coarse={"ENT": "any"})
    for data in corpus.splits.values():
        assert data.tags.types == ("LOC", "ORG", "PER", "ENT")
        assert data.coarse == {"ENT": ("LOC", "ORG", "PER")}


def coarse_data() -> cv.Dataset:
    data = cv.Dataset.from_spans(
        ["PER", "LOC", "ENT", "NOT-PER"],
        [["Ada", "in", "Oslo"]],
        {"s": [[(0, 1, "ENT"), (1, 2, "NOT-PER"), (2, 3, "LOC")]]},
    )
    return replace(data.with_coarse(COARSE), prior_precision=(0.75,))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_predictions_keep_coarse_votes_but_have_only_fine_labels(suffix: str, tmp_path: Path) -> None:
    rows = np.eye(5, dtype=np.float32)[[1, 0, 3]]
    predictions = cv.Predictions(
        data=coarse_data(), labels=np.array([1, 0, 3], np.int16), probabilities=rows, model="m"
    )
    if suffix == ".conll":
        predictions = replace(predictions, probabilities=None)
    result = round_trip(predictions, tmp_path / f"x{suffix}")
    assert isinstance(result, cv.Predictions)
    assert result.data == coarse_data()
    assert result.tags() == [["B-PER", "O", "B-LOC"]]
    if predictions.probabilities is not None:
        np.testing.assert_array_equal(result.probabilities, rows)
    selected = read_content(tmp_path / f"x{suffix}", types=("LOC", "PER"))
    assert isinstance(selected, cv.Predictions)
    assert selected.data.tags.types == ("LOC", "PER", "ENT", "NOT-PER")
    assert selected.tags() == result.tags()


def test_splits_must_agree_on_coarse_labels(tmp_path: Path) -> None:
    cv.write(coarse_data(), tmp_path / "train.jsonl")
    other = coarse_data().without_coarse().with_coarse({"ENT": "PER"})
    cv.write(replace(other, votes=other.votes * 0), tmp_path / "test.jsonl")
    with pytest.raises(DataError, match="'ENT' allows PER, LOC in one split, PER in another"):
        cv.read_corpus(tmp_path)


@pytest.mark.parametrize(
    ("coarse", "message"),
    [
        (["ENT"], "'coarse_types' must map labels to types"),
        ({"ENT": "any"}, "'ENT' must be a list of names"),
        ({"ENT": ["ORG"]}, "coarse label 'ENT': no entity type 'ORG'"),
        ({"PER": ["ENT"]}, "must be the last of the types"),
        ({"ENT": []}, "allows nothing"),
    ],
)
def test_invalid_coarse_metadata_is_an_error(coarse: Any, message: str, tmp_path: Path) -> None:
    corpus = {"types": ["PER", "ENT"], "sources": [], "coarse_types": coarse}
    (tmp_path / "x.jsonl").write_text(json.dumps({"convener": corpus, "tokens": ["Ada"]}) + "\n")
    with pytest.raises(DataError, match=message):
        cv.read(tmp_path / "x.jsonl")
