"""Hugging Face folders and Parquet files, compared with the `datasets` library."""

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
def test_content_round_trips(content: LabeledData, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("hf") / "d.hf"
    assert same(returned(content, huggingface.FORMAT, path), content)


@settings(max_examples=15, deadline=None)
@given(content=contents(Kind(partial=True, illegal=True)))
def test_datasets_opens_written_folders(content: LabeledData, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("hf") / "d.hf"
    cio.write(content, path)
    loaded = datasets.load_from_disk(str(path))
    data = content.data if isinstance(content, Predictions) else content
    assert len(loaded) == len(data)
    assert loaded[:]["tokens"] == [list(sentence.tokens) for sentence in data]
    names = list(data.tags.names)
    for k, name in enumerate(data.sources):
        assert loaded.features[f"votes:{name}"].feature.names == names
        assert list(chain(*loaded[:][f"votes:{name}"])) == data.votes[:, k].tolist()
    labels = content.labels if isinstance(content, Predictions) else data.gold
    assert (labels is None) == ("ner_tags" not in loaded.features)
    if labels is not None:
        names = list(data.fine_tags.names)
        assert loaded.features["ner_tags"].feature.names == names
        assert list(chain(*loaded[:]["ner_tags"])) == labels.tolist()
    if data.text is not None:
        assert loaded[:]["text"] == data.text.sentences.to_list()
    if isinstance(content, Predictions) and content.probabilities is not None:
        rows = np.array(list(chain(*loaded[:]["soft_labels"])), np.float32)
        assert np.array_equal(rows.reshape(-1, len(names)), content.probabilities)


def test_many_batches_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface, "BATCH_BYTES", 200)
    sentences = [["wörd"] * (n % 4) for n in range(50)]
    data = Dataset.from_spans(["A"], sentences, {"a": [[(0, 1, "A")] if words else None for words in sentences]})
    labels = np.maximum(data.votes[:, 0], 0)
    num_spans = len(Predictions(data=data, labels=labels).spans)
    scored = Predictions(data=data, labels=labels, span_scores=np.linspace(0, 1, num_spans, dtype=np.float32))
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
    corpus_again = cio.read_corpus(tmp_path / "corpus")
    assert all(corpus_again[name] == split for name, split in corpus.splits.items())
    loaded.save_to_disk(str(tmp_path / "external"))  # without convener.json
    external = cio.read(tmp_path / "external", "train")
    assert external == data.with_sources(data.sources, data.votes, ("outside",))


def external_dataset() -> datasets.Dataset:
    features = Features(
        {
            "id": Value("string"),
            "tokens": Sequence(Value("string")),
            "ner_tags": Sequence(ClassLabel(names=TAGS)),
        }
    )
    rows = {"id": ["0", "1"], "tokens": [["Ada", "L.", "x"], []], "ner_tags": [[1, 2, 0], []]}
    return datasets.Dataset.from_dict(rows, features=features)


def test_external_folders_parquet_files_and_tables(tmp_path: Path) -> None:
    external = external_dataset()
    external.save_to_disk(str(tmp_path / "folder"))
    external.to_parquet(str(tmp_path / "d.parquet"))
    issues = Issues()
    data = cio.read(tmp_path / "folder", issues=issues)
    assert data.tokens.to_list() == ["Ada", "L.", "x"]
    assert data.gold.tolist() == [1, 2, 0]
    assert data.tags.types == ("PER", "LOC")
    assert data.sources == ()
    assert [(issue.kind, issue.detail) for issue in issues] == [("ignored", "id")]
    assert cio.read(tmp_path / "d.parquet", issues=issues) == data
    assert from_arrow(external.with_format("arrow")[:], issues=issues) == data
    sliced = from_arrow(external.select([1, 0]).with_format("arrow")[:], issues=issues)
    assert isinstance(sliced, Dataset)
    assert sliced.tokens.to_list() == ["Ada", "L.", "x"]
    assert sliced.lengths.tolist() == [0, 3]


def test_a_table_may_be_sliced_and_of_any_layout() -> None:
    sliced = pa.concat_tables([table(), table()]).slice(1, 4)
    data = from_arrow(sliced)
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
    dictionary_encoded = table(
        ner_tags=pa.ListArray.from_arrays([0, 2, 2, 3], pa.array(["B-PER", "I-PER", "O"]).dictionary_encode())
    )
    assert from_arrow(dictionary_encoded) == from_arrow(table())


def test_tags_may_be_strings_of_any_scheme() -> None:
    issues = Issues()
    data = from_arrow(table(ner_tags=[["B-PER", "E-PER"], [], ["I-LOC"]]), issues=issues)
    assert isinstance(data, Dataset)
    assert data.tags.types == ("LOC", "PER")
    assert data.gold is not None
    assert data.gold.tolist() == [3, 4, 1]
    assert [str(issue) for issue in issues] == ["table: row 2: illegal tag (ner_tags): I-LOC treated as part of a span"]
    with pytest.raises(DataError, match=r"table: row 2: illegal tag 'I-LOC' \(ner_tags; 1 in total\)"):
        from_arrow(table(ner_tags=[["B-PER", "O"], [], ["I-LOC"]]), options=ReadOptions(on_illegal="error"))


def test_tags_of_the_io_scheme_are_legal() -> None:
    data = from_arrow(table(ner_tags=[["I-PER", "I-PER"], [], ["I-LOC"]]), options=ReadOptions(on_illegal="error"))
    assert isinstance(data, Dataset)
    assert data.gold is not None
    assert data.gold.tolist() == [3, 4, 1]


def test_votes_of_external_files(tmp_path: Path) -> None:
    votes = {"votes:a": [["O", "B-PER"], [], ["O"]], "votes:b": [["O", "O"], [], ["B-LOC"]]}
    path = tmp_path / "d.parquet"
    pq.write_table(table(ner_tags=None, **votes), path)
    data = cio.read(path)
    assert data.sources == ("a", "b")
    assert data.unmarked == ("outside", "outside")
    assert data.votes.tolist() == [[0, 0], [3, 0], [0, 1]]
    selected = cio.read(path, sources="b", unmarked="abstain")
    assert (selected.sources, selected.unmarked) == (("b",), ("abstain",))
    with pytest.raises(UnknownNameError, match="no source 'c'"):
        cio.read(path, sources="c")
    numbers = {"votes:a": [[-1, 1], [], [0]]}
    result = from_arrow(table(ner_tags=None, **numbers), options=ReadOptions(types=("X",)))
    assert isinstance(result, Dataset)
    assert result.votes.tolist() == [[-1], [1], [0]]


def test_soft_labels_distinguish_predictions_from_gold() -> None:
    rows = [[[0.1, 0.8, 0.1]] * 2, [], [[0.9, 0.1, 0.0]]]
    labeled = external_predictions(soft_labels=rows, scores=[[0.5], [], []])
    result = from_arrow(labeled)
    assert isinstance(result, Predictions)
    assert result.labels.tolist() == [1, 2, 0]
    assert result.probabilities is not None
    assert result.probabilities.shape == (3, 3)
    assert result.span_scores is not None
    assert result.span_scores.tolist() == [0.5]
    issues = Issues()
    strings = from_arrow(table(soft_labels=rows), issues=issues)
    assert isinstance(strings, Predictions)
    assert strings.probabilities is None
    assert issues.counts() == {"ignored": 1}


def external_predictions(**columns: Any) -> Any:
    columns_table = table(ner_tags=[[1, 2], [], [0]], **columns)
    feature = {"feature": {"names": TAGS[:3], "_type": "ClassLabel"}, "_type": "Sequence"}
    metadata = {"info": {"features": {"ner_tags": feature}}}
    return columns_table.replace_schema_metadata({b"huggingface": json.dumps(metadata).encode()})


def test_text_of_external_files() -> None:
    columns = {
        "text": ["Ada L.", "", "x"],
        "token_offsets": [[[0, 3], [4, 6]], [], [[0, 1]]],
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
    with pytest.raises(
        DataError, match="row 0: token_offsets 2-6 are empty, outside the text, or overlap the previous token"
    ):
        from_arrow(table(**columns | {"token_offsets": [[[0, 3], [2, 6]], [], [[0, 1]]]}))
    issues = Issues()
    from_arrow(table(text=columns["text"]), issues=issues)
    assert [(issue.kind, issue.detail) for issue in issues] == [("ignored", "text")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": None}, "expected one column 'tokens', got ner_tags"),
        ({"tokens": ["a", "b", "c"]}, "tokens: expected a list column, got string"),
        ({"tokens": [[1], [2], [3]]}, "tokens: expected lists of strings, got int64"),
        ({"tokens": [["a", "b"], None, ["x"]]}, "tokens: row 1 is null"),
        ({"tokens": [["a", "b"], [], [None]]}, "tokens: row 2 contains a null"),
        ({"tokens": [["a"], [], ["x"]]}, "row 0: expected ner_tags for 1 tokens, got 2"),
        ({"ner_tags": [[0, 1], [], [0]]},
         "ner_tags contains integers without class names: expected class labels or strings; "
         "if they are BIO ids, pass types=[...]"),
        ({"ner_tags": [[0.0, 1.0], [], [0.0]]}, "ner_tags: expected class labels or strings"),
        ({"ner_tags": ["O", "O", "O"]}, "ner_tags: expected a list column, got string"),
        ({"ner_tags": [["O", "O"], [], ["O"]]},
         "the file names no entity types and contains no spans; pass types=[...]"),
        ({"ner_tags": None}, "the file names no entity types and contains no spans; pass types=[...]"),
        ({"text": ["a", "b", None], "token_offsets": [[[0, 1], [1, 2]], [], [[0, 1]]]},
         "text: expected strings without nulls"),
        ({"text": ["a", "", "b"], "token_offsets": [[[0, 1]], [], [[0, 1]]]},
         "row 0: expected token_offsets for 2 tokens, got 1"),
        ({"doc_id": [0.5, 1.0, 2.0]}, "doc_id: expected strings without nulls"),
        ({"scores": [["a"], [], []]}, "scores: expected numbers, got string"),
    ],
)  # fmt: skip
def test_a_malformed_table_is_a_one_line_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        from_arrow(table(**changes))
    assert str(caught.value) == f"table: {message}"


def test_tags_that_are_not_chunk_tags_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pos.parquet"
    pq.write_table(table(ner_tags=None, tags=[["NNP", "NN"], [], ["DT"]]), path)
    with pytest.raises(DataError, match=r"pos.parquet: .*'NNP' is not a chunk tag"):
        cio.read(path)


def test_ids_out_of_range_and_types_not_selected_are_errors() -> None:
    with pytest.raises(DataError, match="row 2: ner_tags: expected an id from 0 to 2, got"):
        from_arrow(table(ner_tags=[[0, 1], [], [3]]), options=ReadOptions(types=("X",)))
    with pytest.raises(DataError, match="row 0: no entity type 'PER'; available: LOC"):
        from_arrow(table(), options=ReadOptions(types=("LOC",)))


def test_a_damaged_folder_is_an_error(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["x"]], {"a": [[(0, 1, "A")]]})
    good, path = tmp_path / "good.hf", tmp_path / "bad.hf"
    cio.write(data, good)
    arrow = huggingface.DATA_FILE
    for file, raw, message in (
        ("state.json", None, r"state.json: no such file; expected a folder written by Dataset.save_to_disk"),
        ("state.json", b"{", "state.json: not valid JSON"),
        ("state.json", b"[]", r"state.json: expected a JSON object, got \[\]"),
        ("state.json", b'{"_data_files": 3}', "'_data_files' must list file names, got 3"),
        ("state.json", b'{"_data_files": [{"filename": "../x"}]}', "must list file names"),
        ("dataset_info.json", b'{"features": 3}', "'features' must be an object, got 3"),
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


def test_corrupt_bytes_raise_only_data_errors(tmp_path: Path) -> None:
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


def test_content_that_cannot_be_stored_is_an_error(tmp_path: Path) -> None:
    data = Dataset.from_spans(["A"], [["\ud800"]], {})
    with pytest.raises(FormatError, match="token 0 is not valid Unicode"):
        cio.write(data, tmp_path / "d.hf")
    with pytest.raises(FormatError, match=r"format 'huggingface' writes a folder; name it d.hf"):
        cio.write(Dataset.from_spans(["A"], [], {}), tmp_path / "d.parquet", format="huggingface")


def test_the_fingerprint_depends_on_the_data(tmp_path: Path) -> None:
    fingerprints = []
    for word in ("x", "y", "x"):
        cio.write(Dataset.from_spans(["A"], [[word]], {}), tmp_path / "d.hf")
        fingerprints.append(json.loads((tmp_path / "d.hf" / "state.json").read_text())["_fingerprint"])
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]
