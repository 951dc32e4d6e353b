"""What a format is, and which formats there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from convener.data import ABSTAIN, Dataset
from convener.errors import FormatError, unknown_name_message
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Issues
from convener.predictions import Predictions

LabeledData = Dataset | Predictions
Reader = Callable[[Path, ReadOptions, Issues], LabeledData]
Writer = Callable[[LabeledData, Path, WriteOptions], None]

# What a dataset or predictions may hold beyond tokens, legal votes, gold and labels, which
# every format carries.
CAPABILITIES = {
    "abstain within a sentence": "a source that abstains on part of a sentence",
    "illegal votes": "votes or gold with stray I- labels",
    "documents": "document ids",
    "text": "text and character offsets",
    "probabilities": "probabilities of every label",
    "scores": "scores of spans",
    "empty sentences": "sentences without tokens",
    "model": "the model's name and settings",
}
ESSENTIAL_CAPABILITIES = ("abstain within a sentence", "illegal votes", "empty sentences")
"""Parts whose loss would change votes or sentences, not only leave something out."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One file format: how it is recognised, read and written."""

    name: str
    summary: str
    suffixes: tuple[str, ...]
    capabilities: frozenset[str]
    read: Reader
    write: Writer
    recognizes: Callable[[Path], bool] | None = None
    """For folders, and files that share a suffix with another format."""
    splits_index: Callable[[Sequence[str]], tuple[str, str]] | None = None
    """Name and text of a file that a folder of splits needs beside them."""
    split_suffix: str | None = None
    """Ends the names of a corpus's splits; by default the first suffix."""


# In the order in which they are asked whether they recognise a file.
FORMAT_MODULES = ("wrench", "jsonl", "raw", "conll", "huggingface", "table", "npz", "spacy")


def list_formats() -> tuple[Format, ...]:
    """All formats; the first that recognises a file reads it."""
    return tuple(import_module(f"convener.io.{name}").FORMAT for name in FORMAT_MODULES)


def get_format(name: str) -> Format:
    """The format of that name."""
    formats = {item.name: item for item in list_formats()}
    if name not in formats:
        raise FormatError(unknown_name_message("format", name, formats))
    return formats[name]


def detect_format(path: Path) -> Format:
    """The format that recognises an existing file or folder."""
    for item in list_formats():
        if item.recognizes is not None:
            if item.recognizes(path):
                return item
        elif path.is_file() and path.suffix.lower() in item.suffixes:
            return item
    raise FormatError(f"{path}: unknown format; known suffixes: {', '.join(_known_suffixes())}")


def format_for_suffix(path: Path) -> Format:
    """The format that a file name asks for."""
    for item in list_formats():
        if path.suffix.lower() in item.suffixes:
            return item
    raise FormatError(f"{path}: unknown format; known suffixes: {', '.join(_known_suffixes())}")


def _known_suffixes() -> list[str]:
    return sorted({suffix for item in list_formats() for suffix in item.suffixes})


def get_dataset(content: LabeledData) -> Dataset:
    """The dataset, or that which predictions speak of."""
    return content.data if isinstance(content, Predictions) else content


def required_capabilities(content: LabeledData) -> set[str]:
    """Which of PARTS this content holds."""
    data = get_dataset(content)
    required = set()
    if data.text is not None:
        required.add("text")
    if data.doc_ids is not None:
        required.add("documents")
    if (data.lengths == 0).any():
        required.add("empty sentences")
    if _abstains_within_sentence(data):
        required.add("abstain within a sentence")
    columns = [*data.votes.T, *(() if data.gold is None else (data.gold,))]
    for column in columns:
        if data.tags.repair(column, data.offsets)[1]:
            required.add("illegal votes")
            break
    if isinstance(content, Predictions):
        required.add("model")
        if content.probabilities is not None:
            required.add("probabilities")
        if content.span_scores is not None:
            required.add("scores")
    return required


def _abstains_within_sentence(data: Dataset) -> bool:
    """Whether some source abstains on some but not all tokens of a sentence."""
    non_empty = data.lengths > 0
    if not non_empty.any() or not data.sources:
        return False
    abstentions = np.add.reduceat(data.votes == ABSTAIN, data.offsets[:-1][non_empty], axis=0)
    return bool(((abstentions > 0) & (abstentions < data.lengths[non_empty][:, None])).any())
