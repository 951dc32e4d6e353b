"""Files of earlier format versions are read with the same meaning.

The folder `version_1` was written by version 0.1: a dataset and predictions in every format, each with a source that
marks only what it knows ("lexicon") and one that read the text ("worker"). These files never change.
"""

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.dataset import Text
from convener.data.ragged import StringArray
from tests.generators import same
from tests.helpers.reading import read_content

FOLDER = Path(__file__).parent / "version_1"
SUFFIXES = ("json", "jsonl", "conll", "csv", "parquet", "npz", "spacy", "hf")


def expected(suffix: str) -> cv.Dataset:
    """The dataset in the files; CoNLL has no text."""
    data = cv.Dataset.from_spans(
        ["LOC", "PER", "ENT"],
        [["Ada", "saw", "Rome"], ["Nobody", "came"], ["Bob"]],
        {"lexicon": [[(0, 1, "PER"), (2, 3, "LOC")], [], []], "worker": [[(0, 1, "PER"), (2, 3, "ENT")], [], None]},
    )
    text = Text(
        StringArray.from_list(["Ada saw Rome", "Nobody came", "Bob"]),
        np.array([(0, 3), (4, 7), (8, 12), (0, 6), (7, 11), (0, 3)], np.int32),
        np.array([0, 13, 0], np.int64),
    )
    return replace(
        data.with_coarse({"ENT": "any"}),
        unmarked=("abstain", "outside"),
        prior_precision=(0.75, None),
        gold=np.array([3, 0, 1, 0, 0, 3], np.int16),
        text=None if suffix == "conll" else text,
        doc_ids=StringArray.from_list(["a", "a", "b"]),
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_dataset_of_version_1_is_read_with_the_same_meaning(suffix: str) -> None:
    assert cv.read(FOLDER / f"data.{suffix}") == expected(suffix)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_predictions_of_version_1_are_read_with_the_same_meaning(suffix: str) -> None:
    data = expected(suffix)
    assert data.gold is not None
    probabilities = np.full((len(data.tokens), 5), 0.125, np.float32)
    probabilities[np.arange(len(data.tokens)), data.gold] = 0.5
    predictions = cv.Predictions(
        data=data.without_gold(),
        labels=data.gold,
        probabilities=None if suffix == "conll" else probabilities,
        span_scores=np.full(3, 0.5, np.float32) if suffix == "conll" else None,
        model="hmm",
        settings={"seed": 1},
    )
    assert same(read_content(FOLDER / f"predictions.{suffix}"), predictions)


def test_metadata_without_a_version_is_identified_by_its_key(tmp_path: Path) -> None:
    """Wrench, JSON lines and CoNLL files of version 1 have no version; people who write metadata may omit it, too."""
    for key, word in (("silence", "abstain"), ("unmarked", "outside")):
        corpus = f'{{"types": ["PER"], "sources": ["a"], "{key}": {{"a": "{word}"}}}}'
        (tmp_path / "x.jsonl").write_text(f'{{"corpus": {corpus}, "tokens": ["Ada"]}}\n', encoding="utf-8")
        data = cv.read(tmp_path / "x.jsonl")
        assert (data.unmarked, data.votes.tolist()) == (("outside",), [[-1]])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_state_the_current_version(tmp_path: Path, suffix: str) -> None:
    """Older releases refuse them instead of misreading what unmarked tokens mean."""
    cv.write(expected(suffix), tmp_path / f"x.{suffix}")
    written = b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file())
    if suffix == "spacy":
        written = zlib.decompress(written)
    stated = written.replace(b'""', b'"').replace(b'\\"', b'"')
    assert b'"version": 2' in stated
    assert b'"unmarked": {"lexicon": "abstain", "worker": "outside"}' in stated
    assert b"silence" not in stated
    assert cv.read(tmp_path / f"x.{suffix}") == expected(suffix)
