"""Text: what the tokens were cut from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.packed import Strings


@dataclass(frozen=True, eq=False)
class Text:
    """The text the tokens were cut from.

    text (M,) of each sentence; chars (N, 2) start and end of each token in its sentence's text;
    starts (M,) where the sentence's text begins in its document.
    """

    text: Strings
    chars: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Text):
            return NotImplemented
        return (
            self.text == other.text
            and np.array_equal(self.chars, other.chars)
            and np.array_equal(self.starts, other.starts)
        )

    __hash__ = None  # type: ignore[assignment]

    def part(self, sentences: slice | NDArray[Any], tokens: slice | NDArray[Any]) -> Text:
        """The text of some sentences, whose tokens are these."""
        return Text(self.text[sentences], self.chars[tokens], self.starts[sentences])

    @staticmethod
    def concat(parts: Sequence[Text]) -> Text:
        """The text of all parts, one after the other."""
        return Text(
            Strings.concat(part.text for part in parts),
            np.concatenate([part.chars for part in parts]),
            np.concatenate([part.starts for part in parts]),
        )
