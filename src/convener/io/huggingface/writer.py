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
from convener.io.facts import Facts
from convener.io.files import check_unicode
from convener.io.formats import Content, data_of
from convener.io.huggingface.folder import DATA, DATA_INFO, FACTS, STATE, VOTES
from convener.packed import offsets_of
from convener.predictions import Predictions

BATCH = 2**26
"""About so many bytes go into one batch of rows."""


def write_folder(content: Content, path: Path) -> None:
    """One Arrow stream and what describes it."""
    check_unicode(data_of(content))
    facts = Facts.of(content).to_json()
    pa, ipc = arrow.pyarrow(), arrow.pyarrow("pyarrow.ipc")
    columns = list(_columns(content, 0, 0))
    features = {name: feature for name, feature, _ in columns}
    described = json.dumps({"info": {"features": features}}).encode()
    schema = pa.schema({name: values.type for name, _, values in columns})
    schema = schema.with_metadata({b"huggingface": described})
    path.mkdir()
    with (path / DATA).open("wb") as file, ipc.new_stream(file, schema) as stream:
        for first, last in pairwise(_cuts(data_of(content))):
            arrays = [values for _, _, values in _columns(content, first, last)]
            stream.write_batch(pa.record_batch(arrays, schema=schema))
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    state: dict[str, Any] = {
        "_data_files": [{"filename": DATA}],
        "_fingerprint": _fingerprint(path / DATA),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    for name, text in (
        (DATA_INFO, json.dumps(info, indent=2)),
        (STATE, json.dumps(state, indent=2)),
        (FACTS, facts),
    ):
        (path / name).write_text(text + "\n", encoding="utf-8")


def _value(dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "_type": "Value"}


def _list(feature: dict[str, Any]) -> dict[str, Any]:
    # Every version of datasets knows "Sequence"; "List" is its newer name.
    return {"feature": feature, "_type": "Sequence"}


def _cuts(data: Dataset) -> list[int]:
    """Where batches of sentences begin and end, so small that 32-bit offsets suffice."""
    size = 8 * len(data.sources) + 4 * len(data.tags) + 16
    weight = data.lengths * size + np.diff(data.tokens.offsets[data.offsets])
    if data.text is not None:
        weight += data.text.text.lengths
    before = offsets_of(weight)
    cuts = np.searchsorted(before, np.arange(0, before[-1] + BATCH, BATCH))
    found: list[int] = np.unique(np.append(np.minimum(cuts, len(data)), len(data))).tolist()
    return found


def _columns(content: Content, first: int, last: int) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Name, feature and values of each column, of the sentences from first to last."""
    pa = arrow.pyarrow()
    whole = data_of(content)
    data, lengths = whole[first:last], np.diff(whole.offsets[first : last + 1])
    tokens = slice(int(whole.offsets[first]), int(whole.offsets[last]))
    tags, said = (
        _list({"names": list(some.names), "_type": "ClassLabel"})
        for some in (data.fine_tags, data.tags)
    )
    rows = _list(_list(_value("float32")))

    def labels(values: NDArray[np.int16]) -> Any:
        return arrow.list_array(lengths, pa.array(values.astype(np.int64)))

    words = arrow.list_array(lengths, arrow.string_array(data.tokens))
    yield "tokens", _list(_value("string")), words
    if data.gold is not None:
        yield "ner_tags", tags, labels(data.gold)
    if isinstance(content, Predictions):
        yield "ner_tags", tags, labels(content.labels[tokens])
        if content.probabilities is not None:
            values = arrow.rows(content.probabilities[tokens])
            yield "soft_labels", rows, arrow.list_array(lengths, values)
        if content.spans.score is not None:
            bounds = np.searchsorted(content.spans.sentence, np.arange(first, last + 1))
            scores = pa.array(content.spans.score[bounds[0] : bounds[-1]])
            yield "scores", _list(_value("float32")), arrow.list_array(np.diff(bounds), scores)
    for column, name in enumerate(data.sources):
        yield VOTES + name, said, labels(data.votes[:, column])
    if data.text is not None:
        chars = arrow.list_array(lengths, arrow.rows(data.text.chars))
        yield "text", _value("string"), arrow.string_array(data.text.text)
        yield "chars", _list(_list(_value("int32"))), chars
        yield "char_start", _value("int64"), pa.array(data.text.starts)
    if data.documents is not None:
        yield "doc_id", _value("string"), arrow.string_array(data.documents)


def _fingerprint(path: Path) -> str:
    """A digest of the data: `datasets` names its caches by it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]
