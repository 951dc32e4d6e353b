"""Columns of tags: rows of tags as integers, repair of illegal tags, conversion to label ids."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data.issues import Issues, error_location
from convener.data.schemes import ChunkPosition, RepairPolicy, is_io_or_iob1, parse_tag, to_bio
from convener.data.tags import TagSet
from convener.errors import DataError, unknown_name_message
from convener.io.metadata import MAX_TYPES, build_tag_set

MAX_LISTED = 100
"""Number of illegal tags of a source that are listed one by one; the rest is counted."""


@dataclass(frozen=True)
class TagRepair:
    """The policy for illegal tags, and the issues to which repairs are added."""

    policy: RepairPolicy
    issues: Issues
    detect_scheme: bool = False
    """Accept IO and IOB1, where I- may start a span; native files state their scheme."""

    def legal_labels(
        self,
        positions: NDArray[np.int8],
        type_indices: NDArray[np.int16],
        offsets: NDArray[np.int64],
        *,
        source: str,
        tag: Callable[[int], str],
        where: Callable[[int], str],
    ) -> NDArray[np.int16]:
        """Return legal BIO labels for the chunk positions and types of all tokens.  -> (N,)

        positions, type_indices (N,), offsets (M+1,). `tag` and `where` return the tag and the location of a token.
        """
        policy = "start" if self.policy == "error" else self.policy
        if self.detect_scheme and is_io_or_iob1(positions, type_indices, offsets):
            return to_bio(positions, type_indices, offsets)[0]
        labels, illegal = to_bio(positions, type_indices, offsets, policy)
        action = "dropped with its span" if policy == "drop" else "treated as part of a span"
        for token in illegal[:MAX_LISTED].tolist():
            if self.policy == "error":
                raise DataError(f"{where(token)}: illegal tag {tag(token)!r} ({source}; {len(illegal)} in total)")
            self.issues.add("illegal tag", where(token), source, f"{tag(token)} {action}")
        if len(illegal) > MAX_LISTED:
            location = where(int(illegal[MAX_LISTED]))
            detail = f"and {len(illegal) - MAX_LISTED} more, each {action}"
            self.issues.add("illegal tag", location, source, detail)
        return labels


class TagRowIndex(dict[str, int]):
    r"""Index of the distinct rows of tags: `rows["O\0B-PER"]` is the id of a row, added on first use.

    A row is its tags joined by NUL. `labels` converts a column to label ids. Most rows occur often, so reading costs
    about one look-up per token.

    columns           names of the columns, for messages
    types             entity types, if known beforehand
    abstain_tags      tags that stand for abstain
    num_vote_columns  only the first so many columns may contain them

    >>> rows = TagRowIndex(("a", "gold"), None, abstain_tags=("-",), num_vote_columns=1)
    >>> [rows["-\0O"], rows["S-PER\0B-PER"], rows["-\0O"]]
    [0, 1, 0]
    >>> list(rows.types)
    ['PER']
    """

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str] | None,
        *,
        abstain_tags: Sequence[str] = (),
        num_vote_columns: int = 0,
    ) -> None:
        super().__init__()
        self.columns, self._num_vote_columns = tuple(columns), num_vote_columns
        self._types_fixed = types is not None
        self.types = {name: position for position, name in enumerate(types or ())}
        self._abstain_tags = frozenset(abstain_tags)
        self._tag_ids: dict[str, int] = {}
        self._row_tag_ids, self._positions, self._type_ids = array("i"), array("b"), array("h")

    def __missing__(self, key: str) -> int:
        """Add a row and return its id."""
        row = key.split("\0") if self.columns else []
        if len(row) != len(self.columns):
            raise DataError(f"expected {len(self.columns)} tags, got {len(row)}")
        tag_ids = [self._tag_id(tag, column) for column, tag in enumerate(row)]
        self._row_tag_ids.extend(tag_ids)
        self[key] = len(self)
        return len(self) - 1

    def _tag_id(self, tag: str, column: int) -> int:
        if tag in self._abstain_tags and column >= self._num_vote_columns:
            raise DataError(f"expected a tag ({self.columns[column]}), got {tag!r}")
        if tag not in self._tag_ids:
            position, type_id = (
                (ChunkPosition.ABSTAIN, 0) if tag in self._abstain_tags else self._parse_tag(tag, column)
            )
            self._tag_ids[tag] = len(self._tag_ids)
            self._positions.append(position)
            self._type_ids.append(type_id)
        return self._tag_ids[tag]

    def _parse_tag(self, tag: str, column: int) -> tuple[ChunkPosition, int]:
        position, name = parse_tag(tag)
        if position is ChunkPosition.OUTSIDE:
            return position, 0
        if name not in self.types:
            if self._types_fixed:
                raise DataError(f"{unknown_name_message('entity type', name, self.types)} ({self.columns[column]})")
            with error_location(repr(tag)):
                build_tag_set([name])
            if len(self.types) == MAX_TYPES:
                raise DataError(f"expected at most {MAX_TYPES} entity types, got another: {tag!r}")
            self.types[name] = len(self.types)
        return position, self.types[name]

    def labels(
        self,
        column: int,
        row_ids: NDArray[np.int32],
        offsets: NDArray[np.int64],
        tags: TagSet,
        *,
        where: Callable[[int], str],
        repair: TagRepair,
    ) -> NDArray[np.int16]:
        """Return the label ids of one column; row_ids (N,) of the tokens, offsets (M+1,).  -> (N,)

        Illegal tags are repaired; `where` returns the location of a token.
        """
        tag_ids = np.array(self._row_tag_ids, np.int32).reshape(-1, len(self.columns))[:, column]
        type_indices = np.array([tags.type_index(name) for name in self.types] or [0], np.int16)
        positions = np.array(self._positions, np.int8)[tag_ids]
        token_types = type_indices[np.array(self._type_ids, np.int16)][tag_ids]
        tag_names = list(self._tag_ids)
        return repair.legal_labels(
            positions[row_ids],
            token_types[row_ids],
            offsets,
            source=self.columns[column],
            tag=lambda token: tag_names[tag_ids[row_ids[token]]],
            where=where,
        )
