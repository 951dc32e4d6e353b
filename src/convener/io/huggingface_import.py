"""Import of Hugging Face tables that convener did not write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import drop_default_doc_ids, misordered_tokens
from convener.data.dataset import Text
from convener.data.issues import Issues, error_location
from convener.data.predictions import Predictions
from convener.data.schemes import ChunkPosition, parse_tag
from convener.data.tags import TagSet
from convener.errors import DataError, unknown_name_message
from convener.io import arrow
from convener.io.arrow import VOTES_PREFIX, HFTable
from convener.io.formats import LabeledData, ReadOptions
from convener.io.metadata import build_tag_set, select_sources
from convener.io.tag_columns import TagRepair

TAG_COLUMNS = ("ner_tags", "tags", "labels")
"""Possible names of the tag column; the first that exists is used."""


@dataclass(frozen=True, eq=False)
class TagColumn:
    """Tags of all tokens: indices (N,) into the names, -1 = abstain."""

    tag_ids: NDArray[np.int64]
    names: tuple[str, ...]
    ordered: bool = True
    """Whether the names have a meaningful order, as class labels do."""


def read_external(table: HFTable, options: ReadOptions, issues: Issues) -> LabeledData:
    """Return the content of an external table: Predictions if it has soft labels or scores, else a Dataset."""
    names, where = table.names, table.where
    tag_column = next((name for name in TAG_COLUMNS if name in names), None)
    available_sources = tuple(name[len(VOTES_PREFIX) :] for name in names if name.startswith(VOTES_PREFIX))
    sources = select_sources(available_sources, options, where)
    tag_columns = {name: _read_tag_column(table, name, options, min_id=0) for name in (tag_column,) if name}
    tag_columns |= {
        VOTES_PREFIX + name: _read_tag_column(table, VOTES_PREFIX + name, options, min_id=-1) for name in sources
    }
    with error_location(where):
        tags = build_tag_set(options.types or _types(tag_columns.values()), default_types=options.default_types)
    repair = TagRepair(options.on_illegal, issues, detect_scheme=True)
    labels = {name: _labels(table, name, column, tags, repair) for name, column in tag_columns.items()}
    has_predictions = tag_column is not None and bool({"soft_labels", "scores"} & set(names))
    used_columns = {"tokens", "doc_id", tag_column, *(VOTES_PREFIX + name for name in available_sources)}
    used_columns |= {"soft_labels", "scores"} if has_predictions else set()
    used_columns |= {"text", "token_offsets", "doc_offset"} if {"text", "token_offsets"} <= set(names) else set()
    if ignored := [name for name in names if name not in used_columns]:
        issues.add("ignored", where, "columns", ", ".join(ignored))
    data = table.to_dataset(
        tags,
        {name: labels[VOTES_PREFIX + name] for name in sources},
        unmarked=(options.unmarked or "outside",) * len(sources),
        gold=None if tag_column is None or has_predictions else labels[tag_column],
        text=_text(table) if "text" in used_columns else None,
        doc_ids=drop_default_doc_ids(table.strings("doc_id")) if "doc_id" in names else None,
    )
    if not has_predictions or tag_column is None:
        return data
    with error_location(where):
        return Predictions(
            data=data,
            labels=labels[tag_column],
            probabilities=_soft_labels(table, tag_columns[tag_column].names, tags, issues),
            span_scores=table.scores() if "scores" in names else None,
        )


def _read_tag_column(table: HFTable, name: str, options: ReadOptions, *, min_id: int) -> TagColumn:
    """Return a column of tags as indices and tag names."""
    values, where = table.token_values(name), table.where
    names = table.class_names(name)
    if not len(values):
        return TagColumn(np.zeros(0, np.int64), names or ())
    if arrow.is_string(values.type):
        tag_ids, strings = arrow.dictionary_codes(values)
        return TagColumn(tag_ids, tuple(strings.to_list()), ordered=False)
    ids = arrow.to_numpy(values)
    if ids.dtype.kind not in "iu":
        raise DataError(f"{where}: {name}: expected class labels or strings")
    if names is None and options.types is not None:
        names = TagSet(options.types).names
    if names is None:
        raise DataError(
            f"{where}: {name} contains integers without class names: expected class labels or strings; "
            "if they are BIO ids, pass types=[...]"
        )
    out_of_range = np.flatnonzero((ids < min_id) | (ids >= len(names)))
    if len(out_of_range):
        token = int(out_of_range[0])
        raise DataError(
            f"{table.row_location(token)}: {name}: expected an id from {min_id} to {len(names) - 1}, got {ids[token]}"
        )
    return TagColumn(ids.astype(np.int64), names)


def _types(columns: Iterable[TagColumn]) -> tuple[str, ...]:
    """Return the types in the order of the class labels, then all others sorted."""
    ordered_types: list[str] = []
    other_types: set[str] = set()
    for column in columns:
        names = [entity_type for position, entity_type in map(parse_tag, column.names) if position]
        if column.ordered:
            ordered_types += names
        else:
            other_types |= set(names)
    return tuple(dict.fromkeys([*ordered_types, *sorted(other_types)]))


def _labels(table: HFTable, name: str, column: TagColumn, tags: TagSet, repair: TagRepair) -> NDArray[np.int16]:
    """Return the legal BIO labels of a column of tags.  -> (N,)"""
    source = name.removeprefix(VOTES_PREFIX)
    positions = np.full(len(column.names) + 1, ChunkPosition.ABSTAIN, np.int8)  # index -1 is the last
    type_indices = np.zeros(len(column.names) + 1, np.int16)
    for tag_id, tag in enumerate(column.names):
        with error_location(f"{table.where}: {name}"):
            position, entity_type = parse_tag(tag)
        positions[tag_id] = position
        if position and entity_type in tags.types:
            type_indices[tag_id] = tags.type_index(entity_type)
        elif position and (tokens := np.flatnonzero(column.tag_ids == tag_id)).size:
            problem = unknown_name_message("entity type", entity_type, tags.types)
            raise DataError(f"{table.row_location(int(tokens[0]))}: {problem} ({source})")
    return repair.legal_labels(
        positions[column.tag_ids],
        type_indices[column.tag_ids],
        table.offsets,
        source=source,
        tag=lambda token: column.names[column.tag_ids[token]],
        where=table.row_location,
    )


def _text(table: HFTable) -> Text:
    """Return the text; DataError if its tokens overlap or are out of order."""
    text = table.text()
    misordered = np.flatnonzero(misordered_tokens(text, table.offsets))
    if len(misordered):
        token = int(misordered[0])
        start, end = text.token_offsets[token].tolist()
        problem = f"token_offsets {start}-{end} are empty, outside the text, or overlap the previous token"
        raise DataError(f"{table.row_location(token)}: {problem}")
    return text


def _soft_labels(table: HFTable, names: tuple[str, ...], tags: TagSet, issues: Issues) -> NDArray[np.float32] | None:
    """Return the probabilities; None, with an issue, if their columns are not the BIO labels of the tag set."""
    if "soft_labels" not in table.names:
        return None
    if names != tags.names:
        detail = "soft_labels: the class labels are not O, then B-x and I-x of each type in order"
        issues.add("ignored", table.where, "columns", detail)
        return None
    return table.probabilities(len(tags))
