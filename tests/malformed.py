"""Malformed files of every format, and what the error message of each must contain."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

WRENCH = {"0": {"label": [[0, 1, "PER"]], "data": {"text": ["Ada", "ran"]}, "weak_labels": [[]]}}


def wrench(**changes: object) -> str:
    """Return a Wrench file of one item with some fields changed."""
    return json.dumps({"0": WRENCH["0"] | changes})


def line(**fields: object) -> str:
    """Return one JSON lines record."""
    return json.dumps({"tokens": ["Ada", "ran"]} | fields) + "\n"


def table(*rows: str, header: str = "doc_id,source,start,end,label,text") -> str:
    """Return a long table as CSV."""
    return "\n".join([header, *rows]) + "\n"


def arrays(**values: object) -> bytes:
    """Return an npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **values)  # type: ignore[arg-type]
    return buffer.getvalue()


def objects() -> bytes:
    """Return an npz file that could only be read by unpickling."""
    return arrays(votes=np.array([{"a": 1}], dtype=object))


def archive(name: str, content: bytes) -> bytes:
    """Return a zip file with one member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(name, content)
    return buffer.getvalue()


JUNK = bytes(range(256)) * 4

# name: (content, what the one-line message must contain besides the file name)
FILES: dict[str, tuple[str | bytes, str]] = {
    "empty.json": ("", "empty"),
    "empty.conll": ("", "empty"),
    "empty.jsonl": ("", "empty"),
    "empty.csv": ("", "empty"),
    "empty.parquet": ("", "Parquet"),
    "empty.npz": ("", ""),
    "empty.spacy": ("", ""),
    "junk.json": (JUNK, ""),
    "junk.conll": (JUNK, ""),
    "junk.jsonl": (JUNK, ""),
    "junk.csv": (JUNK, ""),
    "junk.parquet": (JUNK, ""),
    "junk.npz": (JUNK, ""),
    "junk.npy": (JUNK, ""),
    "junk.spacy": (JUNK, ""),
    "no-format.xyz": ("hello", "unknown format"),
    "truncated.json": (wrench()[:60], "item '0'"),
    "list.json": ("[1, 2]", "expected"),
    "nan.json": (wrench(score=float("nan")), "NaN"),
    "twice.json": (
        '{"0": %s, "0": %s}' % ((json.dumps(WRENCH["0"]),) * 2),
        "duplicate item '0'",
    ),
    "no-text.json": (wrench(data={}), "item '0'"),
    "text-of-numbers.json": (wrench(data={"text": [1, 2]}), "item '0'"),
    "outside.json": (wrench(label=[[0, 7, "PER"]]), "0-7"),
    "backwards.json": (wrench(label=[[1, 1, "PER"]]), "1-1"),
    "float-offset.json": (wrench(label=[[0.5, 1, "PER"]]), "0.5"),
    "bool-offset.json": (wrench(label=[[False, True, "PER"]]), "item '0'"),
    "two-sources.json": (
        json.dumps({"0": WRENCH["0"], "1": WRENCH["0"] | {"weak_labels": [[], []]}}),
        "item '1'",
    ),
    "short-tags.json": (wrench(label=["B-PER"], weak_labels=[["O"], ["O"]]), "item '0'"),
    "gold-in-part.json": (
        json.dumps({"0": WRENCH["0"], "1": WRENCH["0"] | {"label": None}}),
        "item '1'",
    ),
    "deep.json": ('{"0": ' + "[" * 100_000, "item '0'"),
    "pos-tags.conll": ("Ada\tNNP\nran\tVBD\n", "'NNP' is not a chunk tag"),
    "ragged.conll": ("Ada\tx\tB-PER\nran\tO\n", ":2"),
    "not-utf8.conll": (b"Ada\tB-PER\n\xff\xfe\tO\n", ":2"),
    "bare-types.conll": ("Ada\tPER\n", ":1"),
    "truncated.jsonl": (line() + '{"tokens": ["Ada"', ":2"),
    "number.jsonl": (line() + "7\n", ":2"),
    "nan.jsonl": ('{"tokens": ["a"], "gold": [[0, NaN, "PER"]]}\n', ":1"),
    "outside.jsonl": (line(gold=[[0, 1, "PER"]]) + line(gold=[[0, 3, "PER"]]), ":2"),
    "past-the-text.jsonl": ('{"text": "Ada", "gold": [[0, 9, "PER"]]}\n', ":1"),
    "unknown-token.jsonl": ('{"text": "Ada ran", "tokens": ["Ada", "sat"]}\n', ":1"),
    "text-in-part.jsonl": ('{"text": "Ada", "gold": [[0, 3, "PER"]]}\n' + line(gold=[]), ":2"),
    "no-columns.csv": ("a,b\n1,2\n", "doc_id"),
    "no-text.csv": (table("d,s,0,1,PER", header="doc_id,source,start,end,label"), "text"),
    "word-offset.csv": (table("d,,,,,Ada ran", "d,s,zero,1,PER,"), ":3"),
    "half-a-span.csv": (table("d,,,,,Ada ran", "d,s,0,,PER,"), ":3"),
    "two-texts.csv": (table("d,,,,,Ada", "d,,,,,Bob"), ":3"),
    "outside.csv": (table("d,,,,,Ada", "d,s,0,9,PER,"), "0-9"),
    "negative.csv": (table("d,,,,,Ada", "d,s,-1,2,PER,"), "-1"),
    "too-many-fields.csv": (table("d,,,,,Ada,and,more"), ":2"),
    "truncated.parquet": (b"PAR1" + struct.pack("<I", 99) + b"PAR", ""),
    "pickled.npz": (objects(), ""),
    "no-votes.npz": (arrays(x=np.zeros(3)), "votes"),
    "too-deep.npz": (arrays(votes=np.zeros((2, 2, 2), np.int16)), "(2, 2, 2)"),
    "nan.npz": (arrays(votes=np.array([[np.nan]])), "votes"),
    "below-abstain.npz": (arrays(votes=np.array([[-2]])), "-2"),
    "wrong-lengths.npz": (arrays(votes=np.zeros((3, 1), np.int16), lengths=np.array([9])), ""),
    "not-numpy.npz": (archive("votes.npy", b"hello"), ""),
    "text.spacy": ("Ada ran", ""),
}
SHAPES: dict[str, Callable[[Path], object]] = {
    "a-folder.json": lambda path: path.mkdir(),
    "empty-folder": lambda path: path.mkdir(),
}


def build(folder: Path) -> list[str]:
    """Write all malformed files; returns their names."""
    for name, (content, _) in FILES.items():
        raw = content.encode("utf-8") if isinstance(content, str) else content
        (folder / name).write_bytes(raw)
    for name, make in SHAPES.items():
        make(folder / name)
    return [*FILES, *SHAPES]
