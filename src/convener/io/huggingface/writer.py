"""Writes the folder that `datasets.load_from_disk` opens, with pyarrow alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.io import arrow
from convener.io.facts import Metadata
from convener.io.files import check_unicode
from convener.io.formats import LabeledData, get_dataset
from convener.io.huggingface.folder import (
    DATA_FILE,
    INFO_FILE,
    METADATA_FILE,
    STATE_FILE,
    VOTES_PREFIX,
)
from convener.packed import lengths_to_offsets
from convener.predictions import Predictions

BATCH_BYTES = 2**26
"""About so many bytes go into one batch of rows."""


def write_folder(content: LabeledData, path: Path) -> None:
    """One Arrow stream and what describes it."""
    check_unicode(get_dataset(content))
    metadata_json = Metadata.from_content(content).to_json()
    pa, ipc = arrow.import_pyarrow(), arrow.import_pyarrow("pyarrow.ipc")
    columns = list(_columns(content, 0, 0))
    features = {name: feature for name, feature, _ in columns}
    schema_metadata = json.dumps({"info": {"features": features}}).encode()
    schema = pa.schema({name: values.type for name, _, values in columns})
    schema = schema.with_metadata({b"huggingface": schema_metadata})
    path.mkdir()
    with (path / DATA_FILE).open("wb") as file, ipc.new_stream(file, schema) as stream:
        for first, last in pairwise(_batch_bounds(get_dataset(content))):
            arrays = [values for _, _, values in _columns(content, first, last)]
            stream.write_batch(pa.record_batch(arrays, schema=schema))
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


def _value_feature(dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "_type": "Value"}


def _list_feature(feature: dict[str, Any]) -> dict[str, Any]:
    # Every version of datasets knows "Sequence"; "List" is its newer name.
    return {"feature": feature, "_type": "Sequence"}


def _batch_bounds(data: Dataset) -> list[int]:
    """Where batches of sentences begin and end, so small that 32-bit offsets suffice."""
    bytes_per_token = 8 * len(data.sources) + 4 * len(data.tags) + 16
    sentence_bytes = data.lengths * bytes_per_token + np.diff(data.tokens.offsets[data.offsets])
    if data.text is not None:
        sentence_bytes += data.text.sentences.lengths
    byte_offsets = lengths_to_offsets(sentence_bytes)
    indices = np.searchsorted(byte_offsets, np.arange(0, byte_offsets[-1] + BATCH_BYTES, BATCH_BYTES))
    bounds: list[int] = np.unique(np.append(np.minimum(indices, len(data)), len(data))).tolist()
    return bounds


def _columns(content: LabeledData, first: int, last: int) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Name, feature and values of each column, of the sentences from first to last."""
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
            yield (
                "scores",
                _list_feature(_value_feature("float32")),
                arrow.list_array(np.diff(bounds), scores),
            )
    for column, name in enumerate(data.sources):
        yield VOTES_PREFIX + name, vote_feature, label_lists(data.votes[:, column])
    if data.text is not None:
        token_offsets = arrow.list_array(lengths, arrow.from_matrix(data.text.token_offsets))
        yield "text", _value_feature("string"), arrow.from_strings(data.text.sentences)
        yield "chars", _list_feature(_list_feature(_value_feature("int32"))), token_offsets
        yield "char_start", _value_feature("int64"), pa.array(data.text.doc_offsets)
    if data.doc_ids is not None:
        yield "doc_id", _value_feature("string"), arrow.from_strings(data.doc_ids)


def _fingerprint(path: Path) -> str:
    """A digest of the data: `datasets` names its caches by it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]
