"""Random datasets and predictions for round trips, and how they are compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from convener.data import ABSTAIN, Dataset, Text
from convener.io.formats import Content, Format
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report
from convener.packed import Strings, offsets_of
from convener.predictions import Predictions
from convener.tags import TagSet

WORDS = st.text(
    st.one_of(
        st.sampled_from("ab-,.;\"'é🙂👩‍🔬東京֑́\n\t "), st.characters(exclude_categories=["Cs"])
    ),
    min_size=1,
    max_size=4,
)
NAMES = st.lists(
    st.text(st.sampled_from("abcXYZ-:. 名🙂,;\"'"), min_size=1, max_size=5).filter(
        lambda name: name == name.strip()
    ),
    unique=True,
    max_size=3,
)


@dataclass(frozen=True)
class Kind:
    """What random data may hold."""

    partial: bool = False
    illegal: bool = False
    empty_words: bool = False


@st.composite
def contents(draw: st.DrawFn, kind: Kind = Kind()) -> Content:  # noqa: B008
    """A dataset or predictions of every shape."""
    types = draw(NAMES.filter(len))
    tags, sources = TagSet(tuple(types)), draw(NAMES)
    word = st.one_of(st.just(""), WORDS) if kind.empty_words else WORDS
    sentences = draw(st.lists(st.lists(word, max_size=5), max_size=4))
    offsets = offsets_of(len(words) for words in sentences)
    count = int(offsets[-1])
    votes = np.zeros((count, len(sources)), np.int16)
    for column in range(len(sources)):
        votes[:, column] = draw(_labels(tags, offsets, kind))
    data = Dataset(
        tags=tags,
        tokens=Strings.of(word for words in sentences for word in words),
        offsets=offsets,
        sources=tuple(sources),
        votes=votes,
        silence=tuple(draw(st.sampled_from(["O", "abstain"])) for _ in sources),
        text=draw(_text(sentences)) if draw(st.booleans()) else None,
        documents=Strings.of(draw(st.sampled_from(["a", "d 1", "🙂", "0"])) for _ in sentences)
        if draw(st.booleans())
        else None,
    )
    if draw(st.booleans()):
        return draw(_predictions(data))
    if draw(st.booleans()):
        data = data.with_gold(np.maximum(draw(_labels(tags, offsets, Kind())), 0))
    return data


@st.composite
def _labels(draw: st.DrawFn, tags: TagSet, offsets: Any, kind: Kind) -> Any:
    count = int(offsets[-1])
    values = st.integers(ABSTAIN if kind.partial else 0, len(tags) - 1)
    labels = np.array(draw(st.lists(values, min_size=count, max_size=count)), np.int16)
    if not kind.illegal:
        labels, _ = tags.repair(labels, offsets)
    unseen = np.array([draw(st.booleans()) for _ in offsets[1:]], bool)
    labels[np.repeat(unseen, np.diff(offsets))] = ABSTAIN
    return labels


@st.composite
def _text(draw: st.DrawFn, sentences: list[list[str]]) -> Text:
    gap = st.sampled_from(["", " ", " ", " ", "  ", "\n", "🙂"])
    texts, chars = [], []
    for words in sentences:
        whole = draw(st.sampled_from(["", "", " "]))
        for word in words:
            chars.append((len(whole), len(whole) + len(word)))
            whole += word + draw(gap)
        texts.append(whole)
    starts = [draw(st.integers(0, 9)) for _ in sentences]
    return Text(
        Strings.of(texts), np.array(chars, np.int32).reshape(-1, 2), np.array(starts, np.int64)
    )


@st.composite
def _predictions(draw: st.DrawFn, data: Dataset) -> Predictions:
    labels = np.maximum(draw(_labels(data.tags, data.offsets, Kind())), 0)
    spans = data.tags.spans(labels, data.offsets)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    scores = rng.random(len(spans), np.float32) if draw(st.booleans()) else None
    rows = rng.dirichlet(np.ones(len(data.tags)), len(labels)).astype(np.float32)
    return Predictions(
        data=data,
        labels=labels,
        probabilities=rows if draw(st.booleans()) else None,
        scores=scores,
        model=draw(st.sampled_from(["", "sparse-chmm"])),
        settings=draw(st.sampled_from([{}, {"epochs": 3, "names": ["é"], "rate": 0.5}])),
    )


def returned(
    content: Content, form: Format, path: Path, report: Report | None = None, **options: Any
) -> Content:
    """The content, written and read again."""
    form.write(content, path, WriteOptions())
    noted = Report() if report is None else report
    result = form.read(path, ReadOptions(**options), noted)
    if report is None:
        assert not noted.cases, noted.summary()
    return result


def same(left: Content, right: Content) -> bool:
    """Whether two contents agree in everything they hold."""
    if isinstance(left, Dataset) or isinstance(right, Dataset):
        return left == right
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
