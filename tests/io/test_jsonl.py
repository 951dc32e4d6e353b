"""JSON lines: ours, and what annotation tools export."""

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


def saved(folder: Path, *records: Any) -> Path:
    file = folder / "x.jsonl"
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    file.write_bytes(b"\n".join(lines))
    return file


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents(Kind()))
def test_what_is_written_comes_back(content: LabeledData) -> None:
    with TemporaryDirectory() as room:
        assert same(returned(content, jsonl.FORMAT, Path(room, "x.jsonl")), content)


def test_our_own_record_to_the_letter(tmp_path: Path) -> None:
    data = Dataset(
        tags=cio.read(saved(tmp_path, {"text": "é", "label": [[0, 1, "PER"]]})).tags,
        tokens=StringArray.from_list(["Zoë", "ran"]),
        offsets=np.array([0, 2]),
        sources=("a", "b"),
        votes=np.array([[1, -1], [0, -1]], np.int16),
        silence=("O", "abstain"),
        text=Text(StringArray.from_list(["Zoë  ran"]), np.array([[0, 3], [5, 8]], np.int32), np.array([7])),
        doc_ids=StringArray.from_list(["d"]),
    )
    labels = Predictions(
        data=data,
        labels=np.array([1, 2], np.int16),
        span_scores=np.array([0.1], np.float32),
        model="m",
    )
    cio.write(labels, tmp_path / "x.jsonl")
    assert (tmp_path / "x.jsonl").read_text(encoding="utf-8") == (
        '{"corpus": {"types": ["PER"], "sources": ["a", "b"], '
        '"silence": {"a": "O", "b": "abstain"}, "model": "m", "settings": {}}, '
        '"text": "Zoë  ran", "tokens": ["Zoë", "ran"], "chars": [[0, 3], [5, 8]], '
        '"char_start": 7, "doc_id": "d", "votes": {"a": [[0, 3, "PER"]], "b": null}, '
        '"labels": [[0, 8, "PER", 0.1]]}\n'
    )
    assert same(cio.read_content(tmp_path / "x.jsonl"), labels)


FOREIGN: dict[str, dict[str, Any]] = {
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
    "tokens to be found": {
        "text": "Ada ran.",
        "tokens": ["Ada", "ran", "."],
        "gold": [[0, 3, "PER"]],
    },
    "tags": {"tokens": ["Ada", "ran", "."], "ner_tags": ["S-PER", "O", "O"]},
    "more tags": {"text": "Ada ran.", "tokens": ["Ada", "ran", "."], "tags": ["B-PER", "O", "O"]},
    "token spans": {"tokens": ["Ada", "ran", "."], "entities": [[0, 1, "PER"]]},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_other_tools_write(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path, FOREIGN[name], b"", {**FOREIGN[name]})
    data = cio.read(file)
    assert data.tokens.to_list() == ["Ada", "ran", "."] * 2
    assert data.tags.types == ("PER",)
    assert data.gold.tolist() == [1, 0, 0] * 2
    assert (data.text is None) == ("text" not in FOREIGN[name])
    assert data.doc_ids is None


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = saved(tmp_path, b"\xef\xbb\xbf" + json.dumps(FOREIGN["doccano"]).encode())
    assert len(cio.read(file)) == 1


def test_misaligned_and_overlapping_spans_are_noted(tmp_path: Path) -> None:
    file = saved(tmp_path, {"text": "Ada ran.", "label": [[0, 2, "PER"], [0, 7, "LOC"]]})
    report = Issues()
    assert cio.read(file, issues=report).gold.tolist() == [1, 2, 0]
    assert [str(case) for case in report] == [
        f"{file}:1: misaligned (gold): 0-2 became 0-3",
        f"{file}:1: overlap (gold): kept 0-2 LOC, dropped 0-1 PER",
    ]
    with pytest.raises(DataError, match=r"x\.jsonl:1: span 0-2 of gold does not begin and end at"):
        cio.read(file, on_misaligned="error")


def test_illegal_tags_are_noted_with_their_line(tmp_path: Path) -> None:
    good, bad = FOREIGN["tags"], {"tokens": ["a", "b"], "ner_tags": ["O", "I-PER"]}
    report = Issues()
    file = saved(tmp_path, good, b"", bad)
    assert cio.read(file, issues=report).gold.tolist() == [1, 0, 0, 0, 1]
    where = f"{file}:3: token 1: illegal tag (gold)"
    assert str(report.items[0]) == f"{where}: I-PER taken as a span's part"


def test_tags_in_the_io_scheme_are_no_illegal_ones(tmp_path: Path) -> None:
    file = saved(tmp_path, {"tokens": ["a", "b", "c"], "ner_tags": ["O", "I-PER", "I-PER"]})
    assert cio.read(file, on_illegal="error").gold.tolist() == [0, 1, 2]


def test_a_source_that_is_not_mentioned(tmp_path: Path) -> None:
    corpus = {"types": ["PER"], "sources": ["a"], "silence": {"a": "abstain", "c": "abstain"}}
    first = {"corpus": corpus, "tokens": ["x"], "votes": {}}
    second = {"tokens": ["y"], "votes": {"b": [[0, 1, "PER"]], "c": []}}
    third = {"tokens": ["z"], "votes": {"a": [], "b": None}}
    data = cio.read(saved(tmp_path, first, second, third))
    assert data.sources == ("a", "b", "c")
    assert data.votes.tolist() == [[-1, 0, -1], [-1, 1, 0], [0, -1, -1]]
    assert cio.read(tmp_path / "x.jsonl", silence="abstain").votes[0].tolist() == [-1, -1, -1]
    chosen = cio.read(tmp_path / "x.jsonl", sources=("b",))
    assert chosen.votes[:, 0].tolist() == [0, 1, -1]
    with pytest.raises(UnknownNameError, match=r"x\.jsonl: no source 'd'; available: a, b, c"):
        cio.read(tmp_path / "x.jsonl", sources=("d",))


def test_nothing_at_all_is_one_line(tmp_path: Path) -> None:
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


def test_tokens_without_characters_of_their_own_are_refused(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["x"], ["a", "b"]], {})
    for chars in ([[0, 1], [0, 1], [1, 1]], [[0, 1], [0, 2], [1, 2]]):
        text = Text(StringArray.from_list(["x", "ab"]), np.array(chars, np.int32), np.zeros(2, np.int64))
        with pytest.raises(FormatError, match=r"^x\.jsonl: sentence 1: token 1 has no characters"):
            cio.write(Dataset(**{**vars(data), "text": text}), tmp_path / "x.jsonl")


