"""Hypothesis strategies shared by the tests: tag sets, labels, spans, datasets, predictions.

Everything drawn is small but odd: emoji, Chinese, combining marks, lone surrogates, empty
sentences, no sentences at all, no sources, types called "O" or "B-X".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from convener.data import Dataset, Text
from convener.packed import Strings, offsets_of
from convener.predictions import Predictions
from convener.schemes import SCHEMES
from convener.spans import Span, Spans
from convener.tags import TagSet

TYPES = ["PER", "LOC", "O", "B-X", "I", "a type, with space", "病名", "Zoë", "_", "-", "🙂"]
WORDS = ["Ada", "x", "北京", "é", "e\u0301", "🙂", "👩‍🔬", "don't", "a\u00a0b", "\ud800", "ﬁ", "7"]

words = st.sampled_from(WORDS) | st.text(min_size=1, max_size=5)
schemes = st.sampled_from(SCHEMES)


def tag_sets(max_types: int = 4) -> SearchStrategy[TagSet]:
    """Tag sets with a few odd types."""
    names = st.lists(st.sampled_from(TYPES), min_size=1, max_size=max_types, unique=True)
    return names.map(lambda types: TagSet(tuple(types)))


def sentence_lengths(max_sentences: int = 6, max_tokens: int = 8) -> SearchStrategy[list[int]]:
    """How many tokens each sentence has; often none."""
    return st.lists(st.integers(0, max_tokens), max_size=max_sentences)


@st.composite
def label_arrays(
    draw: DrawFn, size: int, labels: int, *, abstain: bool = False
) -> NDArray[np.int16]:
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
    return Spans.of(
        Span(number, *span)
        for number, length in enumerate(lengths)
        for span in draw(sentence_spans(length, types))
    )


@st.composite
def legal_labels(draw: DrawFn, tags: TagSet, lengths: list[int]) -> NDArray[np.int16]:
    """Legal BIO labels."""
    spans = draw(span_tables(lengths, len(tags.types)))
    return tags.labels(spans, offsets_of(lengths))


@st.composite
def texts(draw: DrawFn, tokens: list[list[str]]) -> Text:
    """A text for each sentence, in which its tokens stand with gaps of odd width."""
    sentences, chars, starts = [], [], []
    for words_here in tokens:
        plain = draw(st.sampled_from(["", " ", "🙂"]))
        for word in words_here:
            chars.append((len(plain), len(plain) + len(word)))
            plain += word + draw(st.sampled_from(["", " ", " \u3000"]))
        sentences.append(plain)
        starts.append(draw(st.integers(0, 1000)))
    return Text(
        Strings.of(sentences),
        np.array(chars, np.int32).reshape(-1, 2),
        np.array(starts, np.int64),
    )


@st.composite
def vote_matrices(draw: DrawFn, tags: TagSet, lengths: list[int], sources: int) -> Any:
    """Votes (N, K): legal spans, any labels, or abstain on whole sentences or single tokens."""
    size = sum(lengths)
    columns = []
    for _ in range(sources):
        kind = draw(st.sampled_from(["spans", "sentences unseen", "anything"]))
        if kind == "anything":
            columns.append(draw(label_arrays(size, len(tags), abstain=True)))
            continue
        column = draw(legal_labels(tags, lengths))
        if kind == "sentences unseen":
            unseen = [draw(st.booleans()) for _ in lengths]
            column[np.repeat(np.array(unseen, bool), lengths)] = -1
        columns.append(column)
    return np.stack(columns, axis=1) if columns else np.zeros((size, 0), np.int16)


@st.composite
def datasets(
    draw: DrawFn,
    *,
    max_sentences: int = 6,
    max_sources: int = 4,
    tags: TagSet | None = None,
    gold: bool | None = None,
    text: bool | None = None,
    documents: bool | None = None,
) -> Dataset:
    """Datasets; gold, text and documents are there or not, unless it is said which."""

    def wanted(choice: bool | None) -> bool:
        return draw(st.booleans()) if choice is None else choice

    tags = draw(tag_sets()) if tags is None else tags
    lengths = draw(sentence_lengths(max_sentences))
    tokens = [draw(st.lists(words, min_size=n, max_size=n)) for n in lengths]
    names = st.sampled_from(["lexicon", "crowd-7", "an LLM", "源", "🙂", "O"])
    sources = draw(st.lists(names, max_size=max_sources, unique=True))
    ids = st.lists(st.sampled_from(["a", "b", "文"]), min_size=len(tokens), max_size=len(tokens))
    return Dataset(
        tags=tags,
        tokens=Strings.of(word for sentence in tokens for word in sentence),
        offsets=offsets_of(lengths),
        sources=tuple(sources),
        votes=draw(vote_matrices(tags, lengths, len(sources))),
        silence=tuple(draw(st.sampled_from(["O", "abstain"])) for _ in sources),
        gold=draw(legal_labels(tags, lengths)) if wanted(gold) else None,
        text=draw(texts(tokens)) if wanted(text) else None,
        documents=Strings.of(draw(ids)) if wanted(documents) else None,
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
def predictions(draw: DrawFn, *, probabilities: bool | None = None) -> Predictions:
    """Predictions with or without probabilities."""
    data = draw(datasets())
    labels = draw(legal_labels(data.tags, data.lengths.tolist()))
    known = draw(st.booleans()) if probabilities is None else probabilities
    return Predictions(
        data=data,
        labels=labels,
        probabilities=draw(probability_rows(len(labels), len(data.tags))) if known else None,
        model="drawn",
        settings={"seed": 1},
    )


SAFE_WORDS = [word for word in WORDS if word != "\ud800" and "\u00a0" not in word]


@st.composite
def carried_contents(draw: DrawFn) -> Dataset | Predictions:
    """Datasets and predictions that hold nothing only some formats can carry.

    No source abstains within a sentence, votes are legal, words are not odd kinds of white space.
    """
    tags = draw(tag_sets())
    lengths = draw(sentence_lengths())
    word = st.sampled_from(SAFE_WORDS)
    tokens = [draw(st.lists(word, min_size=n, max_size=n)) for n in lengths]
    sources = draw(st.lists(st.sampled_from(["lexicon", "an LLM, v2", "源"]), unique=True))
    columns = []
    for _ in sources:
        column = draw(legal_labels(tags, lengths))
        unseen = np.array([draw(st.booleans()) for _ in lengths], bool)
        column[np.repeat(unseen, lengths)] = -1
        columns.append(column)
    ids = st.lists(st.sampled_from(["a", "b", "文"]), min_size=len(tokens), max_size=len(tokens))
    data = Dataset(
        tags=tags,
        tokens=Strings.of(word for sentence in tokens for word in sentence),
        offsets=offsets_of(lengths),
        sources=tuple(sources),
        votes=np.stack(columns, axis=1) if columns else np.zeros((sum(lengths), 0), np.int16),
        silence=tuple(draw(st.sampled_from(["O", "abstain"])) for _ in sources),
        text=draw(texts(tokens)) if draw(st.booleans()) else None,
        documents=Strings.of(draw(ids)) if draw(st.booleans()) else None,
    )
    if draw(st.booleans()):
        return data.with_gold(draw(legal_labels(tags, lengths))) if draw(st.booleans()) else data
    labels = draw(legal_labels(tags, lengths))
    scores = np.linspace(0.1, 1, len(tags.spans(labels, data.offsets)), dtype=np.float32)
    return Predictions(
        data=data,
        labels=labels,
        probabilities=draw(probability_rows(len(labels), len(tags)))
        if draw(st.booleans())
        else None,
        scores=scores if draw(st.booleans()) else None,
        model="drawn",
        settings={"seed": 1, "names": ["é"], "rate": 0.5},
    )


def same(left: Dataset | Predictions, right: Dataset | Predictions) -> bool:
    """Whether two contents agree in everything they hold."""
    if isinstance(left, Dataset) or isinstance(right, Dataset):
        return bool(left == right)
    arrays = ("labels", "probabilities", "scores")
    return (
        left.data == right.data
        and (left.model, dict(left.settings)) == (right.model, dict(right.settings))
        and all(_equal(getattr(left, name), getattr(right, name)) for name in arrays)
    )


def _equal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return left.dtype == right.dtype and np.array_equal(left, right)
