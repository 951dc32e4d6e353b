"""Wrench files: both spellings of votes, meta files, broken files, the real data."""

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


def saved(folder: Path, items: Any, meta: Any = META, name: str = "train") -> Path:
    file = folder / f"{name}.json"
    file.write_bytes(items if isinstance(items, bytes) else json.dumps(items).encode())
    if meta is not None:
        (folder / "meta.json").write_text(json.dumps(meta))
    return file


def item(**changes: Any) -> dict[str, Any]:
    return {"0": {**SPANS["0"], **changes}}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents(Kind(partial=True, empty_words=True)))
def test_tags_come_back(content: LabeledData) -> None:
    with TemporaryDirectory() as room:
        assert same(returned(content, wrench.FORMAT, Path(room, "x.json")), content)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents(Kind(empty_words=True)))
def test_spans_come_back(content: LabeledData) -> None:
    with TemporaryDirectory() as room:
        assert same(returned(content, wrench.FORMAT, Path(room, "train.json")), content)


@pytest.mark.parametrize("items", [SPANS, TAGS], ids=["spans", "tags"])
def test_both_spellings_say_the_same(tmp_path: Path, items: Any) -> None:
    data = cio.read(saved(tmp_path, items), sources="all")
    assert data.tags.types == ("PER", "LOC")
    assert data.sources == ("a", "b", "c")
    assert data.silence == ("O", "O", "O")
    assert data.votes.tolist() == [[1, -1, 3], [0, -1, 4], [0, -1, 0]]
    assert data.gold.tolist() == [1, 2, 0]
    assert data.lengths.tolist() == [3, 0]
    assert data.doc_ids is None


@pytest.mark.parametrize("items", [SPANS, TAGS], ids=["spans", "tags"])
def test_sources_are_chosen(tmp_path: Path, items: Any) -> None:
    file = saved(tmp_path, items)
    assert cio.read(file).sources == ("c", "a")
    assert cio.read(file).votes.tolist() == [[3, 1], [4, 0], [0, 0]]
    assert cio.read(file, sources=("b",)).votes.tolist() == [[-1], [-1], [-1]]
    with pytest.raises(UnknownNameError, match=r"train\.json: no source 'd'; available: a, b, c"):
        cio.read(file, sources=("d",))


@pytest.mark.parametrize(("label", "weak"), [(SPANS, TAGS), (TAGS, SPANS)])
def test_gold_and_votes_may_be_spelled_apart(tmp_path: Path, label: Any, weak: Any) -> None:
    items = {
        name: {
            **SPANS[name],
            "label": label[name]["label"],
            "weak_labels": weak[name]["weak_labels"],
        }
        for name in SPANS
    }
    assert cio.read(saved(tmp_path, items)) == cio.read(saved(tmp_path, SPANS))


def test_without_meta_names_are_made_and_types_found(tmp_path: Path) -> None:
    data = cio.read(saved(tmp_path, SPANS, meta=None))
    assert data.sources == ("source-0", "source-1", "source-2")
    assert data.tags.types == ("LOC", "PER")


def test_its_own_meta_comes_first(tmp_path: Path) -> None:
    file = saved(tmp_path, SPANS)
    own = {"entity_types": ["LOC", "PER"], "lf": ["x", "y", "z"], "silence": {"y": "abstain"}}
    (tmp_path / "train.meta.json").write_text(json.dumps(own))
    data = cio.read(file)
    assert data.sources == ("x", "y", "z")
    assert data.silence == ("O", "abstain", "O")
    assert cio.read(file, silence="abstain").silence == ("abstain",) * 3


def test_ids_that_do_not_count_are_documents(tmp_path: Path) -> None:
    items = {"p1": SPANS["0"], "p2": SPANS["1"]}
    assert cio.read(saved(tmp_path, items)).doc_ids.to_list() == ["p1", "p2"]


def test_gold_may_be_missing_everywhere(tmp_path: Path) -> None:
    items = {name: {**value, "label": None} for name, value in SPANS.items()}
    assert cio.read(saved(tmp_path, items)).gold is None


