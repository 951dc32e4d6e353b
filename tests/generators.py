"""Hypothesis strategies shared by the tests: tag sets, labels, spans, datasets, predictions.

Values are small but unusual: emoji, Chinese, combining marks, lone surrogates, empty
sentences, no sentences at all, no sources, types called "O" or "B-X".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from convener.data.dataset import Dataset, Text
from convener.data.issues import Issues
from convener.data.predictions import GOLD_USES, Predictions
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.schemes import SCHEMES
from convener.data.spans import Span, Spans
from convener.data.tags import TagSet
from convener.io.formats import Format, LabeledData, ReadOptions, WriteOptions

TYPES = ["PER", "LOC", "O", "B-X", "I", "a type, with space", "病名", "Zoë", "_", "-", "🙂"]
WORDS = ["Ada", "x", "北京", "é", "e\u0301", "🙂", "👩‍🔬", "don't", "a\u00a0b", "\ud800", "ﬁ", "7"]

SAFE_WORDS = [word for word in WORDS if word != "\ud800" and "\u00a0" not in word]
SPACED = ["a\u00a0b", " ", "\n", "a\tb", "\u2028", "x,;\"'", "東京֑́"]
SOURCES = ["lexicon", "crowd-7", "an LLM, v2", "源", "🙂", "O", "a:b", "x;\"y'"]

words = st.sampled_from(WORDS) | st.text(min_size=1, max_size=5)
schemes = st.sampled_from(SCHEMES)


def tag_sets(max_types: int = 4) -> SearchStrategy[TagSet]:
    """Tag sets with a few types of unusual names."""
    names = st.lists(st.sampled_from(TYPES), min_size=1, max_size=max_types, unique=True)
    return names.map(lambda types: TagSet(tuple(types)))


def sentence_lengths(max_sentences: int = 6, max_tokens: int = 8) -> SearchStrategy[list[int]]:
    """Numbers of tokens of sentences; often zero."""
    return st.lists(st.integers(0, max_tokens), max_size=max_sentences)


@st.composite
def label_arrays(draw: DrawFn, size: int, labels: int, *, abstain: bool = False) -> NDArray[np.int16]:
    """Any labels, legal or not."""
    drawn = st.integers(-1 if abstain else 0, labels - 1)
    return np.array(draw(st.lists(drawn, min_size=size, max_size=size)), np.int16)


@st.composite
def sentence_spans(draw: DrawFn, length: int, types: int) -> list[tuple[int, int, int]]:
    """Spans (start, end, type) of one sentence in order, none overlapping, some touching."""
    edges = sorted(draw(st.lists(st.integers(0, length), max_size=6, unique=True)))
    kept = [draw(st.booleans()) for _ in edges[1:]]
    return [
        (start, end, draw(st.integers(0, types - 1)))
        for start, end, keep in zip(edges, edges[1:], kept, strict=False)
        if keep
    ]


@st.composite
def span_tables(draw: DrawFn, lengths: list[int], types: int) -> Spans:
    """Spans of all sentences in the order of the text, none overlapping."""
    return Spans.from_rows(
        Span(number, *span) for number, length in enumerate(lengths) for span in draw(sentence_spans(length, types))
    )


@st.composite
def legal_labels(draw: DrawFn, tags: TagSet, lengths: list[int]) -> NDArray[np.int16]:
    """Legal BIO labels."""
    spans = draw(span_tables(lengths, len(tags.types)))
    return tags.labels(spans, lengths_to_offsets(lengths))


@st.composite
def texts(draw: DrawFn, tokens: list[list[str]]) -> Text:
    """A text for each sentence: its tokens with gaps of any width."""
    sentences, chars, starts = [], [], []
    for words_here in tokens:
        plain = draw(st.sampled_from(["", " ", "🙂"]))
        for word in words_here:
            chars.append((len(plain), len(plain) + len(word)))
            plain += word + draw(st.sampled_from(["", " ", " ", "\n", " \u3000"]))
        sentences.append(plain)
        starts.append(draw(st.integers(0, 1000)))
    return Text(
        StringArray.from_list(sentences),
        np.array(chars, np.int32).reshape(-1, 2),
        np.array(starts, np.int64),
    )


@dataclass(frozen=True)
class Kind:
    """What drawn data may hold."""

    partial: bool = False
    """A source may abstain on part of a sentence."""
    illegal: bool = False
    """Votes may be illegal."""
    empty_words: bool = False
    surrogates: bool = False
    spaces: bool = True
    """Words may hold white space of any kind."""

    def words(self) -> SearchStrategy[str]:
        """Words of this kind."""
        if not self.spaces:
            return st.sampled_from(SAFE_WORDS)
        found = st.sampled_from([*SAFE_WORDS, *SPACED]) | st.text(min_size=1, max_size=4)
        if self.surrogates:
            found |= st.just("\ud800")
        return found | st.just("") if self.empty_words else found


ANYTHING = Kind(partial=True, illegal=True, surrogates=True)


@st.composite
def vote_matrices(
    draw: DrawFn, tags: TagSet, lengths: list[int], sources: int, kind: Kind = ANYTHING
) -> NDArray[np.int16]:
    """Votes (N, K): legal spans, any labels, or abstain on whole sentences or single tokens."""
    size = sum(lengths)
    votes = np.zeros((size, sources), np.int16)
    for column in votes.T:
        if kind.partial and draw(st.booleans()):
            column[:] = draw(label_arrays(size, len(tags), abstain=True))
        elif kind.illegal and draw(st.booleans()):
            column[:] = draw(label_arrays(size, len(tags)))
        else:
            column[:] = draw(legal_labels(tags, lengths))
        if not kind.illegal:
            column[:] = tags.repair(column, lengths_to_offsets(lengths))[0]
        unseen = [draw(st.booleans()) for _ in lengths] if draw(st.booleans()) else [False]
        column[np.repeat(np.resize(np.array(unseen, bool), len(lengths)), lengths)] = -1
    return votes


@st.composite
def coarse_labels(draw: DrawFn, tags: TagSet) -> dict[str, tuple[str, ...]]:
    """Coarse labels beside some types, and what each allows; mostly none."""
    if "O" in tags.types or draw(st.integers(0, 2)):
        return {}
    names = [name for name in ("ENT", "NOT-PER") if name not in tags.types]
    chosen = st.lists(st.sampled_from(["O", *tags.types]), min_size=1, unique=True).map(tuple)
    return {name: draw(chosen) for name in draw(st.sampled_from([names, names[:1]]))}


@st.composite
def datasets(
    draw: DrawFn,
    *,
    kind: Kind = ANYTHING,
    max_sentences: int = 6,
    max_sources: int = 4,
    tags: TagSet | None = None,
    gold: bool | None = None,
    text: bool | None = None,
    documents: bool | None = None,
) -> Dataset:
    """Datasets; unless it is given, chance decides whether they have gold, text and documents."""

    def wanted(choice: bool | None) -> bool:
        return draw(st.booleans()) if choice is None else choice

    tags = draw(tag_sets()) if tags is None else tags
    coarse = draw(coarse_labels(tags))
    fine, tags = tags, TagSet((*tags.types, *coarse))
    lengths = draw(sentence_lengths(max_sentences))
    tokens = [draw(st.lists(kind.words(), min_size=n, max_size=n)) for n in lengths]
    sources = draw(st.lists(st.sampled_from(SOURCES), max_size=max_sources, unique=True))
    ids = st.lists(st.sampled_from(["a", "0", "文 1"]), min_size=len(tokens), max_size=len(tokens))
    return Dataset(
        tags=tags,
        tokens=StringArray.from_list(word for sentence in tokens for word in sentence),
        offsets=lengths_to_offsets(lengths),
        sources=tuple(sources),
        votes=draw(vote_matrices(tags, lengths, len(sources), kind)),
        unmarked=tuple(draw(st.sampled_from(["abstain", "outside"])) for _ in sources),
        prior_precision=tuple(draw(st.sampled_from([None, None, 0.9, 1 / 3])) for _ in sources),
        coarse=coarse,
        gold=draw(legal_labels(fine, lengths)) if wanted(gold) else None,
        text=draw(texts(tokens)) if wanted(text) else None,
        doc_ids=StringArray.from_list(draw(ids)) if wanted(documents) else None,
    )


@st.composite
def probability_rows(draw: DrawFn, size: int, labels: int) -> NDArray[np.float32]:
    """Rows that sum to one; some are certain.  -> (size, labels)"""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(labels, 0.5), size)
    certain = rng.random(size) < 0.2
    rows[certain] = np.eye(labels)[rng.integers(0, labels, int(certain.sum()))]
    return rows.astype(np.float32)


@st.composite
def predictions(
    draw: DrawFn,
    *,
    kind: Kind = ANYTHING,
    probabilities: bool | None = None,
    scores: bool | None = False,
) -> Predictions:
    """Predictions with or without probabilities and scores."""

    def wanted(choice: bool | None) -> bool:
        return draw(st.booleans()) if choice is None else choice

    data = draw(datasets(kind=kind, gold=False))
    labels = draw(legal_labels(data.fine_tags, data.lengths.tolist()))
    found = Predictions(
        data=data,
        labels=labels,
        probabilities=draw(probability_rows(len(labels), len(data.fine_tags))) if wanted(probabilities) else None,
        model="drawn",
        settings={"seed": 1, "names": ["é"], "rate": 0.5},
        uses_gold=draw(st.sampled_from(GOLD_USES)),
    )
    if not wanted(scores):
        return found
    return replace(found, span_scores=np.linspace(0.1, 0.9, len(found.spans), dtype=np.float32))


def contents(kind: Kind) -> SearchStrategy[LabeledData]:
    """Datasets and predictions of every shape."""
    return st.one_of(datasets(kind=kind), predictions(kind=kind, scores=None))


def returned(
    content: LabeledData, form: Format, path: Path, report: Issues | None = None, **options: Any
) -> LabeledData:
    """The content, written and read again."""
    form.write(content, path, WriteOptions())
    noted = Issues() if report is None else report
    result = form.read(path, ReadOptions(**options), noted).content
    if report is None:
        assert not noted.items, noted.summary()
    return result


def same(left: LabeledData, right: LabeledData) -> bool:
    """Whether two contents agree in everything they hold."""
    if isinstance(left, Dataset) or isinstance(right, Dataset):
        return bool(left == right)
    arrays = ("labels", "probabilities", "span_scores")
    return (
        left.data == right.data
        and (left.model, dict(left.settings)) == (right.model, dict(right.settings))
        and left.uses_gold == right.uses_gold
        and all(_equal(getattr(left, name), getattr(right, name)) for name in arrays)
    )


def _equal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return left.dtype == right.dtype and np.array_equal(left, right)
