"""What a format is, and which formats there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from convener.data import ABSTAIN, Dataset
from convener.errors import FormatError, unknown_name
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report
from convener.predictions import Predictions

Content = Dataset | Predictions
Reader = Callable[[Path, ReadOptions, Report], Content]
Writer = Callable[[Content, Path, WriteOptions], None]

# What a dataset or predictions may hold beyond tokens, legal votes, gold and labels, which
# every format carries.
PARTS = {
    "abstain within a sentence": "a source that abstains on part of a sentence",
    "illegal votes": "votes or gold with stray I- labels",
    "documents": "document ids",
    "text": "text and character offsets",
    "probabilities": "probabilities of every label",
    "scores": "scores of spans",
    "empty sentences": "sentences without tokens",
    "model": "the model's name and settings",
}
ALTERING = ("abstain within a sentence", "illegal votes", "empty sentences")
"""Parts whose loss would change votes or sentences, not only leave something out."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One file format: how it is recognised, read and written."""

    name: str
    summary: str
    suffixes: tuple[str, ...]
    carries: frozenset[str]
    read: Reader
    write: Writer
    recognises: Callable[[Path], bool] | None = None
    """For folders, and files that share a suffix with another format."""
    corpus_index: Callable[[Sequence[str]], tuple[str, str]] | None = None
    """Name and text of a file that a folder of splits needs beside them."""
    split_suffix: str | None = None
    """Ends the names of a corpus's splits; by default the first suffix."""


# In the order in which they are asked whether they recognise a file.
MODULES = ("wrench", "jsonl", "raw", "conll", "huggingface", "table", "npz", "spacy")


def available() -> tuple[Format, ...]:
    """All formats; the first that recognises a file reads it."""
    return tuple(import_module(f"convener.io.{name}").FORMAT for name in MODULES)


def by_name(name: str) -> Format:
    """The format of that name."""
    formats = {item.name: item for item in available()}
    if name not in formats:
        raise FormatError(unknown_name("format", name, formats))
    return formats[name]


def for_reading(path: Path) -> Format:
    """The format that recognises an existing file or folder."""
    for item in available():
        if item.recognises is not None:
            if item.recognises(path):
                return item
        elif path.is_file() and path.suffix.lower() in item.suffixes:
            return item
    raise FormatError(f"{path}: unknown format; known suffixes: {', '.join(_suffixes())}")


def for_writing(path: Path) -> Format:
    """The format that a file name asks for."""
    for item in available():
        if path.suffix.lower() in item.suffixes:
            return item
    raise FormatError(f"{path}: unknown format; known suffixes: {', '.join(_suffixes())}")


def _suffixes() -> list[str]:
    return sorted({suffix for item in available() for suffix in item.suffixes})


def data_of(content: Content) -> Dataset:
    """The dataset, or that which predictions speak of."""
    return content.data if isinstance(content, Predictions) else content


def parts(content: Content) -> set[str]:
    """Which of PARTS this content holds."""
    data = data_of(content)
    found = set()
    if data.text is not None:
        found.add("text")
    if data.documents is not None:
        found.add("documents")
    if (data.lengths == 0).any():
        found.add("empty sentences")
    if _abstains_within(data):
        found.add("abstain within a sentence")
    columns = [*data.votes.T, *(() if data.gold is None else (data.gold,))]
    for column in columns:
        if data.tags.repair(column, data.offsets)[1]:
            found.add("illegal votes")
            break
    if isinstance(content, Predictions):
        found.add("model")
        if content.probabilities is not None:
            found.add("probabilities")
        if content.scores is not None:
            found.add("scores")
    return found


def _abstains_within(data: Dataset) -> bool:
    """Whether some source abstains on some but not all tokens of a sentence."""
    full = data.lengths > 0
    if not full.any() or not data.sources:
        return False
    silent = np.add.reduceat(data.votes == ABSTAIN, data.offsets[:-1][full], axis=0)
    return bool(((silent > 0) & (silent < data.lengths[full][:, None])).any())
