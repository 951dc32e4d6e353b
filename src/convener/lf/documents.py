"""Labeling functions that look at a whole document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from convener.lf.combine import SpansOrNone, inherit_settings, label_docs
from convener.lf.function import ABSTAIN, LabelingFunction, RawOutput, Span
from convener.lf.view import Doc

PhraseLabels = dict[tuple[str, ...], str]
"""The label of each phrase of a document."""


def propagate(function: LabelingFunction, *, name: str | None = None, **settings: Any) -> LabelingFunction:
    r"""What a function finds once in a document is found everywhere in it, longest first.

    A phrase that was found with several labels gets the one it was given most often.

    >>> from convener.lf import pattern
    >>> titled = pattern(r"Dr (\w+)", "PER", group=1)
    >>> document = Doc(["Dr", "Ray", "came", "Ray", "left"], sentences=[(0, 3), (3, 5)])
    >>> propagate(titled)(document)
    [(1, 2, 'PER'), (3, 4, 'PER')]
    """

    def find_occurrences(doc: Doc, spans: list[Span]) -> list[Span]:
        labels = _majority_labels(doc, spans)
        return [
            (first + start, first + end, label)
            for first, last in doc.sentences
            for start, end, label in _find_occurrences(doc[first:last], labels)
        ]

    return _document_function(function, find_occurrences, name or f"{function.name} everywhere", settings)


def document_majority(function: LabelingFunction, *, name: str | None = None, **settings: Any) -> LabelingFunction:
    """What a function finds, each phrase with the label it is given most often in the document.

    Of labels that are given equally often the one given first is taken.
    """

    def relabel(doc: Doc, spans: list[Span]) -> list[Span]:
        labels = _majority_labels(doc, spans)
        return [(start, end, labels[tuple(doc.tokens[start:end])]) for start, end, _ in spans]

    return _document_function(function, relabel, name or f"{function.name} by majority", settings)


def _document_function(
    function: LabelingFunction,
    transform: Callable[[Doc, list[Span]], list[Span]],
    name: str,
    settings: dict[str, Any],
) -> LabelingFunction:
    def find_batch(docs: Sequence[Doc]) -> Iterator[RawOutput]:
        results: list[SpansOrNone] = label_docs(function, docs)
        for doc, spans in zip(docs, results, strict=True):
            yield ABSTAIN if spans is None else transform(doc, spans)

    lf_settings = inherit_settings((function,), {"scope": "document"} | settings)
    return LabelingFunction(name=name, batch_func=find_batch, **lf_settings)


def _majority_labels(doc: Doc, spans: list[Span]) -> PhraseLabels:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for start, end, label in spans:
        counts.setdefault(tuple(doc.tokens[start:end]), Counter())[label] += 1
    return {phrase: votes.most_common(1)[0][0] for phrase, votes in counts.items()}


def _find_occurrences(words: list[str], labels: PhraseLabels) -> list[Span]:
    """Where the phrases stand in a sentence; of those that overlap the longest, then the first."""
    spans: list[Span] = []
    free = [True] * len(words)
    for size in sorted({len(phrase) for phrase in labels}, reverse=True):
        for start in range(len(words) - size + 1):
            label = labels.get(tuple(words[start : start + size]))
            if label is not None and all(free[start : start + size]):
                free[start : start + size] = [False] * size
                spans.append((start, start + size, label))
    return spans
