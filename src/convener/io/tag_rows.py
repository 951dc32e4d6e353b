"""Rows of tags, as files hold them side by side."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, unknown_name
from convener.io.facts import MOST_TYPES, tag_set
from convener.io.mending import Mending
from convener.io.messages import placed
from convener.schemes import Place, parse_tag
from convener.tags import TagSet


class TagRows(dict[str, int]):
    r"""Rows of tags, each different one kept once: `rows["O\0B-PER"]` is the row's number.

    A row is its tags with NUL between them. `labels` turns a column back into label ids. Rows
    repeat heavily, so reading costs about one look-up per token.

    columns  the names of the columns, for messages
    types    the entity types, if they are known beforehand
    abstain  what stands for abstain, in columns before `voting`

    >>> rows = TagRows(("a", "gold"), None, abstain=("-",), voting=1)
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
        abstain: Sequence[str] = (),
        voting: int = 0,
    ) -> None:
        super().__init__()
        self.columns, self._voting = tuple(columns), voting
        self._fixed = types is not None
        self.types = {name: position for position, name in enumerate(types or ())}
        self._abstain = frozenset(abstain)
        self._codes: dict[str, int] = {}
        self._table, self._places, self._kinds = array("i"), array("b"), array("h")

    def __missing__(self, key: str) -> int:
        row = key.split("\0") if self.columns else []
        if len(row) != len(self.columns):
            raise DataError(f"expected {len(self.columns)} tags, got {len(row)}")
        codes = [self._code(tag, column) for column, tag in enumerate(row)]
        self._table.extend(codes)
        self[key] = len(self)
        return len(self) - 1

    def _code(self, tag: str, column: int) -> int:
        if tag in self._abstain and column >= self._voting:
            raise DataError(f"expected a tag of {self.columns[column]}, got {tag!r}")
        if tag not in self._codes:
            place, kind = (Place.ABSTAIN, 0) if tag in self._abstain else self._spelled(tag, column)
            self._codes[tag] = len(self._codes)
            self._places.append(place)
            self._kinds.append(kind)
        return self._codes[tag]

    def _spelled(self, tag: str, column: int) -> tuple[Place, int]:
        place, name = parse_tag(tag)
        if place is Place.OUTSIDE:
            return place, 0
        if name not in self.types:
            if self._fixed:
                raise DataError(
                    f"{unknown_name('entity type', name, self.types)} ({self.columns[column]})"
                )
            with placed(repr(tag)):
                tag_set([name])
            if len(self.types) == MOST_TYPES:
                raise DataError(f"expected at most {MOST_TYPES} entity types, got another: {tag!r}")
            self.types[name] = len(self.types)
        return place, self.types[name]

    def labels(
        self,
        column: int,
        numbers: NDArray[np.int32],
        offsets: NDArray[np.int64],
        tags: TagSet,
        *,
        where: Callable[[int], str],
        mending: Mending,
    ) -> NDArray[np.int16]:
        """Label ids of one column: numbers (N,) of the tokens' rows, offsets (M+1,).  -> (N,)

        Illegal tags are settled and noted; `where` names the place of a token.
        """
        codes = np.array(self._table, np.int32).reshape(-1, len(self.columns))[:, column]
        order = np.array([tags.type_number(name) for name in self.types] or [0], np.int16)
        places = np.array(self._places, np.int8)[codes]
        kinds = order[np.array(self._kinds, np.int16)][codes]
        spelled = list(self._codes)
        return mending.labels(
            places[numbers],
            kinds[numbers],
            offsets,
            source=self.columns[column],
            tag=lambda token: spelled[codes[numbers[token]]],
            where=where,
        )
