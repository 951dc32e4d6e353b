"""Reading and writing: one file a format, one way in and one way out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

import numpy as np

from convener.coarse import Meaning
from convener.corpus import Corpus
from convener.data import ABSTAIN, Dataset
from convener.errors import ConvenerWarning, DataError, FormatError, UnknownNameError, unknown_name
from convener.io import formats
from convener.io.files import whole
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Case, Report
from convener.predictions import Predictions

__all__ = [
    "Case",
    "ReadOptions",
    "Report",
    "WriteOptions",
    "formats",
    "read",
    "read_content",
    "read_predictions",
    "write",
]

SPLITS = {
    "train": ("train",),
    "valid": ("valid", "dev", "validation", "val"),
    "test": ("test",),
}


@overload
def read(
    path: str | Path,
    split: str,
    *,
    format: str | None = ...,
    report: Report | None = ...,
    **options: Any,
) -> Dataset: ...
@overload
def read(
    path: str | Path,
    split: None = None,
    *,
    format: str | None = ...,
    report: Report | None = ...,
    **options: Any,
) -> Any: ...
def read(
    path: str | Path,
    split: str | None = None,
    *,
    format: str | None = None,
    report: Report | None = None,
    **options: Any,
) -> Any:
    """Read a file (a Dataset), a folder of splits (a Corpus), or one split of it (a Dataset).

    The format is known by the suffix or named. Options are the fields of `ReadOptions`. What a
    reader had to decide, such as overlapping spans, is noted in `report`; without one it is said
    as a warning.
    """
    path, settings = Path(path), ReadOptions.of(options)
    noted = Report() if report is None else report
    files = split_files(path)
    if not files:
        if split is not None:
            raise DataError(f"{path}: one file, not a folder of splits: there is no {split!r}")
        data = _dataset(_content(path, format, settings, noted))
        result: Dataset | Corpus = data.with_coarse(settings.coarse or {})
    else:
        if split is not None and split not in files:
            raise UnknownNameError(f"{path}: {unknown_name('split', split, files)}")
        corpus = Corpus(
            splits=unified(
                {
                    name: _dataset(_content(file, format, settings, noted))
                    for name, file in files.items()
                    if split in (None, name)
                },
                settings.coarse or {},
            )
        )
        result = corpus if split is None else corpus[split]
    if report is None:
        noted.warn()
    return result


def read_predictions(
    path: str | Path,
    *,
    format: str | None = None,
    report: Report | None = None,
    **options: Any,
) -> Predictions:
    """Read labels: aggregated ones if the file has them, else its gold column."""
    content = read_content(path, format=format, report=report, **options)
    if isinstance(content, Predictions):
        return content
    if content.gold is None:
        raise DataError(f"{path}: holds neither aggregated labels nor a gold column")
    return Predictions(data=content, labels=content.gold, model=str(path))


def read_content(
    path: str | Path,
    *,
    format: str | None = None,
    report: Report | None = None,
    **options: Any,
) -> Dataset | Predictions:
    """Read one file as what it is: predictions if it holds aggregated labels, else a dataset."""
    noted = Report() if report is None else report
    settings = ReadOptions.of(options)
    content = _content(Path(path), format, settings, noted)
    if isinstance(content, Dataset):
        content = content.with_coarse(settings.coarse or {})
    if report is None:
        noted.warn()
    return content


def write(
    content: Dataset | Predictions | Corpus,
    path: str | Path,
    *,
    format: str | None = None,
    **options: Any,
) -> None:
    """Write a dataset, predictions or a corpus, whole or not at all.

    The format is known by the suffix or named; a corpus becomes a folder and needs the name.
    What the format cannot carry is said as a warning, or, where votes would change, refused
    unless `lossy=True`.
    """
    path, settings = Path(path), WriteOptions.of(options)
    if isinstance(content, Corpus):
        if format is None:
            raise FormatError(f"{path}: a corpus is written as a folder; name the format")
        chosen = formats.by_name(format)
        for name, data in content.splits.items():
            _check_carried(data, chosen, f"{path}/{name}", settings)
        with whole(path) as draft:
            draft.mkdir()
            suffix = chosen.suffixes[0] if chosen.split_suffix is None else chosen.split_suffix
            for name, data in content.splits.items():
                chosen.write(data, draft / f"{name}{suffix}", settings)
            if chosen.corpus_index is not None:
                file, text = chosen.corpus_index(list(content.splits))
                (draft / file).write_text(text, encoding="utf-8")
        return
    chosen = formats.for_writing(path) if format is None else formats.by_name(format)
    _check_carried(content, chosen, str(path), settings)
    with whole(path) as draft:
        chosen.write(content, draft, settings)


def split_files(path: Path) -> dict[str, Path]:
    """The files of a folder of splits, by split; empty for anything else."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not path.is_dir():
        return {}
    found: dict[str, Path] = {}
    for split, names in SPLITS.items():
        candidates = [
            file
            for name in names
            for file in sorted(path.iterdir())
            if file.stem == name and not file.name.startswith(".") and _is_readable(file)
        ]
        if len(candidates) > 1:
            listed = ", ".join(file.name for file in candidates)
            raise DataError(f"{path}: several files for split {split}: {listed}")
        if candidates:
            found[split] = candidates[0]
    if not found and not _is_readable(path):
        raise DataError(
            f"{path}: a folder with neither train, valid nor test files of a known format"
        )
    return found


