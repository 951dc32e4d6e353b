"""Long tables, as CSV and as Parquet."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convener import io as cio
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.errors import DataError, FormatError, UnknownNameError
from convener.io import table
from convener.io.formats import LabeledData, ReadOptions
from tests.generators import Kind, contents, returned, same

CROWD = """doc_id,source,start,end,label,text
d1,,,,,Ada Lovelace wrote it
d1,ann,0,12,PER,
d1,bob,0,3,PER,
d2,,,,,Nobody did
d2,bob,,,,
"""


def read_text(tmp_path: Path, text: str, issues: Issues | None = None, **options: Any) -> Any:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    return table.read(path, ReadOptions(**options), Issues() if issues is None else issues).content


def read_columns(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Any:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    return table.read(path, ReadOptions(**options), Issues()).content


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@settings(max_examples=60, deadline=None)
@given(content=st.one_of(contents(Kind()), contents(Kind(empty_words=True))))
def test_content_round_trips(suffix: str, content: LabeledData, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("table") / f"t{suffix}"
    assert same(returned(content, table.FORMAT, path), content)


def test_crowdsourced_annotations_as_csv(tmp_path: Path) -> None:
    data = read_text(tmp_path, CROWD)
    assert data.sources == ("ann", "bob")
    assert data.unmarked == ("outside", "outside")
    assert data.doc_ids.to_list() == ["d1", "d2"]
    assert data.tokens.to_list() == ["Ada", "Lovelace", "wrote", "it", "Nobody", "did"]
    # ann has no row for d2 and abstains; bob has one without a span: he marked nothing.
    assert data.votes.tolist() == [[1, 1], [2, 0], [0, 0], [0, 0], [-1, 0], [-1, 0]]
    assert data.gold is None


def test_with_unmarked_abstain_a_missing_row_is_o(tmp_path: Path) -> None:
    data = read_text(tmp_path, CROWD, unmarked="abstain")
    assert data.unmarked == ("abstain", "abstain")
    assert data.votes[4:].tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_byte_order_marks_and_line_ends(tmp_path: Path, delimiter: str) -> None:
    text = "\ufeff" + CROWD.replace(",", delimiter).replace("\n", "\r\n")
    assert read_text(tmp_path, text) == read_text(tmp_path, CROWD)


def test_text_may_be_in_span_rows_and_contain_line_breaks(tmp_path: Path) -> None:
    text = 'doc_id,source,start,end,label,text\nd,a,4,8,X,"one\ntwo2 three"\nd,b,0,3,X,"one\ntwo2 three"\n'
    data = read_text(tmp_path, text)
    assert data.text.sentences.to_list() == ["one\ntwo2 three"]
    assert data.votes.tolist() == [[-1 + 1, 1], [1, 0], [0, 0]]


def test_offsets_count_tokens_without_text(tmp_path: Path) -> None:
    text = 'doc_id,source,start,end,label,tokens\nd,a,1,3,X,"[""a"", ""b"", ""c""]"\n'
    data = read_text(tmp_path, text)
    assert data.text is None
    assert data.votes[:, 0].tolist() == [0, 1, 2]


def test_tokens_are_located_in_the_text(tmp_path: Path) -> None:
    text = 'doc_id,source,start,end,label,text,tokens\nd,a,3,5,X,a  bc,"[""a"", ""bc""]"\n'
    data = read_text(tmp_path, text)
    assert data.text.token_offsets.tolist() == [[0, 1], [3, 5]]
    assert data.votes[:, 0].tolist() == [0, 1]


def test_sentences_are_units_if_the_column_exists(tmp_path: Path) -> None:
    text = "doc_id,sentence,source,start,end,label,text\nd,0,a,0,1,X,a b\nd,1,a,2,3,X,c d\nd,0,b,2,3,X,\n"
    data = read_text(tmp_path, text)
    assert data.doc_ids.to_list() == ["d", "d"]
    assert data.votes.tolist() == [[1, 0], [0, 1], [0, -1], [1, -1]]


def test_gold_and_predictions(tmp_path: Path) -> None:
    text = "doc_id,source,start,end,label,text,score\nd,predictions,0,1,X,a b,0.75\nd,gold,2,3,X,,\nd,ann,2,3,X,,0.5\n"
    issues = Issues()
    result = read_text(tmp_path, text, issues)
    assert isinstance(result, Predictions)
    assert result.labels.tolist() == [1, 0]
    assert result.span_scores is not None
    assert result.span_scores.tolist() == [0.75]
    assert [str(issue).split(": ", 1)[1] for issue in issues] == [
        "ignored (scores): only scores of source 'predictions' are read",
        "ignored (gold): gold labels in a table of predictions",
    ]


def test_scores_of_only_some_predictions_are_ignored(tmp_path: Path) -> None:
    text = "doc_id,source,start,end,label,text,score\nd,predictions,0,1,X,a b,0.75\nd,predictions,2,3,X,,\n"
    issues = Issues()
    assert read_text(tmp_path, text, issues).span_scores is None
    assert [issue.detail for issue in issues] == ["1 of 2 predicted spans have no score"]


def test_options_select_sources_and_types(tmp_path: Path) -> None:
    data = read_text(tmp_path, CROWD, sources=("bob",), types=("LOC", "PER"))
    assert data.sources == ("bob",)
    assert data.votes[0].tolist() == [3]
    with pytest.raises(UnknownNameError, match="no source 'bo'; did you mean 'bob'"):
        read_text(tmp_path, CROWD, sources=("bo",))
    with pytest.raises(DataError, match=r"t.csv:3: no entity type 'PER'; available: LOC"):
        read_text(tmp_path, CROWD, types=("LOC",))


def test_options_apply_to_native_files(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A", "B"], [["x"]], {"a": [[(0, 1, "B")]], "b": [[]]})
    result = returned(data, table.FORMAT, tmp_path / "t.csv", sources=("a",), types=("B", "A"), unmarked="outside")
    assert isinstance(result, Dataset)
    assert result.sources == ("a",)
    assert result.votes.tolist() == [[1]]
    assert result.unmarked == ("outside",)


def test_overlaps_and_misaligned_spans_are_reported(tmp_path: Path) -> None:
    text = "doc_id,source,start,end,label,text\nd,a,0,3,X,ab cd\nd,a,0,2,Y,\n"
    issues = Issues()
    data = read_text(tmp_path, text, issues)
    assert data.votes[:, 0].tolist() == [1, 0]
    where = f"{tmp_path / 't.csv'}: document 'd'"
    assert [str(issue) for issue in issues] == [
        f"{where}: misaligned (a): 0-3 became 0-2",
        f"{where}: overlap (a): kept 0-1 X, dropped 0-1 Y",
    ]
    with pytest.raises(DataError, match=r"document 'd': span 0-3 "):
        read_text(tmp_path, text, on_misaligned="error")
    with pytest.raises(DataError, match="overlap"):
        read_text(tmp_path, text, on_overlap="error")


def test_unknown_columns_are_reported(tmp_path: Path) -> None:
    issues = Issues()
    read_text(tmp_path, "doc_id,source,start,end,label,text,age\nd,a,0,1,X,a,33\n", issues)
    assert [(issue.kind, issue.detail) for issue in issues] == [("ignored", "age")]


HEADER = "doc_id,source,start,end,label,text,tokens,token_offsets,score,doc_offset,probabilities\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: expected columns doc_id, source, start, end, label; missing doc_id, source, "
             "start, end, label, got none"),
        ("a,b\n1,2\n", ":1: expected columns doc_id, source, start, end, label; missing doc_id, "
                       "source, start, end, label, got a, b"),
        ("doc_id,source,start,end,label,doc_id\n", ":1: duplicate column 'doc_id'"),
        ("doc_id,source,start,end,label\n", ": the table has no rows"),
        ("doc_id,source,start,end,label\nd,a,0,1,X\n",
         ": expected a column 'text' (the text of each document, in one of its rows) or 'tokens' "
         "(its tokens, as a list), got neither"),
        (HEADER + "d,a,0\n", ":2: expected 11 cells, got 3"),
        (HEADER + ",a,0,1,X,a,,,,,\n", ":2: expected a doc_id, got an empty cell"),
        (HEADER + "d,a,0,,X,a,,,,,\n", ":2: expected start, end and label, or none of the three"),
        (HEADER + "d,,0,1,X,a,,,,,\n", ":2: a span needs a source, got an empty cell"),
        (HEADER + "d,a,-1,1,X,a,,,,,\n", ":2: expected 0 <= start < end, got -1 and 1"),
        (HEADER + "d,a,1,1,X,a,,,,,\n", ":2: expected 0 <= start < end, got 1 and 1"),
        (HEADER + "d,a,0,4294967297,X,a,,,,,\n",
         ":2: expected 0 <= start < end, got 0 and 4294967297"),
        (HEADER + "d,a,0,1.5,X,a,,,,,\n", ":2: end: expected a whole number, got '1.5'"),
        (HEADER + "d,a,true,1,X,a,,,,,\n", ":2: start: expected a whole number, got 'true'"),
        (HEADER + "d,a,0,9,X,a,,,,,\n",
         ": document 'd': span 0-9 of a is not a range of the text's 1 characters"),
        (HEADER + "d,a,0,1,X,a,,,nan,,\n", ":2: score: expected a number, got 'nan'"),
        (HEADER + "d,a,0,1,X,a,,,x,,\n", ":2: score: expected a number, got 'x'"),
        (HEADER + "d,a,0,1,X,,a b,,,,\n", ":2: tokens: expected a JSON list, got 'a b'"),
        (HEADER + "d,a,0,1,X,,[1],,,,\n", ":2: tokens: expected strings, got 1"),
        (HEADER + 'd,a,0,1,X,a,"[""a""]",[[0]],,,\n', ":2: token_offsets: expected [start, end], got [0]"),
        (HEADER + 'd,a,0,1,X,a,"[""a""]","[[0,true]]",,,\n',
         ":2: token_offsets: expected [start, end], got [0, True]"),
        (HEADER + 'd,a,0,1,X,a,"[""a""]","[[0,9]]",,,\n',
         ": document 'd': token 0 at 0-9 is empty, outside the text, or overlaps the previous token"),
        (HEADER + 'd,a,0,1,X,a,"[""a""]","[[0,1],[1,2]]",,,\n',
         ": document 'd' needs [start, end] in 'token_offsets' for each of its tokens"),
        (HEADER + 'd,a,0,1,X,a,"[""b""]",,,,\n',
         ": document 'd': token 'b' is not in the text after character 0"),
        (HEADER + 'd,a,0,9,X,,"[""b""]",,,,\n',
         ": document 'd': span 0-9 of a is not a range of the sentence's 1 tokens"),
        (HEADER + "d,a,0,1,X,a,,,,x,\n", ":2: doc_offset: expected a whole number, got 'x'"),
        (HEADER + "d,predictions,0,1,X,a,,,,,[1]\n",
         ":2: probabilities: expected one list of numbers per token"),
        (HEADER + "d,predictions,0,1,X,a,,,,,\"[[0.5,0.5,0],[1,0,0]]\"\n",
         ": document 'd' needs probabilities for each of its tokens"),
        (HEADER + "d,a,0,1,X,a,,,,,\nd,a,0,1,X,b,,,,,\n",
         ":3: conflicting 'text' for document 'd'"),
        (HEADER + "d,,,,,a,,,,,\nd,,,,,a,,,,,\nd,a,0,1,X,,,,,,\n",
         ":3: second row without a source for document 'd'"),
        (HEADER + "d,gold,0,1,X,a,,,,,\ne,a,0,1,X,b,,,,,\n",
         ": 'gold' must cover every document; document 'e' has no gold row"),
        (HEADER + "d,predictions,0,1,X,a,,,,,\ne,a,0,1,X,b,,,,,\n",
         ": 'predictions' must cover every document; document 'e' has no predictions row"),
        (HEADER + "d,a,0,1,X,a,,,,,\ne,a,0,1,X,,,,,,\n", ": document 'e' has no text"),
        (HEADER + 'd,a,0,1,X,,"[""a""]",,,,\ne,a,0,1,X,,,,,,\n', ": document 'e' has no tokens"),
        (HEADER + "d,a,,,,a,,,,,\n",
         ": the file names no entity types and contains no spans; pass types=[...]"),
        (HEADER + 'd,a,0,1,X,"a,,,,,\n', ":2: not valid CSV: unexpected end of data"),
        (HEADER + "#convener,,,,,nope,,,,,\n",
         ":2: convener metadata: not valid JSON at character 0: Expecting value"),
        (HEADER + "#convener,,,,,[],,,,,\n",
         ":2: convener metadata: expected a JSON object, got []"),
    ],
)  # fmt: skip
def test_malformed_csv_is_a_one_line_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 't.csv'}{message}"


def test_invalid_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"doc_id,source\nd,\xff")
    with pytest.raises(DataError, match=r"t.csv:2: not UTF-8 text \(byte 0xff\)"):
        cio.read(path)


SPAN = {"doc_id": ["d"], "source": ["a"], "start": [0], "end": [1], "label": ["X"], "text": ["a"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": [0.5]}, "column start: expected whole numbers, got double; row 0"),
        ({"end": [True]}, "column end: expected whole numbers, got bool"),
        ({"end": ["1"]}, "column end: expected whole numbers, got string"),
        ({"start": [-3]}, "row 0: expected 0 <= start < end, got -3 and 1"),
        ({"doc_id": pa.array([None], pa.string())}, "row 0: expected a doc_id, got null"),
        ({"doc_id": [1.5]}, "column doc_id: expected strings or whole numbers, got double"),
        ({"source": [7]}, "column source: expected strings, got int64"),
        ({"label": [7]}, "column label: expected strings, got int64"),
        ({"text": [7]}, "column text: expected strings, got int64"),
        ({"score": ["x"]}, "column score: expected numbers, got string"),
        ({"score": [float("nan")]}, "row 0: score: expected a number, got nan"),
        ({"tokens": ["a"]}, "tokens: expected a list column, got string"),
        ({"tokens": [[1]]}, "column tokens: expected lists of strings, got list<element: int64>"),
        ({"tokens": [["a", None]]}, "tokens: row 0 contains a null"),
        ({"tokens": [["a"]], "token_offsets": [[[0, 1, 2]]]}, "token_offsets: expected 2 numbers each, got 3"),
        ({"tokens": [["a"]], "token_offsets": [[[0.0, 1.0]]]}, "token_offsets: expected int32, got double"),
        ({"tokens": [["a"]], "token_offsets": [[[-1, 1]]]}, "token_offsets: expected offsets, got -1 to 1"),
        ({"tokens": [["a"]], "token_offsets": [[0, 1]]},
         "column token_offsets: expected lists of lists of numbers, got list<element: int64>"),
        ({"probabilities": [[[0.5, float("inf"), 0.0]]]},
         "probabilities: expected numbers, got inf"),
        ({"doc_offset": ["x"]}, "column doc_offset: expected whole numbers, got string"),
    ],
)  # fmt: skip
def test_malformed_parquet_is_a_one_line_error(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_columns(tmp_path, SPAN | changes)
    assert str(caught.value) == f"{tmp_path / 't.parquet'}: {message}"


def test_values_of_a_document_may_be_repeated_but_not_differ(tmp_path: Path) -> None:
    rows = {name: values * 3 for name, values in SPAN.items()} | {"source": ["a", "b", "c"]}
    tokens = {"tokens": [["a"], ["a"], ["a"]], "token_offsets": [[[0, 1]]] * 3}
    assert read_columns(tmp_path, rows | tokens).votes.tolist() == [[1, 1, 1]]
    with pytest.raises(DataError, match="row 2: conflicting 'text' for document 'd'"):
        read_columns(tmp_path, rows | {"text": ["a", "a", "b"]})
    with pytest.raises(DataError, match="row 1: conflicting 'tokens' for document 'd'"):
        read_columns(tmp_path, rows | {"tokens": [["a"], ["a", "b"], ["a"]]})


def test_junk_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    complete = tmp_path / "complete.parquet"
    pq.write_table(pa.table(SPAN), complete)
    for junk in (b"", b"PAR1", b"PAR1junkPAR1", complete.read_bytes()[:-20], b"\0" * 100):
        path.write_bytes(junk)
        with pytest.raises(DataError, match=r"t.parquet: not a readable Parquet file"):
            cio.read(path)


def test_missing_parquet_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(DataError, match="missing doc_id, source, start, end, label, got x"):
        cio.read(path)


def test_corrupt_bytes_raise_only_data_errors(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x", "y"], []], {"a": [[(0, 1, "A")], None]})
    path = tmp_path / "t.parquet"
    cio.write(data, path)
    good, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        raw = bytearray(good)
        for at in rng.integers(0, len(raw), 3):
            raw[at] = rng.integers(256)
        path.write_bytes(raw)
        try:
            table.read(path, ReadOptions(), Issues())
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_tables_are_exchanged_with_pandas(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["Ada", "wrote"]], {"names": [[(0, 1, "PER")]]}, gold=[[(0, 1, "PER")]])
    cio.write(data, tmp_path / "t.parquet")
    frame = pd.read_parquet(tmp_path / "t.parquet")
    assert frame["source"].fillna("").tolist() == ["", "names", "gold"]
    assert frame["tokens"][0].tolist() == ["Ada", "wrote"]
    crowd = pd.DataFrame(
        {
            "doc_id": [7, 7, 8],
            "source": ["a", "b", "b"],
            "start": pd.array([0, 4, None], "Int64"),
            "end": pd.array([3, 9, None], "Int64"),
            "label": ["PER", "PER", None],
            "text": ["Ada wrote", "Ada wrote", "Nobody"],
        }
    )
    crowd.to_parquet(tmp_path / "p.parquet")
    crowd.to_csv(tmp_path / "p.csv", index=False)
    result = cio.read(tmp_path / "p.parquet")
    assert result == cio.read(tmp_path / "p.csv")
    assert result.votes.tolist() == [[1, 0], [0, 1], [-1, 0]]
    assert result.doc_ids.to_list() == ["7", "8"]


def test_rows_of_a_document_need_not_be_consecutive(tmp_path: Path) -> None:
    rows = {
        "doc_id": ["a", "b", "a", "b"],
        "source": ["s", "s", None, ""],
        "start": pa.array([0, 0, None, None], pa.int64()),
        "end": pa.array([1, 1, None, None], pa.int64()),
        "label": ["X", "X", None, None],
        "tokens": [None, None, ["a1", "a2"], ["b1"]],
    }
    data = read_columns(tmp_path, rows)
    assert data.tokens.to_list() == ["a1", "a2", "b1"]
    assert data.votes[:, 0].tolist() == [1, 0, 1]


def test_content_that_a_table_cannot_store_is_an_error(tmp_path: Path) -> None:
    for name in ("gold", "predictions"):
        data = Dataset.from_spans(["A"], [["x"]], {name: [[]]})
        with pytest.raises(FormatError, match=f"cannot store a source named '{name}'"):
            cio.write(data, tmp_path / "t.csv")
    illegal = Dataset.from_spans(["A"], [["x"]], {"a": [[]]})
    illegal = illegal.with_sources(("a",), np.array([[2]], np.int16), ("abstain",))
    with pytest.raises(FormatError, match="illegal I- labels"):
        cio.write(illegal, tmp_path / "t.csv")
    invalid = Dataset.from_spans(["A"], [["\ud800"]], {})
    with pytest.raises(FormatError, match=r"token 0 is not valid Unicode .*npz can store it"):
        cio.write(invalid, tmp_path / "t.csv")
    predictions = Predictions(
        data=Dataset.from_spans(["A"], [["x"]], {}),
        labels=np.array([1], np.int16),
        span_scores=np.array([np.nan], np.float32),
    )
    with pytest.raises(FormatError, match="scores that are not finite"):
        cio.write(predictions, tmp_path / "t.csv", metadata=True)
    assert list(tmp_path.iterdir()) == []


def test_metadata_is_checked(tmp_path: Path) -> None:
    metadata = {
        "version": 2,
        "types": ["X"],
        "sources": ["a"],
        "unmarked": {"a": "abstain"},
        "contents": ["text"],
    }
    for changes, message in (
        ({"version": 3}, "expected version 1 or 2, got 3"),
        ({"types": [1]}, "'types' must be a list of names"),
        ({"unmarked": {"a": "O"}}, "'unmarked' must map sources to 'abstain' or 'outside', got {'a': 'O'}"),
        ({"version": 1, "silence": {"a": "outside"}}, "'silence' must map sources to 'O' or 'abstain'"),
        ({"sources": None}, "expected 'types' and 'sources'"),
        ({"model_settings": 1}, "'model_settings' must be an object"),
        ({"complete_sources": 1}, "'complete_sources' must be a list of sources"),
        ({"types": []}, "names no entity types"),
    ):
        schema = {b"convener": json.dumps(metadata | changes).encode()}
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table(SPAN).replace_schema_metadata(schema), path)
        with pytest.raises(DataError, match=message):
            table.read(path, ReadOptions(), Issues())


def test_offsets_count_characters_if_there_is_text(tmp_path: Path) -> None:
    data = read_text(tmp_path, CROWD)
    cio.write(data, tmp_path / "o.csv")
    frame = pd.read_csv(tmp_path / "o.csv")
    assert frame[frame["source"] == "ann"][["start", "end", "label"]].values.tolist() == [[0.0, 12.0, "PER"]]
    for suffix in (".csv", ".parquet"):
        assert returned(data, table.FORMAT, tmp_path / f"o{suffix}") == data


def test_a_long_document_fits_into_a_cell(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["word"] * 40_000], {"a": [[(0, 2, "A")]]})
    assert returned(data, table.FORMAT, tmp_path / "t.csv") == data


def test_numbered_document_ids_round_trip(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x"], ["y"]], {"a": [[], []]})
    data = replace(data, doc_ids=StringArray.from_list(["0", "1"]))
    for suffix in (".csv", ".parquet"):
        assert returned(data, table.FORMAT, tmp_path / f"t{suffix}") == data


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_pandas_tables_with_missing_values_are_read(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(
        {
            "doc_id": ["d", "d", "d"],
            "source": [None, "ann", "bob"],
            "start": [None, 0, None],
            "end": [None, 3, None],
            "label": [None, "PER", None],
            "text": ["Ada left", None, None],
        }
    )
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    assert cio.read(path).votes.tolist() == [[1, 0], [0, 0]]


def test_empty_rows_of_a_spreadsheet_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("doc_id,source,start,end,label,text\nd,ann,0,3,PER,Ada\n,,,,,\n,,,,,\n")
    assert len(cio.read(path)) == 1
