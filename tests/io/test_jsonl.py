"""JSON lines: native files and exports of annotation tools."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from convener import io as cio
from convener.data.dataset import Dataset, Text
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.errors import DataError, FormatError, UnknownNameError
from convener.io import jsonl
from convener.io.formats import LabeledData
from tests.generators import Kind, contents, returned, same
from tests.helpers.reading import read_content


def save(folder: Path, *records: Any) -> Path:
    file = folder / "x.jsonl"
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    file.write_bytes(b"\n".join(lines))
    return file


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents(Kind()))
def test_content_round_trips(content: LabeledData) -> None:
    with TemporaryDirectory() as folder:
        assert same(returned(content, jsonl.FORMAT, Path(folder, "x.jsonl")), content)


def test_the_exact_text_of_a_native_file(tmp_path: Path) -> None:
    data = Dataset(
        tags=cio.read(save(tmp_path, {"text": "é", "label": [[0, 1, "PER"]]})).tags,
        tokens=StringArray.from_list(["Zoë", "ran"]),
        offsets=np.array([0, 2]),
        sources=("a", "b"),
        votes=np.array([[1, -1], [0, -1]], np.int16),
        unmarked=("abstain", "outside"),
        text=Text(StringArray.from_list(["Zoë  ran"]), np.array([[0, 3], [5, 8]], np.int32), np.array([7])),
        doc_ids=StringArray.from_list(["d"]),
    )
    predictions = Predictions(
        data=data,
        labels=np.array([1, 2], np.int16),
        span_scores=np.array([0.1], np.float32),
        model="m",
    )
    cio.write(predictions, tmp_path / "x.jsonl")
    assert (tmp_path / "x.jsonl").read_text(encoding="utf-8") == (
        '{"convener": {"version": 2, "types": ["PER"], "sources": ["a", "b"], '
        '"unmarked": {"a": "abstain", "b": "outside"}, "model": "m", "model_settings": {}, "uses_gold": "none"}, '
        '"text": "Zoë  ran", "tokens": ["Zoë", "ran"], "token_offsets": [[0, 3], [5, 8]], '
        '"doc_offset": 7, "doc_id": "d", "votes": {"a": [[0, 3, "PER"]], "b": null}, '
        '"predictions": [[0, 8, "PER", 0.1]]}\n'
    )
    assert same(read_content(tmp_path / "x.jsonl"), predictions)


EXTERNAL: dict[str, dict[str, Any]] = {
    "doccano": {"id": 3, "text": "Ada ran.", "label": [[0, 3, "PER"]]},
    "doccano 1.5": {
        "text": "Ada ran.",
        "entities": [{"id": 1, "start_offset": 0, "end_offset": 3, "label": "PER"}],
    },
    "labels": {"text": "Ada ran.", "labels": [[0, 3, "PER"]]},
    "prodigy": {
        "text": "Ada ran.",
        "tokens": [
            {"text": "Ada", "start": 0, "end": 3, "id": 0},
            {"text": "ran", "start": 4, "end": 7, "id": 1},
            {"text": ".", "start": 7, "end": 8, "id": 2},
        ],
        "spans": [{"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "PER"}],
    },
    "tokens without offsets": {
        "text": "Ada ran.",
        "tokens": ["Ada", "ran", "."],
        "gold": [[0, 3, "PER"]],
    },
    "tags": {"tokens": ["Ada", "ran", "."], "ner_tags": ["S-PER", "O", "O"]},
    "more tags": {"text": "Ada ran.", "tokens": ["Ada", "ran", "."], "tags": ["B-PER", "O", "O"]},
    "token spans": {"tokens": ["Ada", "ran", "."], "entities": [[0, 1, "PER"]]},
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_exports_of_other_tools_are_read(tmp_path: Path, name: str) -> None:
    file = save(tmp_path, EXTERNAL[name], b"", {**EXTERNAL[name]})
    data = cio.read(file)
    assert data.tokens.to_list() == ["Ada", "ran", "."] * 2
    assert data.tags.types == ("PER",)
    assert data.gold.tolist() == [1, 0, 0] * 2
    assert (data.text is None) == ("text" not in EXTERNAL[name])
    assert data.doc_ids is None


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    file = save(tmp_path, b"\xef\xbb\xbf" + json.dumps(EXTERNAL["doccano"]).encode())
    assert len(cio.read(file)) == 1


def test_misaligned_and_overlapping_spans_are_reported(tmp_path: Path) -> None:
    file = save(tmp_path, {"text": "Ada ran.", "label": [[0, 2, "PER"], [0, 7, "LOC"]]})
    issues = Issues()
    assert cio.read(file, issues=issues).gold.tolist() == [1, 2, 0]
    assert [str(issue) for issue in issues] == [
        f"{file}:1: misaligned (gold): 0-2 became 0-3",
        f"{file}:1: overlap (gold): kept 0-2 LOC, dropped 0-1 PER",
    ]
    with pytest.raises(DataError, match=r"x\.jsonl:1: span 0-2 .*gold"):
        cio.read(file, on_misaligned="error")


def test_illegal_tags_are_reported_with_their_line(tmp_path: Path) -> None:
    good, bad = EXTERNAL["tags"], {"tokens": ["a", "b"], "ner_tags": ["O", "I-PER"]}
    issues = Issues()
    file = save(tmp_path, good, b"", bad)
    assert cio.read(file, issues=issues).gold.tolist() == [1, 0, 0, 0, 1]
    where = f"{file}:3: token 1: illegal tag (gold)"
    assert str(issues.items[0]) == f"{where}: I-PER treated as part of a span"


def test_tags_of_the_io_scheme_are_legal(tmp_path: Path) -> None:
    file = save(tmp_path, {"tokens": ["a", "b", "c"], "ner_tags": ["O", "I-PER", "I-PER"]})
    assert cio.read(file, on_illegal="error").gold.tolist() == [0, 1, 2]


def test_a_source_without_votes_in_a_record(tmp_path: Path) -> None:
    corpus = {"types": ["PER"], "sources": ["a"], "unmarked": {"a": "outside", "c": "outside"}}
    first = {"convener": corpus, "tokens": ["x"], "votes": {}}
    second = {"tokens": ["y"], "votes": {"b": [[0, 1, "PER"]], "c": []}}
    third = {"tokens": ["z"], "votes": {"a": [], "b": None}}
    data = cio.read(save(tmp_path, first, second, third))
    assert data.sources == ("a", "b", "c")
    assert data.votes.tolist() == [[-1, 0, -1], [-1, 1, 0], [0, -1, -1]]
    assert cio.read(tmp_path / "x.jsonl", unmarked="outside").votes[0].tolist() == [-1, -1, -1]
    selected = cio.read(tmp_path / "x.jsonl", sources=("b",))
    assert selected.votes[:, 0].tolist() == [0, 1, -1]
    with pytest.raises(UnknownNameError, match=r"x\.jsonl: no source 'd'; available: a, b, c"):
        cio.read(tmp_path / "x.jsonl", sources=("d",))


def test_an_empty_dataset_is_one_line(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [], {"a": []}, gold=[])
    cio.write(data, tmp_path / "x.jsonl")
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 1
    assert cio.read(tmp_path / "x.jsonl") == data


def test_lone_surrogates_are_escaped(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["é\ud800"], ["é"]], {})
    cio.write(data, tmp_path / "x.jsonl")
    lines = (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()
    assert "\\ud800" in lines[0]
    assert "é" in lines[1]
    assert cio.read(tmp_path / "x.jsonl") == data


def test_empty_or_overlapping_tokens_are_an_error(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["x"], ["a", "b"]], {})
    for chars in ([[0, 1], [0, 1], [1, 1]], [[0, 1], [0, 2], [1, 2]]):
        text = Text(StringArray.from_list(["x", "ab"]), np.array(chars, np.int32), np.zeros(2, np.int64))
        with pytest.raises(FormatError, match=r"^x\.jsonl: sentence 1: token 1 is empty or overlaps its neighbour"):
            cio.write(Dataset(**{**vars(data), "text": text}), tmp_path / "x.jsonl")


TEXT = {"text": "Ada ran.", "label": []}
NATIVE = {"convener": {"types": ["PER"]}, "tokens": ["Ada"]}
MALFORMED: list[tuple[Any, str]] = [
    (b"", ": the file is empty: expected one JSON object per line"),
    (b"[]", ":1: expected a JSON object, got []"),
    (b'{"text": ', ":1: not valid JSON at character 9: Expecting value"),
    (b'{"text": "a"} {}', ":1: not valid JSON at character 14: Extra data"),
    (b'{"text": NaN}', ":1: not valid JSON: NaN is not a JSON number"),
    (b'{"text": 1, "text": 2}', ":1: not valid JSON: duplicate key 'text'"),
    (b"[" * 99999, ":1: not valid JSON: nested too deep"),
    (b'{"text": "\xff"}', ":1: not UTF-8 text (byte 0xff)"),
    (b"\x80\x04junk\x00\xff", ":1: not UTF-8 text (byte 0x80)"),
    ({"id": 4}, ":1: expected 'text' or 'tokens', got ['id']"),
    ({"text": 4}, ":1: 'text' must be a string, got 4"),
    ({"tokens": 4}, ":1: 'tokens' must be a list, got 4"),
    ({"tokens": ["a", 4]}, ":1: 'tokens' must contain strings, got 4"),
    ({"text": "a", "tokens": [{"text": "a", "start": 0}]},
     ":1: expected [start, end] for each of 1 tokens, got [[0, None]]"),
    ({"text": "a", "tokens": ["a"], "token_offsets": [[0, 2]]},
     ":1: token at 0-2 is outside the text of 1 characters"),
    ({"text": "ab", "tokens": ["ab", "b"], "token_offsets": [[0, 2], [1, 2]]},
     ":1: tokens overlap or are out of order"),
    ({"text": "a b", "tokens": ["a", "c"]}, ":1: token 'c' is not in the text after character 1"),
    ({**TEXT, "doc_id": 4}, ":1: 'doc_id' must be a string, got 4"),
    ({**TEXT, "doc_offset": -1}, ":1: 'doc_offset' must be a non-negative integer, got -1"),
    ({**TEXT, "votes": []}, ":1: 'votes' must map sources to spans, got []"),
    ({**TEXT, "votes": {"a": 4}}, ":1: expected a list of spans (a), got 4"),
    ({**TEXT, "label": "PER"}, ":1: expected a list of spans (gold), got 'PER'"),
    ({**TEXT, "label": [[0, 3]]}, ":1: expected a span [start, end, type] (gold), got [0, 3]"),
    ({**TEXT, "label": [[False, 3, "X"]]},
     ":1: expected a span [start, end, type] (gold), got [False, 3, 'X']"),
    ({**TEXT, "label": [{"start": 1}]},
     ":1: expected a span with start, end and label (gold), got {'start': 1}"),
    ({**TEXT, "label": [[-1, 3, "X"]]},
     ":1: span -1-3 of gold is not a range of the text's 8 characters"),
    ({**TEXT, "label": [[0, 2**90, "X"]]},
     f":1: span 0-{2**90} of gold is out of range"),
    ({**TEXT, "label": [[0, 1, " "]]}, None),
    ({"tokens": ["a"], "tags": [3]}, ":1: expected 'tags' to contain strings, got 3"),
    ({"tokens": ["a"], "tags": ["O", "O"]}, ":1: expected one tag for each of 1 tokens in 'tags', got ['O', 'O']"),
    ({"tokens": ["a"]}, ": the file names no entity types and contains no spans; pass types=[...]"),
    ({**NATIVE, "convener": {"types": "PER"}}, ":1: 'types' must be a list of names, got 'PER'"),
    ({**NATIVE, "predictions": [[0, 1, "PER", "x"]]}, ":1: expected a score, got 'x'"),
    ({**NATIVE, "predictions": [[0, 1, "LOC"]]}, ":1: no entity type 'LOC'; available: PER (predictions)"),
    ({**NATIVE, "predictions": [], "probabilities": [[1, 0]]},
     ": expected 3 probabilities per token, got 2"),
    ({**NATIVE, "predictions": [], "probabilities": [[1, 0, True]]},
     ":1: expected a row of probabilities, got [1, 0, True]"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_file_is_a_one_line_error(tmp_path: Path, record: Any, message: str | None) -> None:
    file = save(tmp_path, record)
    with pytest.raises(DataError) as caught:
        cio.read(file, issues=Issues())
    if message is not None:
        assert str(caught.value) == f"{file}{message}"
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"text": "x"}, "'gold' must be in every record or in none; missing here"),
        ({"text": "x", "spans": []}, "expected 'label', as in earlier records, got 'spans'"),
        ({"tokens": ["x"], "label": []}, "text must be given for every sentence or for none"),
        (
            {**TEXT, "doc_id": "d"},
            "'doc_id' must be in every record or in none; unexpected here",
        ),
        (b"{", "not valid JSON at character 1: Expecting property name enclosed in double quotes"),
    ],
)
def test_inconsistent_records_are_an_error(tmp_path: Path, second: Any, message: str) -> None:
    file = save(tmp_path, TEXT, second)
    with pytest.raises(DataError) as caught:
        cio.read(file)
    assert str(caught.value) == f"{file}:2: {message}"


def test_a_moved_or_missing_first_line_is_detected(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["Ada"], ["left"]], {"a": [[(0, 1, "PER")], None]})
    predictions = Predictions(data=data, labels=np.array([1, 0], np.int16), model="m")
    path = tmp_path / "predictions.jsonl"
    cio.write(predictions, path)
    first, second = path.read_text().splitlines()
    path.write_text(f"{second}\n{first}\n")
    with pytest.raises(DataError, match=r"is the first line missing|must be the first line"):
        read_content(path)
    path.write_text(f"{second}\n")
    with pytest.raises(DataError, match="is the first line missing"):
        read_content(path)


def test_records_rejected_in_prodigy_are_skipped_with_an_issue(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    span = '"spans": [{"start": 0, "end": 3, "label": "PER"}]'
    path.write_text(
        f'{{"text": "Ada left", {span}, "answer": "accept"}}\n{{"text": "Bob left", {span}, "answer": "reject"}}\n'
    )
    issues = Issues()
    assert len(cio.read(path, issues=issues)) == 1
    assert issues.counts() == {"left out": 1}


@pytest.mark.parametrize("precision", [{"a": 1.0}, {"a": "high"}, [0.5], {"a": True}])
def test_an_invalid_precision_is_an_error(precision: Any, tmp_path: Path) -> None:
    corpus = {"types": ["PER"], "sources": ["a"], "prior_precision": precision}
    (tmp_path / "x.jsonl").write_text(json.dumps({"convener": corpus, "tokens": ["Ada"]}) + "\n")
    with pytest.raises(DataError, match=r"'prior_precision' must map sources to numbers in \(0, 1\)"):
        cio.read(tmp_path / "x.jsonl")
