"""View: what a labeling function sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

from numpy.typing import NDArray

from convener.errors import DataError
from convener.io.words import word_spans

Range = tuple[int, int]


class Note(NamedTuple):
    """Something a report should tell of a text: what kind of thing, and what happened."""

    kind: str
    detail: str


class View(Sequence[str]):
    """One sentence, or one document: a sequence of words that knows its text.

    All functions see the same view, so nothing of it can be changed; `note` adds to the report.

    tokens     the words
    text       the text they were cut from; where none is known, the words joined by one space.
               A document's is the text of its sentences, joined by one space
    chars      start and end of each word in `text`
    document   the id of the document, if known
    sentences  start and end of each sentence, in words
    notes      what the report should tell

    >>> view = View.of("Ada left  Oslo.")
    >>> list(view), view[1], view.chars[2], view.text[10:14]
    (['Ada', 'left', 'Oslo', '.'], 'left', (10, 14), 'Oslo')
    """

    __slots__ = ("_chars", "_edges", "_given", "_text", "document", "notes", "sentences", "tokens")

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        text: str | None = None,
        chars: NDArray[Any] | Sequence[Range] | None = None,
        document: str | None = None,
        sentences: Sequence[Range] | None = None,
    ) -> None:
        if (text is None) != (chars is None):
            raise DataError("text and the places of its words go together, got only one of them")
        self.tokens = tuple(tokens)
        self.document = document
        self.sentences = ((0, len(self.tokens)),) if sentences is None else tuple(sentences)
        self.notes: list[Note] = []
        self._text, self._given = text, chars
        self._chars: tuple[Range, ...] | None = None
        self._edges: tuple[dict[int, int], dict[int, int]] | None = None

    @classmethod
    def of(cls, words: View | Sequence[str] | str) -> View:
        """A view of a list of words, or of a text, which is cut into words."""
        if isinstance(words, View):
            return words
        if isinstance(words, str):
            places = word_spans(words).tolist()
            return cls([words[a:b] for a, b in places], text=words, chars=places)
        return cls(words)

    def __len__(self) -> int:
        return len(self.tokens)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return list(self.tokens[index]) if isinstance(index, slice) else self.tokens[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __contains__(self, word: object) -> bool:
        return word in self.tokens

    def __repr__(self) -> str:
        named = "" if self.document is None else f", document={self.document!r}"
        return f"View({self.text!r}{named})"

    @property
    def has_text(self) -> bool:
        """Whether its text is known, rather than made of its words."""
        return self._given is not None

    @property
    def text(self) -> str:
        """The text of all its words."""
        if self._text is None:
            self._text = " ".join(self.tokens)
        return self._text

    @property
    def chars(self) -> tuple[Range, ...]:
        """Start and end of each word in the text."""
        if self._chars is None:
            self._chars = tuple(self._placed())
        return self._chars

    def _placed(self) -> Iterator[Range]:
        if self._given is not None:
            given = self._given if isinstance(self._given, Sequence) else self._given.tolist()
            yield from ((start, end) for start, end in given)
            return
        at = 0
        for word in self.tokens:
            yield at, at + len(word)
            at += len(word) + 1

    @property
    def edges(self) -> tuple[dict[int, int], dict[int, int]]:
        """The word that begins at a character, and the word before which one ends."""
        if self._edges is None:
            begins = {start: number for number, (start, _) in enumerate(self.chars)}
            ends = {end: number + 1 for number, (_, end) in enumerate(self.chars)}
            self._edges = begins, ends
        return self._edges

    def said(self, start: int, end: int) -> str:
        """The text of some words, as it stands.

        >>> View.of("Ada left  Oslo.").said(1, 3)
        'left  Oslo'
        """
        return self.text[self.chars[start][0] : self.chars[end - 1][1]] if start < end else ""

    def parts(self) -> list[View]:
        """Its sentences, each as a view of its own.

        >>> document = View(["Ada", "left", "She", "wrote"], sentences=[(0, 2), (2, 4)])
        >>> [part.text for part in document.parts()]
        ['Ada left', 'She wrote']
        """
        return [self] if len(self.sentences) < 2 else [self._part(*part) for part in self.sentences]

    def _part(self, first: int, last: int) -> View:
        words = self.tokens[first:last]
        if not self.has_text:
            return View(words, document=self.document)
        places = self.chars[first:last]
        begin = places[0][0] if places else 0
        moved = [(start - begin, end - begin) for start, end in places]
        return View(words, text=self.said(first, last), chars=moved, document=self.document)

    def note(self, kind: str, detail: str) -> None:
        """Let the report of the run count and list something that happened in this text."""
        self.notes.append(Note(kind, detail))
