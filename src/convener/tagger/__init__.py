"""Taggers: end models, trained on labels, that read text alone.

>>> import convener as cv
>>> corpus = cv.demo.corpus()
>>> labels = cv.MajorityVote().fit(corpus.train).predict(corpus.train)
>>> tagger = get("frozen")(encoder="hashing", epochs=3).fit(labels)
>>> len(tagger.predict(corpus.test)) == len(corpus.test)
True
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from convener.errors import DataError, MissingExtraError, UnknownNameError, unknown_name
from convener.io import checkpoint
from convener.tagger.base import KIND, Tagger
from convener.tagger.targets import Targets

__all__ = ["KINDS", "Tagger", "Targets", "get", "is_tagger", "load"]

KINDS = {"frozen": "FrozenTagger", "finetuned": "FinetunedTagger", "spacy": "SpacyTagger"}


def get(kind: str) -> type[Tagger[Any]]:
    """The class of that kind.

    >>> get("frozne")
    Traceback (most recent call last):
    convener.errors.UnknownNameError: no kind of tagger 'frozne'; did you mean 'frozen'?
    """
    if kind not in KINDS:
        raise UnknownNameError(unknown_name("kind of tagger", kind, KINDS))
    try:
        module = import_module(f"convener.tagger.{kind}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(
            f"a {kind} tagger needs torch: pip install 'convener[encoders]'"
        ) from error
    found: type[Tagger[Any]] = getattr(module, KINDS[kind])
    return found


def load(folder: str | Path) -> Tagger[Any]:
    """A tagger as it was saved, ready to predict."""
    path = Path(folder)
    facts = checkpoint.read_facts(path)
    if KIND not in facts:
        raise DataError(f"{path}: a label model, not a tagger: load it with convener.load")
    try:
        return get(facts[KIND])(**facts["settings"]).restore(path, facts)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path / checkpoint.FACTS}: incomplete: {error}") from error


def is_tagger(folder: Path) -> bool:
    """Whether a path is the folder of a saved tagger."""
    return (folder / checkpoint.FACTS).is_file() and KIND in checkpoint.read_facts(folder)
