"""Folders of splits: which file is which split, and one set of types and sources for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from convener.data.coarse import CoarseSpec
from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN
from convener.errors import ConvenerWarning, DataError, FormatError
from convener.io import formats

SPLIT_ALIASES = {
    "train": ("train",),
    "valid": ("valid", "dev", "validation", "val"),
    "test": ("test",),
}
"""Split names and the file stems that stand for them."""


def canonical_split(name: str) -> str:
    """Return the name of a split for one of its aliases; other names are unchanged.

    >>> canonical_split("dev"), canonical_split("test")
    ('valid', 'test')
    """
    return next((split for split, aliases in SPLIT_ALIASES.items() if name in aliases), name)


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
    if not paths and (problem := formats.other_tool_message(path)):
        raise FormatError(f"{path}: {problem}")
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
