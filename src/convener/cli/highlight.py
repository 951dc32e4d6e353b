"""Sentences with their spans highlighted: in colours on a terminal, otherwise in brackets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from convener.data.spans import Span
from convener.lf.doc import Doc

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


def highlight(doc: Doc, spans: Iterable[Span], types: Sequence[str], *, coloured: bool) -> Text:
    """The text of a sentence with its spans and their types.

    >>> str(highlight(Doc.from_input("to Oslo."), [Span(0, 1, 2, 0)], ["LOC"], coloured=False))
    'to [Oslo](LOC).'
    """
    line, position = Text(), 0
    for _, start, end, type_id in spans:
        style = f"bold {COLOURS[type_id % len(COLOURS)]}"
        line.append(doc.text[position : doc.token_offsets[start][0]])
        span_text, position = doc.span_text(start, end), doc.token_offsets[end - 1][1]
        line.append(span_text if coloured else f"[{span_text}]", style=style)
        line.append(f" {types[type_id]}" if coloured else f"({types[type_id]})", style=f"dim {style}")
    return line.append(doc.text[position:])