TEXT = {"text": "Ada ran.", "label": []}
OWN = {"corpus": {"types": ["PER"]}, "tokens": ["Ada"]}
BROKEN: list[tuple[Any, str]] = [
    (b"", ": is empty: expected one JSON object per line"),
    (b"[]", ":1: expected a JSON object, got []"),
    (b'{"text": ', ":1: not JSON at character 9: Expecting value"),
    (b'{"text": "a"} {}', ":1: not JSON at character 14: Extra data"),
    (b'{"text": NaN}', ":1: not JSON: NaN is not a JSON number"),
    (b'{"text": 1, "text": 2}', ":1: not JSON: the key 'text' occurs twice"),
    (b"[" * 99999, ":1: not JSON: nested too deep"),
    (b'{"text": "\xff"}', ":1: not UTF-8 text (byte 0xff)"),
    (b"\x80\x04junk\x00\xff", ":1: not UTF-8 text (byte 0x80)"),
    ({"id": 4}, ":1: expected 'text' or 'tokens', got ['id']"),
    ({"text": 4}, ":1: expected 'text' as a string, got 4"),
    ({"tokens": 4}, ":1: expected 'tokens' as a list, got 4"),
    ({"tokens": ["a", 4]}, ":1: expected tokens as strings, got 4"),
    ({"text": "a", "tokens": [{"text": "a", "start": 0}]},
     ":1: expected a [start, end] for each of 1 tokens, got [[0, None]]"),
    ({"text": "a", "tokens": ["a"], "chars": [[0, 2]]},
     ":1: token at 0-2 is not a range of the text's 1 characters"),
    ({"text": "ab", "tokens": ["ab", "b"], "chars": [[0, 2], [1, 2]]},
     ":1: expected tokens one after the other, got some that overlap"),
    ({"text": "a b", "tokens": ["a", "c"]}, ":1: token 'c' is not in the text after character 1"),
    ({**TEXT, "doc_id": 4}, ":1: expected 'doc_id' as a string, got 4"),
    ({**TEXT, "char_start": -1}, ":1: expected 'char_start' as a number, got -1"),
    ({**TEXT, "votes": []}, ":1: expected 'votes' as spans by source, got []"),
    ({**TEXT, "votes": {"a": 4}}, ":1: expected a list of spans of a, got 4"),
    ({**TEXT, "label": "PER"}, ":1: expected a list of spans of gold, got 'PER'"),
    ({**TEXT, "label": [[0, 3]]}, ":1: expected a span [start, end, type] of gold, got [0, 3]"),
    ({**TEXT, "label": [[False, 3, "X"]]},
     ":1: expected a span [start, end, type] of gold, got [False, 3, 'X']"),
    ({**TEXT, "label": [{"start": 1}]},
     ":1: expected a span with start, end and label of gold, got {'start': 1}"),
    ({**TEXT, "label": [[-1, 3, "X"]]},
     ":1: span -1-3 of gold is not a range of the text's 8 characters"),
    ({**TEXT, "label": [[0, 2**90, "X"]]},
     f":1: span 0-{2**90} of gold is out of range"),
    ({**TEXT, "label": [[0, 1, " "]]}, None),
    ({"tokens": ["a"], "tags": [3]}, ":1: expected 'tags' as tags, got 3"),
    ({"tokens": ["a"], "tags": ["O", "O"]}, ":1: expected 'tags' of 1 tokens, got ['O', 'O']"),
    ({"tokens": ["a"]}, ": no entity types: none are named and none occur; give types=..."),
    ({**OWN, "corpus": {"types": "PER"}}, ":1: expected 'types' as a list of names, got 'PER'"),
    ({**OWN, "labels": [[0, 1, "PER", "x"]]}, ":1: expected a score, got 'x'"),
    ({**OWN, "labels": [[0, 1, "LOC"]]}, ":1: no entity type 'LOC'; available: PER (labels)"),
    ({**OWN, "labels": [], "probabilities": [[1, 0]]},
     ": expected 3 probabilities for a token, got 2"),
    ({**OWN, "labels": [], "probabilities": [[1, 0, True]]},
     ":1: expected a row of probabilities, got [1, 0, True]"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_one_clear_line(tmp_path: Path, record: Any, message: str | None) -> None:
    file = saved(tmp_path, record)
    with pytest.raises(DataError) as caught:
        cio.read(file, issues=Issues())
    if message is not None:
        assert str(caught.value) == f"{file}{message}"
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"text": "x"}, "'gold' in some places but not in all: expected one, got none"),
        ({"text": "x", "spans": []}, "expected 'label', as before, got 'spans'"),
        ({"tokens": ["x"], "label": []}, "some sentences have text and some do not"),
        (
            {**TEXT, "doc_id": "d"},
            "'doc_id' in some places but not in all: expected none, as before, got one",
        ),
        (b"{", "not JSON at character 1: Expecting property name enclosed in double quotes"),
    ],
)
def test_records_that_do_not_go_together(tmp_path: Path, second: Any, message: str) -> None:
    file = saved(tmp_path, TEXT, second)
    with pytest.raises(DataError) as caught:
        cio.read(file)
    assert str(caught.value) == f"{file}:2: {message}"


