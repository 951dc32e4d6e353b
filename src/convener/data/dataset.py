"""Dataset: tokens, votes, gold labels and features as one immutable, packed value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convener.data import validation
from convener.data.coarse import CoarseSpec, allowed_labels, fine_types, resolve_coarse_labels
from convener.data.features import Features
from convener.data.highlight import HTML_SENTENCES, annotated_html, annotated_text, first_marked
from convener.data.ragged import SentenceIndexed, StringArray, lengths_to_offsets
from convener.data.sentences import AnnotatedSentence, annotated_sentences
from convener.data.tags import ABSTAIN, SpanList, TagSet, labels_from_lists
from convener.data.validation import Unmarked, check_sources
from convener.errors import DataError, UnknownNameError, unknown_name_message


@dataclass(frozen=True, eq=False)
class Text:
    """The text of the sentences, and the position of the tokens in it.

    sentences      (M,) text of each sentence
    token_offsets  (N, 2) start and end of each token in the text of its sentence
    doc_offsets    (M,) start of each sentence in its document
    """

    sentences: StringArray
    token_offsets: NDArray[np.int32]
    doc_offsets: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Text):
            return NotImplemented
        return (
            self.sentences == other.sentences
            and np.array_equal(self.token_offsets, other.token_offsets)
            and np.array_equal(self.doc_offsets, other.doc_offsets)
        )

    __hash__ = None  # type: ignore[assignment]

    def subset(self, sentences: slice | NDArray[Any], tokens: slice | NDArray[Any]) -> Text:
        """The text of these sentences, with these tokens."""
        return Text(self.sentences[sentences], self.token_offsets[tokens], self.doc_offsets[sentences])

    @staticmethod
    def concat(parts: Sequence[Text]) -> Text:
        """Concatenate the texts of all parts."""
        return Text(
            StringArray.concat(part.sentences for part in parts),
            np.concatenate([part.token_offsets for part in parts]),
            np.concatenate([part.doc_offsets for part in parts]),
        )


SCANNED_SENTENCES = 1000
"""Number of sentences among which the printed form of a dataset looks for marks."""
_SHARED_FIELDS = ("tags", "sources", "unmarked", "prior_precision", "coarse")
"""Fields that describe the complete dataset; they must be equal in parts that are concatenated."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(SentenceIndexed):
    """M sentences with N tokens and the votes of K sources, packed into arrays.

    `data[0]` is a sentence with its text, gold spans and the spans of each source; `data[:10]` is a dataset. Iterating
    gives all sentences.

    tags             the tag set that defines label ids
    tokens           (N,) tokens of all sentences
    offsets          (M+1,) token offsets of the sentences, starting at 0
    sources          (K,) names
    votes            (N, K) int16 label ids, 0 = O, -1 = abstain
    unmarked         (K,) meaning of unmarked tokens, whose vote is 0: "abstain" (almost no information, as for a
                     labeling function that marks only what it knows) or "outside" (votes for O, as for a worker who has
                     read the text)
    prior_precision  (K,) prior probability that an entity vote of a source is correct, or None if unknown: initial
                     value of models; () is None for all sources
    coarse           the types or "O" that each coarse label allows; coarse labels are the last types and never occur
                     in gold: see `convener.data.coarse`
    gold             (N,) int16 label ids, if known
    text             the text of the sentences and token offsets in it, if known
    doc_ids          (M,) document id of each sentence, if known
    features         vectors of tokens and sentences, as stored by an encoder, if encoded

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"], ["Nobody"]],
    ...     {"names": [[(0, 2, "PER")], []], "crowd-7": [[(0, 1, "PER")], None]},
    ... )
    >>> data
    Dataset(2 sentences, 4 tokens, 2 sources, types PER)
    0: Ada Lovelace wrote
         names    Ada Lovelace (PER)
         crowd-7  Ada (PER)
    >>> [(span.text, span.label) for span in data[0].votes["names"]]
    [('Ada Lovelace', 'PER')]
    >>> data.votes.tolist()
    [[1, 1], [2, 0], [0, 0], [0, -1]]
    >>> data[1:].tokens.to_list()
    ['Nobody']
    """

    tags: TagSet
    tokens: StringArray
    offsets: NDArray[np.int64]
    sources: tuple[str, ...]
    votes: NDArray[np.int16]
    unmarked: tuple[Unmarked, ...]
    prior_precision: tuple[float | None, ...] = ()
    coarse: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gold: NDArray[np.int16] | None = None
    text: Text | None = None
    doc_ids: StringArray | None = None
    features: Features | None = None

    def __post_init__(self) -> None:
        for name in ("sources", "unmarked", "prior_precision"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        precision = self.prior_precision or (None,) * len(self.sources)
        float_precision = tuple(None if value is None else float(value) for value in precision)
        object.__setattr__(self, "prior_precision", float_precision)
        if self.coarse:
            fine_types(self.tags.types, self.coarse)
            object.__setattr__(self, "coarse", resolve_coarse_labels(self.coarse, self.tags.types))
        num_tokens, num_labels = len(self.tokens), len(self.tags)
        validation.check_offsets(self.offsets, num_tokens)
        check_sources(self.sources, self.unmarked, self.prior_precision)
        validation.check_shape("votes", self.votes.shape, (num_tokens, len(self.sources)))
        validation.check_labels("votes", self.votes, ABSTAIN, num_labels)
        if self.gold is not None:
            validation.check_shape("gold", self.gold.shape, (num_tokens,))
            field_name = "gold (without coarse labels)" if self.coarse else "gold"
            validation.check_labels(field_name, self.gold, 0, len(self.fine_tags))
        if self.doc_ids is not None:
            validation.check_shape("doc_ids", (len(self.doc_ids),), (len(self),))
        if self.text is not None:
            validation.check_shape("text", (len(self.text.sentences),), (len(self),))
            validation.check_shape("token_offsets", self.text.token_offsets.shape, (num_tokens, 2))
            validation.check_shape("doc_offsets", self.text.doc_offsets.shape, (len(self),))
        if self.features is not None:
            dim = self.features.dim
            validation.check_shape("features of tokens", self.features.tokens.shape, (num_tokens, dim))
            validation.check_shape("features of sentences", self.features.sentences.shape, (len(self), dim))

    def _replace_unchecked(self, **changes: Any) -> Self:
        """A copy with changed fields, without validation: values must come from validated data."""
        data = object.__new__(type(self))
        data.__dict__.update(self.__dict__ | changes)
        return data

    @classmethod
    def from_spans(
        cls,
        types: Sequence[str],
        tokens: Sequence[Sequence[str]],
        votes: Mapping[str, Sequence[SpanList | None]],
        *,
        gold: Sequence[SpanList] | None = None,
        unmarked: Unmarked = "abstain",
    ) -> Self:
        """Build a dataset from lists of (start, end, type) per source and sentence; None where a source abstains.

        `unmarked` is the meaning of unmarked tokens of every source.
        """
        tags = TagSet(types)  # type: ignore[arg-type]
        for words in tokens:
            validation.check(not isinstance(words, str), f"tokens must be lists of strings, got {words!r}")
        offsets = lengths_to_offsets(len(words) for words in tokens)
        columns = [labels_from_lists(sentences, tags, offsets) for sentences in votes.values()]
        num_tokens = int(offsets[-1])
        return cls(
            tags=tags,
            tokens=StringArray.from_list(word for words in tokens for word in words),
            offsets=offsets,
            sources=tuple(votes),
            votes=np.stack(columns, axis=1) if columns else np.zeros((num_tokens, 0), np.int16),
            unmarked=(unmarked,) * len(votes),
            gold=None if gold is None else labels_from_lists(gold, tags, offsets),
        )

    @classmethod
    def from_votes(
        cls,
        types: Sequence[str],
        tokens: Sequence[Sequence[str]],
        votes: ArrayLike,
        *,
        sources: Sequence[str] | None = None,
        gold: ArrayLike | None = None,
        unmarked: Unmarked = "outside",
    ) -> Self:
        """Build a dataset from a vote matrix (N, K) of BIO label ids; -1 is an abstention, 0 is O.

        `sources` are by default numbered. `gold` (N,) has the same label ids. `unmarked` is the meaning of a 0 of every
        source.

        >>> Dataset.from_votes(["PER"], [["Ada", "wrote"]], [[1, -1], [0, 0]]).sources
        ('source-0', 'source-1')
        """
        lengths = [len(words) for words in tokens]
        matrix = np.asarray(votes, np.int16).reshape(sum(lengths), -1)
        names = [f"source-{column}" for column in range(matrix.shape[1])] if sources is None else sources
        return cls(
            tags=TagSet(types),  # type: ignore[arg-type]
            tokens=StringArray.from_list(word for words in tokens for word in words),
            offsets=lengths_to_offsets(lengths),
            sources=tuple(names),
            votes=matrix,
            unmarked=(unmarked,) * len(names),
            gold=None if gold is None else np.asarray(gold, np.int16),
        )

    @overload
    def __getitem__(self, index: int) -> AnnotatedSentence: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> AnnotatedSentence | Self:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(range(start, stop, step))
            return self.slice_sentences(start, max(start, stop))
        if not -len(self) <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        return next(annotated_sentences(self.slice_sentences(index % len(self), index % len(self) + 1)))

    def __iter__(self) -> Iterator[AnnotatedSentence]:
        return annotated_sentences(self)

    def subset(
        self,
        sentences: slice | NDArray[np.int64],
        tokens: slice | NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> Self:
        """These sentences, with these tokens; slices give views."""
        return self._replace_unchecked(
            tokens=self.tokens[tokens],
            offsets=offsets,
            votes=self.votes[tokens],
            gold=None if self.gold is None else self.gold[tokens],
            text=None if self.text is None else self.text.subset(sentences, tokens),
            doc_ids=None if self.doc_ids is None else self.doc_ids[sentences],
            features=None if self.features is None else self.features.subset(sentences, tokens),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        same_gold = (self.gold is None) == (other.gold is None) and (
            self.gold is None or np.array_equal(self.gold, other.gold)  # type: ignore[arg-type]
        )
        return (
            all(getattr(self, name) == getattr(other, name) for name in _SHARED_FIELDS)
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.votes, other.votes)
            and same_gold
            and self.tokens == other.tokens
            and self.doc_ids == other.doc_ids
            and self.text == other.text
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        start = self[:SCANNED_SENTENCES]  # the first marks are shown
        is_marked = (start.votes > 0).any(axis=1) | (False if start.gold is None else start.gold > 0)
        numbers = first_marked(start.sentence_of_token()[is_marked], len(start))
        return annotated_text([(number, self[number]) for number in numbers], self.summary())

    def _repr_html_(self) -> str:
        shown = list(self[:HTML_SENTENCES])
        return annotated_html(shown, types=self.tags.types, caption=self.summary(), num_more=len(self) - len(shown))

    def summary(self) -> str:
        """One line: numbers of sentences, tokens and sources, the types, and what else is known."""
        parts = [
            f"{len(self):,} sentences",
            f"{len(self.tokens):,} tokens",
            f"{len(self.sources)} sources",
            f"types {', '.join(self.tags.types)}",
        ]
        optional = {"gold": self.gold, "text": self.text, "documents": self.doc_ids}
        parts += [name for name, value in optional.items() if value is not None]
        if self.features is not None:
            parts.append(f"features of {self.features.encoder_spec.name}")
        return f"Dataset({', '.join(parts)})"

    def source_index(self, name: str) -> int:
        """Index of a source; an error if there is none of that name."""
        if name not in self.sources:
            raise UnknownNameError(unknown_name_message("source", name, self.sources))
        return self.sources.index(name)

    def unmarked_is_abstain(self) -> NDArray[np.bool_]:
        """Which sources are labeling functions, whose unmarked tokens contain little information.  -> (K,)"""
        return np.array([meaning == "abstain" for meaning in self.unmarked], bool)

    def informative_votes(self) -> NDArray[np.bool_]:
        """Which votes carry information: for an entity, or for O by a source that read the text.  -> (N, K)"""
        is_informative: NDArray[np.bool_] = (self.votes > 0) | ((self.votes == 0) & ~self.unmarked_is_abstain())
        return is_informative

    @property
    def fine_tags(self) -> TagSet:
        """The tag set without coarse labels: the labels that gold and predictions may have."""
        return TagSet(fine_types(self.tags.types, self.coarse)) if self.coarse else self.tags

    def allowed_labels(self) -> NDArray[np.bool_]:
        """Which fine labels each label allows: see `convener.data.coarse.allowed_labels`.  -> (S, L)"""
        return allowed_labels(self.tags.types, self.coarse)

    def without_coarse(self) -> Self:
        """The same data without coarse labels: coarse votes become abstentions."""
        if not self.coarse:
            return self
        tags = self.fine_tags
        votes = np.where(self.votes < len(tags), self.votes, np.int16(ABSTAIN))
        return self._replace_unchecked(tags=tags, coarse={}, votes=votes)

    def with_coarse(self, coarse: Mapping[str, CoarseSpec]) -> Self:
        """The same data with these types as coarse labels; missing types are added.

        >>> data = Dataset.from_spans(["ENT", "PER"], [["Ada"]], {"s": [[(0, 1, "ENT")]]})
        >>> data = data.with_coarse({"ENT": "any", "NOT-PER": "not PER"})
        >>> data.tags.types, data.coarse["NOT-PER"], data.votes.tolist(), data.without_coarse().votes.tolist()
        (('PER', 'ENT', 'NOT-PER'), ('O',), [[3]], [[-1]])
        """
        if coarse.items() <= self.coarse.items():
            return self
        merged = {**self.coarse, **coarse}
        fine = [name for name in self.tags.types if name not in merged]
        data = self._replace_unchecked(coarse={}).with_types((*fine, *merged))
        return replace(data, coarse=resolve_coarse_labels(merged, data.tags.types))

    def prior_precision_or(self, default: float) -> NDArray[np.float64]:
        """The prior precision of each source, or the default where it is unknown.  -> (K,)"""
        return np.array([default if value is None else value for value in self.prior_precision], float)

    def with_gold(self, gold: NDArray[np.int16]) -> Self:
        """The same data with these gold labels."""
        return replace(self, gold=gold)

    def without_gold(self) -> Self:
        """The same data with the gold labels removed."""
        return self._replace_unchecked(gold=None)

    def with_features(self, features: Features | None) -> Self:
        """The same data with these features, or with none."""
        return replace(self, features=features)

    def select_sources(self, names: Iterable[str]) -> Self:
        """The same data with only these sources, in this order."""
        wanted = tuple(names)
        validation.check_unique("sources", wanted)
        columns = [self.source_index(name) for name in wanted]
        return self._replace_unchecked(
            sources=wanted,
            votes=self.votes[:, columns],
            unmarked=tuple(self.unmarked[column] for column in columns),
            prior_precision=tuple(self.prior_precision[column] for column in columns),
        )

    def with_sources(
        self,
        sources: Sequence[str],
        votes: NDArray[np.int16],
        unmarked: Sequence[Unmarked],
        prior_precision: Sequence[float | None] | None = None,
    ) -> Self:
        """The same text and gold with the votes of other sources.

        By default, sources that exist already keep their prior precision.
        """
        if prior_precision is None:
            current = dict(zip(self.sources, self.prior_precision, strict=True))
            prior_precision = [current.get(name) for name in sources]
        return replace(
            self,
            sources=tuple(sources),
            votes=votes,
            unmarked=tuple(unmarked),
            prior_precision=tuple(prior_precision),
        )

    def with_types(self, types: Sequence[str]) -> Self:
        """The same labels over other entity types, which must include those in use.

        Coarse labels are kept as the last types, whether they are listed or not.
        """
        fine = [name for name in types if name not in self.coarse]
        tags = TagSet((*fine, *self.coarse))
        if tags == self.tags:
            return self
        coarse = {
            name: tuple(type_name for type_name in allowed if type_name in ("O", *fine))
            for name, allowed in self.coarse.items()
        }
        return self._replace_unchecked(
            tags=tags,
            coarse=resolve_coarse_labels(coarse, tags.types),
            votes=self.tags.remap(self.votes, tags),
            gold=None if self.gold is None else self.tags.remap(self.gold, tags),
        )

    @staticmethod
    def concat(parts: Sequence[Dataset]) -> Dataset:
        """Concatenate all parts, which must have the same types, sources and optional fields."""
        if not parts:
            raise DataError("expected at least one dataset to concatenate, found none")
        validation.check_concat(parts, same=_SHARED_FIELDS, optional=("gold", "text", "doc_ids", "features"))

        def concat_field(name: str, concat: Callable[[list[Any]], Any]) -> Any:
            values = [getattr(part, name) for part in parts]
            return None if values[0] is None else concat(values)

        return parts[0]._replace_unchecked(
            tokens=concat_field("tokens", StringArray.concat),
            offsets=lengths_to_offsets(np.concatenate([part.lengths for part in parts])),
            votes=concat_field("votes", np.concatenate),
            gold=concat_field("gold", np.concatenate),
            text=concat_field("text", Text.concat),
            doc_ids=concat_field("doc_ids", StringArray.concat),
            features=concat_field("features", Features.concat),
        )
