"""Label models: one file each, found by name."""

from __future__ import annotations

import pkgutil
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from convener.errors import (
    DataError,
    MissingDependencyError,
    UnknownNameError,
    unknown_name_message,
)
from convener.io import checkpoint
from convener.models.base import LabelModel
from convener.tagger.base import TAGGER_KEY as TAGGER

__all__ = ["LabelModel", "get_model", "installed_models", "list_models", "load_model"]
NOT_MODELS = ("base", "fitted", "hearing", "neural")
"""Files that hold no model, but what models share."""


def list_models() -> tuple[str, ...]:
    """Names of all label models.

    >>> "majority-vote" in list_models()
    True
    """
    files = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name.replace("_", "-") for name in files if name not in NOT_MODELS)


def get_model(name: str) -> type[LabelModel]:
    """The model class of that name.

    >>> get_model("majority-vote").__name__
    'MajorityVote'
    """
    if name not in list_models():
        raise UnknownNameError(unknown_name_message("label model", name, list_models()))
    try:
        module = import_module(f"convener.models.{name.replace('-', '_')}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingDependencyError(f"{name} needs torch: pip install 'convener[encoders]'") from error
    classes = [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, LabelModel) and item.__module__ == module.__name__
    ]
    return classes[0]


def installed_models() -> tuple[type[LabelModel], ...]:
    """All models whose libraries are here."""
    models = []
    for name in list_models():
        with suppress(MissingDependencyError):
            models.append(get_model(name))
    return tuple(models)


def load_model(folder: str | Path) -> LabelModel:
    """A model as it was saved, ready to predict."""
    path = Path(folder)
    metadata = checkpoint.read_metadata(path)
    if TAGGER in metadata:
        raise DataError(f"{path}: a tagger, not a label model: load it with convener.load_tagger")
    arrays = checkpoint.read_arrays(path)
    try:
        model = get_model(metadata["model"])(**metadata["settings"])
        return model.load_state(metadata, arrays)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path / checkpoint.METADATA_FILE}: incomplete: {error}") from error
