"""Rows of tags, as files hold them side by side."""

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
"""So many illegal tags of one source are listed one by one, the others together."""


@dataclass(frozen=True)
class TagRepair:
    """How illegal tags are settled, and where that is noted."""

    policy: RepairPolicy
    issues: Issues
    detect_scheme: bool = False
    """Tags may be IO or IOB1, where I- begins spans; files of ours say what they are."""

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
        """Legal BIO labels of tokens whose places and types are known.  -> (N,)

        `tag` and `where` name the tag and the place of a token, for messages.
        """
        policy = "begin" if self.policy == "error" else self.policy
        if self.detect_scheme and is_io_or_iob1(positions, type_indices, offsets):
            return to_bio(positions, type_indices, offsets)[0]
        labels, illegal = to_bio(positions, type_indices, offsets, policy)
        action = "dropped with what it belongs to" if policy == "drop" else "taken as a span's part"
        for token in illegal[:MAX_LISTED].tolist():
            if self.policy == "error":
                raise DataError(f"{where(token)}: illegal tag {tag(token)!r} of {source} ({len(illegal)} in all)")
            self.issues.add("illegal tag", where(token), source, f"{tag(token)} {action}")
        if len(illegal) > MAX_LISTED:
            location = where(int(illegal[MAX_LISTED]))
            detail = f"{len(illegal) - MAX_LISTED} more from here on: each {action}"
            self.issues.add("illegal tag", location, source, detail)
        return labels


class TagRowIndex(dict[str, int]):
    r"""Rows of tags, each different one kept once: `rows["O\0B-PER"]` is the row's number.

    A row is its tags with NUL between them. `labels` turns a column back into label ids. Rows
    repeat heavily, so reading costs about one look-up per token.

    columns  the names of the columns, for messages
    types    the entity types, if they are known beforehand
    abstain  what stands for abstain, in columns before `voting`

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
        row = key.split("\0") if self.columns else []
        if len(row) != len(self.columns):
            raise DataError(f"expected {len(self.columns)} tags, got {len(row)}")
        tag_ids = [self._tag_id(tag, column) for column, tag in enumerate(row)]
        self._row_tag_ids.extend(tag_ids)
        self[key] = len(self)
        return len(self) - 1

    def _tag_id(self, tag: str, column: int) -> int:
        if tag in self._abstain_tags and column >= self._num_vote_columns:
            raise DataError(f"expected a tag of {self.columns[column]}, got {tag!r}")
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
        """Label ids of one column: numbers (N,) of the tokens' rows, offsets (M+1,).  -> (N,)

        Illegal tags are settled and noted; `where` names the place of a token.
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
