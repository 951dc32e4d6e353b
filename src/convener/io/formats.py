"""What a format is, and which formats there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np

from convener.config import config_from_dict
from convener.data.alignment import MisalignmentPolicy, OverlapPolicy
from convener.data.coarse import CoarseSpec
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray, row_at
from convener.data.schemes import REPAIR_POLICIES, SCHEMES, RepairPolicy, Scheme
from convener.data.tags import ABSTAIN
from convener.data.validation import SILENCES, Silence
from convener.errors import ConfigError, FormatError, unknown_name_message


def check_unicode(data: Dataset) -> None:
    """Refuse strings that are no Unicode text (lone surrogates), which most formats cannot hold."""
    strings_by_kind = {
        "token": data.tokens,
        "name": StringArray.from_list([*data.sources, *data.tags.types]),
        "the text of sentence": None if data.text is None else data.text.sentences,
        "the document of sentence": data.doc_ids,
    }
    for kind, strings in strings_by_kind.items():
        packed = (strings or StringArray.from_list([])).compact()
        try:
            packed.data.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            index = row_at(packed.offsets, error.start)
            raise FormatError(f"{kind} {index} is not Unicode text ({packed[index]!r:.40}); npz can hold it") from None


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a reader may need to be told."""

    sources: str | tuple[str, ...] = "recommended"
    """"recommended" (the list a Wrench folder recommends, else all), "all", or names."""
    types: tuple[str, ...] | None = None
    """Entity types in order; by default the file's own, or those found, in alphabetical order."""
    coarse: Mapping[str, CoarseSpec] | None = None
    """What those labels allow that are coarse: {"ENT": "any", "NOT-PER": "not PER", "GPE": ("LOC",
    "ORG")}; as a string, "ENT=any; NOT-PER=not PER; GPE=LOC, ORG"."""
    silence: Silence | None = None
    """What silence means for every source; by default what the file or its format says."""
    on_overlap: OverlapPolicy = "longest"
    """Which of two overlapping spans of one source stays."""
    on_misaligned: MisalignmentPolicy = "expand"
    """A character span that cuts through words grows, shrinks, goes, or is an error."""
    on_illegal: RepairPolicy = "begin"
    """A stray I- tag begins a span, is dropped with what continues it, or is an error."""
    columns: tuple[str, ...] | None = None
    """CoNLL columns: "token", "gold", "label", "_" (ignore), or "source:NAME"."""
    spacy: str | None = None
    """Raw text is cut with this spaCy pipeline or the rules of this language, not with ours."""

    def __post_init__(self) -> None:
        if isinstance(self.sources, str) and self.sources not in ("recommended", "all"):
            object.__setattr__(self, "sources", (self.sources,))
        if self.types is not None and self.coarse:
            types = dict.fromkeys([*self.types, *self.coarse])
            object.__setattr__(self, "types", tuple(types))
        _check_choice("silence", self.silence, (None, *SILENCES))
        _check_choice("on_overlap", self.on_overlap, get_args(OverlapPolicy))
        _check_choice("on_misaligned", self.on_misaligned, get_args(MisalignmentPolicy))
        _check_choice("on_illegal", self.on_illegal, REPAIR_POLICIES)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ReadOptions:
        """Options from names and values; lists may be given as one string with commas."""
        return config_from_dict(cls, values, kind="reading option")


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """What a writer may need to be told."""

    scheme: Scheme = "bio"
    """The tag scheme, for formats that write tags."""
    lossy: bool = False
    """Write even where the format cannot carry the votes or labels as they are."""

    def __post_init__(self) -> None:
        _check_choice("scheme", self.scheme, SCHEMES)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WriteOptions:
        """Options from names and values."""
        return config_from_dict(cls, values, kind="writing option")


def _check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        choices = ", ".join(str(item) for item in allowed if item is not None)
        raise ConfigError(f"{name} must be one of {choices}; got {value!r}")


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
FORMAT_MODULES = ("wrench", "jsonl", "raw_text", "conll", "huggingface", "table", "npz", "spacy")


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
