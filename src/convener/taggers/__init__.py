"""Taggers: end models, trained on labels, that read text alone.

>>> import convener as cv
>>> corpus = cv.demo.load_corpus()
>>> labels = cv.MajorityVote().fit(corpus.train).predict(corpus.train)
>>> tagger = get_tagger("frozen")(encoder="hashing", epochs=3).fit(labels)
>>> len(tagger.predict(corpus.test)) == len(corpus.test)
True
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from convener import storage
from convener.errors import DataError, MissingDependencyError, UnknownNameError, unknown_name_message
from convener.taggers.base import TAGGER_KEY, Tagger
from convener.taggers.targets import Targets

__all__ = ["TAGGER_CLASSES", "Tagger", "Targets", "get_tagger", "is_tagger", "load_tagger"]

TAGGER_CLASSES = {"frozen": "FrozenTagger", "finetuned": "FinetunedTagger", "spacy": "SpacyTagger"}


def get_tagger(kind: str) -> type[Tagger[Any]]:
    """The class of that kind.

    >>> get_tagger("frozne")
    Traceback (most recent call last):
    convener.errors.UnknownNameError: no kind of tagger 'frozne'; did you mean 'frozen'?
    """
    if kind not in TAGGER_CLASSES:
        raise UnknownNameError(unknown_name_message("kind of tagger", kind, TAGGER_CLASSES))
    try:
        module = import_module(f"convener.taggers.{kind}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingDependencyError(f"a {kind} tagger needs torch: pip install 'convener[encoders]'") from error
    tagger_class: type[Tagger[Any]] = getattr(module, TAGGER_CLASSES[kind])
    return tagger_class


def load_tagger(folder: str | Path) -> Tagger[Any]:
    """A tagger as it was saved, ready to predict."""
    path = Path(folder)
    metadata = storage.read_metadata(path)
    if TAGGER_KEY not in metadata:
        raise DataError(f"{path}: a label model, not a tagger: load it with convener.load")
    try:
        return get_tagger(metadata[TAGGER_KEY])(**metadata["settings"]).load_files(path, metadata)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path / storage.METADATA_FILE}: incomplete: {error}") from error


def is_tagger(folder: Path) -> bool:
    """Whether a path is the folder of a saved tagger."""
    return (folder / storage.METADATA_FILE).is_file() and TAGGER_KEY in storage.read_metadata(folder)
