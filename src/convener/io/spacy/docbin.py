"""spaCy's container of documents, and our places in it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from convener.errors import require
from convener.io.messages import wrap_errors

USER_DATA_KEY = "convener"
"""Our key in `doc.user_data`."""
PREDICTIONS_GROUP = "convener"
"""The span group of aggregated labels."""


def import_spacy(module: str) -> Any:
    """A module of the library."""
    return require(module, extra="spacy", purpose="a .spacy file")


@contextmanager
def cached_registries() -> Iterator[None]:
    """Lets spaCy's packer look for its plugins once, not for every value it packs.

    The search takes a millisecond, and each span group of each document is packed by itself.
    """
    packer = import_spacy("srsly.msgpack")
    registries = (packer.msgpack_encoders, packer.msgpack_decoders)
    for registry in registries:
        registry.__dict__["get_all"] = partial(dict, registry.get_all())
    try:
        yield
    finally:
        for registry in registries:
            registry.__dict__.pop("get_all", None)


def read_docs(path: Path) -> list[Any]:
    """All documents of a file."""
    doc_bin, vocab = import_spacy("spacy.tokens").DocBin(), import_spacy("spacy.vocab").Vocab()
    raw, gc_was_enabled = path.read_bytes(), gc.isenabled()
    try:
        with wrap_errors(str(path), "DocBin"), cached_registries():
            return list(doc_bin.from_bytes(raw).get_docs(vocab))
    finally:
        if gc_was_enabled:
            gc.enable()  # srsly leaves it switched off where it fails


def get_user_data(doc: Any) -> Mapping[str, Any]:
    """What stands in a document beside what spaCy has a place for."""
    user_data = doc.user_data.get(USER_DATA_KEY)
    return user_data if isinstance(user_data, dict) else {}


def to_spacy_word(word: str) -> str:
    """A word as spaCy takes it: not empty, and Unicode text."""
    if not word:
        return " "
    return word if word.isascii() else word.encode("utf-8", "replace").decode("utf-8")
