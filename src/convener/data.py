"""Dataset: text, votes and gold as one frozen, packed value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, get_args, overload

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, MismatchError, UnknownNameError, unknown_name
from convener.packed import Strings, offsets_of, ranges
from convener.spans import Spans
from convener.tags import TagSet

ABSTAIN = -1
Silence = Literal["O", "abstain"]
SILENCES: tuple[Silence, ...] = get_args(Silence)


@dataclass(frozen=True, eq=False)
class Text:
    """The text the tokens were cut from.

    text (M,) of each sentence; chars (N, 2) start and end of each token in its sentence's text;
    starts (M,) where the sentence's text begins in its document.
    """

    text: Strings
    chars: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Text):
            return NotImplemented
        return (
            self.text == other.text
            and np.array_equal(self.chars, other.chars)
            and np.array_equal(self.starts, other.starts)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence, unpacked for reading."""

    tokens: list[str]
    votes: NDArray[np.int16]
    gold: NDArray[np.int16] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Sentences and the votes of all sources on them, packed.

    tags       what the labels mean
    tokens     (N,) words of all sentences
    offsets    (M+1,) where each sentence begins, the first at 0
    sources    (K,) names
    votes      (N, K) int16 label ids, 0 = O, -1 = abstain
    silence    (K,) what a source means where it marks nothing: "O" (its O is mostly the absence
               of an opinion) or "abstain" (its O is an opinion)
    gold       (N,) int16 label ids, if known
    text       the text and the tokens' place in it, if known
    documents  (M,) the id of each sentence's document, if known

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"], ["Nobody"]],
    ...     {"names": [[(0, 2, "PER")], []], "crowd-7": [[(0, 1, "PER")], None]},
    ... )
    >>> data
    Dataset(2 sentences, 4 tokens, 2 sources, types PER)
    >>> data.votes.tolist()
    [[1, 1], [2, 0], [0, 0], [0, -1]]
    >>> data[1:].tokens.to_list()
    ['Nobody']
    """

    tags: TagSet
    tokens: Strings
    offsets: NDArray[np.int64]
    sources: tuple[str, ...]
    votes: NDArray[np.int16]
    silence: tuple[Silence, ...]
    gold: NDArray[np.int16] | None = None
    text: Text | None = None
    documents: Strings | None = None

    def __post_init__(self) -> None:
        count, size = len(self.tokens), len(self.tags)
        _expect(self.offsets.ndim == 1 and len(self.offsets) > 0, "offsets must hold M+1 numbers")
        _expect(
            self.offsets[0] == 0 and self.offsets[-1] == count,
            f"offsets must run from 0 to the {count} tokens, got {self.offsets[[0, -1]].tolist()}",
        )
        _expect(bool((np.diff(self.offsets) >= 0).all()), "offsets must not decrease")
        _expect(
            self.votes.shape == (count, len(self.sources)),
            f"votes must be {count} tokens x {len(self.sources)} sources, got {self.votes.shape}",
        )
        _expect(len(set(self.sources)) == len(self.sources), "two sources have the same name")
        _expect(
            len(self.silence) == len(self.sources) and set(self.silence) <= set(SILENCES),
            f"silence must be 'O' or 'abstain' for each source, got {self.silence}",
        )
        _expect_labels("votes", self.votes, ABSTAIN, size)
        if self.gold is not None:
            _expect(self.gold.shape == (count,), f"gold must have {count} labels")
            _expect_labels("gold", self.gold, 0, size)
        if self.documents is not None:
            _expect(len(self.documents) == len(self), "documents must name one id per sentence")
        if self.text is not None:
            _expect(len(self.text.text) == len(self), "text must hold one string per sentence")
            _expect(self.text.chars.shape == (count, 2), f"chars must be {count} x 2")
            _expect(len(self.text.starts) == len(self), "starts must hold one per sentence")

    @classmethod
    def _view(cls, **values: Any) -> Self:
        """A dataset made of parts of a checked one: nothing is checked again."""
        data = object.__new__(cls)
        data.__dict__.update(values)
        return data

    def _with(self, **changes: Any) -> Self:
        return self._view(**{f.name: getattr(self, f.name) for f in fields(self)} | changes)

    @classmethod
    def from_spans(
        cls,
        types: Sequence[str],
        tokens: Sequence[Sequence[str]],
        votes: Mapping[str, Sequence[Sequence[tuple[int, int, str]] | None]],
        *,
        gold: Sequence[Sequence[tuple[int, int, str]]] | None = None,
        silence: Silence = "O",
    ) -> Self:
        """Build a dataset from lists of (start, end, type); None where a source abstains."""
        tags = TagSet(tuple(types))
        offsets = offsets_of(len(words) for words in tokens)

        def column(sentences: Sequence[Sequence[tuple[int, int, str]] | None]) -> NDArray[np.int16]:
            _expect(len(sentences) == len(tokens), f"expected spans of {len(tokens)} sentences")
            rows = [
                (number, start, end, tags.type_number(name))
                for number, spans in enumerate(sentences)
                for start, end, name in spans or ()
            ]
            labels = tags.labels(Spans.of(rows), offsets)
            unseen = np.array([spans is None for spans in sentences], bool)
            labels[np.repeat(unseen, np.diff(offsets))] = ABSTAIN
            return labels

        columns = [column(sentences) for sentences in votes.values()]
        count = int(offsets[-1])
        return cls(
            tags=tags,
            tokens=Strings.of(word for words in tokens for word in words),
            offsets=offsets,
            sources=tuple(votes),
            votes=np.stack(columns, axis=1) if columns else np.zeros((count, 0), np.int16),
            silence=(silence,) * len(votes),
            gold=None if gold is None else column(gold),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Sentence | Self:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(range(start, stop, step))
            return self._slice(start, max(start, stop))
        if not -len(self) <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        one = self._slice(index % len(self), index % len(self) + 1)
        return Sentence(one.tokens.to_list(), one.votes, one.gold)

    def __iter__(self) -> Iterator[Sentence]:
        return (self[index] for index in range(len(self)))

    def _slice(self, start: int, stop: int) -> Self:
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        text = self.text
        return self._with(
            tokens=self.tokens[first:last],
            offsets=self.offsets[start : stop + 1] - first,
            votes=self.votes[first:last],
            gold=None if self.gold is None else self.gold[first:last],
            text=text
            and Text(text.text[start:stop], text.chars[first:last], text.starts[start:stop]),
            documents=None if self.documents is None else self.documents[start:stop],
        )

    def take(self, sentences: Iterable[int] | NDArray[np.integer[Any]]) -> Self:
        """The sentences at these numbers, in this order, copied."""
        index = np.asarray(
            sentences if isinstance(sentences, np.ndarray) else list(sentences), np.int64
        )
        lengths = self.lengths[index]
        rows = ranges(self.offsets[:-1][index], lengths)
        text = self.text
        return self._with(
            tokens=self.tokens.take(rows),
            offsets=offsets_of(lengths),
            votes=self.votes[rows],
            gold=None if self.gold is None else self.gold[rows],
            text=text and Text(text.text.take(index), text.chars[rows], text.starts[index]),
            documents=None if self.documents is None else self.documents.take(index),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        same_gold = (self.gold is None) == (other.gold is None) and (
            self.gold is None or np.array_equal(self.gold, other.gold)  # type: ignore[arg-type]
        )
        return (
            (self.tags, self.sources, self.silence) == (other.tags, other.sources, other.silence)
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.votes, other.votes)
            and same_gold
            and self.tokens == other.tokens
            and self.documents == other.documents
            and self.text == other.text
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [
            f"{len(self):,} sentences",
            f"{len(self.tokens):,} tokens",
            f"{len(self.sources)} sources",
            f"types {', '.join(self.tags.types)}",
        ]
        parts += [name for name in ("gold", "text", "documents") if getattr(self, name) is not None]
        return f"Dataset({', '.join(parts)})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sentence."""
        return np.diff(self.offsets)

    def sentence_of_token(self) -> NDArray[np.int64]:
        """The number of each token's sentence.  -> (N,)"""
        return np.repeat(np.arange(len(self)), self.lengths)

    def source_number(self, name: str) -> int:
        """Column of a source."""
        if name not in self.sources:
            raise UnknownNameError(unknown_name("source", name, self.sources))
        return self.sources.index(name)

    def opinions(self) -> NDArray[np.bool_]:
        """Where a source truly says something: neither abstain, nor an O that is mere silence.

        -> (N, K)
        """
        quiet = np.array([silence == "O" for silence in self.silence], bool)
        said: NDArray[np.bool_] = (self.votes > 0) | ((self.votes == 0) & ~quiet)
        return said

    def with_gold(self, gold: NDArray[np.int16]) -> Self:
        """The same data with these gold labels."""
        return replace(self, gold=gold)

    def without_gold(self) -> Self:
        """The same data with the gold labels removed."""
        return self._with(gold=None)

    def select_sources(self, names: Iterable[str]) -> Self:
        """Only these sources, in this order."""
        wanted = tuple(names)
        columns = [self.source_number(name) for name in wanted]
        return self._with(
            sources=wanted,
            votes=self.votes[:, columns],
            silence=tuple(self.silence[column] for column in columns),
        )

    def with_sources(
        self, sources: Sequence[str], votes: NDArray[np.int16], silence: Sequence[Silence]
    ) -> Self:
        """The same text and gold with the votes of other sources."""
        return replace(self, sources=tuple(sources), votes=votes, silence=tuple(silence))

    def with_types(self, types: Sequence[str]) -> Self:
        """The same labels over other entity types, which must include those in use."""
        tags = TagSet(tuple(types))
        if tags == self.tags:
            return self
        labels = [label for array in (self.votes, self.gold) if array is not None
                  for label in np.unique(array).tolist()]  # fmt: skip
        used = {(label - 1) // 2 for label in labels if label > 0}
        ids = np.zeros(len(self.tags) + 1, np.int16)
        ids[-1] = ABSTAIN
        for number in used:
            target = 2 * tags.type_number(self.tags.types[number])
            ids[2 * number + 1 : 2 * number + 3] = target + 1, target + 2
        return self._with(
            tags=tags,
            votes=ids[self.votes],
            gold=None if self.gold is None else ids[self.gold],
        )

    def split(
        self, share: float, *, seed: int | None = None, by_document: bool = False
    ) -> tuple[Self, Self]:
        """Two parts, the first with about this share of the sentences.

        Without a seed the first part is the beginning. With `by_document` no document is torn.
        """
        if not 0 <= share <= 1:
            raise DataError(f"a share must be in [0, 1], got {share}")
        units = np.arange(len(self))
        if by_document:
            if self.documents is None:
                raise DataError("a split by document needs document ids, and there are none")
            units = _first_seen_order(self.documents.to_list())
        count = int(units.max(initial=-1)) + 1
        order = np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)
        chosen = np.zeros(count, bool)
        chosen[order[: round(share * count)]] = True
        if seed is None and not by_document:
            return self[: round(share * count)], self[round(share * count) :]
        return self.take(np.flatnonzero(chosen[units])), self.take(np.flatnonzero(~chosen[units]))

    @staticmethod
    def concat(parts: Sequence[Dataset]) -> Dataset:
        """All sentences of all parts; they must agree in types, sources and what they hold."""
        if not parts:
            raise DataError("nothing to concatenate")
        head = parts[0]
        for part in parts[1:]:
            for name in ("tags", "sources", "silence"):
                if getattr(part, name) != getattr(head, name):
                    raise MismatchError(
                        f"cannot concatenate: {name} differ, "
                        f"{getattr(head, name)} and {getattr(part, name)}"
                    )
            for name in ("gold", "text", "documents"):
                if (getattr(part, name) is None) != (getattr(head, name) is None):
                    raise MismatchError(f"cannot concatenate: only some parts have {name}")
        texts = [part.text for part in parts if part.text is not None]
        golds = [part.gold for part in parts if part.gold is not None]
        documents = [part.documents for part in parts if part.documents is not None]
        return head._with(
            tokens=Strings.concat(part.tokens for part in parts),
            offsets=offsets_of(np.concatenate([part.lengths for part in parts])),
            votes=np.concatenate([part.votes for part in parts]),
            gold=np.concatenate(golds) if golds else None,
            text=Text(
                Strings.concat(text.text for text in texts),
                np.concatenate([text.chars for text in texts]),
                np.concatenate([text.starts for text in texts]),
            )
            if texts
            else None,
            documents=Strings.concat(documents) if documents else None,
        )


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise DataError(message)


def _expect_labels(what: str, labels: NDArray[np.int16], low: int, size: int) -> None:
    _expect(labels.dtype == np.int16, f"{what} must be int16, got {labels.dtype}")
    least, most = labels.min(initial=low), labels.max(initial=low)
    _expect(
        least >= low and most < size,
        f"{what} must be labels in [{low}, {size}), got {least} to {most}",
    )


def _first_seen_order(names: Sequence[str]) -> NDArray[np.int64]:
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
