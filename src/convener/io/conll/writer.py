"""Writes CoNLL files, with a first line that says what the columns are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import FormatError
from convener.io.conll.layout import DOCUMENT, EMPTY, HEADER, SILENT_TAG, SOURCE
from convener.io.facts import Facts
from convener.io.formats import Content, data_of
from convener.io.json_stream import dumped
from convener.io.json_values import shortest
from convener.io.options import WriteOptions
from convener.packed import piece_at
from convener.predictions import Predictions
from convener.schemes import Place, places, scheme_codes, sentence_starts

SLICE = 5000
"""So many sentences are written at a time."""
UNFIT = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
"""What a token or a type cannot hold: it would end the field or the line, or is no Unicode."""


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """Write a header and a block of lines per sentence."""
    data = data_of(content)
    columns = ["token", *(f"{SOURCE}{name}" for name in data.sources)]
    columns += ["gold"] if data.gold is not None else []
    if isinstance(content, Predictions):
        columns += ["label"] if content.spans.score is None else ["label", "score"]
    columns += ["_"] if len(columns) == 1 else []  # so that no token looks like a comment
    for name in data.tags.types:
        if UNFIT.search(name) or "\0" in name:
            raise FormatError(f"{path.name}: conll cannot hold the entity type {name!r}")
    facts = Facts.of(content, columns=columns, scheme=options.scheme).beyond_sentences(content)
    header = {name: value for name, value in facts.values().items() if name != "sources"}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{HEADER.decode()}{dumped(header, path.name)}\n\n")
        for first in range(0, len(data), SLICE):
            file.writelines(_blocks(content, data, first, path.name, options))


def _blocks(
    content: Content, data: Dataset, first: int, where: str, options: WriteOptions
) -> Iterator[str]:
    """The lines of a slice of sentences."""
    part = data[first : first + SLICE]
    at = slice(int(data.offsets[first]), int(data.offsets[first + len(part)]))
    tokens = part.tokens.to_list()
    _check_tokens(tokens, part, first, where)
    labels = [*part.votes.T, *(() if part.gold is None else (part.gold,))]
    if isinstance(content, Predictions):
        labels.append(content.labels[at])
    columns = [tokens, *(_tags(column, part, first, where, options) for column in labels)]
    if isinstance(content, Predictions) and content.spans.score is not None:
        columns.append(_score_column(content, first, part))
    if len(columns) == 1:
        columns.append(["_"] * len(tokens))
    lines = ["\t".join(row) + "\n" for row in zip(*columns, strict=True)]
    names = None if part.documents is None else part.documents.to_list()
    for sentence, (start, end) in enumerate(pairwise(part.offsets.tolist())):
        if names is not None:
            yield f"{DOCUMENT.decode()}{dumped(names[sentence], where)}\n"
        yield "".join(lines[start:end]) or f"{EMPTY.decode()}\n"
        yield "\n"


def _check_tokens(tokens: list[str], part: Dataset, first: int, where: str) -> None:
    if "" not in tokens and not UNFIT.search("".join(tokens)):
        return
    bad = next(at for at, token in enumerate(tokens) if not token or UNFIT.search(token))
    sentence = piece_at(part.offsets, bad)
    raise FormatError(
        f"{where}: sentence {first + sentence}: conll cannot hold token "
        f"{bad - part.offsets[sentence]}, {tokens[bad]!r}"
    )


def _tags(
    labels: NDArray[np.int16], part: Dataset, first: int, where: str, options: WriteOptions
) -> list[str]:
    """The tags of a column."""
    scheme = options.scheme
    if scheme == "bio":  # as they are, illegal ones too
        names = [*part.tags.names, SILENT_TAG]
        return [names[label] for label in labels.tolist()]
    labels, _ = part.tags.repair(labels, part.offsets)
    if scheme == "io" and not options.lossy:
        place, kind = places(labels)
        joined = (place[1:] == Place.BEGIN) & (place[:-1] > 0) & (kind[1:] == kind[:-1])
        joined &= ~sentence_starts(len(labels), part.offsets)[1:]
        if joined.any():
            sentence = first + piece_at(part.offsets, int(np.flatnonzero(joined)[0]) + 1)
            raise FormatError(
                f"{where}: sentence {sentence}: the io scheme would join two neighbouring spans; "
                "choose another scheme or set lossy"
            )
    codes, names = scheme_codes(labels, part.offsets, part.tags.types, scheme)
    names[ABSTAIN] = SILENT_TAG
    return [names[code] for code in codes.tolist()]


def _score_column(content: Predictions, first: int, part: Dataset) -> list[str]:
    """On each token the score of its span, "-" outside."""
    spans = content.spans
    bounds = np.searchsorted(spans.sentence, [first, first + len(part)])
    own = spans.take(slice(*bounds.tolist()))
    column = ["-"] * len(part.tokens)
    begin = part.offsets[own.sentence - first]
    scores: list[Any] = [] if own.score is None else shortest(own.score)
    for start, end, score in zip(
        (begin + own.start).tolist(), (begin + own.end).tolist(), scores, strict=True
    ):
        column[start:end] = [repr(score)] * (end - start)
    return column