def unified(
    splits: dict[str, Dataset], coarse: Mapping[str, Meaning] | None = None
) -> dict[str, Dataset]:
    """The same splits over one set of types and sources; a source that a split lacks abstains.

    What coarse labels allow is settled when all types are known.
    """
    known: dict[str, Meaning] = {}
    for data in splits.values():
        for name, allowed in data.coarse.items():
            if known.setdefault(name, allowed) != allowed:
                raise DataError(
                    f"coarse label {name!r} allows {', '.join(known[name])} in one split, "
                    f"{', '.join(allowed)} in another"
                )
    known |= coarse or {}
    types = list(dict.fromkeys(name for data in splits.values() for name in data.tags.types))
    if any(data.tags.types != tuple(types) for data in splits.values()):
        types = sorted(types)
    stated = {
        name: (silence, precision)
        for data in reversed(splits.values())
        for name, silence, precision in zip(data.sources, data.silence, data.precision, strict=True)
    }
    sources = list(dict.fromkeys(name for data in splits.values() for name in data.sources))
    result = {}
    for split, data in splits.items():
        data = data.with_types(types).with_coarse(known)
        missing = [name for name in sources if name not in data.sources]
        if missing:
            warnings.warn(
                f"{split}: no votes of {', '.join(missing)}; taken as abstaining there",
                ConvenerWarning,
                stacklevel=3,
            )
            absent = np.full((len(data.tokens), len(missing)), ABSTAIN, np.int16)
            data = data.with_sources(
                (*data.sources, *missing),
                np.concatenate([data.votes, absent], axis=1),
                (*data.silence, *(stated[name][0] for name in missing)),
                (*data.precision, *(stated[name][1] for name in missing)),
            )
        result[split] = data if list(data.sources) == sources else data.select_sources(sources)
    return result


def _is_readable(path: Path) -> bool:
    try:
        formats.for_reading(path)
    except FormatError:
        return False
    return True


def _content(
    path: Path, name: str | None, options: ReadOptions, report: Report
) -> Dataset | Predictions:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    chosen = formats.for_reading(path) if name is None else formats.by_name(name)
    try:
        return chosen.read(path, options, report)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError:
        raise DataError(f"{path}: too large for this machine's memory") from None


def _dataset(content: Dataset | Predictions) -> Dataset:
    return content.data if isinstance(content, Predictions) else content


def _check_carried(
    content: Dataset | Predictions, chosen: formats.Format, where: str, options: WriteOptions
) -> None:
    lost = [part for part in formats.PARTS if part in formats.parts(content) - chosen.carries]
    altered = [formats.PARTS[part] for part in lost if part in formats.ALTERING]
    if altered and not options.lossy:
        raise FormatError(
            f"{where}: {chosen.name} cannot hold {' nor '.join(altered)}; "
            "choose another format or set lossy"
        )
    if lost:
        listed = ", ".join(formats.PARTS[part] for part in lost)
        warnings.warn(f"{where}: {chosen.name} does not keep {listed}", ConvenerWarning, 3)
