"""Our words as spaCy's documents: nothing is cut again, sentences stay what they are."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from convener.caching import digest_of, digest_of_file
from convener.errors import DataError, UnknownNameError, first_line, require
from convener.io.spacy.docbin import spacy_word
from convener.lf.view import View

BATCH = 256
"""Texts that a pipeline reads at once."""


def spacy(module: str = "spacy") -> Any:
    """A module of the library."""
    return require(module, extra="spacy", purpose="a source that uses spaCy")


def folder_of(name: str) -> Path:
    """Where a pipeline lies: its folder, or the installed package of that name."""
    if Path(name).is_dir():
        return Path(name)
    found = importlib.util.find_spec(name) if name.isidentifier() else None
    if found is None or found.origin is None:
        raise UnknownNameError(
            f"no spaCy pipeline {name!r}: neither a folder nor an installed package"
        )
    return Path(found.origin).parent


def types_of(name: str) -> list[str] | None:
    """The types that the pipeline's components know, as its folder tells; None if it does not."""
    try:
        meta = json.loads((folder_of(name) / "meta.json").read_text(encoding="utf-8"))
        return [kind for kinds in meta["labels"].values() for kind in kinds]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def digest_of_pipeline(name: str | None) -> str:
    """What a pipeline is: a package by its version, a folder by all its files; None is none."""
    release = metadata.version("spacy")
    if name is None:
        return digest_of(release)
    if not Path(name).is_dir():
        with suppress(metadata.PackageNotFoundError):  # a module that was never installed
            return digest_of(release, name, metadata.version(name))
    folder = folder_of(name)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    names = [str(file.relative_to(folder)) for file in files]
    return digest_of(release, *names, *map(digest_of_file, files))


@cache
def pipeline(name: str, exclude: tuple[str, ...]) -> Any:
    """A pipeline, loaded once in a process."""
    where = folder_of(name)
    try:
        nlp = spacy().load(where if where == Path(name) else name, exclude=list(exclude))
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise DataError(f"{name}: the pipeline cannot be loaded: {first_line(error)}") from error
    for component in list(nlp.pipe_names):
        # Embeddings for other components cost a third of the time; where none listens, for nothing.
        if getattr(nlp.get_pipe(component), "listening_components", None) == []:
            nlp.remove_pipe(component)
    return nlp


def docs_of(nlp: Any, views: Sequence[View]) -> Iterator[Any]:
    """The documents of some texts, after the pipeline."""
    doc = spacy("spacy.tokens").Doc
    made = (doc(nlp.vocab, **_words(view)) for view in views)
    found: Iterable[Any] = nlp.pipe(made, batch_size=BATCH)
    return iter(found)


def _words(view: View) -> dict[str, Any]:
    """Words, whether a space follows each, and whether each begins a sentence."""
    begins = {start for start, _ in view.sentences}
    return {
        "words": [spacy_word(word) for word in view],
        "spaces": [*(one[1] < two[0] for one, two in pairwise(view.chars)), *[False] * bool(view)],
        "sent_starts": [number in begins for number in range(len(view))],
    }
