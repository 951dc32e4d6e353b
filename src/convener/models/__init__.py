"""Label models: one file each, found by name."""

from __future__ import annotations

import pkgutil
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from convener.errors import DataError, MissingExtraError, UnknownNameError, unknown_name
from convener.io import checkpoint
from convener.models.base import LabelModel
from convener.tagger.base import KIND as TAGGER

__all__ = ["LabelModel", "available", "get", "installed", "load"]
SHARED = ("base", "fitted", "hearing", "neural")
"""Files that hold no model, but what models share."""


def available() -> tuple[str, ...]:
    """Names of all label models.

    >>> "majority-vote" in available()
    True
    """
    files = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name.replace("_", "-") for name in files if name not in SHARED)


def get(name: str) -> type[LabelModel]:
    """The model class of that name.

    >>> get("majority-vote").__name__
    'MajorityVote'
    """
    if name not in available():
        raise UnknownNameError(unknown_name("label model", name, available()))
    try:
        module = import_module(f"convener.models.{name.replace('-', '_')}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(f"{name} needs torch: pip install 'convener[encoders]'") from error
    found = [
        item
        for item in vars(module).values()
        if isinstance(item, type)
        and issubclass(item, LabelModel)
        and item.__module__ == module.__name__
    ]
    return found[0]


def installed() -> tuple[type[LabelModel], ...]:
    """All models whose libraries are here."""
    found = []
    for name in available():
        with suppress(MissingExtraError):
            found.append(get(name))
    return tuple(found)


def load(folder: str | Path) -> LabelModel:
    """A model as it was saved, ready to predict."""
    path = Path(folder)
    facts = checkpoint.read_facts(path)
    if TAGGER in facts:
        raise DataError(f"{path}: a tagger, not a label model: load it with convener.load_tagger")
    arrays = checkpoint.read_arrays(path)
    try:
        model = get(facts["model"])(**facts["settings"])
        return model.restore(facts, arrays)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path / checkpoint.FACTS}: incomplete: {error}") from error
