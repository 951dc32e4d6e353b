"""The registry of file formats, their options, and the parts of a dataset that each can store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from convener.config import config_from_dict
from convener.data.alignment import MisalignmentPolicy, OverlapPolicy
from convener.data.coarse import CoarseSpec
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray, locate
from convener.data.schemes import REPAIR_POLICIES, SCHEMES, RepairPolicy, Scheme
from convener.data.tags import ABSTAIN
from convener.data.validation import UNMARKED, Unmarked
from convener.encodings import check_encoding
from convener.errors import ConfigError, FormatError, unknown_name_message

FORMAT_MODULES = ("wrench", "jsonl", "raw_text", "conll", "huggingface", "table", "npz", "spacy")
"""Modules of `convener.io`, in the order of detection."""
CAPABILITIES = {
    "abstain within a sentence": "a source that abstains on part of a sentence",
    "illegal votes": "illegal I- labels in votes or gold",
    "documents": "document ids",
    "text": "text and character offsets",
    "probabilities": "label probabilities",
    "scores": "span scores",
    "empty sentences": "sentences without tokens",
    "model": "the model's name and settings",
}
"""Parts of a dataset or predictions that some formats cannot store, as messages call them."""
SAMPLE_BYTES = 1 << 16
"""Number of bytes read to name the tool that wrote a file."""
ESSENTIAL_CAPABILITIES = ("abstain within a sentence", "illegal votes", "empty sentences")
"""Capabilities whose lack would change votes or sentences instead of dropping information."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of readers."""

    sources: str | tuple[str, ...] = "recommended"
    """"recommended" (the recommended list of a Wrench folder, else all), "all", or names."""
    types: tuple[str, ...] | None = None
    """Entity types in order; by default those named in the file, else those that occur, sorted."""
    default_types: tuple[str, ...] | None = None
    """Entity types of a file that names none and contains no spans; by default such a file is an error."""
    coarse: Mapping[str, CoarseSpec] | None = None
    """Coarse labels and the types they allow: {"ENT": "any", "NOT-PER": "not PER", "GPE": ("LOC", "ORG")}; as a
    string, "ENT=any; NOT-PER=not PER; GPE=LOC, ORG"."""
    unmarked: Unmarked | None = None
    """Meaning of unmarked tokens of every source; by default what the file states or shows, else by format."""
    on_overlap: OverlapPolicy = "longest"
    """Which of two overlapping spans of one source is kept."""
    on_misaligned: MisalignmentPolicy = "expand"
    """A character span that does not match token boundaries is expanded, contracted, dropped, or an error."""
    on_illegal: RepairPolicy = "start"
    """An I- tag that continues no span starts one, is dropped with its continuation, or is an error."""
    columns: tuple[str, ...] | None = None
    """CoNLL columns: "token", "gold", "prediction", "_" (ignore), or "source:NAME"."""
    spacy_pipeline: str | None = None
    """spaCy pipeline or language that splits raw text; by default the built-in rules."""
    encoding: str | None = None
    """Encoding of text files, such as "utf-16" or "cp1252"; by default UTF-8."""

    def __post_init__(self) -> None:
        if isinstance(self.sources, str) and self.sources not in ("recommended", "all"):
            object.__setattr__(self, "sources", (self.sources,))
        if self.types is not None and self.coarse:
            types = dict.fromkeys([*self.types, *self.coarse])
            object.__setattr__(self, "types", tuple(types))
        check_encoding(self.encoding)
        _check_choice("unmarked", self.unmarked, (None, *UNMARKED))
        _check_choice("on_overlap", self.on_overlap, get_args(OverlapPolicy))
        _check_choice("on_misaligned", self.on_misaligned, get_args(MisalignmentPolicy))
        _check_choice("on_illegal", self.on_illegal, REPAIR_POLICIES)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ReadOptions:
        """Return options from names and values; a list may be a string separated by commas."""
        return config_from_dict(cls, values, kind="reading option")

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> ReadOptions:
        """Return the options among the arguments of a function that has one parameter for each of them."""
        return cls.from_dict({item.name: arguments[item.name] for item in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Options of writers."""

    scheme: Scheme = "bio"
    """Tag scheme, for formats that write tags."""
    allow_lossy: bool = False
    """Allow changes to votes and labels that the format cannot store exactly."""
    metadata: bool | None = None
    """CoNLL and CSV: write everything that convener can read back (True), or the plain form that other tools and
    spreadsheets read (False); by default predictions are plain, votes complete. Other formats are always complete."""
    scores: bool = False
    """Plain CoNLL: write the scores of spans as a column between token and tag. Other formats always have them."""
    probabilities: bool = True
    """Write the label probabilities of every token; without them, the scores of spans are kept."""

    def __post_init__(self) -> None:
        _check_choice("scheme", self.scheme, SCHEMES)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WriteOptions:
        """Return options from names and values."""
        return config_from_dict(cls, values, kind="writing option")

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> WriteOptions:
        """Return the options among the arguments of a function that has one parameter for each of them."""
        return cls.from_dict({item.name: arguments[item.name] for item in fields(cls)})


LabeledData = Dataset | Predictions


@dataclass(frozen=True, eq=False)
class FileContent:
    """What a reader returns: the content of one file, and what the file leaves open."""

    content: LabeledData
    undecided: tuple[str, ...] = ()
    """Sources for which neither the file nor the options state what unmarked tokens mean; read as "abstain"."""
    missing_entries: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """For undecided sources, the sentences that do not mention the source; it abstains there if it is "outside"."""


Reader = Callable[[Path, ReadOptions, Issues], FileContent]
Writer = Callable[[LabeledData, Path, WriteOptions], None]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format: how it is detected, read and written."""

    name: str
    summary: str
    suffixes: tuple[str, ...]
    capabilities: frozenset[str]
    read: Reader
    write: Writer
    recognizes: Callable[[Path], bool] | None = None
    """Detects folders, and files that share a suffix with another format."""
    splits_index: Callable[[Sequence[str]], tuple[str, str]] | None = None
    """Name and text of a file that a folder of splits contains beside the splits."""
    plain_form: Callable[[LabeledData, Path, WriteOptions], Format | None] | None = None
    """Returns the form for other tools, without votes and metadata, if this content is to be written in it."""
    split_suffix: str | None = None
    """Suffix of the splits of a corpus; by default the first of `suffixes`."""


def list_formats() -> tuple[Format, ...]:
    """Return all formats, in the order of detection."""
    own = tuple(import_module(f"convener.io.{name}").FORMAT for name in FORMAT_MODULES)
    tools: tuple[Format, ...] = import_module("convener.io.annotation_tools").FORMATS
    return own + tools


def get_format(name: str) -> Format:
    """Return the format with this name."""
    formats = {item.name: item for item in list_formats()}
    if name not in formats:
        raise FormatError(unknown_name_message("format", name, formats))
    return formats[name]


def known_suffixes() -> list[str]:
    """Return the suffixes of all formats, sorted."""
    return sorted({suffix for item in list_formats() for suffix in item.suffixes})


def other_tool_message(path: Path) -> str | None:
    """Return what a file or folder of another annotation tool is, with the remedy; None if it is none of those known.

    They are brat's .ann files and JSON exports of Label Studio.
    """
    if path.suffix.lower() == ".ann" or (path.is_dir() and any(path.glob("*.ann"))):
        return (
            "brat standoff annotations (.ann beside .txt), which convener does not read; convert them to CoNLL, for "
            "instance with brat's tools/anntoconll.py"
        )
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES).decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if not sample.startswith("["):
        return None
    if '"from_name"' in sample or ('"annotations"' in sample and '"data"' in sample):
        return "a JSON export of Label Studio, which convener does not read; export it as CONLL2003 instead"
    return "a JSON array; .json files are read as Wrench items, an object; write one object per line as .jsonl instead"


def detect_format(path: Path) -> Format:
    """Return the format of an existing file or folder."""
    if problem := other_tool_message(path):
        raise FormatError(f"{path}: {problem}")
    for item in list_formats():
        if item.recognizes is not None:
            if item.recognizes(path):
                return item
        elif path.is_file() and path.suffix.lower() in item.suffixes:
            return item
    raise FormatError(f"{path}: unknown format; known suffixes: {', '.join(known_suffixes())}")


def format_for_suffix(path: Path) -> Format:
    """Return the format that writes files with this suffix."""
    for item in list_formats():
        if path.suffix.lower() in item.suffixes:
            return item
    raise FormatError(f"{path}: unknown format; known suffixes: {', '.join(known_suffixes())}")


def choose_form(content: LabeledData, file_format: Format, path: Path, options: WriteOptions) -> Format:
    """Return the form of a format in which this content is written: plain, or complete."""
    plain = None if file_format.plain_form is None else file_format.plain_form(content, path, options)
    if plain is None and options.metadata is False and file_format.suffixes:
        raise FormatError(
            f"{path}: format {file_format.name!r} is always written with metadata; the plain forms are CoNLL and CSV"
        )
    return plain or file_format


def get_labels(content: LabeledData, where: str) -> NDArray[np.int16]:
    """Return the predicted labels, or the gold labels of a dataset (N,); FormatError if it has none."""
    labels = content.labels if isinstance(content, Predictions) else content.gold
    if labels is None:
        raise FormatError(
            f"{where}: the plain form has one label per token, and the data have neither predictions nor gold; "
            "write votes with metadata=True (--metadata)"
        )
    return labels


def without_probabilities(content: LabeledData) -> LabeledData:
    """Return the content without label probabilities; predicted spans keep their scores."""
    if not isinstance(content, Predictions) or content.probabilities is None:
        return content
    return replace(content, probabilities=None, span_scores=content.spans.score)


def get_dataset(content: LabeledData) -> Dataset:
    """Return the dataset itself, or the dataset that predictions refer to."""
    return content.data if isinstance(content, Predictions) else content


def required_capabilities(content: LabeledData) -> set[str]:
    """Return the members of CAPABILITIES that storing this content takes."""
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


def check_unicode(data: Dataset) -> None:
    """Raise FormatError for strings with lone surrogates, which most formats cannot store."""
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
            index = locate(packed.offsets, error.start)[0]
            raise FormatError(
                f"{kind} {index} is not valid Unicode ({packed[index]!r:.40}); npz can store it"
            ) from None


def _abstains_within_sentence(data: Dataset) -> bool:
    """Whether a source abstains on some but not all tokens of a sentence."""
    non_empty = data.lengths > 0
    if not non_empty.any() or not data.sources:
        return False
    abstentions = np.add.reduceat(data.votes == ABSTAIN, data.offsets[:-1][non_empty], axis=0)
    return bool(((abstentions > 0) & (abstentions < data.lengths[non_empty][:, None])).any())


def _check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        choices = ", ".join(str(item) for item in allowed if item is not None)
        raise ConfigError(f"{name} must be one of {choices}; got {value!r}")
