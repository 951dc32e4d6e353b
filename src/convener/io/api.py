"""Entry points: read and write datasets, corpora and predictions in any format."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from convener.data.alignment import MisalignmentPolicy, OverlapPolicy
from convener.data.coarse import CoarseSpec
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.issues import Issues, short_repr
from convener.data.predictions import Predictions
from convener.data.schemes import RepairPolicy, Scheme
from convener.data.validation import Unmarked
from convener.encodings import UndecodableError, with_remedy
from convener.errors import (
    ConvenerError,
    ConvenerWarning,
    DataError,
    FormatError,
    UnknownNameError,
    unknown_name_message,
)
from convener.io import formats, memory
from convener.io.formats import FileContent, LabeledData, ReadOptions, WriteOptions, get_dataset
from convener.io.memory import InMemory, InMemorySplits
from convener.io.splits import canonical_split, find_split_files, unify_splits
from convener.io.unmarked import resolve_unmarked
from convener.storage import atomic_write

MAX_NAME_LENGTH = 255
"""A longer string that is not a path is a text, as far as messages are concerned."""


def read(
    path: str | Path | InMemory | InMemorySplits,
    split: str | None = None,
    *,
    format: str | None = None,
    sources: str | Sequence[str] = "recommended",
    types: Sequence[str] | None = None,
    default_types: Sequence[str] | None = None,
    coarse: Mapping[str, CoarseSpec] | None = None,
    unmarked: Unmarked | None = None,
    on_overlap: OverlapPolicy = "longest",
    on_misaligned: MisalignmentPolicy = "expand",
    on_illegal: RepairPolicy = "start",
    columns: Sequence[str] | None = None,
    spacy_pipeline: str | None = None,
    encoding: str | None = None,
    issues: Issues | None = None,
) -> Dataset:
    """Read a file, one split of a folder with train, valid and test files, or data in memory.

    Data in memory are a list of texts, texts by document id, a data frame of pandas or polars (a long table of votes,
    or lists of tokens and tags), a `datasets.Dataset`, or a list of spaCy docs. A string is always a path.

    >>> read(["Ada left Oslo. She flew to Lima."]).summary()
    'Dataset(2 sentences, 9 tokens, 0 sources, types ENT, text, documents)'

    format          name of the format; by default it is detected from the suffix and the content
    sources         "recommended" (the recommended list of a Wrench folder, else all), "all", or names
    types           entity types in order; by default those named in the file, else those that occur, sorted
    default_types   entity types of a file that names none and contains no spans; by default such a file is an error
    coarse          coarse labels and the types they allow: {"ENT": "any", "NOT-PER": "not PER", "GPE": ("LOC", "ORG")}
    unmarked        what tokens that a source does not mark mean: no opinion ("abstain") or a vote for O ("outside"); by
                    default what the file states, else what it shows (see the data formats), else by format
    on_overlap      of two overlapping spans of one source keep the "longest" or the "first", or raise an "error"
    on_misaligned   "expand", "contract" or "drop" a character span that starts or ends inside a token, or raise an
                    "error"
    on_illegal      an I- tag that continues no span can "start" one, be dropped with its continuation ("drop"), or be
                    an "error"
    columns         CoNLL columns: "token", "gold", "prediction", "_" (ignore), or "source:NAME"
    spacy_pipeline  spaCy pipeline or language that splits raw text; by default the built-in rules
    encoding        encoding of text files, such as "utf-16" or "cp1252"; by default UTF-8
    issues          collects overlaps, misaligned spans and illegal tags; without it one warning summarizes them
    """
    options = ReadOptions.from_arguments(locals())
    collected = Issues() if issues is None else issues
    data = load_dataset(path, split, format=format, options=options, issues=collected)
    if issues is None:
        collected.warn()
    return data


def read_corpus(
    path: str | Path | InMemorySplits,
    *,
    format: str | None = None,
    sources: str | Sequence[str] = "recommended",
    types: Sequence[str] | None = None,
    default_types: Sequence[str] | None = None,
    coarse: Mapping[str, CoarseSpec] | None = None,
    unmarked: Unmarked | None = None,
    on_overlap: OverlapPolicy = "longest",
    on_misaligned: MisalignmentPolicy = "expand",
    on_illegal: RepairPolicy = "start",
    columns: Sequence[str] | None = None,
    spacy_pipeline: str | None = None,
    encoding: str | None = None,
    issues: Issues | None = None,
) -> Corpus:
    """Read a folder with train, valid and test files; all splits get the same entity types, sources and `unmarked`.

    Instead of a folder, `path` may be a mapping from the names of the splits to what `read` accepts in memory, such as
    a `datasets.DatasetDict`. The keywords are those of `read`.

    >>> from tempfile import mkdtemp
    >>> import convener as cv
    >>> folder = Path(mkdtemp()) / "news"
    >>> write(cv.demo.load_corpus(), folder, format="jsonl")
    >>> list(read_corpus(folder).splits)
    ['train', 'valid', 'test']
    """
    options = ReadOptions.from_arguments(locals())
    collected = Issues() if issues is None else issues
    corpus = load_corpus(path, format=format, options=options, issues=collected)
    if issues is None:
        collected.warn()
    return corpus


def read_predictions(
    path: str | Path | InMemory,
    *,
    format: str | None = None,
    sources: str | Sequence[str] = "recommended",
    types: Sequence[str] | None = None,
    default_types: Sequence[str] | None = None,
    coarse: Mapping[str, CoarseSpec] | None = None,
    unmarked: Unmarked | None = None,
    on_overlap: OverlapPolicy = "longest",
    on_misaligned: MisalignmentPolicy = "expand",
    on_illegal: RepairPolicy = "start",
    columns: Sequence[str] | None = None,
    spacy_pipeline: str | None = None,
    encoding: str | None = None,
    issues: Issues | None = None,
) -> Predictions:
    """Read the predictions of a file or of data in memory; if there are none, the gold labels as predictions.

    The keywords are those of `read`.
    """
    options = ReadOptions.from_arguments(locals())
    collected = Issues() if issues is None else issues
    predictions = load_predictions(path, format=format, options=options, issues=collected)
    if issues is None:
        collected.warn()
    return predictions


def write(
    content: Dataset | Predictions | Corpus,
    path: str | Path,
    *,
    format: str | None = None,
    scheme: Scheme = "bio",
    allow_lossy: bool = False,
    metadata: bool | None = None,
    scores: bool = False,
    probabilities: bool = True,
) -> None:
    """Write a dataset, predictions or a corpus, completely or not at all.

    format         name of the format; by default it follows from the suffix. A corpus is written as a folder and needs
                   it
    scheme         tagging scheme, for formats that write tags: bio, io, iobes or biluo
    allow_lossy    allow changes to votes and labels that the format cannot store exactly; otherwise they are an error
    metadata       CoNLL and CSV: True writes everything that convener can read back, False the plain form that other
                   tools and spreadsheets read; by default predictions are plain, votes complete
    scores         plain CoNLL: write the scores of spans as a column between token and tag
    probabilities  False leaves out the label probabilities of every token; the scores of spans are kept

    A warning lists what the format drops.
    """
    options = WriteOptions.from_arguments(locals())
    path = Path(path)
    if isinstance(content, Corpus):
        _write_corpus(content, path, format, options)
        return
    file_format = formats.format_for_suffix(path) if format is None else formats.get_format(format)
    content = content if probabilities else formats.without_probabilities(content)
    file_format = formats.choose_form(content, file_format, path, options)
    _check_supported(content, file_format, str(path), options)
    with atomic_write(path) as temp_path:
        file_format.write(content, temp_path, options)


def load_dataset(
    path: str | Path | InMemory | InMemorySplits,
    split: str | None,
    *,
    format: str | None,
    options: ReadOptions,
    issues: Issues,
) -> Dataset:
    """Read as `read` does, with the options as one value."""
    where, parts = _find_splits(path)
    if not parts:
        if split is not None:
            kind = "file" if isinstance(path, str | Path) else "dataset"
            raise DataError(f"{where}: is a single {kind}; split={split!r} applies to folders of splits only")
        data = get_dataset(_resolve_file(path, format, options, issues))
        return data.with_coarse(options.coarse or {})
    if split is None:
        raise DataError(f"{where}: has several splits; choose one of {', '.join(parts)}, or read all with read_corpus")
    name = canonical_split(split)
    if name not in parts:
        raise UnknownNameError(f"{where}: {unknown_name_message('split', split, parts)}")
    content = _read_part(parts.pop(name), format, options, issues)
    others = _read_other_splits(parts.values(), format, options) if content.undecided else []
    data = get_dataset(resolve_unmarked([content, *others], where, issues)[0])
    return unify_splits({name: data}, options.coarse)[name]


def load_corpus(
    path: str | Path | InMemorySplits, *, format: str | None, options: ReadOptions, issues: Issues
) -> Corpus:
    """Read as `read_corpus` does, with the options as one value."""
    where, parts = _find_splits(path)
    if not parts:
        raise DataError(f"{where}: is not a folder of splits; read it with read")
    contents = [_read_part(part, format, options, issues) for part in parts.values()]
    splits = map(get_dataset, resolve_unmarked(contents, where, issues))
    return Corpus(splits=unify_splits(dict(zip(parts, splits, strict=True)), options.coarse))


def load_predictions(
    path: str | Path | InMemory, *, format: str | None, options: ReadOptions, issues: Issues
) -> Predictions:
    """Read as `read_predictions` does, with the options as one value."""
    found = Issues()
    content = load_content(path, format=format, options=options, issues=found)
    if isinstance(content, Predictions):
        issues.items += found.items
        return content
    if content.gold is None:
        raise DataError(f"{_describe(path)}: expected predictions or gold labels, found neither")
    for issue in found:  # the column that another tool calls gold contains the predictions
        issues.items.append(replace(issue, source="predictions") if issue.source == "gold" else issue)
    return Predictions(data=content, labels=content.gold, model=_describe(path))


def load_content(
    path: str | Path | InMemory, *, format: str | None, options: ReadOptions, issues: Issues
) -> LabeledData:
    """Read one file or data in memory: Predictions if it contains predicted labels, else a Dataset."""
    content = _resolve_file(path, format, options, issues)
    return content.with_coarse(options.coarse or {}) if isinstance(content, Dataset) else content


def _write_corpus(corpus: Corpus, path: Path, format_name: str | None, options: WriteOptions) -> None:
    """Write one file per split."""
    if format_name is None:
        raise FormatError(f"{path}: a corpus is written as a folder; pass format=...")
    file_format = formats.get_format(format_name)
    suffix = file_format.suffixes[0] if file_format.split_suffix is None else file_format.split_suffix
    forms = {}
    for name, data in corpus.splits.items():
        forms[name] = formats.choose_form(data, file_format, path / f"{name}{suffix}", options)
        _check_supported(data, forms[name], f"{path}/{name}", options)
    with atomic_write(path) as temp_path:
        temp_path.mkdir()
        for name, data in corpus.splits.items():
            forms[name].write(data, temp_path / f"{name}{suffix}", options)
        if file_format.splits_index is not None:
            file, text = file_format.splits_index(list(corpus.splits))
            (temp_path / file).write_text(text, encoding="utf-8")


def _find_splits(path: str | Path | InMemory | InMemorySplits) -> tuple[str, dict[str, Path | InMemory]]:
    """Return the name of the data in messages, and its splits; none if it is one dataset."""
    if not isinstance(path, str | Path):
        return memory.describe(path), {**memory.splits(path)}
    looks_like_text = isinstance(path, str) and (len(path.split()) > 1 or len(path) > MAX_NAME_LENGTH)
    if looks_like_text and not os.path.exists(path):  # noqa: PTH110, Path.exists fails for a long name
        raise DataError(f"{short_repr(path)}: no such file or folder; to read a text, pass a list of texts")
    return str(path), {**find_split_files(Path(path))}


def _describe(path: str | Path | InMemory | InMemorySplits) -> str:
    return str(path) if isinstance(path, str | Path) else memory.describe(path)


def _resolve_file(
    path: str | Path | InMemory | InMemorySplits, format_name: str | None, options: ReadOptions, issues: Issues
) -> LabeledData:
    """Read one file, without others that could tell what its unmarked tokens mean."""
    return resolve_unmarked([_read_part(path, format_name, options, issues)], _describe(path), issues)[0]


def _read_other_splits(
    parts: Iterable[Path | InMemory], format_name: str | None, options: ReadOptions
) -> list[FileContent]:
    """Read the splits beside the requested one; those that cannot be read are left out."""
    contents = []
    for part in parts:
        with suppress(ConvenerError):
            contents.append(_read_part(part, format_name, options, Issues()))
    return contents


def _read_part(
    part: str | Path | InMemory | InMemorySplits, format_name: str | None, options: ReadOptions, issues: Issues
) -> FileContent:
    """Read a file or data in memory."""
    if isinstance(part, str | Path):
        return _read_file(Path(part), format_name, options, issues)
    if format_name is not None:
        raise FormatError(f"{memory.describe(part)}: format={format_name!r} applies to files only")
    return memory.read(part, options, issues)


def _read_file(path: Path, format_name: str | None, options: ReadOptions, issues: Issues) -> FileContent:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    file_format = formats.detect_format(path) if format_name is None else formats.get_format(format_name)
    try:
        return file_format.read(path, options, issues)
    except UndecodableError as error:
        raise with_remedy(error) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError:
        raise DataError(f"{path}: too large for this machine's memory") from None


def _check_supported(content: LabeledData, file_format: formats.Format, where: str, options: WriteOptions) -> None:
    """Raise FormatError for an essential capability that the format lacks; warn about the others."""
    unsupported = [
        capability
        for capability in formats.CAPABILITIES
        if capability in formats.required_capabilities(content) - file_format.capabilities
    ]
    essential = [
        formats.CAPABILITIES[capability] for capability in unsupported if capability in formats.ESSENTIAL_CAPABILITIES
    ]
    if essential and not options.allow_lossy:
        raise FormatError(
            f"{where}: format {file_format.name!r} cannot store {' or '.join(essential)}; "
            "choose another format, such as npz, or pass allow_lossy=True"
        )
    if unsupported:
        descriptions = ", ".join(formats.CAPABILITIES[capability] for capability in unsupported)
        warnings.warn(f"{where}: format {file_format.name!r} drops: {descriptions}", ConvenerWarning, stacklevel=3)
