"""spaCy's container of documents, and our places in it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from convener.errors import require
from convener.io.messages import readable

NOTE = "convener"
"""Our key in `doc.user_data`."""
LABELS_GROUP = "convener"
"""The span group of aggregated labels."""


def spacy(module: str) -> Any:
    """A module of the library."""
    return require(module, extra="spacy", purpose="a .spacy file")


@contextmanager
def plugins_found_once() -> Iterator[None]:
    """Lets spaCy's packer look for its plugins once, not for every value it packs.

    The search takes a millisecond, and each span group of each document is packed by itself.
    """
    packer = spacy("srsly.msgpack")
    registries = (packer.msgpack_encoders, packer.msgpack_decoders)
    for registry in registries:
        registry.__dict__["get_all"] = partial(dict, registry.get_all())
    try:
        yield
    finally:
        for registry in registries:
            registry.__dict__.pop("get_all", None)


def docs_in(path: Path) -> list[Any]:
    """All documents of a file."""
    box, vocab = spacy("spacy.tokens").DocBin(), spacy("spacy.vocab").Vocab()
    raw, collects = path.read_bytes(), gc.isenabled()
    try:
        with readable(str(path), "DocBin"), plugins_found_once():
            return list(box.from_bytes(raw).get_docs(vocab))
    finally:
        if collects:
            gc.enable()  # srsly leaves it switched off where it fails


def note_of(doc: Any) -> Mapping[str, Any]:
    """What stands in a document beside what spaCy has a place for."""
    note = doc.user_data.get(NOTE)
    return note if isinstance(note, dict) else {}


def spacy_word(word: str) -> str:
    """A word as spaCy takes it: not empty, and Unicode text."""
    if not word:
        return " "
    return word if word.isascii() else word.encode("utf-8", "replace").decode("utf-8")
