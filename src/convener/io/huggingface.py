"""Hugging Face datasets: folders in the layout of `Dataset.save_to_disk`, and Parquet files.

Columns are `tokens`, `ner_tags` (gold or predicted labels), `votes:NAME` for each source (-1 = abstain), and where
known `soft_labels`, `scores`, `text`, `token_offsets`, `doc_offset`, `doc_id`. Metadata is stored in `convener.json`,
a file that `datasets` ignores. External data needs `tokens` and `ner_tags` (or `tags`, `labels`), as class labels or
strings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.issues import Issues, error_location, short_repr, wrap_errors
from convener.data.predictions import Predictions
from convener.data.ragged import lengths_to_offsets
from convener.data.tags import TagSet
from convener.errors import DataError, FormatError, require
from convener.io import arrow
from convener.io.arrow import VOTES_PREFIX, HFTable
from convener.io.formats import (
    CAPABILITIES,
    FileContent,
    Format,
    LabeledData,
    ReadOptions,
    WriteOptions,
    check_unicode,
    get_dataset,
)
from convener.io.huggingface_import import read_external
from convener.io.metadata import Metadata, apply_read_options
from convener.storage import decode_utf8, read_json

DATA_FILE, INFO_FILE, STATE_FILE = "data-00000-of-00001.arrow", "dataset_info.json", "state.json"
METADATA_FILE = "convener.json"
BATCH_BYTES = 2**26
"""Approximate size of a record batch in bytes."""


def read(path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read a native folder, or an external folder or Parquet file."""
    where = str(path)
    if path.is_file():
        with wrap_errors(where, "Parquet file"):
            arrow_table = arrow.import_pyarrow("pyarrow.parquet").ParquetFile(path).read()
        return FileContent(read_external(HFTable(arrow_table, where), options, issues))
    table = HFTable(_read_table(path), where, _read_features(path))
    metadata_path = path / METADATA_FILE
    if not metadata_path.is_file():
        return FileContent(read_external(table, options, issues))
    metadata = Metadata.from_json(decode_utf8(metadata_path.read_bytes(), str(metadata_path)), str(metadata_path))
    with error_location(where):
        content = metadata.restore(_read_native(table, metadata))
    return FileContent(apply_read_options(content, options, where))


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write a folder that `datasets.load_from_disk` opens."""
    if path.suffix.lower() == ".parquet":
        raise FormatError(f"{path.name}: format 'huggingface' writes a folder; name it {path.stem}.hf")
    check_unicode(get_dataset(content))
    metadata_json = Metadata.from_content(content).to_json()
    ipc = arrow.import_pyarrow("pyarrow.ipc")
    features, schema = _schema(content)
    path.mkdir()
    with (path / DATA_FILE).open("wb") as file, ipc.new_stream(file, schema) as stream:
        for batch in _batches(content, schema):
            stream.write_batch(batch)
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    state: dict[str, Any] = {
        "_data_files": [{"filename": DATA_FILE}],
        "_fingerprint": _fingerprint(path / DATA_FILE),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    for name, text in (
        (INFO_FILE, json.dumps(info, indent=2)),
        (STATE_FILE, json.dumps(state, indent=2)),
        (METADATA_FILE, metadata_json),
    ):
        (path / name).write_text(text + "\n", encoding="utf-8")


def to_hf(content: LabeledData) -> Any:
    """Return a `datasets.Dataset` with the columns of the folder that `write` writes."""
    datasets = require("datasets", extra="datasets", purpose="to_hf()")
    check_unicode(get_dataset(content))
    _, schema = _schema(content)
    table = arrow.import_pyarrow().Table.from_batches(_batches(content, schema), schema)
    return datasets.Dataset(datasets.table.InMemoryTable(table))


def _schema(content: LabeledData) -> tuple[dict[str, Any], Any]:
    """Return the features of all columns, as `datasets` describes them, and the Arrow schema that contains them."""
    columns = list(_columns(content, 0, 0))
    features = {name: feature for name, feature, _ in columns}
    schema = arrow.import_pyarrow().schema({name: values.type for name, _, values in columns})
    return features, schema.with_metadata({b"huggingface": json.dumps({"info": {"features": features}}).encode()})


def _batches(content: LabeledData, schema: Any) -> Iterator[Any]:
    """Yield the rows as record batches."""
    pa = arrow.import_pyarrow()
    for first, last in pairwise(_batch_bounds(get_dataset(content))):
        yield pa.record_batch([values for _, _, values in _columns(content, first, last)], schema=schema)


def recognizes(path: Path) -> bool:
    """Whether a path is a saved folder, or a Parquet file with lists of tokens and no column `source`."""
    if path.is_dir():
        return path.suffix.lower() == ".hf" or all((path / name).is_file() for name in (INFO_FILE, STATE_FILE))
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return False
    try:
        schema = arrow.read_parquet_schema(path)
    except DataError:
        return False
    has_tokens = "tokens" in schema.names and "source" not in schema.names
    return has_tokens and arrow.is_list(schema.field("tokens").type)


def from_arrow(
    table: Any, *, name: str = "table", options: ReadOptions | None = None, issues: Issues | None = None
) -> LabeledData:
    """Return the dataset or predictions in a pyarrow Table, e.g. `datasets.Dataset.with_format("arrow")[:]`.

    `name` replaces the file name in messages.
    """
    collected = Issues() if issues is None else issues
    content = read_external(HFTable(table, name), options or ReadOptions(), collected)
    if issues is None:
        collected.warn()
    return content


def _read_native(table: HFTable, metadata: Metadata) -> LabeledData:
    """Return the content of a native folder, unchanged."""
    contents, sources = metadata.contents, metadata.sources or ()
    has_predictions = metadata.model is not None
    labels = table.label_ids("ner_tags") if has_predictions or "gold" in contents else None
    data = table.to_dataset(
        TagSet(metadata.types or ()),
        {name: table.label_ids(VOTES_PREFIX + name) for name in sources},
        unmarked=metadata.unmarked_by_source(sources, ReadOptions()),
        gold=None if has_predictions else labels,
        text=table.text() if "text" in contents else None,
        doc_ids=table.strings("doc_id") if "documents" in contents else None,
    ).with_coarse(metadata.coarse)
    if not has_predictions or labels is None:
        return data
    return Predictions(
        data=data,
        labels=labels,
        probabilities=table.probabilities(len(data.fine_tags)) if "probabilities" in contents else None,
        span_scores=table.scores() if "scores" in contents else None,
        **metadata.prediction_fields(),
    )


def _read_features(path: Path) -> Mapping[str, Any]:
    """Return the features described in `dataset_info.json`."""
    features = _read_json_object(path / INFO_FILE).get("features") or {}
    if not isinstance(features, dict):
        raise DataError(f"{path / INFO_FILE}: 'features' must be an object, got {short_repr(features)}")
    return features


def _read_table(path: Path) -> Any:
    """Return all rows of the Arrow files listed in `state.json`."""
    pa, ipc = arrow.import_pyarrow(), arrow.import_pyarrow("pyarrow.ipc")
    data_files = _read_json_object(path / STATE_FILE).get("_data_files")
    items = data_files if isinstance(data_files, list) else []
    names = [str(item.get("filename", "")) if isinstance(item, dict) else "" for item in items]
    if not names or not all(name and Path(name).name == name for name in names):
        raise DataError(f"{path / STATE_FILE}: '_data_files' must list file names, got {short_repr(data_files)}")
    tables = []
    for name in names:
        with wrap_errors(str(path / name), "Arrow stream"), pa.memory_map(str(path / name)) as file:
            tables.append(ipc.open_stream(file).read_all())
    with wrap_errors(str(path), "Arrow stream"):
        return pa.concat_tables(tables)


def _read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a saved dataset."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected a folder written by Dataset.save_to_disk")
    values = read_json(path)
    if not isinstance(values, dict):
        raise DataError(f"{path}: expected a JSON object, got {short_repr(values)}")
    return values


def _value_feature(dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "_type": "Value"}


def _list_feature(feature: dict[str, Any]) -> dict[str, Any]:
    # All versions of datasets know "Sequence"; "List" is a newer name for it.
    return {"feature": feature, "_type": "Sequence"}


def _batch_bounds(data: Dataset) -> list[int]:
    """Return the sentence bounds of record batches, small enough for 32-bit offsets."""
    bytes_per_token = 8 * len(data.sources) + 4 * len(data.tags) + 16
    sentence_bytes = data.lengths * bytes_per_token + np.diff(data.tokens.offsets[data.offsets])
    if data.text is not None:
        sentence_bytes += data.text.sentences.lengths
    byte_offsets = lengths_to_offsets(sentence_bytes)
    indices = np.searchsorted(byte_offsets, np.arange(0, byte_offsets[-1] + BATCH_BYTES, BATCH_BYTES))
    bounds: list[int] = np.unique(np.append(np.minimum(indices, len(data)), len(data))).tolist()
    return bounds


def _columns(content: LabeledData, first: int, last: int) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield name, feature and values of each column, for the sentences first:last."""
    pa = arrow.import_pyarrow()
    dataset = get_dataset(content)
    data, lengths = dataset[first:last], np.diff(dataset.offsets[first : last + 1])
    token_slice = slice(int(dataset.offsets[first]), int(dataset.offsets[last]))
    label_feature, vote_feature = (
        _list_feature({"names": list(tag_set.names), "_type": "ClassLabel"}) for tag_set in (data.fine_tags, data.tags)
    )
    probability_feature = _list_feature(_list_feature(_value_feature("float32")))

    def label_lists(values: NDArray[np.int16]) -> Any:
        return arrow.list_array(lengths, pa.array(values.astype(np.int64)))

    token_lists = arrow.list_array(lengths, arrow.from_strings(data.tokens))
    yield "tokens", _list_feature(_value_feature("string")), token_lists
    if data.gold is not None:
        yield "ner_tags", label_feature, label_lists(data.gold)
    if isinstance(content, Predictions):
        yield "ner_tags", label_feature, label_lists(content.labels[token_slice])
        if content.probabilities is not None:
            values = arrow.from_matrix(content.probabilities[token_slice])
            yield "soft_labels", probability_feature, arrow.list_array(lengths, values)
        if content.spans.score is not None:
            bounds = np.searchsorted(content.spans.sentence, np.arange(first, last + 1))
            scores = pa.array(content.spans.score[bounds[0] : bounds[-1]])
            yield "scores", _list_feature(_value_feature("float32")), arrow.list_array(np.diff(bounds), scores)
    for column, name in enumerate(data.sources):
        yield VOTES_PREFIX + name, vote_feature, label_lists(data.votes[:, column])
    if data.text is not None:
        token_offsets = arrow.list_array(lengths, arrow.from_matrix(data.text.token_offsets))
        yield "text", _value_feature("string"), arrow.from_strings(data.text.sentences)
        yield "token_offsets", _list_feature(_list_feature(_value_feature("int32"))), token_offsets
        yield "doc_offset", _value_feature("int64"), pa.array(data.text.doc_offsets)
    if data.doc_ids is not None:
        yield "doc_id", _value_feature("string"), arrow.from_strings(data.doc_ids)


def _fingerprint(path: Path) -> str:
    """Return a digest of the data file, by which `datasets` names its caches."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]


FORMAT = Format(
    name="huggingface",
    summary="folder that datasets.load_from_disk opens; also reads Parquet of token lists",
    suffixes=(".hf",),
    capabilities=frozenset(CAPABILITIES),
    read=read,
    write=write,
    recognizes=recognizes,
    splits_index=lambda splits: ("dataset_dict.json", json.dumps({"splits": list(splits)})),
    split_suffix="",
)
