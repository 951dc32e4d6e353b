"""Linking functions: they say which neighbours belong together, not what they are.

The model `linked-hmm` takes sources whose name begins with `link-` so: inside a span each word is
linked to the one before it, and the span's label is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from convener.lf.combine import SpansOrNone, combine
from convener.lf.function import ABSTAIN, LabelingFunction, RawOutput, Span
from convener.lf.view import Doc

LINK_PREFIX = "link-"


def linking_function(
    label: str, *, name: str | None = None, **settings: Any
) -> Callable[[Callable[[Doc], Iterable[int]]], LabelingFunction]:
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

    def decorator(find_links: Callable[[Doc], Iterable[int]]) -> LabelingFunction:
        def find(doc: Doc) -> Iterator[Span]:
            return ((start, end, label) for start, end in _linked_spans(find_links(doc)))

        lf_name = str(name or getattr(find_links, "__name__", ""))
        return LabelingFunction(name=_add_prefix(lf_name), labels=(label,), func=find, **settings)

    return decorator


def as_linking(function: LabelingFunction, *, name: str | None = None, **settings: Any) -> LabelingFunction:
    """A linking function of any other: the words of a span belong together, whatever it is.

    >>> from convener.lf import gazetteer
    >>> as_linking(gazetteer(["New York", "Oslo"], "LOC", name="cities"))("Oslo or New York")
    [(2, 4, 'LOC')]
    """

    def join(spans: SpansOrNone) -> RawOutput:
        if spans is None:
            return ABSTAIN
        return [(start, end, label) for start, end, label in spans if end - start > 1]

    return combine((function,), join, name=_add_prefix(name or function.name), **settings)


def _add_prefix(name: str) -> str:
    return name if name.startswith(LINK_PREFIX) else LINK_PREFIX + name


def _linked_spans(linked: Iterable[int]) -> list[tuple[int, int]]:
    """Spans of words that are linked one to the next.

    >>> _linked_spans([1, 2, 5])
    [(0, 3), (4, 6)]
    """
    spans: list[tuple[int, int]] = []
    for word in sorted(set(linked)):
        if spans and spans[-1][1] == word:
            spans[-1] = spans[-1][0], word + 1
        else:
            spans.append((word - 1, word + 1))
    return spans
