"""The spreadsheet of spans: one row per span, at the place where it stands in its document."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import convener as cv
from convener.data.dataset import Text
from convener.data.ragged import StringArray
from convener.errors import DataError, FormatError
from tests.generators import Kind, predictions


def rows(content: Any, path: Path, **options: Any) -> list[dict[str, str]]:
    cv.write(content, path, **options)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def predict(data: cv.Dataset) -> cv.Predictions:
    """The first token of each sentence as a person."""
    labels = np.zeros(len(data.tokens), np.int16)
    labels[data.offsets[:-1]] = 1
    scores = np.full(len(data), 0.123456, np.float32)
    return cv.Predictions(data=data.with_types(["PER"]), labels=labels, span_scores=scores)


DOCUMENT = "Ada, left.  Bob\u00a0stayed. \U0001f642 Eve ran."


def test_offsets_are_those_of_the_document(tmp_path: Path) -> None:
    found = rows(predict(cv.tokenize({"d": DOCUMENT}, types=["PER"])), tmp_path / "l.csv")
    assert list(found[0]) == ["doc", "start", "end", "text", "label", "score"]
    assert found[0] == {"doc": "d", "start": "0", "end": "3", "text": "Ada", "label": "PER", "score": "0.1235"}
    assert [DOCUMENT[int(row["start"]) : int(row["end"])] for row in found] == [row["text"] for row in found]
    frame = pd.read_csv(tmp_path / "l.csv")
    assert frame["score"].dtype == float
    assert len(frame) == len(found)


def test_metadata_writes_the_long_table(tmp_path: Path) -> None:
    predicted = predict(cv.tokenize({"d": DOCUMENT}, types=["PER"]))
    cv.write(predicted, tmp_path / "l.csv", metadata=True)
    assert cv.read_predictions(tmp_path / "l.csv").data == predicted.data
    cv.write(predicted.data, tmp_path / "d.csv")
    assert cv.read(tmp_path / "d.csv") == predicted.data


def test_documents_without_places_have_a_column_for_the_sentence(tmp_path: Path) -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada", "left"], ["Bob", "too"]], {})
    assert [row["doc"] for row in rows(predict(data), tmp_path / "l.csv")] == ["0", "1"]
    in_one = replace(data, doc_ids=StringArray.from_list(["d", "d"]))
    found = rows(predict(in_one), tmp_path / "l.csv")
    assert [(row["doc"], row["sentence"], row["start"]) for row in found] == [("d", "0", "0"), ("d", "1", "0")]
    text = Text(
        StringArray.from_list(["Ada left", "Bob too"]),
        np.array([[0, 3], [4, 8], [0, 3], [4, 7]], np.int32),
        np.zeros(2, np.int64),
    )
    assert rows(predict(replace(in_one, text=text)), tmp_path / "l.csv")[1]["sentence"] == "1"


def test_gold_is_written_on_request(tmp_path: Path) -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada", "left"]], {}, gold=[[(0, 1, "PER")]])
    assert rows(data, tmp_path / "l.csv", metadata=False)[0]["text"] == "Ada"
    with pytest.raises(FormatError, match="neither predictions nor gold"):
        cv.write(data.without_gold(), tmp_path / "l.csv", metadata=False)


def test_reading_it_names_the_remedy(tmp_path: Path) -> None:
    rows(predict(cv.tokenize("Ada left.", types=["PER"])), tmp_path / "l.csv")
    with pytest.raises(DataError, match=r"l\.csv:1: this is a spreadsheet of spans, .* metadata=True \(--metadata\)"):
        cv.read_predictions(tmp_path / "l.csv")


@given(content=predictions(kind=Kind(surrogates=False), scores=None))
def test_every_span_is_one_row_with_its_text(tmp_path_factory: pytest.TempPathFactory, content: cv.Predictions) -> None:
    found = rows(content, tmp_path_factory.mktemp("csv") / "l.csv")
    assert [row["label"] for row in found] == [content.data.tags.types[index] for index in content.spans.type]
    assert all((row["score"] != "") == (content.spans.score is not None) for row in found)
    if content.data.text is not None and "sentence" in (found or [{}])[0]:
        for row in found:
            sentence = content.data.text.sentences[int(row["sentence"])]
            assert sentence[int(row["start"]) : int(row["end"])] == row["text"]
