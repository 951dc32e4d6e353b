"""Data in memory: the same as in files, and errors that name what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

import convener as cv
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.errors import DataError, FormatError, MissingDependencyError, UnknownNameError
from tests.generators import Kind, predictions

COLUMNS = ["doc_id", "source", "start", "end", "label", "text"]
TEXT = "Ada left  New York."


class Frame:
    """A data frame of which only Arrow's C stream is known, with string views, as polars exports it."""

    def __init__(self, frame: pd.DataFrame) -> None:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        views = [field.with_type(pa.string_view()) if is_string(field.type) else field for field in table.schema]
        self.columns = list(frame.columns)
        self._table = table.cast(pa.schema(views))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def is_string(arrow_type: Any) -> bool:
    return pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)


@st.composite
def long_tables(draw: st.DrawFn) -> pd.DataFrame:
    """Rows as people write them: the text in a row of its own, spans, and sources that marked nothing."""
    rows: list[tuple[Any, ...]] = []
    for number in range(draw(st.integers(1, 3))):
        rows.append((f"d{number}", None, None, None, None, TEXT))
        for source in draw(st.lists(st.sampled_from(["a", "b", "gold"]), unique=True)):
            spans = draw(st.lists(st.sampled_from([(0, 3, "PER"), (10, 18, "LOC"), (4, 8, "X")]), unique=True))
            rows += [(f"d{number}", source, *span, None) for span in spans or [(None, None, None)]]
    rows.append(("last", "a", 0, 3, "PER", TEXT))
    return pd.DataFrame(rows, columns=COLUMNS)


