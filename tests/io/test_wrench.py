"""Wrench files: votes as spans and tags, meta files, malformed files, published datasets."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from convener import io as cio
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.errors import DataError, FormatError, UnknownNameError
from convener.io import json_stream, wrench
from convener.io.formats import LabeledData
from tests.generators import Kind, contents, returned, same

META = {"entity_types": ["PER", "LOC"], "lf": ["a", "b", "c"], "lf_rec": ["c", "a"]}
SPANS: dict[str, Any] = {
    "0": {
        "label": [[0, 2, "PER"]],
        "data": {"text": ["Ada", "Lovelace", "wrote"]},
        "weak_labels": [[[0, 1, "PER"]], None, [[0, 2, "LOC"]]],
    },
    "1": {"label": [], "data": {"text": []}, "weak_labels": [[], [], []]},
}
TAGS: dict[str, Any] = {
    "0": {
        "label": ["B-PER", "I-PER", "O"],
        "data": {"text": ["Ada", "Lovelace", "wrote"]},
        "weak_labels": [["B-PER", None, "B-LOC"], ["O", -1, "I-LOC"], ["O", "-", "O"]],
    },
    "1": {"label": [], "data": {"text": []}, "weak_labels": []},
}


def save(folder: Path, items: Any, meta: Any = META, name: str = "train") -> Path:
    file = folder / f"{name}.json"
    file.write_bytes(items if isinstance(items, bytes) else json.dumps(items).encode())
    if meta is not None:
        (folder / "meta.json").write_text(json.dumps(meta))
    return file


def item(**changes: Any) -> dict[str, Any]:
    return {"0": {**SPANS["0"], **changes}}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents(Kind(partial=True, empty_words=True)))
def test_tags_round_trip(content: LabeledData) -> None:
    with TemporaryDirectory() as folder:
        assert same(returned(content, wrench.FORMAT, Path(folder, "x.json")), content)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents(Kind(empty_words=True)))
def test_spans_round_trip(content: LabeledData) -> None:
    with TemporaryDirectory() as folder:
        assert same(returned(content, wrench.FORMAT, Path(folder, "train.json")), content)


@pytest.mark.parametrize("items", [SPANS, TAGS], ids=["spans", "tags"])
def test_spans_and_tags_are_equivalent(tmp_path: Path, items: Any) -> None:
    data = cio.read(save(tmp_path, items), sources="all")
    assert data.tags.types == ("PER", "LOC")
    assert data.sources == ("a", "b", "c")
    assert data.unmarked == ("abstain", "abstain", "abstain")
    assert data.votes.tolist() == [[1, -1, 3], [0, -1, 4], [0, -1, 0]]
    assert data.gold.tolist() == [1, 2, 0]
    assert data.lengths.tolist() == [3, 0]
    assert data.doc_ids is None


@pytest.mark.parametrize("items", [SPANS, TAGS], ids=["spans", "tags"])
def test_sources_can_be_selected(tmp_path: Path, items: Any) -> None:
    file = save(tmp_path, items)
    assert cio.read(file).sources == ("c", "a")
    assert cio.read(file).votes.tolist() == [[3, 1], [4, 0], [0, 0]]
    assert cio.read(file, sources=("b",)).votes.tolist() == [[-1], [-1], [-1]]
    with pytest.raises(UnknownNameError, match=r"train\.json: no source 'd'; available: a, b, c"):
        cio.read(file, sources=("d",))


@pytest.mark.parametrize(("label", "weak"), [(SPANS, TAGS), (TAGS, SPANS)])
def test_gold_and_votes_may_differ_in_form(tmp_path: Path, label: Any, weak: Any) -> None:
    items = {
        name: {
            **SPANS[name],
            "label": label[name]["label"],
            "weak_labels": weak[name]["weak_labels"],
        }
        for name in SPANS
    }
    assert cio.read(save(tmp_path, items)) == cio.read(save(tmp_path, SPANS))


def test_without_meta_sources_are_numbered_and_types_observed(tmp_path: Path) -> None:
    data = cio.read(save(tmp_path, SPANS, meta=None))
    assert data.sources == ("source-0", "source-1", "source-2")
    assert data.tags.types == ("LOC", "PER")


def test_the_meta_file_of_the_split_takes_precedence(tmp_path: Path) -> None:
    file = save(tmp_path, SPANS)
    split_meta = {"entity_types": ["LOC", "PER"], "lf": ["x", "y", "z"], "unmarked": {"y": "outside"}}
    (tmp_path / "train.meta.json").write_text(json.dumps(split_meta))
    data = cio.read(file)
    assert data.sources == ("x", "y", "z")
    assert data.unmarked == ("abstain", "outside", "abstain")
    assert cio.read(file, unmarked="outside").unmarked == ("outside",) * 3


def test_ids_that_are_not_numbers_are_documents(tmp_path: Path) -> None:
    items = {"p1": SPANS["0"], "p2": SPANS["1"]}
    assert cio.read(save(tmp_path, items)).doc_ids.to_list() == ["p1", "p2"]


def test_gold_may_be_missing_from_all_items(tmp_path: Path) -> None:
    items = {name: {**value, "label": None} for name, value in SPANS.items()}
    assert cio.read(save(tmp_path, items)).gold is None


def test_overlaps_and_illegal_tags_are_reported(tmp_path: Path) -> None:
    spans = item(label=[[0, 2, "PER"], [1, 3, "PER"]])
    issues = Issues()
    cio.read(save(tmp_path, spans), issues=issues)
    assert str(issues.items[0]) == (f"{tmp_path}/train.json: item '0': overlap (gold): kept 0-2 PER, dropped 1-3 PER")
    tags = item(label=["B-LOC", "I-PER", "O"])
    issues = Issues()
    assert cio.read(save(tmp_path, tags), issues=issues).gold.tolist() == [3, 1, 0]
    where = f"{tmp_path}/train.json: item '0' token 1: illegal tag"
    assert str(issues.items[0]) == f"{where} (gold): I-PER treated as part of a span"
    dropped = cio.read(tmp_path / "train.json", issues=Issues(), on_illegal="drop")
    assert dropped.gold.tolist() == [3, 0, 0]
    with pytest.raises(DataError, match=r"token 1: illegal tag 'I-PER' \(gold; 1 in total\)$"):
        cio.read(tmp_path / "train.json", on_illegal="error")


def test_tags_of_the_io_scheme_are_legal(tmp_path: Path) -> None:
    weak = [["O", "I-PER", "B-PER"], ["O", "I-PER", "O"], ["O", "B-PER", "O"]]
    data = cio.read(save(tmp_path, item(label=["O", "I-PER", "I-PER"], weak_labels=weak)), on_illegal="error")
    assert data.gold.tolist() == [0, 1, 2]
    assert data.votes.tolist() == [[1, 0], [0, 0], [0, 0]]
    save(tmp_path, item(weak_labels=weak))
    assert cio.read(tmp_path / "train.json", sources="b", on_illegal="drop").votes.tolist() == [
        [1],
        [2],
        [1],
    ]


def test_thousands_of_illegal_tags_are_counted_not_listed(tmp_path: Path) -> None:
    size = 1500
    label = ["I-PER", "O", "B-LOC"] * size
    one = {"label": label, "data": {"text": ["w"] * len(label)}, "weak_labels": [[], [], []]}
    issues = Issues()
    cio.read(save(tmp_path, {"0": one}), issues=issues)
    assert len(issues) == 101
    assert issues.items[-1].detail.startswith("and 1400 more")


# ~ stands for "item '0': ".
MALFORMED = [
    (b"", "the file is empty: expected a JSON object of items"),
    (b"[]", "character 0: expected '{', got '['"),
    (b"{", "character 1: expected '\"', got the end of the file"),
    (b'{"0": ', "~not valid JSON at character 6: Expecting value"),
    (b'{"0": {"data": 1', "~not valid JSON at character 16: Expecting ',' delimiter"),
    (b'{"0": {"data": "abc', "~not valid JSON at character 15: Unterminated string starting at"),
    (b"{} x", "character 3: expected the end of the file, got 'x'"),
    (b'{"0": NaN}', "~not valid JSON: NaN is not a JSON number"),
    (b'{"0": {"a": 1, "a": 2}}', "~not valid JSON: duplicate key 'a'"),
    (b'{"0": ' + b"[" * 99999, "~not valid JSON: nested too deep"),
    (b'{"0": "\xff"}', "byte 7: not UTF-8 text (0xff)"),
    (b"\x80\x00\xffjunk", "byte 0: not UTF-8 text (0x80)"),
    (b'{"0": "\xf0\x9f', "byte 7: not UTF-8 text (0xf0)"),
    (b'{"0": 5}', "~expected an object with 'data', got 5"),
    (b'{"0": {"data": {"text": "a b"}}}', "~'text' must be a list of tokens, got 'a b'"),
    (b'{"0": {"data": {"text": [1]}}}', "~'text' must be a list of tokens, got [1]"),
    (b'{"x": %b, "x": %b}' % ((json.dumps(SPANS["0"]).encode(),) * 2), "duplicate item 'x'"),
    (b'{"0": %b, "0": %b}' % ((json.dumps(SPANS["0"]).encode(),) * 2), "duplicate item '0'"),
    (
        {**SPANS, "1": {**SPANS["1"], "label": None}},
        "item '1': 'label' must be in every record or in none; missing here",
    ),
    (item(label=5), "~'label' must be a list of spans or tags, got 5"),
    (item(label=[[0, 1]]), "~expected a span [start, end, type] (gold), got [0, 1]"),
    (
        item(label=[[True, 2, "PER"]]),
        "~expected a span [start, end, type] (gold), got [True, 2, 'PER']",
    ),
    (
        item(label=[[0.0, 2, "PER"]]),
        "~expected a span [start, end, type] (gold), got [0.0, 2, 'PER']",
    ),
    (item(label=[[-1, 2, "PER"]]), "~span -1-2 of gold is not a range of the sentence's 3 tokens"),
    (item(label=[[0, 4, "PER"]]), "~span 0-4 of gold is not a range of the sentence's 3 tokens"),
    (item(label=[[0, 2**40, "PER"]]), "~span 0-1099511627776 of gold is out of range"),
    (item(label=[[0, 2, "LCO"]]), "~no entity type 'LCO'; did you mean 'LOC'? (gold)"),
    (item(label=["O", "O"]), "~expected tags for 3 tokens, got 2"),
    (item(label=["O", "O", "B-X"]), "~no entity type 'X'; available: PER, LOC (gold)"),
    (item(label=["O", "O", 7]), "~expected a tag, got 7"),
    (item(weak_labels=5), "~'weak_labels' must be a list, got 5"),
    (item(weak_labels=[[], []]), "~expected weak labels from 3 sources, got 2"),
    (item(weak_labels=[[], [], 5]), "~expected a list of spans (c), got 5"),
    (item(weak_labels=[["O"] * 3] * 2), "~expected tags for 3 tokens, got 2"),
    (
        item(weak_labels=[["O"] * 3, ["O"] * 2, "O"]),
        "~expected weak labels from 3 sources, got rows that are not lists",
    ),
    (item(weak_labels=[["O", "O", {}]] * 3), "~expected a tag, got {}"),
    (item(weak_labels=[["O", "O", 0]] * 3), "~expected a tag, got 0"),
    ({**SPANS, "1": TAGS["0"]}, "item '1': 'label' must contain spans, as in earlier items, got tags"),
    (item(prediction=[[0, 1, "PER", float("1e300")]]), "~expected a score, got 1e+300"),
    (
        item(prediction=[[0, 1, "PER", 1], [2, 3, "PER"]]),
        "~'score' must be in every record or in none; missing here",
    ),
    (item(prediction=[], probabilities=[[1]]), "~expected probabilities for 3 tokens, got [[1]]"),
    (
        item(prediction=[], probabilities=[[1], [1], ["x"]]),
        "~expected a row of probabilities, got ['x']",
    ),
    (item(prediction=[], probabilities=[[1]] * 3), "expected 5 probabilities per token, got 1"),
    (
        item(data={"text": ["a"], "string": "a"}, label=[], weak_labels=[[], [], []]),
        "~expected [start, end] for each of 1 tokens, got None",
    ),
    (
        item(
            data={"text": ["a"], "text_raw": "a", "token_offsets": [[0, 2]]},
            label=[],
            weak_labels=[[], [], []],
        ),
        "~token at 0-2 is outside the text of 1 characters",
    ),
    (
        item(data={"text": [], "doc_id": 4}, label=[], weak_labels=[[], [], []]),
        "~'doc_id' must be a string, got 4",
    ),
]


@pytest.mark.parametrize(("items", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_file_is_a_one_line_error(tmp_path: Path, items: Any, message: str) -> None:
    file = save(tmp_path, items)
    with pytest.raises(DataError) as caught:
        cio.read(file, issues=Issues())
    assert str(caught.value) == f"{file}: {message}".replace("~", "item '0': ")


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ([], "expected a JSON object, got []"),
        ({"lf": "a"}, "'lf' must be a list of names, got 'a'"),
        ({"lf": ["a", "a"]}, "'lf' contains 'a' twice"),
        ({"entity_types": [""]}, "'entity_types' must be a list of names, got ['']"),
        ({"lf": ["a"], "lf_rec": ["b"]}, "'lf_rec' contains 'b', which is not in 'lf'"),
        (
            {"unmarked": {"a": "loud"}},
            "'unmarked' must map sources to 'abstain' or 'outside', got {'a': 'loud'}",
        ),
        ({"settings": 4}, "'model_settings' must be an object, got 4"),
        ({"model": 4}, "'model' must be a string, got 4"),
    ],
)
def test_a_malformed_meta_file_is_a_one_line_error(tmp_path: Path, meta: Any, message: str) -> None:
    file = save(tmp_path, SPANS, meta)
    with pytest.raises(DataError) as caught:
        cio.read(file)
    assert str(caught.value) == f"{tmp_path}/meta.json: {message}"


@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_items_do_not_depend_on_the_chunk_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    items = {
        "é🙂": {"a": [1.5e-3, -12, True, None, '\\ " \n é 🙂'], "b": {}},
        'q"': 12,
        "東": [[]],
    }
    file = tmp_path / "x.json"
    file.write_text("\ufeff" + json.dumps(items, ensure_ascii=False, indent=1), encoding="utf-8")
    monkeypatch.setattr(json_stream, "CHUNK_SIZE", chunk)
    assert dict(json_stream.iter_json_items(file)) == items
    complete = file.read_bytes()
    for end in range(3, len(complete) - 1):
        file.write_bytes(complete[:end])
        with pytest.raises(DataError):
            dict(json_stream.iter_json_items(file))


def test_lone_surrogates_round_trip(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["a\ud800"]], {})
    cio.write(data, tmp_path / "x.json")
    assert cio.read(tmp_path / "x.json") == data


def data_with_sources(*names: str) -> Dataset:
    return Dataset.from_spans(["PER"], [["Ada"]], {name: [[(0, 1, "PER")]] for name in names})


def test_equal_splits_share_one_meta_file(tmp_path: Path) -> None:
    cio.write(
        Corpus(splits={"train": data_with_sources("a"), "test": data_with_sources("a")}),
        tmp_path / "c",
        format="wrench",
    )
    assert {file.name for file in (tmp_path / "c").iterdir()} == {
        "train.json",
        "test.json",
        "meta.json",
    }
    mixed = Corpus(splits={"train": data_with_sources("a"), "test": data_with_sources("b")})
    cio.write(mixed, tmp_path / "c", format="wrench")
    assert cio.read(tmp_path / "c" / "train.json") == data_with_sources("a")
    assert cio.read(tmp_path / "c" / "test.json") == data_with_sources("b")


def test_writing_a_split_keeps_the_meta_file_of_others(tmp_path: Path) -> None:
    cio.write(data_with_sources("a"), tmp_path / "train.json")
    assert (tmp_path / "meta.json").exists()
    cio.write(data_with_sources("b"), tmp_path / "test.json")
    assert cio.read(tmp_path / "train.json") == data_with_sources("a")
    assert cio.read(tmp_path / "test.json") == data_with_sources("b")
    cio.write(data_with_sources("a"), tmp_path / "test.json")  # its own meta file exists and takes precedence
    assert cio.read(tmp_path / "test.json") == data_with_sources("a")
    cio.write(data_with_sources("c"), tmp_path / "mine.json")
    assert (tmp_path / "mine.meta.json").exists()
    assert not list(tmp_path.glob(".*"))


def test_illegal_votes_are_an_error_unless_lossy(tmp_path: Path) -> None:
    illegal = data_with_sources("a").with_sources(["a"], np.array([[2]], np.int16), ["abstain"])
    with pytest.raises(FormatError, match="illegal I- labels"):
        cio.write(illegal, tmp_path / "x.json")
    with pytest.warns(match="illegal I- labels"):
        cio.write(illegal, tmp_path / "x.json", allow_lossy=True)
    issues = Issues()
    assert cio.read(tmp_path / "x.json", issues=issues).votes.tolist() == [[1]]
    assert issues.counts() == {"illegal tag": 1}


def test_given_types_reorder_the_probabilities(tmp_path: Path) -> None:
    rows = np.array([[0.1, 0.5, 0.2, 0.1, 0.1]], np.float32)
    data = Dataset.from_spans(["PER", "LOC"], [["Ada"]], {})
    predictions = Predictions(data=data, labels=np.array([1], np.int16), probabilities=rows)
    cio.write(predictions, tmp_path / "x.json")
    result = cio.read_predictions(tmp_path / "x.json", types=("LOC", "PER"))
    assert result.probabilities is not None
    assert result.probabilities.tolist() == [[rows[0, i] for i in (0, 3, 4, 1, 2)]]
    with pytest.raises(DataError, match="has probabilities for type 'LOC', which is not in types="):
        cio.read_predictions(tmp_path / "x.json", types=("PER",))


def test_settings_that_json_cannot_represent_are_an_error(tmp_path: Path) -> None:
    predictions = Predictions(data=data_with_sources(), labels=np.array([1], np.int16), settings={"a": object()})
    with pytest.raises(FormatError, match=r"x\.json: meta: cannot be written as JSON"):
        cio.write(predictions, tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "split", "sentences", "tokens", "sources", "types"),
    [
        ("LaptopReview", "train", 2436, 40904, 3, ("TERM",)),
        ("NCBI-Disease", "test", 99, 22901, 5, ("Disease",)),
        ("BC5CDR", "valid", 500, 106713, 9, ("Chemical", "Disease")),
        ("CoNLL", "valid", 3250, 51362, 16, ("PER", "LOC", "ORG", "MISC")),
    ],
)
def test_published_datasets_are_read(
    real_data: Path,
    tmp_path: Path,
    name: str,
    split: str,
    sentences: int,
    tokens: int,
    sources: int,
    types: tuple[str, ...],
) -> None:
    data = cio.read(real_data / name, split)
    assert (len(data), len(data.tokens), len(data.sources)) == (sentences, tokens, sources)
    assert data.tags.types == types
    assert data.doc_ids is None
    cio.write(data, tmp_path / "x.json")
    assert cio.read(tmp_path / "x.json") == data


def test_a_sentence_of_a_published_dataset(real_data: Path) -> None:
    data = cio.read(real_data / "LaptopReview", "train")
    assert data[0].tokens[22:] == ("the", "applications", ".")
    assert data[0].gold is not None
    assert [(span.text, span.start) for span in data[0].gold] == [("applications", 23)]
    assert data.votes[23].tolist() == [1, 0, 0]
    all_sources = cio.read(real_data / "LaptopReview", "train", sources="all")
    assert len(all_sources.sources) == 16
