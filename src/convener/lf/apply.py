"""Labeling functions become columns of votes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convener.data import ABSTAIN, Dataset
from convener.lf.function import LabelingFunction
from convener.lf.view import View
from convener.spans import Spans


def apply(functions: Sequence[LabelingFunction], data: Dataset) -> Dataset:
    """The same text with one source for each function.

    >>> from convener.lf import labeling_function
    >>> @labeling_function(["ORG"])
    ... def shouting(words):
    ...     return ((i, i + 1, "ORG") for i, word in enumerate(words) if word.isupper())
    >>> data = Dataset.from_spans(["ORG"], [["NASA", "flew"]], {})
    >>> apply([shouting], data).votes.tolist()
    [[1], [0]]
    """
    tokens = data.tokens.to_list()
    views = [View(tokens[a:b]) for a, b in zip(data.offsets, data.offsets[1:], strict=False)]
    votes = np.zeros((len(tokens), len(functions)), np.int16)
    for column, function in enumerate(functions):
        found = [function(view) for view in views]
        rows = [
            (number, start, end, data.tags.type_number(kind))
            for number, spans in enumerate(found)
            for start, end, kind in spans or ()
        ]
        votes[:, column] = data.tags.labels(Spans.of(rows), data.offsets)
        unseen = np.array([spans is None for spans in found], bool)
        votes[np.repeat(unseen, data.lengths), column] = ABSTAIN
    names = tuple(function.name for function in functions)
    return data.with_sources(names, votes, [function.on_silence for function in functions])