def test_overlaps_and_illegal_tags_are_noted(tmp_path: Path) -> None:
    spans = item(label=[[0, 2, "PER"], [1, 3, "PER"]])
    report = Issues()
    cio.read(saved(tmp_path, spans), issues=report)
    assert str(report.items[0]) == (f"{tmp_path}/train.json: item '0': overlap (gold): kept 0-2 PER, dropped 1-3 PER")
    tags = item(label=["B-LOC", "I-PER", "O"])
    report = Issues()
    assert cio.read(saved(tmp_path, tags), issues=report).gold.tolist() == [3, 1, 0]
    where = f"{tmp_path}/train.json: item '0' token 1: illegal tag"
    assert str(report.items[0]) == f"{where} (gold): I-PER taken as a span's part"
    dropped = cio.read(tmp_path / "train.json", issues=Issues(), on_illegal="drop")
    assert dropped.gold.tolist() == [3, 0, 0]
    with pytest.raises(DataError, match=r"token 1: illegal tag 'I-PER' of gold \(1 in all\)$"):
        cio.read(tmp_path / "train.json", on_illegal="error")


def test_tags_in_the_io_scheme_are_no_illegal_ones(tmp_path: Path) -> None:
    weak = [["O", "I-PER", "B-PER"], ["O", "I-PER", "O"], ["O", "B-PER", "O"]]
    data = cio.read(saved(tmp_path, item(label=["O", "I-PER", "I-PER"], weak_labels=weak)), on_illegal="error")
    assert data.gold.tolist() == [0, 1, 2]
    assert data.votes.tolist() == [[1, 0], [0, 0], [0, 0]]
    saved(tmp_path, item(weak_labels=weak))
    assert cio.read(tmp_path / "train.json", sources="b", on_illegal="drop").votes.tolist() == [
        [1],
        [2],
        [1],
    ]


def test_thousands_of_illegal_tags_are_counted_not_listed(tmp_path: Path) -> None:
    size = 1500
    label = ["I-PER", "O", "B-LOC"] * size
    one = {"label": label, "data": {"text": ["w"] * len(label)}, "weak_labels": [[], [], []]}
    report = Issues()
    cio.read(saved(tmp_path, {"0": one}), issues=report)
    assert len(report) == 101
    assert report.items[-1].detail.startswith("1400 more from here on")


