"""Text: what the tokens were cut from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.packed import StringArray


@dataclass(frozen=True, eq=False)
class Text:
    """The text the tokens were cut from.

    text (M,) of each sentence; chars (N, 2) start and end of each token in its sentence's text;
    starts (M,) where the sentence's text begins in its document.
    """

    sentences: StringArray
    token_offsets: NDArray[np.int32]
    doc_offsets: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Text):
            return NotImplemented
        return (
            self.sentences == other.sentences
            and np.array_equal(self.token_offsets, other.token_offsets)
            and np.array_equal(self.doc_offsets, other.doc_offsets)
        )

    __hash__ = None  # type: ignore[assignment]

    def subset(self, sentences: slice | NDArray[Any], tokens: slice | NDArray[Any]) -> Text:
        """The text of some sentences, whose tokens are these."""
        return Text(self.sentences[sentences], self.token_offsets[tokens], self.doc_offsets[sentences])

    @staticmethod
    def concat(parts: Sequence[Text]) -> Text:
        """The text of all parts, one after the other."""
        return Text(
            StringArray.concat(part.sentences for part in parts),
            np.concatenate([part.token_offsets for part in parts]),
            np.concatenate([part.doc_offsets for part in parts]),
        )
