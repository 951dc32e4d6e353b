"""Taggers: end models, trained on labels, that predict from text alone.

>>> import convener as cv
>>> corpus = cv.demo.load_corpus()
>>> labels = cv.MajorityVote().fit(corpus.train).predict(corpus.train)
>>> tagger = get_tagger("frozen")(encoder="hashing", max_epochs=3).fit(labels)
>>> len(tagger.predict(corpus.test)) == len(corpus.test)
True
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from convener import storage
from convener.errors import DataError, UnknownNameError, unknown_name_message
from convener.taggers.base import TAGGER_KEY, Tagger
from convener.taggers.targets import Targets

__all__ = ["TAGGER_CLASSES", "Tagger", "Targets", "get_tagger", "is_tagger", "list_taggers", "load_tagger"]

TAGGER_CLASSES = {"frozen": "FrozenTagger", "finetuned": "FinetunedTagger", "spacy": "SpacyTagger"}
"""Class names by tagger name; a tagger's name is also the name of its module."""


def list_taggers() -> tuple[str, ...]:
    """Names of all taggers.

    >>> list_taggers()
    ('frozen', 'finetuned', 'spacy')
    """
    return tuple(TAGGER_CLASSES)


def get_tagger(name: str) -> type[Tagger[Any]]:
    """Class of the tagger with this name.

    >>> get_tagger("frozne")
    Traceback (most recent call last):
    convener.errors.UnknownNameError: no tagger 'frozne'; did you mean 'frozen'?
    """
    if name not in TAGGER_CLASSES:
        raise UnknownNameError(unknown_name_message("tagger", name, TAGGER_CLASSES))
    module = import_module(f"convener.taggers.{name}")
    tagger_class: type[Tagger[Any]] = getattr(module, TAGGER_CLASSES[name])
    return tagger_class


def load_tagger(folder: str | Path) -> Tagger[Any]:
    """Load a saved tagger."""
    path = Path(folder)
    metadata = storage.read_metadata(path)
    if TAGGER_KEY not in metadata:
        raise DataError(f"{path}: expected a tagger, found a label model; use convener.load_model")
    try:
        return get_tagger(metadata[TAGGER_KEY])(**metadata["settings"]).load_files(path, metadata)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path / storage.METADATA_FILE}: incomplete: {error}") from error


def is_tagger(folder: Path) -> bool:
    """Whether the folder contains a saved tagger."""
    return (folder / storage.METADATA_FILE).is_file() and TAGGER_KEY in storage.read_metadata(folder)