@settings(deadline=None, max_examples=40)
@given(frame=long_tables())
def test_a_data_frame_is_read_like_a_file(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("frame") / "t.csv"
    frame.to_csv(path, index=False)
    has_gold = frame[frame["source"] == "gold"]["doc_id"].nunique()
    if 0 < has_gold < frame["doc_id"].nunique():
        for value in (frame, path):
            with pytest.raises(DataError, match="'gold' must cover every document; document"):
                cv.read(value)
        return
    expected = cv.read(path)
    indexed = frame.set_index(pd.Index(range(7, 7 + len(frame)), name="row"))
    for value in (frame, indexed, Frame(frame), pa.Table.from_pandas(frame)):
        assert cv.read(value) == expected
    categorical = frame.astype({"source": "category", "label": "category"})
    assert cv.read(categorical) == expected


def test_a_data_frame_may_have_lists_of_tokens() -> None:
    frame = pd.DataFrame({"tokens": [["Ada", "left"], ["x"]], "ner_tags": [["B-PER", "O"], ["O"]]})
    data = cv.read(frame)
    assert [sentence.tokens for sentence in data] == [("Ada", "left"), ("x",)]
    assert [[span.text for span in sentence.gold or ()] for sentence in data] == [["Ada"], []]


def test_options_apply_to_data_frames() -> None:
    frame = pd.DataFrame([("d", "a", 0, 3, "PER", TEXT), ("d", "b", 0, 5, "PER", None)], columns=COLUMNS)
    issues = Issues()
    data = cv.read(frame, sources=["b"], unmarked="abstain", types=["LOC", "PER"], issues=issues)
    assert (data.sources, data.unmarked, data.tags.types) == (("b",), ("abstain",), ("LOC", "PER"))
    assert [str(issue) for issue in issues] == ["DataFrame: document 'd': misaligned (b): 0-5 became 0-8"]


@settings(deadline=None, max_examples=25)
@given(predictions(kind=Kind(), probabilities=True, scores=None))
def test_predictions_return_from_docs_and_datasets(labels: Predictions) -> None:
    if len(labels):
        again = cv.read_predictions(labels.to_spacy())
        assert again.data == labels.data
        assert list(again) == list(labels)
    table = labels.to_hf()
    assert table.features["ner_tags"].feature.names == list(labels.data.fine_tags.names)
    if len(labels) and not labels.data.coarse:  # class labels do not tell which types are coarse
        assert cv.read_predictions(table, types=labels.data.tags.types).tags() == labels.tags()


def test_a_selection_of_a_dataset_is_read() -> None:
    table = datasets.Dataset.from_dict({"tokens": [["a"], ["Ada"], ["b"]], "ner_tags": [["O"], ["B-PER"], ["O"]]})
    assert [sentence.tokens for sentence in cv.read(table.select([2, 1]))] == [("b",), ("Ada",)]


def test_docs_of_other_tools_are_read() -> None:
    nlp = spacy.blank("en")
    doc = nlp("Ada left New York.")
    doc.set_ents([doc.char_span(0, 3, "PER")])
    doc.spans["places"] = [doc.char_span(9, 17, "LOC")]
    (sentence,) = cv.read([doc])
    assert [(span.text, span.label) for span in sentence.gold or ()] == [("Ada", "PER")]
    assert [(span.text, span.label) for span in sentence.votes["places"] or ()] == [("New York", "LOC")]
    doc.spans["places"] = [doc[0:1]]
    with pytest.raises(DataError, match=r"list of docs: document 0: span 0-1 \(places\) has no label"):
        cv.read([doc])


def test_texts_are_tokenized() -> None:
    texts = ["Ada left. She flew.", "Oslo"]
    for value in (texts, tuple(texts), iter(texts), pd.Series(texts, index=[5, 3]), np.array(texts)):
        assert cv.read(value) == cv.tokenize(texts)
    assert cv.read(dict(zip("xy", texts, strict=True))) == cv.tokenize({"x": texts[0], "y": texts[1]})
    assert cv.read(texts, types=["PER"]).tags.types == ("PER",)
    assert cv.read([TEXT], spacy_pipeline="en") == cv.tokenize([TEXT], spacy_pipeline="en")
    assert len(cv.read([])) == 0


def test_splits_share_types_and_sources() -> None:
    one = pd.DataFrame([("d", "a", 0, 3, "PER", TEXT)], columns=COLUMNS)
    two = pd.DataFrame([("d", "a", 10, 18, "LOC", TEXT)], columns=COLUMNS)
    corpus = cv.read_corpus({"train": one, "validation": two})
    assert list(corpus.splits) == ["train", "valid"]
    assert corpus.train.tags.types == corpus.valid.tags.types == ("LOC", "PER")
    assert cv.read({"train": one, "dev": two}, "dev").summary() == cv.read(two).summary()
    table = datasets.Dataset.from_dict({"tokens": [["Ada"]], "ner_tags": [["B-PER"]]})
    corpus = cv.read_corpus(datasets.DatasetDict({"train": table, "test": table}))
    assert corpus["test"] == cv.read(table)
    texts = cv.read_corpus({"train": ["Ada left."], "test": ["Bo went."]})
    assert texts.test == cv.tokenize(["Bo went."])


EXPECTED = (
    "expected a path, a list of texts, texts by document id, a data frame of pandas or polars, a datasets.Dataset"
)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (3, DataError, f"{EXPECTED}, or a list of spaCy docs; got int 3"),
        (["a", 3], DataError, f"{EXPECTED}, or a list of spaCy docs; got int 3 as item 1"),
        ([["a"]], DataError, f"{EXPECTED}, or a list of spaCy docs; got list ['a'] as item 0"),
        (datasets.Dataset.from_dict({"a": [1]}).to_iterable_dataset(), DataError, f"{EXPECTED}"),
        (TEXT, DataError, "'Ada left  New York.': no such file or folder; to read a text, pass a list of texts"),
        ("x" * 400, DataError, "no such file or folder"),
        (pd.DataFrame({"a": [1]}), DataError, "DataFrame: expected columns doc_id, source, start, end, label; missing"),
        (pd.DataFrame({"tokens": ["Ada"]}), DataError, "DataFrame: tokens: expected a list column, got"),
        (pd.DataFrame({"a": [1, "x"]}), DataError, "DataFrame: cannot be converted to Arrow: "),
        (datasets.Dataset.from_dict({"a": [1]}), DataError, "datasets.Dataset: expected columns doc_id, source"),
        (
            {"train": ["a"], "test": ["b"]},
            DataError,
            "mapping of splits: has several splits; choose one of train, test",
        ),
        ({"dev": ["a"], "valid": ["b"]}, DataError, "two of the splits dev, valid are 'valid'"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_errors_name_what_was_expected(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        cv.read(value)
    assert message in str(caught.value)


def test_options_of_files_and_splits_need_files_and_splits() -> None:
    with pytest.raises(DataError, match="list of texts: is a single dataset; split='test' applies to"):
        cv.read(["a"], "test")
    with pytest.raises(UnknownNameError, match="mapping of splits: no split 'test'; available: train"):
        cv.read({"train": ["a"]}, "test")
    with pytest.raises(FormatError, match="list of texts: format='conll' applies to files only"):
        cv.read(["a"], format="conll")
    with pytest.raises(DataError, match="list of texts: is not a folder of splits; read it with read"):
        cv.read_corpus({"a": "text"})  # type: ignore[dict-item]
    with pytest.raises(DataError, match="list of texts: expected predictions or gold labels, found neither"):
        cv.read_predictions(["a"])


def test_a_data_frame_without_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame([("d", "a", 0, 3, "PER", TEXT)], columns=COLUMNS)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'convener\[arrow\]'"):
        cv.read(frame)


def test_data_in_memory_can_be_labeled_and_written(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["Ada", "left"]], {"names": [[(0, 1, "PER")]]})
    labels = cv.MajorityVote().fit(data).predict(data)
    cv.write(cv.read(labels.to_spacy()), tmp_path / "x.jsonl")
    assert cv.read(tmp_path / "x.jsonl") == data
