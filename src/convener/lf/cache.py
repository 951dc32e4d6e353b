"""On-disk cache of votes: one column per labeling function and dataset.

The key is a digest of the function's fingerprint and of the text, so only edited functions run
again. A column is one safetensors file; its metadata holds the issues as JSON.
"""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors import numpy as safetensors

from convener.cache import COLUMN_SUFFIX, VOTES_DIR
from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN
from convener.errors import ConvenerWarning, DataError
from convener.lf.doc import Docs
from convener.lf.workers import LocatedIssue
from convener.storage import arrays_digest, atomic_write, compute_digest

VERSION = "2"
_READ_ERRORS = (SafetensorError, OSError, ValueError, LookupError, TypeError)


@dataclass(frozen=True, eq=False)
class VoteColumn:
    """Labels over the function's own types (N,), and the issues of the run."""

    labels: NDArray[np.int16]
    issues: tuple[LocatedIssue, ...]

    @property
    def num_spans(self) -> int:
        """Number of spans."""
        return int(np.count_nonzero((self.labels > 0) & (self.labels % 2 == 1)))

    def count_abstained(self, docs: Docs) -> int:
        """Return the number of non-empty texts on which the function abstained."""
        labels = self.labels if docs.token_order is None else self.labels[docs.token_order]
        first = docs.offsets[:-1][np.diff(docs.offsets) > 0]
        return int(np.count_nonzero(labels[first] == ABSTAIN))


def dataset_digest(data: Dataset) -> str:
    """Return a digest of what a function sees of a dataset: tokens, text and document ids."""
    tokens = data.tokens.compact()
    arrays: list[NDArray[Any]] = [tokens.data, tokens.offsets, data.offsets]
    if data.text is not None:
        texts = data.text.sentences.compact()
        arrays += [texts.data, texts.offsets, data.text.token_offsets]
    if data.doc_ids is not None:
        doc_ids = data.doc_ids.compact()
        arrays += [doc_ids.data, doc_ids.offsets]
    return compute_digest(arrays_digest(arrays))


def column_path(folder: Path, function_digest: str, data_digest: str) -> Path:
    """Return the file of a column, named by the digests of function and dataset."""
    return folder / VOTES_DIR / (compute_digest(VERSION, function_digest, data_digest)[:32] + COLUMN_SUFFIX)


def save_column(path: Path, name: str, column: VoteColumn) -> None:
    """Write a column atomically."""
    metadata = {"label": json.dumps(name), "issues": json.dumps(column.issues)}
    with atomic_write(path) as draft:
        draft.write_bytes(safetensors.save({"labels": column.labels}, metadata))


def load_column(path: Path, num_tokens: int) -> VoteColumn | None:
    """Return the column in a file, or None if the file is missing or damaged."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="np") as file:
            labels = file.get_tensor("labels")
            issues = tuple(LocatedIssue(*issue) for issue in json.loads(file.metadata()["issues"]))
        if labels.shape != (num_tokens,) or labels.dtype != np.int16:
            raise DataError(f"expected {num_tokens} labels, got {labels.shape} of {labels.dtype}")
    except _READ_ERRORS as error:
        warnings.warn(f"{path}: damaged cache entry: {error}; the function runs again", ConvenerWarning, stacklevel=2)
        return None
    with suppress(OSError):  # records the last use; the cache may be read-only
        os.utime(path)
    return VoteColumn(labels, issues)
