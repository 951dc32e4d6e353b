"""Writes the folder that `datasets.load_from_disk` opens, with pyarrow alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    features = _features(content)
    pa, ipc = arrow.pyarrow(), arrow.pyarrow("pyarrow.ipc")
    described = json.dumps({"info": {"features": features}}).encode()
    schema = pa.schema({name: _arrow_type(feature) for name, feature in features.items()})
    schema = schema.with_metadata({b"huggingface": described})
    path.mkdir()
    with (path / DATA).open("wb") as file, ipc.new_stream(file, schema) as stream:
        for columns in _batches(content):
            stream.write_batch(pa.record_batch(columns, schema=schema))
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


def _features(content: Content) -> dict[str, Any]:
    """The columns, as `datasets` describes them."""
    data = data_of(content)
    labels = _list({"names": list(data.tags.names), "_type": "ClassLabel"})
    found = {"tokens": _list(_value("string"))}
    if data.gold is not None or isinstance(content, Predictions):
        found["ner_tags"] = labels
    if isinstance(content, Predictions):
        if content.probabilities is not None:
            found["soft_labels"] = _list(_list(_value("float32")))
        if content.spans.score is not None:
            found["scores"] = _list(_value("float32"))
    found |= {VOTES + name: labels for name in data.sources}
    if data.text is not None:
        found |= {
            "text": _value("string"),
            "chars": _list(_list(_value("int32"))),
            "char_start": _value("int64"),
        }
    if data.documents is not None:
        found["doc_id"] = _value("string")
    return found


def _value(dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "_type": "Value"}


def _list(feature: dict[str, Any]) -> dict[str, Any]:
    # Every version of datasets knows "Sequence"; "List" is its newer name.
    return {"feature": feature, "_type": "Sequence"}


def _arrow_type(feature: dict[str, Any]) -> Any:
    pa = arrow.pyarrow()
    if feature["_type"] == "Sequence":
        return pa.list_(_arrow_type(feature["feature"]))
    if feature["_type"] == "ClassLabel":
        return pa.int64()
    return {
        "string": pa.string(),
        "float32": pa.float32(),
        "int32": pa.int32(),
        "int64": pa.int64(),
    }[feature["dtype"]]


def _batches(content: Content) -> Iterator[list[Any]]:
    """The columns of a few sentences at a time, so that 32-bit offsets suffice."""
    data = data_of(content)
    size = 8 * len(data.sources) + 4 * len(data.tags) + 16
    weight = data.lengths * size + np.diff(data.tokens.offsets[data.offsets])
    if data.text is not None:
        weight += data.text.text.lengths
    before = offsets_of(weight)
    cuts = np.unique(np.searchsorted(before, np.arange(0, before[-1] + BATCH, BATCH)))
    cuts = np.unique(np.append(np.minimum(cuts, len(data)), len(data)))
    bounds = None
    if isinstance(content, Predictions) and content.spans.score is not None:
        bounds = content.spans.bounds(len(data))
    for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        yield list(_columns(content, first, last, bounds))


def _columns(
    content: Content, first: int, last: int, bounds: NDArray[np.int64] | None
) -> Iterator[Any]:
    """Arrow columns of the sentences from first to last, in the order of the features."""
    pa = arrow.pyarrow()
    whole = data_of(content)
    data = whole[first:last]
    lengths = data.lengths
    tokens = slice(int(whole.offsets[first]), int(whole.offsets[last]))

    def labels(values: NDArray[np.int16]) -> Any:
        return arrow.list_array(lengths, pa.array(values.astype(np.int64)))

    yield arrow.list_array(lengths, arrow.string_array(data.tokens))
    if data.gold is not None:
        yield labels(data.gold)
    if isinstance(content, Predictions):
        yield labels(content.labels[tokens])
        if content.probabilities is not None:
            yield arrow.list_array(lengths, arrow.rows(content.probabilities[tokens]))
        if content.spans.score is not None and bounds is not None:
            scores = pa.array(content.spans.score[bounds[first] : bounds[last]])
            yield arrow.list_array(np.diff(bounds[first : last + 1]), scores)
    for column in range(len(data.sources)):
        yield labels(data.votes[:, column])
    if data.text is not None:
        yield arrow.string_array(data.text.text)
        yield arrow.list_array(lengths, arrow.rows(data.text.chars))
        yield pa.array(data.text.starts)
    if data.documents is not None:
        yield arrow.string_array(data.documents)


def _fingerprint(path: Path) -> str:
    """A digest of the data: `datasets` names its caches by it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]
