"""Labeling functions that look at a whole document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from convener.lf.combine import Answer, answers_of, inherited
from convener.lf.function import ABSTAIN, Found, LabelingFunction, Span
from convener.lf.view import View

Labels = dict[tuple[str, ...], str]
"""The label of each phrase of a document."""


def everywhere(
    function: LabelingFunction, *, name: str | None = None, **settings: Any
) -> LabelingFunction:
    r"""What a function finds once in a document is found everywhere in it, longest first.

    A phrase that was found with several labels gets the one it was given most often.

    >>> from convener.lf import pattern
    >>> titled = pattern(r"Dr (\w+)", "PER", group=1)
    >>> document = View(["Dr", "Ray", "came", "Ray", "left"], sentences=[(0, 3), (3, 5)])
    >>> everywhere(titled)(document)
    [(1, 2, 'PER'), (3, 4, 'PER')]
    """

    def found(view: View, answer: list[Span]) -> list[Span]:
        labels = _majorities(view, answer)
        return [
            (first + start, first + end, label)
            for first, last in view.sentences
            for start, end, label in _occurrences(view[first:last], labels)
        ]

    return _of_documents(function, found, name or f"{function.name} everywhere", settings)


def document_majority(
    function: LabelingFunction, *, name: str | None = None, **settings: Any
) -> LabelingFunction:
    """What a function finds, each phrase with the label it is given most often in the document.

    Of labels that are given equally often the one given first is taken.
    """

    def found(view: View, answer: list[Span]) -> list[Span]:
        labels = _majorities(view, answer)
        return [(start, end, labels[tuple(view.tokens[start:end])]) for start, end, _ in answer]

    return _of_documents(function, found, name or f"{function.name} by majority", settings)


def _of_documents(
    function: LabelingFunction,
    found: Callable[[View, list[Span]], list[Span]],
    name: str,
    settings: dict[str, Any],
) -> LabelingFunction:
    def find_all(views: Sequence[View]) -> Iterator[Found]:
        answers: list[Answer] = answers_of(function, views)
        for view, answer in zip(views, answers, strict=True):
            yield ABSTAIN if answer is None else found(view, answer)

    taken = inherited((function,), {"scope": "document"} | settings)
    return LabelingFunction(name=name, find_all=find_all, **taken)


def _majorities(view: View, answer: list[Span]) -> Labels:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for start, end, label in answer:
        counts.setdefault(tuple(view.tokens[start:end]), Counter())[label] += 1
    return {phrase: votes.most_common(1)[0][0] for phrase, votes in counts.items()}


def _occurrences(words: list[str], labels: Labels) -> list[Span]:
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
