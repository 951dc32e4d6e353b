"""What a labeling function marks in a text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from convener.data.highlight import sentence_line
from convener.data.sentences import Sentence, TextSpan
from convener.lf.doc import Doc
from convener.lf.validation import Span


class MarkedText(list[TextSpan]):
    """The spans that a labeling function marks in a text, printed as the text with the spans in brackets.

    sentence  the text with its tokens and the same spans

    >>> MarkedText(Doc.from_input("Ada left Oslo."), [(0, 1, "PER"), (2, 3, "LOC")])
    [Ada](PER) left [Oslo](LOC).
    """

    def __init__(self, doc: Doc, spans: Iterable[Span]) -> None:
        sentence = Sentence(tokens=doc.tokens, text=doc.text, token_offsets=doc.token_offsets, doc_id=doc.doc_id)
        super().__init__(sentence.span(*span) for span in spans)
        self.sentence = replace(sentence, spans=tuple(self))

    def __repr__(self) -> str:
        return sentence_line(self.sentence)

    def _repr_html_(self) -> str:
        return self.sentence._repr_html_()