def test_moved_or_missing_first_lines_are_noticed(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["Ada"], ["left"]], {"a": [[(0, 1, "PER")], None]})
    labels = Predictions(data=data, labels=np.array([1, 0], np.int16), model="m")
    path = tmp_path / "labels.jsonl"
    cio.write(labels, path)
    first, second = path.read_text().splitlines()
    path.write_text(f"{second}\n{first}\n")
    with pytest.raises(DataError, match=r"lines missing|lines moved"):
        cio.read_content(path)
    path.write_text(f"{second}\n")
    with pytest.raises(DataError, match="lines missing"):
        cio.read_content(path)


def test_what_prodigy_rejected_is_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    span = '"spans": [{"start": 0, "end": 3, "label": "PER"}]'
    path.write_text(
        f'{{"text": "Ada left", {span}, "answer": "accept"}}\n{{"text": "Bob left", {span}, "answer": "reject"}}\n'
    )
    report = Issues()
    assert len(cio.read(path, issues=report)) == 1
    assert report.counts() == {"left out": 1}


@pytest.mark.parametrize("precision", [{"a": 1.0}, {"a": "high"}, [0.5], {"a": True}])
def test_a_precision_that_is_none_is_refused(precision: Any, tmp_path: Path) -> None:
    corpus = {"types": ["PER"], "sources": ["a"], "precision": precision}
    (tmp_path / "x.jsonl").write_text(json.dumps({"corpus": corpus, "tokens": ["Ada"]}) + "\n")
    with pytest.raises(DataError, match=r"expected 'precision' as a number in \(0, 1\)"):
        cio.read(tmp_path / "x.jsonl")
