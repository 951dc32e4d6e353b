"""Entry points: read and write datasets, corpora and predictions in any format."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

import numpy as np

from convener.data.coarse import CoarseSpec
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.tags import ABSTAIN
from convener.errors import ConvenerWarning, DataError, FormatError, UnknownNameError, unknown_name_message
from convener.io import formats
from convener.io.formats import LabeledData, ReadOptions, WriteOptions, get_dataset
from convener.storage import atomic_write

SPLIT_ALIASES = {
    "train": ("train",),
    "valid": ("valid", "dev", "validation", "val"),
    "test": ("test",),
}
"""Split names and the file stems that stand for them."""


@overload
def read(
    path: str | Path,
    split: str,
    *,
    format: str | None = ...,
    issues: Issues | None = ...,
    **options: Any,
) -> Dataset: ...


@overload
def read(
    path: str | Path,
    split: None = None,
    *,
    format: str | None = ...,
    issues: Issues | None = ...,
    **options: Any,
) -> Any: ...


def read(
    path: str | Path,
    split: str | None = None,
    *,
    format: str | None = None,
    issues: Issues | None = None,
    **options: Any,
) -> Any:
    """Read a file (-> Dataset), a folder of splits (-> Corpus), or one split of a folder (-> Dataset).

    The format is given, or detected from the suffix and the content. Options are the fields of `ReadOptions`. Issues,
    such as overlapping spans, are added to `issues`; without it they are summarized in one warning.
    """
    path, read_options = Path(path), ReadOptions.from_dict(options)
    collected = Issues() if issues is None else issues
    files = find_split_files(path)
    if not files:
        if split is not None:
            raise DataError(f"{path}: is a single file; split={split!r} applies to folders of splits only")
        data = get_dataset(_read_file(path, format, read_options, collected))
        result: Dataset | Corpus = data.with_coarse(read_options.coarse or {})
    else:
        if split is not None and split not in files:
            raise UnknownNameError(f"{path}: {unknown_name_message('split', split, files)}")
        corpus = Corpus(
            splits=unify_splits(
                {
                    name: get_dataset(_read_file(file, format, read_options, collected))
                    for name, file in files.items()
                    if split in (None, name)
                },
                read_options.coarse or {},
            )
        )
        result = corpus if split is None else corpus[split]
    if issues is None:
        collected.warn()
    return result


def read_predictions(
    path: str | Path,
    *,
    format: str | None = None,
    issues: Issues | None = None,
    **options: Any,
) -> Predictions:
    """Read the predictions of a file; if it has none, its gold labels as predictions."""
    content = read_content(path, format=format, issues=issues, **options)
    if isinstance(content, Predictions):
        return content
    if content.gold is None:
        raise DataError(f"{path}: expected predictions or gold labels, found neither")
    return Predictions(data=content, labels=content.gold, model=str(path))


def read_content(
    path: str | Path,
    *,
    format: str | None = None,
    issues: Issues | None = None,
    **options: Any,
) -> LabeledData:
    """Read one file: Predictions if it contains predicted labels, else a Dataset."""
    collected = Issues() if issues is None else issues
    read_options = ReadOptions.from_dict(options)
    content = _read_file(Path(path), format, read_options, collected)
    if isinstance(content, Dataset):
        content = content.with_coarse(read_options.coarse or {})
    if issues is None:
        collected.warn()
    return content


def write(
    content: Dataset | Predictions | Corpus,
    path: str | Path,
    *,
    format: str | None = None,
    **options: Any,
) -> None:
    """Write a dataset, predictions or a corpus, atomically.

    The format is given, or follows from the suffix. A corpus is written as a folder and needs the format. A warning
    lists what the format drops. What would change votes or sentences is an error unless `lossy=True`.
    """
    path, write_options = Path(path), WriteOptions.from_dict(options)
    if isinstance(content, Corpus):
        if format is None:
            raise FormatError(f"{path}: a corpus is written as a folder; pass format=...")
        file_format = formats.get_format(format)
        for name, data in content.splits.items():
            _check_supported(data, file_format, f"{path}/{name}", write_options)
        with atomic_write(path) as temp_path:
            temp_path.mkdir()
            suffix = file_format.suffixes[0] if file_format.split_suffix is None else file_format.split_suffix
            for name, data in content.splits.items():
                file_format.write(data, temp_path / f"{name}{suffix}", write_options)
            if file_format.splits_index is not None:
                file, text = file_format.splits_index(list(content.splits))
                (temp_path / file).write_text(text, encoding="utf-8")
        return
    file_format = formats.format_for_suffix(path) if format is None else formats.get_format(format)
    _check_supported(content, file_format, str(path), write_options)
    with atomic_write(path) as temp_path:
        file_format.write(content, temp_path, write_options)


def find_split_files(path: Path) -> dict[str, Path]:
    """Return the files of a folder of splits, by split; empty for a file or a folder that is one dataset."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not path.is_dir():
        return {}
    paths: dict[str, Path] = {}
    for split, names in SPLIT_ALIASES.items():
        candidates = [
            file
            for name in names
            for file in sorted(path.iterdir())
            if file.stem == name and not file.name.startswith(".") and _is_readable(file)
        ]
        if len(candidates) > 1:
            file_names = ", ".join(file.name for file in candidates)
            raise DataError(f"{path}: several files for split {split}: {file_names}")
        if candidates:
            paths[split] = candidates[0]
    if not paths and not _is_readable(path):
        suffixes = ", ".join(formats.known_suffixes())
        raise DataError(f"{path}: no train, valid or test file with a known suffix ({suffixes}) in this folder")
    return paths


