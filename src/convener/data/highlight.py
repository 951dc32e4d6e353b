"""Sentences with highlighted spans: HTML for notebooks, brackets for terminals.

The HTML needs no style sheet and no script. Colors are translucent and text keeps the color of the page, so that it is
readable on light and dark backgrounds.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from convener.data.sentences import AnnotatedSentence, Sentence, TextSpan
from convener.data.tables import single_line

GOLDEN_ANGLE = 137.508
"""Degrees between the hues of successive types, so that no two hues are similar."""
HTML_SENTENCES = 20
"""Number of sentences that are shown in a notebook."""
TEXT_SENTENCES = 3
"""Number of sentences that are shown in a terminal."""
TEXT_SOURCES = 10
"""Number of sources that are shown for a sentence in a terminal."""
MAX_WIDTH = 120
"""Maximum number of characters of a line in a terminal."""
_TEXT_STYLE = "line-height:1.9;white-space:pre-wrap;overflow-wrap:anywhere;margin:.15em 0"
_MARK_STYLE = "color:inherit;border-radius:.3em;padding:.1em .3em"
_LABEL_STYLE = "font-size:.72em;font-weight:600;margin-left:.4em;opacity:.85"
_NOTE_STYLE = "opacity:.7;font-size:.85em"


def type_hue(number: int) -> int:
    """Hue of a type in degrees."""
    return round(212 + number * GOLDEN_ANGLE) % 360


def sentences_html(
    sentences: Sequence[Sentence], *, types: Iterable[str] = (), caption: str = "", num_more: int = 0
) -> str:
    """HTML of sentences with their spans; `num_more` is the number of sentences that are not shown."""
    colors = _Colors([*types, *(span.label for sentence in sentences for span in sentence.spans)])
    return _page(caption, [_text_html(item.text, item.spans, colors) for item in sentences], num_more)


def annotated_html(
    sentences: Sequence[AnnotatedSentence], *, types: Iterable[str] = (), caption: str = "", num_more: int = 0
) -> str:
    """HTML of sentences with their gold spans, each followed by the marks of every source that marks something."""
    labels = [span.label for item in sentences for _, spans in _marks(item, with_gold=True) for span in spans]
    colors = _Colors([*types, *labels])
    blocks = []
    for item in sentences:
        blocks.append(_text_html(item.text, item.gold or (), colors))
        blocks += [_source_html(name, spans, colors) for name, spans in _marks(item, with_gold=False)]
    return _page(caption, blocks, num_more)


def sentence_line(sentence: Sentence) -> str:
    """One line with the spans in brackets.

    >>> from convener.data.sentences import TokenizedText
    >>> text = TokenizedText.from_tokens(["Ada", "Lovelace", "wrote"])
    >>> sentence_line(Sentence(**vars(text), spans=(text.span(0, 2, "PER", 0.931),)))
    '[Ada Lovelace](PER 0.93) wrote'
    """
    parts, position = [], 0
    for span, start, end in _in_order(sentence.spans):
        parts += [sentence.text[position:start], f"[{sentence.text[start:end]}]({_label(span)})"]
        position = end
    return to_line("".join([*parts, sentence.text[position:]]))


def predicted_text(sentences: Iterable[tuple[int, Sentence]], summary: str) -> str:
    """The summary and a line for each of the numbered sentences."""
    return "\n".join([summary, *(to_line(f"{number}: {sentence_line(item)}") for number, item in sentences)])


def annotated_text(sentences: Iterable[tuple[int, AnnotatedSentence]], summary: str) -> str:
    """The summary and the numbered sentences, each with a line for gold and for each source that marks something."""
    lines = [summary]
    for number, sentence in sentences:
        rows = list(_marks(sentence, with_gold=True))
        width = max([len(name) for name, _ in rows], default=0)
        lines.append(f"{number}: {sentence.text}")
        for name, spans in rows[:TEXT_SOURCES]:
            lines.append(f"     {name:<{width}}  {', '.join(f'{span.text} ({span.label})' for span in spans)}")
        lines += [f"     and {len(rows) - TEXT_SOURCES} more sources"] if len(rows) > TEXT_SOURCES else []
    return "\n".join(map(to_line, lines))


def first_marked(sentence: NDArray[np.int64], num_sentences: int) -> list[int]:
    """The first sentences to show: those with a mark, given the sentence of each mark; without marks the first ones."""
    marked = np.unique(sentence)[:TEXT_SENTENCES].tolist()
    return marked or list(range(min(num_sentences, TEXT_SENTENCES)))


def to_line(text: str, width: int = MAX_WIDTH) -> str:
    """The text on one line that every terminal can print, cut to a width."""
    line = single_line(text).rstrip().encode("utf-8", "backslashreplace").decode("utf-8")
    return line if len(line) <= width else line[: width - 1] + "…"


def _marks(sentence: AnnotatedSentence, *, with_gold: bool) -> Iterable[tuple[str, tuple[TextSpan, ...]]]:
    """Name and spans of each source that marks something, first those of gold."""
    gold = [("gold", sentence.gold)] if with_gold else []
    for name, spans in (*gold, *sentence.votes.items()):
        if spans:
            yield name, spans


class _Colors:
    """A background color for each label."""

    def __init__(self, labels: Iterable[str]) -> None:
        self._hues = {name: type_hue(number) for number, name in enumerate(dict.fromkeys(labels))}

    def style(self, label: str) -> str:
        """The style of a mark."""
        return f"background:hsla({self._hues[label]},75%,50%,.28);{_MARK_STYLE}"


def _in_order(spans: Iterable[TextSpan]) -> Iterable[tuple[TextSpan, int, int]]:
    """Each span with its first and last character, in text order and without overlap."""
    position = 0
    for span in sorted(spans, key=lambda item: (item.start_char, item.end_char)):
        start = max(position, span.start_char)
        position = max(start, span.end_char)
        yield span, start, position


def _label(span: TextSpan) -> str:
    return span.label if span.score is None else f"{span.label} {span.score:.2f}"


def _text_html(text: str, spans: Iterable[TextSpan], colors: _Colors) -> str:
    parts, position = [], 0
    for span, start, end in _in_order(spans):
        parts += [html.escape(text[position:start]), _mark_html(span, text[start:end], colors)]
        position = end
    return f'<div dir="auto" style="{_TEXT_STYLE}">{"".join(parts)}{html.escape(text[position:])}</div>'


def _source_html(name: str, spans: Iterable[TextSpan], colors: _Colors) -> str:
    marks = " ".join(_mark_html(span, span.text, colors) for span in spans)
    label = f'<span style="{_NOTE_STYLE}">{html.escape(name)}</span>'
    return f'<div dir="auto" style="{_TEXT_STYLE};margin-left:1.5em">{label} {marks}</div>'


def _mark_html(span: TextSpan, text: str, colors: _Colors) -> str:
    label = f'<span style="{_LABEL_STYLE}">{html.escape(_label(span))}</span>'
    return f'<mark style="{colors.style(span.label)}">{html.escape(text)}{label}</mark>'


def _page(caption: str, blocks: Iterable[str], num_more: int) -> str:
    head = [f'<div style="{_NOTE_STYLE}">{html.escape(caption)}</div>'] if caption else []
    noun = "sentence" if num_more == 1 else "sentences"
    tail = [f'<div style="{_NOTE_STYLE}">and {num_more:,} more {noun}</div>'] if num_more else []
    page = "\n".join(["<div>", *head, *blocks, *tail, "</div>"])
    # Lone surrogates cannot be encoded as UTF-8: show the replacement character.
    return page.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
