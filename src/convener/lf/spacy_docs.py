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

from convener.caching import compute_digest, file_digest
from convener.errors import DataError, UnknownNameError, first_line, require
from convener.io.spacy.docbin import to_spacy_word
from convener.lf.view import Doc

BATCH_SIZE = 256
"""Texts that a pipeline reads at once."""


def import_spacy(module: str = "spacy") -> Any:
    """A module of the library."""
    return require(module, extra="spacy", purpose="a source that uses spaCy")


def pipeline_folder(name: str) -> Path:
    """Where a pipeline lies: its folder, or the installed package of that name."""
    if Path(name).is_dir():
        return Path(name)
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise UnknownNameError(f"no spaCy pipeline {name!r}: neither a folder nor an installed package")
    return Path(spec.origin).parent


def pipeline_types(name: str) -> list[str] | None:
    """The types that the pipeline's components know, as its folder tells; None if it does not."""
    try:
        meta = json.loads((pipeline_folder(name) / "meta.json").read_text(encoding="utf-8"))
        return [kind for kinds in meta["labels"].values() for kind in kinds]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def pipeline_digest(name: str | None) -> str:
    """What a pipeline is: a package by its version, a folder by all its files; None is none."""
    spacy_version = metadata.version("spacy")
    if name is None:
        return compute_digest(spacy_version)
    if not Path(name).is_dir():
        with suppress(metadata.PackageNotFoundError):  # a module that was never installed
            return compute_digest(spacy_version, name, metadata.version(name))
    folder = pipeline_folder(name)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    names = [str(file.relative_to(folder)) for file in files]
    return compute_digest(spacy_version, *names, *map(file_digest, files))


@cache
def load_pipeline(name: str, exclude: tuple[str, ...]) -> Any:
    """A pipeline, loaded once in a process."""
    folder = pipeline_folder(name)
    try:
        nlp = import_spacy().load(folder if folder == Path(name) else name, exclude=list(exclude))
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise DataError(f"{name}: the pipeline cannot be loaded: {first_line(error)}") from error
    for component in list(nlp.pipe_names):
        # Embeddings for other components cost a third of the time; where none listens, for nothing.
        if getattr(nlp.get_pipe(component), "listening_components", None) == []:
            nlp.remove_pipe(component)
    return nlp


def run_pipeline(nlp: Any, docs: Sequence[Doc]) -> Iterator[Any]:
    """The documents of some texts, after the pipeline."""
    doc_class = import_spacy("spacy.tokens").Doc
    inputs = (doc_class(nlp.vocab, **_doc_arguments(input_doc)) for input_doc in docs)
    outputs: Iterable[Any] = nlp.pipe(inputs, batch_size=BATCH_SIZE)
    return iter(outputs)


def _doc_arguments(doc: Doc) -> dict[str, Any]:
    """Words, whether a space follows each, and whether each begins a sentence."""
    sentence_starts = {start for start, _ in doc.sentences}
    return {
        "words": [to_spacy_word(word) for word in doc],
        "spaces": [
            *(one[1] < two[0] for one, two in pairwise(doc.token_offsets)),
            *[False] * bool(doc),
        ],
        "sent_starts": [number in sentence_starts for number in range(len(doc))],
    }
