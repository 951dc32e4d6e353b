"""What type checkers know of data in memory. `make types` checks this file; nothing in it is run.

A wrong type carries the error that mypy must report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

import pyarrow as pa
from spacy.tokens import Doc

import convener as cv


def accepted(docs: list[Doc], table: pa.Table, texts: Mapping[str, str]) -> None:
    assert_type(cv.read("notes.txt"), cv.Dataset)
    assert_type(cv.read(["Ada left.", "Bo went."]), cv.Dataset)
    assert_type(cv.read(texts), cv.Dataset)
    assert_type(cv.read(docs), cv.Dataset)
    assert_type(cv.read(table), cv.Dataset)
    assert_type(cv.read_corpus({"train": docs, "test": docs}), cv.Corpus)
    assert_type(cv.read_predictions(docs), cv.Predictions)


def values(predictions: cv.Predictions, data: cv.Dataset, function: cv.LabelingFunction) -> None:
    assert_type(predictions[0], cv.Sentence)
    assert_type(predictions[:3], cv.Predictions)
    assert_type([span.label for sentence in predictions for span in sentence.spans], list[str])
    assert_type(data[0], cv.AnnotatedSentence)
    assert_type(function(["Ada", "left"]), list[tuple[int, int, str]] | None)
    for span in function("Ada left") or ():
        assert_type(span, cv.TextSpan)


def refused() -> None:
    cv.read(3)  # type: ignore[arg-type]
    cv.read([1, 2])  # type: ignore[arg-type]
    cv.read_corpus(["Ada left."])  # type: ignore[arg-type]