def unify_splits(splits: dict[str, Dataset], coarse: Mapping[str, CoarseSpec] | None = None) -> dict[str, Dataset]:
    """Return the splits over one set of types and sources; a source that is missing from a split abstains there.

    Coarse labels are resolved against the types of all splits.
    """
    coarse_specs: dict[str, CoarseSpec] = {}
    for data in splits.values():
        for name, allowed in data.coarse.items():
            if coarse_specs.setdefault(name, allowed) != allowed:
                raise DataError(
                    f"coarse label {name!r} allows {', '.join(coarse_specs[name])} in one split, "
                    f"{', '.join(allowed)} in another"
                )
    coarse_specs |= coarse or {}
    types = list(dict.fromkeys(name for data in splits.values() for name in data.tags.types))
    if any(data.tags.types != tuple(types) for data in splits.values()):
        types = sorted(types)
    source_metadata = {
        name: (unmarked, precision)
        for data in reversed(splits.values())
        for name, unmarked, precision in zip(data.sources, data.unmarked, data.prior_precision, strict=True)
    }
    sources = list(dict.fromkeys(name for data in splits.values() for name in data.sources))
    result = {}
    for split, data in splits.items():
        data = data.with_types(types).with_coarse(coarse_specs)
        missing = [name for name in sources if name not in data.sources]
        if missing:
            warnings.warn(
                f"{split} has no votes from {', '.join(missing)}; treated as abstentions",
                ConvenerWarning,
                stacklevel=3,
            )
            abstentions = np.full((len(data.tokens), len(missing)), ABSTAIN, np.int16)
            data = data.with_sources(
                (*data.sources, *missing),
                np.concatenate([data.votes, abstentions], axis=1),
                (*data.unmarked, *(source_metadata[name][0] for name in missing)),
                (*data.prior_precision, *(source_metadata[name][1] for name in missing)),
            )
        result[split] = data if list(data.sources) == sources else data.select_sources(sources)
    return result


def _is_readable(path: Path) -> bool:
    try:
        formats.detect_format(path)
    except FormatError:
        return False
    return True


def _read_file(path: Path, format_name: str | None, options: ReadOptions, issues: Issues) -> LabeledData:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    file_format = formats.detect_format(path) if format_name is None else formats.get_format(format_name)
    try:
        return file_format.read(path, options, issues)
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
    if essential and not options.lossy:
        raise FormatError(
            f"{where}: format {file_format.name!r} cannot store {' or '.join(essential)}; "
            "choose another format, such as npz, or pass lossy=True"
        )
    if unsupported:
        descriptions = ", ".join(formats.CAPABILITIES[capability] for capability in unsupported)
        warnings.warn(f"{where}: format {file_format.name!r} drops: {descriptions}", ConvenerWarning, stacklevel=3)
