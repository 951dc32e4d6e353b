"""JSON Lines for doccano and Prodigy, compared with their documented records and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import convener as cv
from convener.errors import ConvenerWarning, FormatError
from tests.generators import Kind, datasets

TEXT = "Ada  Lovelace\u00a0left."


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def labels() -> cv.Predictions:
    data = cv.tokenize({"d": TEXT}, types=["PER"])
    return cv.Predictions(data=data, labels=np.array([1, 2, 0, 0], np.int16))


def test_doccano_gets_spans_in_characters(tmp_path: Path, labels: cv.Predictions) -> None:
    with pytest.warns(ConvenerWarning, match="drops: the model's name"):
        cv.write(labels, tmp_path / "d.jsonl", format="doccano")
    assert records(tmp_path / "d.jsonl") == [{"text": TEXT, "label": [[0, 13, "PER"]], "doc_id": "d", "doc_offset": 0}]


def test_prodigy_gets_tokens_and_spans(tmp_path: Path, labels: cv.Predictions) -> None:
    with pytest.warns(ConvenerWarning, match="drops"):
        cv.write(labels, tmp_path / "p.jsonl", format="prodigy")
    (record,) = records(tmp_path / "p.jsonl")
    assert record["spans"] == [{"start": 0, "end": 13, "token_start": 0, "token_end": 1, "label": "PER"}]
    assert record["tokens"][0] == {"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": True}
    assert [token["ws"] for token in record["tokens"]] == [True, True, False, False]
    assert record["meta"] == {"doc_id": "d", "doc_offset": 0}


def test_tokens_without_text_are_joined_by_spaces(tmp_path: Path) -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada", "left"]], {}, gold=[[(0, 1, "PER")]])
    cv.write(data, tmp_path / "d.jsonl", format="doccano")
    assert records(tmp_path / "d.jsonl") == [{"text": "Ada left", "label": [[0, 3, "PER"]]}]
    cv.write(data.without_gold(), tmp_path / "d.jsonl", format="doccano")
    assert records(tmp_path / "d.jsonl") == [{"text": "Ada left", "label": []}]
    empty = cv.Dataset.from_spans(["PER"], [["Ada", ""]], {}, gold=[[]])
    with pytest.raises(FormatError, match=r"sentence 0: token 1 is empty"):
        cv.write(empty, tmp_path / "d.jsonl", format="doccano")


def test_dropped_votes_are_named(tmp_path: Path) -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada"]], {"names": [[(0, 1, "PER")]]})
    with pytest.warns(ConvenerWarning, match="votes of sources are dropped"):
        cv.write(data, tmp_path / "d.jsonl", format="prodigy")


def test_a_corpus_is_written_as_splits(tmp_path: Path) -> None:
    corpus = cv.demo.load_corpus()
    splits = {name: data.select_sources([]) for name, data in corpus.splits.items()}
    cv.write(cv.Corpus(splits=splits), tmp_path / "doccano", format="doccano")
    assert len(cv.read_corpus(tmp_path / "doccano").train) == len(corpus.train)


@pytest.mark.parametrize("name", ["doccano", "prodigy"])
@given(data=datasets(kind=Kind(), gold=True, text=True, max_sources=0))
def test_text_and_gold_are_read_back(tmp_path_factory: pytest.TempPathFactory, name: str, data: cv.Dataset) -> None:
    data = replace(data.with_types(data.tags.types), doc_ids=None)
    path = tmp_path_factory.mktemp(name) / "x.jsonl"
    try:
        cv.write(data, path, format=name)
    except FormatError as error:
        assert "is empty or overlaps" in str(error)  # noqa: PT017
        return
    if not len(data):
        return
    read = cv.read(path, types=data.tags.types, issues=cv.Issues())
    assert read.text is not None
    assert data.text is not None
    assert read.text.sentences == data.text.sentences
    if name == "prodigy":
        assert read.tokens == data.tokens
        assert read.gold is not None
        assert data.gold is not None
        assert read.gold.tolist() == data.gold.tolist()
