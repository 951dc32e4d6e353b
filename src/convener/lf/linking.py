"""Linking functions: they say which neighbours belong together, not what they are.

The model `linked-hmm` takes sources whose name begins with `link-` so: inside a span each word is
linked to the one before it, and the span's label is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from convener.lf.combine import Answer, combined
from convener.lf.function import ABSTAIN, Found, LabelingFunction, Span
from convener.lf.view import View

PREFIX = "link-"


def linking_function(
    label: str, *, name: str | None = None, **settings: Any
) -> Callable[[Callable[[View], Iterable[int]]], LabelingFunction]:
    """Makes a linking function of a plain one that gives the words linked to the one before.

    The label must be one that the data has; it only gives the votes a form. Settings are the
    fields of `LabelingFunction`.

    >>> @linking_function("PER")
    ... def capitals(words):
    ...     pairs = enumerate(zip(words, words[1:]), start=1)
    ...     return [i for i, (before, word) in pairs if before.istitle() and word.istitle()]
    >>> capitals.name, capitals("So Ada Augusta Lovelace wrote")
    ('link-capitals', [(0, 4, 'PER')])
    """

    def decorated(links: Callable[[View], Iterable[int]]) -> LabelingFunction:
        def find(view: View) -> Iterator[Span]:
            return ((start, end, label) for start, end in _runs(links(view)))

        called = str(name or getattr(links, "__name__", ""))
        return LabelingFunction(name=_prefixed(called), labels=(label,), find=find, **settings)

    return decorated


def linking(
    function: LabelingFunction, *, name: str | None = None, **settings: Any
) -> LabelingFunction:
    """A linking function of any other: the words of a span belong together, whatever it is.

    >>> from convener.lf import gazetteer
    >>> linking(gazetteer(["New York", "Oslo"], "LOC", name="cities"))("Oslo or New York")
    [(2, 4, 'LOC')]
    """

    def join(answer: Answer) -> Found:
        if answer is None:
            return ABSTAIN
        return [(start, end, label) for start, end, label in answer if end - start > 1]

    return combined((function,), join, name=_prefixed(name or function.name), **settings)


def _prefixed(name: str) -> str:
    return name if name.startswith(PREFIX) else PREFIX + name


def _runs(linked: Iterable[int]) -> list[tuple[int, int]]:
    """Spans of words that are linked one to the next.

    >>> _runs([1, 2, 5])
    [(0, 3), (4, 6)]
    """
    runs: list[tuple[int, int]] = []
    for word in sorted(set(linked)):
        if runs and runs[-1][1] == word:
            runs[-1] = runs[-1][0], word + 1
        else:
            runs.append((word - 1, word + 1))
    return runs
