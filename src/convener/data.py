"""Dataset: text, votes and gold as one frozen, packed value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from convener import expect
from convener.coarse import Meaning, allowed_labels, fine_types, meanings
from convener.errors import DataError, UnknownNameError, unknown_name
from convener.features import Features
from convener.listed import Marks, labels_of
from convener.packed import Strings, offsets_of
from convener.sentences import BySentence
from convener.sources import SILENCES, Silence, check
from convener.tags import ABSTAIN, TagSet
from convener.text import Text

__all__ = ["ABSTAIN", "SILENCES", "Dataset", "Sentence", "Silence", "Text"]

_STATED = ("tags", "sources", "silence", "precision", "coarse")
"""What holds of all sentences: the same in parts that are put together."""


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence, unpacked for reading."""

    tokens: list[str]
    votes: NDArray[np.int16]
    gold: NDArray[np.int16] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(BySentence):
    """Sentences and the votes of all sources on them, packed.

    tags       what the labels mean
    tokens     (N,) words of all sentences
    offsets    (M+1,) where each sentence begins, the first at 0
    sources    (K,) names
    votes      (N, K) int16 label ids, 0 = O, -1 = abstain
    silence    (K,) what a source means where it marks nothing: "O" (its O is mostly the absence
               of an opinion) or "abstain" (its O is an opinion)
    precision  (K,) how often a mark of a source is presumed right, None where nobody says: models
               start there; () is None for all
    coarse     what those of the types allow that are coarse labels; they are the last ones, and no
               gold: see `convener.coarse`
    gold       (N,) int16 label ids, if known
    text       the text and the tokens' place in it, if known
    documents  (M,) the id of each sentence's document, if known
    features   what an encoder says of every token and sentence, raw, if encoded

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
    precision: tuple[float | None, ...] = ()
    coarse: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gold: NDArray[np.int16] | None = None
    text: Text | None = None
    documents: Strings | None = None
    features: Features | None = None

    def __post_init__(self) -> None:
        for name in ("sources", "silence", "precision"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        stated = self.precision or (None,) * len(self.sources)
        shares = tuple(None if share is None else float(share) for share in stated)
        object.__setattr__(self, "precision", shares)
        if self.coarse:
            fine_types(self.tags.types, self.coarse)
            object.__setattr__(self, "coarse", meanings(self.coarse, self.tags.types))
        count, size = len(self.tokens), len(self.tags)
        expect.offsets(self.offsets, count)
        check(self.sources, self.silence, self.precision)
        expect.shape("votes", self.votes.shape, (count, len(self.sources)))
        expect.labels("votes", self.votes, ABSTAIN, size)
        if self.gold is not None:
            expect.shape("gold", self.gold.shape, (count,))
            what = "gold, which is never coarse," if self.coarse else "gold"
            expect.labels(what, self.gold, 0, len(self.fine_tags))
        if self.documents is not None:
            expect.shape("documents", (len(self.documents),), (len(self),))
        if self.text is not None:
            expect.shape("text", (len(self.text.text),), (len(self),))
            expect.shape("chars", self.text.chars.shape, (count, 2))
            expect.shape("starts", self.text.starts.shape, (len(self),))
        if self.features is not None:
            width = self.features.width
            expect.shape("features of tokens", self.features.tokens.shape, (count, width))
            expect.shape("features of sentences", self.features.sentences.shape, (len(self), width))

    def _with(self, **changes: Any) -> Self:
        """The same data with parts of checked data put in: nothing is checked again."""
        data = object.__new__(type(self))
        data.__dict__.update(self.__dict__ | changes)
        return data

    @classmethod
    def from_spans(
        cls,
        types: Sequence[str],
        tokens: Sequence[Sequence[str]],
        votes: Mapping[str, Sequence[Marks | None]],
        *,
        gold: Sequence[Marks] | None = None,
        silence: Silence = "O",
    ) -> Self:
        """Build a dataset from lists of (start, end, type); None where a source abstains."""
        tags = TagSet(types)  # type: ignore[arg-type]
        for words in tokens:
            expect.that(not isinstance(words, str), f"tokens must be lists of words, got {words!r}")
        offsets = offsets_of(len(words) for words in tokens)
        columns = [labels_of(sentences, tags, offsets) for sentences in votes.values()]
        count = int(offsets[-1])
        return cls(
            tags=tags,
            tokens=Strings.of(word for words in tokens for word in words),
            offsets=offsets,
            sources=tuple(votes),
            votes=np.stack(columns, axis=1) if columns else np.zeros((count, 0), np.int16),
            silence=(silence,) * len(votes),
            gold=None if gold is None else labels_of(gold, tags, offsets),
        )

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Sentence | Self:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(range(start, stop, step))
            return self.between(start, max(start, stop))
        if not -len(self) <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        one = self.between(index % len(self), index % len(self) + 1)
        return Sentence(one.tokens.to_list(), one.votes, one.gold)

    def __iter__(self) -> Iterator[Sentence]:
        return (self[index] for index in range(len(self)))

    def part(
        self,
        sentences: slice | NDArray[np.int64],
        tokens: slice | NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> Self:
        """These sentences, whose tokens are these; slices give views."""
        return self._with(
            tokens=self.tokens[tokens],
            offsets=offsets,
            votes=self.votes[tokens],
            gold=None if self.gold is None else self.gold[tokens],
            text=None if self.text is None else self.text.part(sentences, tokens),
            documents=None if self.documents is None else self.documents[sentences],
            features=None if self.features is None else self.features.part(sentences, tokens),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        same_gold = (self.gold is None) == (other.gold is None) and (
            self.gold is None or np.array_equal(self.gold, other.gold)  # type: ignore[arg-type]
        )
        return (
            all(getattr(self, name) == getattr(other, name) for name in _STATED)
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
        if self.features is not None:
            parts.append(f"features of {self.features.encoding.name}")
        return f"Dataset({', '.join(parts)})"

    def source_number(self, name: str) -> int:
        """Column of a source."""
        if name not in self.sources:
            raise UnknownNameError(unknown_name("source", name, self.sources))
        return self.sources.index(name)

    def quiet(self) -> NDArray[np.bool_]:
        """Which sources' silence is O.  -> (K,)"""
        return np.array([silence == "O" for silence in self.silence], bool)

    def opinions(self) -> NDArray[np.bool_]:
        """Where a source truly says something: neither abstain, nor an O that is mere silence.

        -> (N, K)
        """
        said: NDArray[np.bool_] = (self.votes > 0) | ((self.votes == 0) & ~self.quiet())
        return said

    @property
    def fine_tags(self) -> TagSet:
        """The labels that a truth may have: those over types that are not coarse."""
        return TagSet(fine_types(self.tags.types, self.coarse)) if self.coarse else self.tags

    def allowed(self) -> NDArray[np.bool_]:
        """Which fine labels each label allows: see `convener.coarse.allowed_labels`.  -> (S, L)"""
        return allowed_labels(self.tags.types, self.coarse)

    def fine(self) -> Self:
        """The same data over fine types alone: sources abstain where they say a coarse label."""
        if not self.coarse:
            return self
        tags = self.fine_tags
        votes = np.where(self.votes < len(tags), self.votes, np.int16(ABSTAIN))
        return self._with(tags=tags, coarse={}, votes=votes)

    def with_coarse(self, coarse: Mapping[str, Meaning]) -> Self:
        """The same data with these of its types taken for coarse labels; those it lacks are added.

        >>> data = Dataset.from_spans(["ENT", "PER"], [["Ada"]], {"s": [[(0, 1, "ENT")]]})
        >>> data = data.with_coarse({"ENT": "any", "NOT-PER": "not PER"})
        >>> data.tags.types, data.coarse["NOT-PER"], data.votes.tolist(), data.fine().votes.tolist()
        (('PER', 'ENT', 'NOT-PER'), ('O',), [[3]], [[-1]])
        """
        if coarse.items() <= self.coarse.items():
            return self
        known = {**self.coarse, **coarse}
        fine = [name for name in self.tags.types if name not in known]
        data = self._with(coarse={}).with_types((*fine, *known))
        return replace(data, coarse=meanings(known, data.tags.types))

    def presumed(self, unknown: float) -> NDArray[np.float64]:
        """The precision of each source, and this one where nobody says.  -> (K,)"""
        return np.array([unknown if share is None else share for share in self.precision], float)

    def with_gold(self, gold: NDArray[np.int16]) -> Self:
        """The same data with these gold labels."""
        return replace(self, gold=gold)

    def without_gold(self) -> Self:
        """The same data with the gold labels removed."""
        return self._with(gold=None)

    def with_features(self, features: Features | None) -> Self:
        """The same data with these features, or with none."""
        return replace(self, features=features)

    def select_sources(self, names: Iterable[str]) -> Self:
        """Only these sources, in this order."""
        wanted = tuple(names)
        expect.distinct("sources", wanted)
        columns = [self.source_number(name) for name in wanted]
        return self._with(
            sources=wanted,
            votes=self.votes[:, columns],
            silence=tuple(self.silence[column] for column in columns),
            precision=tuple(self.precision[column] for column in columns),
        )

    def with_sources(
        self,
        sources: Sequence[str],
        votes: NDArray[np.int16],
        silence: Sequence[Silence],
        precision: Sequence[float | None] | None = None,
    ) -> Self:
        """The same text and gold with the votes of other sources.

        Unless precision is given, sources that are there already keep theirs.
        """
        if precision is None:
            known = dict(zip(self.sources, self.precision, strict=True))
            precision = [known.get(name) for name in sources]
        return replace(
            self,
            sources=tuple(sources),
            votes=votes,
            silence=tuple(silence),
            precision=tuple(precision),
        )

    def with_types(self, types: Sequence[str]) -> Self:
        """The same labels over other entity types, which must include those in use.

        Coarse labels stay as they are, the last of the types whether they are named or not.
        """
        fine = [name for name in types if name not in self.coarse]
        tags = TagSet((*fine, *self.coarse))
        if tags == self.tags:
            return self
        coarse = {
            name: tuple(kind for kind in allowed if kind in ("O", *fine))
            for name, allowed in self.coarse.items()
        }
        return self._with(
            tags=tags,
            coarse=meanings(coarse, tags.types),
            votes=self.tags.translate(self.votes, tags),
            gold=None if self.gold is None else self.tags.translate(self.gold, tags),
        )

    @staticmethod
    def concat(parts: Sequence[Dataset]) -> Dataset:
        """All sentences of all parts; they must agree in types, sources and what they hold."""
        if not parts:
            raise DataError("nothing to concatenate")
        expect.joinable(parts, same=_STATED, held=("gold", "text", "documents", "features"))

        def joined(name: str, concat: Callable[[list[Any]], Any]) -> Any:
            pieces = [getattr(part, name) for part in parts]
            return None if pieces[0] is None else concat(pieces)

        return parts[0]._with(
            tokens=joined("tokens", Strings.concat),
            offsets=offsets_of(np.concatenate([part.lengths for part in parts])),
            votes=joined("votes", np.concatenate),
            gold=joined("gold", np.concatenate),
            text=joined("text", Text.concat),
            documents=joined("documents", Strings.concat),
            features=joined("features", Features.concat),
        )
