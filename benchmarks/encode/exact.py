"""Exactness: batches, bfloat16 and windows against one sentence at a time."""

from __future__ import annotations

import numpy as np

import convener as cv
from benchmarks.encode.naive import Naive
from benchmarks.record import DATA
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.tables import Table
from convener.encoders import get_encoder

SHARE = 30_000
"""Tokens of each data set that are compared."""
WORDS, EVERY = 3000, 10
"""Length of the document, and which of its words are compared: 1 takes ten times as long."""


def against_naive() -> Table:
    """The largest difference from one at a time; the smallest cosine of bfloat16."""
    naive, plain = Naive(), get_encoder("minilm", layers="last", precision="float32")
    half = get_encoder("minilm", layers="last", precision="bfloat16")
    rows = []
    for folder in sorted(path for path in DATA.iterdir() if path.is_dir()):
        data = cv.read(folder).test
        count = max(1, int(np.searchsorted(data.offsets, SHARE)) - 1)
        data = data[:count]
        ours = plain.encode(data.tokens, data.offsets).tokens
        fits = _fits(plain, data)
        theirs = np.concatenate([naive.words(data[int(m)].tokens) for m in fits])
        mine = np.concatenate([ours[data.offsets[m] : data.offsets[m + 1]] for m in fits])
        few = data[: max(1, int(np.searchsorted(data.offsets, SHARE // 10)) - 1)]
        cosine = cosines(half.encode(few.tokens, few.offsets).tokens, ours[: len(few.tokens)])
        gap = float(np.abs(mine - theirs).max())
        rows.append((folder.name, len(fits), len(mine), gap, float(cosine.min()), len(cosine)))
    return Table(
        title="MiniLM against one sentence at a time",
        columns=("data", "sentences", "tokens", "float32: largest gap", "bf16: least cosine", "of"),
        rows=rows,
        formats={"float32: largest gap": ".1e", "bf16: least cosine": ".5f"},
        notes=("sentences that fit the model's window; gap in any number of any token",),
    )


def windows() -> Table:
    """A document of 3,000 words: every word against its vector from a window centred on it."""
    data = cv.read(DATA / "BC5CDR").test
    words = data.tokens[:WORDS]
    encoder = get_encoder("minilm", layers="last", precision="float32")
    whole = np.array([0, len(words)])
    pieces = encoder._model.pieces(words, whole).counts
    before = lengths_to_offsets(pieces)
    half = (encoder._model.capacity - int(pieces.max())) // 2
    middle = (before[:-1] + before[1:]) // 2
    first = np.searchsorted(before, np.maximum(middle - half, 0))
    last = np.searchsorted(before, np.minimum(middle + half, before[-1]), side="right") - 1
    lists = words.to_list()
    chosen = np.arange(0, WORDS, EVERY)
    parts = [lists[first[n] : last[n]] for n in chosen]
    places = chosen - first[chosen]
    centred = np.concatenate(
        [_centre(encoder, parts[n : n + 64], places[n : n + 64]) for n in range(0, len(chosen), 64)]
    )
    rows = []
    for overlap in (0.0, 0.25, 0.5):
        other = get_encoder("minilm", layers="last", precision="float32", overlap=overlap)
        cosine = cosines(other.encode(words, whole).tokens[chosen], centred)
        rows.append((overlap, float(cosine.min()), float(cosine.mean())))
    return Table(
        title=f"A document of {WORDS} words: cosine with a window centred on each word",
        columns=("overlap", "least", "mean"),
        rows=rows,
        formats={"least": ".4f", "mean": ".4f"},
        notes=(f"{len(chosen)} of its words, every {EVERY}th; the default overlap is 0.5",),
    )


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def _fits(encoder, data: cv.Dataset) -> np.ndarray:
    """Sentences that the model reads at once, and that have words."""
    pieces = encoder._model.pieces(data.tokens, data.offsets).counts
    before = lengths_to_offsets(pieces)[data.offsets]
    return np.flatnonzero((np.diff(before) <= encoder._model.capacity) & (data.lengths > 0))


def _centre(encoder, parts: list[list[str]], places: np.ndarray) -> np.ndarray:
    tokens = StringArray.from_list(word for part in parts for word in part)
    offsets = lengths_to_offsets(len(part) for part in parts)
    return encoder.encode(tokens, offsets).tokens[offsets[:-1] + places]
