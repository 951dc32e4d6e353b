"""Hugging Face folders and Parquet files; the `datasets` library is the oracle."""

from __future__ import annotations

import json
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Features, Sequence, Value
from hypothesis import given, settings

from convener import io as cio
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset, Text
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.errors import DataError, FormatError, UnknownNameError
from convener.io import huggingface
from convener.io.formats import LabeledData, ReadOptions
from convener.io.huggingface import from_arrow
from tests.generators import Kind, contents, returned, same

datasets.disable_progress_bars()
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
TABLE = {"tokens": [["Ada", "L."], [], ["x"]], "ner_tags": [["B-PER", "I-PER"], [], ["O"]]}


def table(**changes: Any) -> Any:
    columns = {name: column for name, column in (TABLE | changes).items() if column is not None}
    return pa.table(columns)


@settings(max_examples=60, deadline=None)
@given(content=contents(Kind(partial=True, illegal=True, empty_words=True)))
def test_everything_comes_back(content: LabeledData, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("hf") / "d.hf"
    assert same(returned(content, huggingface.FORMAT, path), content)


@settings(max_examples=15, deadline=None)
@given(content=contents(Kind(partial=True, illegal=True)))
def test_datasets_opens_what_we_write(content: LabeledData, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("hf") / "d.hf"
    cio.write(content, path)
    loaded = datasets.load_from_disk(str(path))
    data = content.data if isinstance(content, Predictions) else content
    assert len(loaded) == len(data)
    assert loaded[:]["tokens"] == [sentence.tokens for sentence in data]
    names = list(data.tags.names)
    for k, name in enumerate(data.sources):
        assert loaded.features[f"votes:{name}"].feature.names == names
        assert list(chain(*loaded[:][f"votes:{name}"])) == data.votes[:, k].tolist()
    tagged = content.labels if isinstance(content, Predictions) else data.gold
    assert (tagged is None) == ("ner_tags" not in loaded.features)
    if tagged is not None:
        names = list(data.fine_tags.names)
        assert loaded.features["ner_tags"].feature.names == names
        assert list(chain(*loaded[:]["ner_tags"])) == tagged.tolist()
    if data.text is not None:
        assert loaded[:]["text"] == data.text.sentences.to_list()
    if isinstance(content, Predictions) and content.probabilities is not None:
        rows = np.array(list(chain(*loaded[:]["soft_labels"])), np.float32)
        assert np.array_equal(rows.reshape(-1, len(names)), content.probabilities)


def test_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface, "BATCH_BYTES", 200)
    sentences = [["wörd"] * (n % 4) for n in range(50)]
    data = Dataset.from_spans(["A"], sentences, {"a": [[(0, 1, "A")] if words else None for words in sentences]})
    labels = Predictions(data=data, labels=np.maximum(data.votes[:, 0], 0), model="m")
    spans = len(labels.spans)
    scored = Predictions(data=data, labels=labels.labels, span_scores=np.linspace(0, 1, spans, dtype=np.float32))
    path = tmp_path / "d.hf"
    assert same(returned(scored, huggingface.FORMAT, path), scored)
    assert len(datasets.load_from_disk(str(path)).data.to_batches()) > 5


def test_a_corpus_is_a_dataset_dict(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x"], ["y"]], {"a": [[(0, 1, "A")], []]}, gold=[[], []])
    corpus = Corpus(splits={"train": data, "valid": data[:1], "test": data[1:]})
    cio.write(corpus, tmp_path / "corpus", format="huggingface")
    loaded = datasets.load_from_disk(str(tmp_path / "corpus"))
    assert isinstance(loaded, datasets.DatasetDict)
    assert {name: len(split) for name, split in loaded.items()} == {
        "train": 2, "valid": 1, "test": 1,
    }  # fmt: skip
    again = cio.read(tmp_path / "corpus")
    assert all(again[name] == split for name, split in corpus.splits.items())
    loaded.save_to_disk(str(tmp_path / "theirs"))  # without convener.json
    theirs = cio.read(tmp_path / "theirs", "train")
    assert theirs == data.with_sources(data.sources, data.votes, ("abstain",))


def foreign() -> datasets.Dataset:
    features = Features(
        {
            "id": Value("string"),
            "tokens": Sequence(Value("string")),
            "ner_tags": Sequence(ClassLabel(names=TAGS)),
        }
    )
    rows = {"id": ["0", "1"], "tokens": [["Ada", "L.", "x"], []], "ner_tags": [[1, 2, 0], []]}
    return datasets.Dataset.from_dict(rows, features=features)


def test_others_folders_parquet_files_and_tables(tmp_path: Path) -> None:
    theirs = foreign()
    theirs.save_to_disk(str(tmp_path / "folder"))
    theirs.to_parquet(str(tmp_path / "d.parquet"))
    report = Issues()
    data = cio.read(tmp_path / "folder", issues=report)
    assert data.tokens.to_list() == ["Ada", "L.", "x"]
    assert data.gold.tolist() == [1, 2, 0]
    assert data.tags.types == ("PER", "LOC")
    assert data.sources == ()
    assert [(case.kind, case.detail) for case in report] == [("ignored", "id")]
    assert cio.read(tmp_path / "d.parquet", issues=report) == data
    assert from_arrow(theirs.with_format("arrow")[:], issues=report) == data
    sliced = from_arrow(theirs.select([1, 0]).with_format("arrow")[:], issues=report)
    assert isinstance(sliced, Dataset)
    assert sliced.tokens.to_list() == ["Ada", "L.", "x"]
    assert sliced.lengths.tolist() == [0, 3]


def test_a_table_in_memory_may_be_sliced_and_of_any_layout() -> None:
    whole = pa.concat_tables([table(), table()]).slice(1, 4)
    data = from_arrow(whole)
    assert isinstance(data, Dataset)
    assert data.tokens.to_list() == ["x", "Ada", "L."]
    assert data.lengths.tolist() == [0, 1, 2, 0]
    assert data.gold is not None
    assert data.gold.tolist() == [0, 1, 2]
    large = pa.table(
        {
            "tokens": pa.array(TABLE["tokens"], pa.large_list(pa.large_string())),
            "labels": pa.array(TABLE["ner_tags"], pa.large_list(pa.large_string())),
        }
    )
    assert from_arrow(large) == from_arrow(table())
    coded = table(
        ner_tags=pa.ListArray.from_arrays([0, 2, 2, 3], pa.array(["B-PER", "I-PER", "O"]).dictionary_encode())
    )
    assert from_arrow(coded) == from_arrow(table())


def test_strings_in_any_scheme_and_what_is_illegal() -> None:
    report = Issues()
    data = from_arrow(table(ner_tags=[["B-PER", "E-PER"], [], ["I-LOC"]]), issues=report)
    assert isinstance(data, Dataset)
    assert data.tags.types == ("LOC", "PER")
    assert data.gold is not None
    assert data.gold.tolist() == [3, 4, 1]
    assert [str(case) for case in report] == ["table: row 2: illegal tag (ner_tags): I-LOC taken as a span's part"]
    with pytest.raises(DataError, match="table: row 2: illegal tag 'I-LOC' of ner_tags"):
        from_arrow(table(ner_tags=[["B-PER", "O"], [], ["I-LOC"]]), on_illegal="error")


def test_tags_in_the_io_scheme_are_no_illegal_ones() -> None:
    data = from_arrow(table(ner_tags=[["I-PER", "I-PER"], [], ["I-LOC"]]), on_illegal="error")
    assert isinstance(data, Dataset)
    assert data.gold is not None
    assert data.gold.tolist() == [3, 4, 1]


def test_votes_of_others(tmp_path: Path) -> None:
    votes = {"votes:a": [["O", "B-PER"], [], ["O"]], "votes:b": [["O", "O"], [], ["B-LOC"]]}
    path = tmp_path / "d.parquet"
    pq.write_table(table(ner_tags=None, **votes), path)
    data = cio.read(path)
    assert data.sources == ("a", "b")
    assert data.silence == ("abstain", "abstain")
    assert data.votes.tolist() == [[0, 0], [3, 0], [0, 1]]
    only = cio.read(path, sources="b", silence="O")
    assert (only.sources, only.silence) == (("b",), ("O",))
    with pytest.raises(UnknownNameError, match="no source 'c'"):
        cio.read(path, sources="c")
    numbers = {"votes:a": [[-1, 1], [], [0]]}
    found = from_arrow(table(ner_tags=None, **numbers), types=("X",))
    assert isinstance(found, Dataset)
    assert found.votes.tolist() == [[-1], [1], [0]]


def test_soft_labels_tell_labels_from_gold() -> None:
    rows = [[[0.1, 0.8, 0.1]] * 2, [], [[0.9, 0.1, 0.0]]]
    labelled = foreign_labels(soft_labels=rows, scores=[[0.5], [], []])
    found = from_arrow(labelled)
    assert isinstance(found, Predictions)
    assert found.labels.tolist() == [1, 2, 0]
    assert found.probabilities is not None
    assert found.probabilities.shape == (3, 3)
    assert found.span_scores is not None
    assert found.span_scores.tolist() == [0.5]
    report = Issues()
    strings = from_arrow(table(soft_labels=rows), issues=report)
    assert isinstance(strings, Predictions)
    assert strings.probabilities is None
    assert report.counts() == {"ignored": 1}


def foreign_labels(**columns: Any) -> Any:
    made = table(ner_tags=[[1, 2], [], [0]], **columns)
    feature = {"feature": {"names": TAGS[:3], "_type": "ClassLabel"}, "_type": "Sequence"}
    described = {"info": {"features": {"ner_tags": feature}}}
    return made.replace_schema_metadata({b"huggingface": json.dumps(described).encode()})


def test_text_of_others() -> None:
    columns = {
        "text": ["Ada L.", "", "x"],
        "chars": [[[0, 3], [4, 6]], [], [[0, 1]]],
        "doc_id": [7, 7, 8],
    }
    data = from_arrow(table(**columns))
    assert isinstance(data, Dataset)
    assert data.text == Text(
        StringArray.from_list(["Ada L.", "", "x"]),
        np.array([[0, 3], [4, 6], [0, 1]], np.int32),
        np.zeros(3, np.int64),
    )
    assert data.doc_ids is not None
    assert data.doc_ids.to_list() == ["7", "7", "8"]
    with pytest.raises(DataError, match="row 0: chars 2-6 do not follow those before in the text"):
        from_arrow(table(**columns | {"chars": [[[0, 3], [2, 6]], [], [[0, 1]]]}))
    report = Issues()
    from_arrow(table(text=columns["text"]), issues=report)
    assert [(case.kind, case.detail) for case in report] == [("ignored", "text")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": None}, "expected one column 'tokens', got ner_tags"),
        ({"tokens": ["a", "b", "c"]}, "tokens: expected a list column, got string"),
        ({"tokens": [[1], [2], [3]]}, "tokens: expected lists of strings, got int64"),
        ({"tokens": [["a", "b"], None, ["x"]]}, "tokens: row 1 is null"),
        ({"tokens": [["a", "b"], [], [None]]}, "tokens: row 2 holds a null"),
        ({"tokens": [["a"], [], ["x"]]}, "row 0: expected ner_tags of 1 tokens, got 2"),
        ({"ner_tags": [[0, 1], [], [0]]},
         "ner_tags holds numbers without names: expected class labels or strings; give types=... "
         "if they are BIO ids"),
        ({"ner_tags": [[0.0, 1.0], [], [0.0]]}, "ner_tags: expected class labels or strings"),
        ({"ner_tags": ["O", "O", "O"]}, "ner_tags: expected a list column, got string"),
        ({"ner_tags": [["O", "O"], [], ["O"]]},
         "no entity types: none are named and none occur; give types=..."),
        ({"ner_tags": None}, "no entity types: none are named and none occur; give types=..."),
        ({"text": ["a", "b", None], "chars": [[[0, 1], [1, 2]], [], [[0, 1]]]},
         "text: expected strings without nulls"),
        ({"text": ["a", "", "b"], "chars": [[[0, 1]], [], [[0, 1]]]},
         "row 0: expected chars of 2 tokens, got 1"),
        ({"doc_id": [0.5, 1.0, 2.0]}, "doc_id: expected strings without nulls"),
        ({"scores": [["a"], [], []]}, "scores: expected numbers, got string"),
    ],
)  # fmt: skip
def test_malformed_tables_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        from_arrow(table(**changes))
    assert str(caught.value) == f"table: {message}"


def test_parts_of_speech_are_refused_by_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "pos.parquet"
    pq.write_table(table(ner_tags=None, tags=[["NNP", "NN"], [], ["DT"]]), path)
    with pytest.raises(DataError, match=r"pos.parquet: .*'NNP' is not a chunk tag"):
        cio.read(path)


def test_numbers_out_of_range_and_types_not_asked_for() -> None:
    with pytest.raises(DataError, match="row 2: ner_tags: expected numbers from 0 to below 3, got"):
        from_arrow(table(ner_tags=[[0, 1], [], [3]]), types=("X",))
    with pytest.raises(DataError, match="row 0: no entity type 'PER'; available: LOC"):
        from_arrow(table(), types=("LOC",))


def test_a_spoilt_folder_is_refused(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x"]], {"a": [[(0, 1, "A")]]})
    good, path = tmp_path / "good.hf", tmp_path / "bad.hf"
    cio.write(data, good)
    arrow = huggingface.DATA_FILE
    for file, raw, message in (
        ("state.json", None, r"state.json: no such file; expected a folder of Dataset.save_to_dis"),
        ("state.json", b"{", "state.json: not JSON"),
        ("state.json", b"[]", r"state.json: expected a JSON object, got \[\]"),
        ("state.json", b'{"_data_files": 3}', "_data_files must list file names, got 3"),
        ("state.json", b'{"_data_files": [{"filename": "../x"}]}', "must list file names"),
        ("dataset_info.json", b'{"features": 3}', "features must be an object"),
        ("dataset_info.json", None, r"dataset_info.json: no such file"),
        (arrow, None, "not a readable Arrow stream"),
        (arrow, b"", "not a readable Arrow stream"),
        (arrow, b"junkjunkjunk", "not a readable Arrow stream"),
        (arrow, (good / arrow).read_bytes()[:-200], "not a readable Arrow stream"),
        ("convener.json", b"{}", "expected 'types' and 'sources'"),
        ("convener.json", (good / "convener.json").read_bytes().replace(b'"a"', b'"b"'),
         r"expected one column 'votes:b', got tokens, votes:a"),
    ):  # fmt: skip
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(good, path)
        if raw is None:
            (path / file).unlink()
        else:
            (path / file).write_bytes(raw)
        with pytest.raises(DataError, match=message) as caught:
            cio.read(path)
        assert "\n" not in str(caught.value)


def test_broken_bytes_never_surprise(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x", "é"]], {"a": [[(0, 1, "A")]]}, gold=[[]])
    path = tmp_path / "d.hf"
    cio.write(data, path)
    file = path / huggingface.DATA_FILE
    good, rng = file.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        raw = bytearray(good)
        for at in rng.integers(0, len(raw), 3):
            raw[at] = rng.integers(256)
        file.write_bytes(raw)
        try:
            huggingface.read(path, ReadOptions(), Issues())
        except DataError as error:
            assert "\n" not in str(error)  # noqa: PT017


def test_what_cannot_be_written(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["\ud800"]], {})
    with pytest.raises(FormatError, match="token 0 is not Unicode text"):
        cio.write(data, tmp_path / "d.hf")
    with pytest.raises(FormatError, match=r"huggingface writes a folder; name it d.hf"):
        cio.write(Dataset.from_spans(["A"], [], {}), tmp_path / "d.parquet", format="huggingface")


def test_other_data_has_another_fingerprint(tmp_path: Path) -> None:
    marks = []
    for word in ("x", "y", "x"):
        cio.write(Dataset.from_spans(["A"], [[word]], {}), tmp_path / "d.hf")
        marks.append(json.loads((tmp_path / "d.hf" / "state.json").read_text())["_fingerprint"])
    assert marks[0] == marks[2] != marks[1]