# ~ stands for "item '0': ".
BROKEN = [
    (b"", "is empty: expected a JSON object of items"),
    (b"[]", "character 0: expected '{', got '['"),
    (b"{", "character 1: expected '\"', got the end of the file"),
    (b'{"0": ', "~not JSON at character 6: Expecting value"),
    (b'{"0": {"data": 1', "~not JSON at character 16: Expecting ',' delimiter"),
    (b'{"0": {"data": "abc', "~not JSON at character 15: Unterminated string starting at"),
    (b"{} x", "character 3: expected the end, got 'x'"),
    (b'{"0": NaN}', "~not JSON: NaN is not a JSON number"),
    (b'{"0": {"a": 1, "a": 2}}', "~not JSON: the key 'a' occurs twice"),
    (b'{"0": ' + b"[" * 99999, "~not JSON: nested too deep"),
    (b'{"0": "\xff"}', "byte 7: not UTF-8 text (0xff)"),
    (b"\x80\x00\xffjunk", "byte 0: not UTF-8 text (0x80)"),
    (b'{"0": "\xf0\x9f', "byte 7: not UTF-8 text (0xf0)"),
    (b'{"0": 5}', "~expected an object with 'data', got 5"),
    (b'{"0": {"data": {"text": "a b"}}}', "~expected a list of tokens in 'text', got 'a b'"),
    (b'{"0": {"data": {"text": [1]}}}', "~expected a list of tokens in 'text', got [1]"),
    (b'{"x": %b, "x": %b}' % ((json.dumps(SPANS["0"]).encode(),) * 2), "item 'x' occurs twice"),
    (b'{"0": %b, "0": %b}' % ((json.dumps(SPANS["0"]).encode(),) * 2), "item '0' occurs twice"),
    (
        {**SPANS, "1": {**SPANS["1"], "label": None}},
        "item '1': 'label' in some places but not in all: expected one, got none",
    ),
    (item(label=5), "~expected 'label' as spans or tags, got 5"),
    (item(label=[[0, 1]]), "~expected a span [start, end, type] of gold, got [0, 1]"),
    (
        item(label=[[True, 2, "PER"]]),
        "~expected a span [start, end, type] of gold, got [True, 2, 'PER']",
    ),
    (
        item(label=[[0.0, 2, "PER"]]),
        "~expected a span [start, end, type] of gold, got [0.0, 2, 'PER']",
    ),
    (item(label=[[-1, 2, "PER"]]), "~span -1-2 of gold is not a range of the sentence's 3 tokens"),
    (item(label=[[0, 4, "PER"]]), "~span 0-4 of gold is not a range of the sentence's 3 tokens"),
    (item(label=[[0, 2**40, "PER"]]), "~span 0-1099511627776 of gold is out of range"),
    (item(label=[[0, 2, "LCO"]]), "~no entity type 'LCO'; did you mean 'LOC'? (gold)"),
    (item(label=["O", "O"]), "~expected tags of 3 tokens, got 2"),
    (item(label=["O", "O", "B-X"]), "~no entity type 'X'; available: PER, LOC (gold)"),
    (item(label=["O", "O", 7]), "~expected a tag, got 7"),
    (item(weak_labels=5), "~expected 'weak_labels' as a list, got 5"),
    (item(weak_labels=[[], []]), "~expected weak labels of 3 sources, got 2"),
    (item(weak_labels=[[], [], 5]), "~expected a list of spans of c, got 5"),
    (item(weak_labels=[["O"] * 3] * 2), "~expected tags of 3 tokens, got 2"),
    (
        item(weak_labels=[["O"] * 3, ["O"] * 2, "O"]),
        "~expected weak labels of 3 sources, got something else",
    ),
    (item(weak_labels=[["O", "O", {}]] * 3), "~expected a tag, got {}"),
    (item(weak_labels=[["O", "O", 0]] * 3), "~expected a tag, got 0"),
    ({**SPANS, "1": TAGS["0"]}, "item '1': expected 'label' as spans, as before, got tags"),
    (item(prediction=[[0, 1, "PER", float("1e300")]]), "~expected a score, got 1e+300"),
    (
        item(prediction=[[0, 1, "PER", 1], [2, 3, "PER"]]),
        "~'score' in some places but not in all: expected one, got none",
    ),
    (item(prediction=[], probabilities=[[1]]), "~expected probabilities of 3 tokens, got [[1]]"),
    (
        item(prediction=[], probabilities=[[1], [1], ["x"]]),
        "~expected a row of probabilities, got ['x']",
    ),
    (item(prediction=[], probabilities=[[1]] * 3), "expected 5 probabilities for a token, got 1"),
    (
        item(data={"text": ["a"], "string": "a"}, label=[], weak_labels=[[], [], []]),
        "~expected a [start, end] for each of 1 tokens, got None",
    ),
    (
        item(
            data={"text": ["a"], "string": "a", "chars": [[0, 2]]},
            label=[],
            weak_labels=[[], [], []],
        ),
        "~token at 0-2 is not a range of the text's 1 characters",
    ),
    (
        item(data={"text": [], "doc_id": 4}, label=[], weak_labels=[[], [], []]),
        "~expected 'doc_id' as a string, got 4",
    ),
]


@pytest.mark.parametrize(("items", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_one_clear_line(tmp_path: Path, items: Any, message: str) -> None:
    file = saved(tmp_path, items)
    with pytest.raises(DataError) as caught:
        cio.read(file, issues=Issues())
    assert str(caught.value) == f"{file}: {message}".replace("~", "item '0': ")


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ([], "expected a JSON object, got []"),
        ({"lf": "a"}, "expected 'lf' as a list of names, got 'a'"),
        ({"lf": ["a", "a"]}, "'lf' names 'a' twice"),
        ({"entity_types": [""]}, "expected 'entity_types' as a list of names, got ['']"),
        ({"lf": ["a"], "lf_rec": ["b"]}, "'lf_rec' names 'b', which 'lf' does not"),
        (
            {"silence": {"a": "loud"}},
            "expected 'silence' as O or abstain by source, got {'a': 'loud'}",
        ),
        ({"settings": 4}, "expected 'settings' as an object, got 4"),
        ({"model": 4}, "expected 'model' as a string, got 4"),
    ],
)
def test_a_broken_meta_is_one_clear_line(tmp_path: Path, meta: Any, message: str) -> None:
    file = saved(tmp_path, SPANS, meta)
    with pytest.raises(DataError) as caught:
        cio.read(file)
    assert str(caught.value) == f"{tmp_path}/meta.json: {message}"


