"""Reads Hugging Face data of others, as far as its columns say what we need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data import Text
from convener.errors import DataError, unknown_name
from convener.io import arrow
from convener.io.align import disordered, named_documents
from convener.io.facts import asked_sources, tag_set
from convener.io.formats import Content
from convener.io.huggingface.columns import Columns
from convener.io.huggingface.folder import VOTES
from convener.io.mending import Mending
from convener.io.messages import placed
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.predictions import Predictions
from convener.schemes import Place, parse_tag
from convener.tags import TagSet

TAGS = ("ner_tags", "tags", "labels")
"""Names of the column of tags; the first that is there counts."""


@dataclass(frozen=True, eq=False)
class Spelled:
    """Tags of all tokens: codes (N,) into the names, -1 = abstain."""

    codes: NDArray[np.int64]
    names: tuple[str, ...]
    ordered: bool = True
    """Whether the order of the names means something."""


def foreign(columns: Columns, options: ReadOptions, report: Report) -> Content:
    """What the columns of others say; soft labels or scores tell predictions from gold."""
    names, where = columns.names, columns.where
    tagged = next((name for name in TAGS if name in names), None)
    known = tuple(name[len(VOTES) :] for name in names if name.startswith(VOTES))
    sources = asked_sources(known, options, where)
    spelled = {name: _spelled(columns, name, options, low=0) for name in (tagged,) if name}
    spelled |= {VOTES + name: _spelled(columns, VOTES + name, options, low=-1) for name in sources}
    with placed(where):
        tags = tag_set(options.types or _types(spelled.values()) or None)
    mending = Mending(options.on_illegal, report, any_scheme=True)
    labels = {name: _labels(columns, name, one, tags, mending) for name, one in spelled.items()}
    aggregated = tagged is not None and bool({"soft_labels", "scores"} & set(names))
    used = {"tokens", "doc_id", tagged, *(VOTES + name for name in known)}
    used |= {"soft_labels", "scores"} if aggregated else set()
    used |= {"text", "chars", "char_start"} if {"text", "chars"} <= set(names) else set()
    if ignored := [name for name in names if name not in used]:
        report.add("ignored", where, "columns", ", ".join(ignored))
    data = columns.dataset(
        tags,
        {name: labels[VOTES + name] for name in sources},
        silence=(options.silence or "abstain",) * len(sources),
        gold=None if tagged is None or aggregated else labels[tagged],
        text=_text(columns) if "text" in used else None,
        documents=named_documents(columns.strings("doc_id")) if "doc_id" in names else None,
    )
    if not aggregated or tagged is None:
        return data
    with placed(where):
        return Predictions(
            data=data,
            labels=labels[tagged],
            probabilities=_soft_labels(columns, spelled[tagged].names, tags, report),
            scores=columns.scores() if "scores" in names else None,
        )


def _spelled(columns: Columns, name: str, options: ReadOptions, *, low: int) -> Spelled:
    """A column of tags, as numbers and the names they stand for."""
    values, where = columns.by_token(name), columns.where
    names = columns.class_names(name)
    if not len(values):
        return Spelled(np.zeros(0, np.int64), names or ())
    if arrow.is_string(values.type):
        codes, strings = arrow.codes(values)
        return Spelled(codes, tuple(strings.to_list()), ordered=False)
    numbers = arrow.numbers(values)
    if numbers.dtype.kind not in "iu":
        raise DataError(f"{where}: {name}: expected class labels or strings")
    if names is None and options.types is not None:
        names = TagSet(options.types).names
    if names is None:
        raise DataError(
            f"{where}: {name} holds numbers without names: expected class labels or "
            "strings; give types=... if they are BIO ids"
        )
    wrong = np.flatnonzero((numbers < low) | (numbers >= len(names)))
    if len(wrong):
        token = int(wrong[0])
        raise DataError(
            f"{columns.row(token)}: {name}: expected numbers from {low} to below {len(names)}, "
            f"got {numbers[token]}"
        )
    return Spelled(numbers.astype(np.int64), names)


def _types(spelled: Iterable[Spelled]) -> tuple[str, ...]:
    """The types as class labels order them, and other ones by alphabet."""
    listed: list[str] = []
    others: set[str] = set()
    for column in spelled:
        names = [kind for place, kind in map(parse_tag, column.names) if place]
        if column.ordered:
            listed += names
        else:
            others |= set(names)
    return tuple(dict.fromkeys([*listed, *sorted(others)]))


def _labels(
    columns: Columns, name: str, spelled: Spelled, tags: TagSet, mending: Mending
) -> NDArray[np.int16]:
    """Legal BIO labels of a column of tags."""
    source = name.removeprefix(VOTES)
    places = np.full(len(spelled.names) + 1, Place.ABSTAIN, np.int8)  # the last is for -1
    kinds = np.zeros(len(spelled.names) + 1, np.int16)
    for number, text in enumerate(spelled.names):
        with placed(f"{columns.where}: {name}"):
            place, kind = parse_tag(text)
        places[number] = place
        if place and kind in tags.types:
            kinds[number] = tags.type_number(kind)
        elif place and (found := np.flatnonzero(spelled.codes == number)).size:
            problem = unknown_name("entity type", kind, tags.types)
            raise DataError(f"{columns.row(int(found[0]))}: {problem} ({source})")
    return mending.labels(
        places[spelled.codes],
        kinds[spelled.codes],
        columns.offsets,
        source=source,
        tag=lambda token: spelled.names[spelled.codes[token]],
        where=columns.row,
    )


def _text(columns: Columns) -> Text:
    """The text, in which the tokens must follow each other."""
    text = columns.text()
    wrong = np.flatnonzero(disordered(text, columns.offsets))
    if len(wrong):
        token = int(wrong[0])
        start, end = text.chars[token].tolist()
        raise DataError(
            f"{columns.row(token)}: chars {start}-{end} do not follow those before in the text"
        )
    return text


def _soft_labels(
    columns: Columns, names: tuple[str, ...], tags: TagSet, report: Report
) -> NDArray[np.float32] | None:
    """Probabilities of others, if their columns are our labels."""
    if "soft_labels" not in columns.names:
        return None
    if names != tags.names:
        detail = "soft_labels: the class labels are not O, B-x, I-x for each type in order"
        report.add("ignored", columns.where, "columns", detail)
        return None
    return columns.probabilities(len(tags))
