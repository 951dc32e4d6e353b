"""Labeling functions become columns of votes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from convener.data import Dataset, Silence
from convener.errors import DataError
from convener.spans import Spans

LabelingFunction = Callable[[Sequence[str]], Iterable[tuple[int, int, str]]]
"""Takes the tokens of a sentence, gives (start, end, type) with end exclusive."""


def apply(
    functions: Mapping[str, LabelingFunction], data: Dataset, *, silence: Silence = "O"
) -> Dataset:
    """The same text with one source for each function.

    >>> def shouting(tokens):
    ...     return ((i, i + 1, "ORG") for i, word in enumerate(tokens) if word.isupper())
    >>> data = Dataset.from_spans(["ORG"], [["NASA", "flew"]], {})
    >>> apply({"shouting": shouting}, data).votes.tolist()
    [[1], [0]]
    """
    tokens = data.tokens.to_list()
    sentences = [tokens[a:b] for a, b in zip(data.offsets, data.offsets[1:], strict=False)]
    votes = np.zeros((len(tokens), len(functions)), np.int16)
    for column, (name, function) in enumerate(functions.items()):
        try:
            rows = [
                (number, start, end, data.tags.type_number(kind))
                for number, sentence in enumerate(sentences)
                for start, end, kind in function(sentence)
            ]
            votes[:, column] = data.tags.labels(Spans.of(rows), data.offsets)
        except (DataError, TypeError, ValueError) as error:
            raise DataError(f"labeling function {name}: {error}") from error
    return data.with_sources(tuple(functions), votes, (silence,) * len(functions))