@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_the_size_of_the_chunks_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    items = {
        "é🙂": {"a": [1.5e-3, -12, True, None, '\\ " \n é 🙂'], "b": {}},
        'q"': 12,
        "東": [[]],
    }
    file = tmp_path / "x.json"
    file.write_text("\ufeff" + json.dumps(items, ensure_ascii=False, indent=1), encoding="utf-8")
    monkeypatch.setattr(json_stream, "CHUNK_SIZE", chunk)
    assert dict(json_stream.iter_json_items(file)) == items
    whole = file.read_bytes()
    for end in range(3, len(whole) - 1):
        file.write_bytes(whole[:end])
        with pytest.raises(DataError):
            dict(json_stream.iter_json_items(file))


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    data = Dataset.from_spans(["PER"], [["a\ud800"]], {})
    cio.write(data, tmp_path / "x.json")
    assert cio.read(tmp_path / "x.json") == data


def sources(*names: str) -> Dataset:
    return Dataset.from_spans(["PER"], [["Ada"]], {name: [[(0, 1, "PER")]] for name in names})


def test_a_corpus_shares_its_meta_where_it_can(tmp_path: Path) -> None:
    cio.write(
        Corpus(splits={"train": sources("a"), "test": sources("a")}),
        tmp_path / "c",
        format="wrench",
    )
    assert {file.name for file in (tmp_path / "c").iterdir()} == {
        "train.json",
        "test.json",
        "meta.json",
    }
    mixed = Corpus(splits={"train": sources("a"), "test": sources("b")})
    cio.write(mixed, tmp_path / "c", format="wrench")
    assert cio.read(tmp_path / "c" / "train.json") == sources("a")
    assert cio.read(tmp_path / "c" / "test.json") == sources("b")


def test_a_split_does_not_spoil_the_meta_of_others(tmp_path: Path) -> None:
    cio.write(sources("a"), tmp_path / "train.json")
    assert (tmp_path / "meta.json").exists()
    cio.write(sources("b"), tmp_path / "test.json")
    assert cio.read(tmp_path / "train.json") == sources("a")
    assert cio.read(tmp_path / "test.json") == sources("b")
    cio.write(sources("a"), tmp_path / "test.json")  # its own meta is there, and read first
    assert cio.read(tmp_path / "test.json") == sources("a")
    cio.write(sources("c"), tmp_path / "mine.json")
    assert (tmp_path / "mine.meta.json").exists()
    assert not list(tmp_path.glob(".*"))


def test_votes_with_stray_labels_are_refused_or_written_as_they_are(tmp_path: Path) -> None:
    stray = sources("a").with_sources(["a"], np.array([[2]], np.int16), ["O"])
    with pytest.raises(FormatError, match="stray I- labels"):
        cio.write(stray, tmp_path / "x.json")
    with pytest.warns(match="stray I-"):
        cio.write(stray, tmp_path / "x.json", lossy=True)
    report = Issues()
    assert cio.read(tmp_path / "x.json", issues=report).votes.tolist() == [[1]]
    assert report.counts() == {"illegal tag": 1}


def test_types_asked_for_reorder_the_probabilities(tmp_path: Path) -> None:
    rows = np.array([[0.1, 0.5, 0.2, 0.1, 0.1]], np.float32)
    data = Dataset.from_spans(["PER", "LOC"], [["Ada"]], {})
    labels = Predictions(data=data, labels=np.array([1], np.int16), probabilities=rows)
    cio.write(labels, tmp_path / "x.json")
    found = cio.read_predictions(tmp_path / "x.json", types=("LOC", "PER"))
    assert found.probabilities is not None
    assert found.probabilities.tolist() == [[rows[0, i] for i in (0, 3, 4, 1, 2)]]
    with pytest.raises(DataError, match="has probabilities of 'LOC', which types= leaves out"):
        cio.read_predictions(tmp_path / "x.json", types=("PER",))


def test_settings_that_are_no_json_are_refused(tmp_path: Path) -> None:
    labels = Predictions(data=sources(), labels=np.array([1], np.int16), settings={"a": object()})
    with pytest.raises(FormatError, match=r"x\.json: meta: cannot be written as JSON"):
        cio.write(labels, tmp_path / "x.json")
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
def test_the_real_data(
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


def test_a_sentence_of_the_real_data(real_data: Path) -> None:
    sentence = cio.read(real_data / "LaptopReview", "train")[0]
    assert sentence.tokens[22:] == ["the", "applications", "."]
    assert sentence.gold is not None
    assert np.flatnonzero(sentence.gold).tolist() == [23]
    assert sentence.votes[23].tolist() == [1, 0, 0]
    everything = cio.read(real_data / "LaptopReview", "train", sources="all")
    assert len(everything.sources) == 16
