"""The index of sentences, against plain loops over the same data."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

import convener as cv
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.errors import DataError, UnknownNameError
from convener.report import sentence_index as module
from convener.report.sentence_index import (
    FILTERS,
    LOW_CONFIDENCE,
    ORDERS,
    Query,
    SentenceIndex,
    Track,
    build_sentence_index,
    lowercase_sentences,
)
from tests.generators import Kind, datasets, legal_labels, probability_rows

ANY_DATA = Kind(partial=True, illegal=True, surrogates=True, empty_words=True)
Case = tuple[cv.Dataset, list[Predictions], NDArray[np.int16] | None]
Row = tuple[int, int, int]


@st.composite
def cases(draw: DrawFn, *, probabilities: bool = True) -> Case:
    """Data, predictions of one or two models, and labels of majority vote or None."""
    data = draw(datasets(kind=ANY_DATA))
    lengths, tags = data.lengths.tolist(), data.fine_tags
    predictions = [
        Predictions(
            data=data,
            labels=draw(legal_labels(tags, lengths)),
            probabilities=draw(probability_rows(sum(lengths), len(tags))) if probabilities else None,
            model=f"model {number}",
        )
        for number in range(draw(st.integers(1, 2)))
    ]
    vote = draw(st.none() | legal_labels(tags, lengths))
    return data, predictions, vote


# Reference implementation


def spans_of(labels: Sequence[int]) -> list[Row]:
    """Spans (start, end, type) of one sentence; an illegal I- starts a span."""
    found: list[list[int]] = []
    before = 0
    for place, label in enumerate(labels):
        if label > 0:
            kind, inside = (label - 1) // 2, label % 2 == 0
            if inside and before in (label, label - 1):
                found[-1][1] = place + 1
            else:
                found.append([place, place + 1, kind])
        before = label
    return [(a, b, kind) for a, b, kind in found]


def allowed_types(data: cv.Dataset, label: int) -> set[str]:
    """The types that a vote allows."""
    if label == 0:
        return {"O is outside"}
    name = data.tags.types[(label - 1) // 2]
    if name not in data.coarse:
        return {name}
    return {"O is outside" if kind == "O" else kind for kind in data.coarse[name]}


def conflicts(data: cv.Dataset, votes: Sequence[int]) -> bool:
    """Whether two votes on a token have no allowed type in common."""
    allowed = [
        allowed_types(data, label)
        for label, unmarked in zip(votes, data.unmarked, strict=True)
        if label > 0 or (label == 0 and unmarked == "outside")
    ]
    return any(not one & other for one, other in combinations(allowed, 2))


class PlainSentence:
    """One sentence, processed token by token."""

    def __init__(self, case: Case, number: int) -> None:
        data, predictions, vote = case
        here = slice(int(data.offsets[number]), int(data.offsets[number + 1]))
        votes = data.votes[here].tolist()
        self.tokens = data.tokens[here].to_list()
        self.model = [spans_of(item.labels[here].tolist()) for item in predictions]
        self.gold = None if data.gold is None else spans_of(data.gold[here].tolist())
        self.vote = None if vote is None else spans_of(vote[here].tolist())
        self.marks = [spans_of(column) for column in data.votes[here].T.tolist()]
        self.probs = [[float(p) for p in row] for row in predictions[0].probabilities[here]]
        self.labels = predictions[0].labels[here].tolist()
        self.entropy = sum(-p * math.log(p) for row in self.probs for p in row if p > 0)
        self.conflict = sum(conflicts(data, row) for row in votes)
        self.marked = [any(label > 0 for label in row) for row in votes]

    def score(self, span: Row) -> float:
        return min(self.probs[place][self.labels[place]] for place in range(span[0], span[1]))

    def tracks(self) -> list[list[Row]]:
        others = [spans for spans in (self.gold, self.vote) if spans is not None]
        return [*self.model, *others, *self.marks]

    def filters(self) -> set[str]:
        crossing = any(
            a < d and c < b and (a, b) != (c, d)
            for one, other in combinations(self.marks, 2)
            for a, b, _ in one
            for c, d, _ in other
        )
        found = {
            "source_conflict": self.conflict > 0 or crossing,
            "low_confidence": any(
                row[label] < LOW_CONFIDENCE for row, label in zip(self.probs, self.labels, strict=True)
            ),
            "error": self.gold is not None and self.gold != self.model[0],
            "no_source": any(not any(self.marked[a:b]) for a, b, _ in self.model[0]),
            "differs_from_majority": self.vote is not None and self.vote != self.model[0],
            "no_votes": not any(self.marked),
            "models_differ": self.model[0] != self.model[-1],
        }
        return {name for name, holds in found.items() if holds}


def plain_sentences(case: Case) -> list[PlainSentence]:
    return [PlainSentence(case, number) for number in range(len(case[0]))]


def flags(record: dict[str, Any]) -> set[str]:
    return {name for bit, name in enumerate(FILTERS) if record["f"] >> bit & 1}


# Records


@given(cases())
def test_records_contain_the_spans_of_all_tracks(case: Case) -> None:
    data, predictions, vote = case
    index = build_sentence_index(data, predictions, vote)
    assert len(index) == len(data)
    assert index.types == data.tags.types
    assert index.tracks == (
        *(Track("model", item.model) for item in predictions),
        *([] if data.gold is None else [Track("gold", "gold")]),
        *([] if vote is None else [Track("vote", "majority vote")]),
        *(Track("source", name) for name in data.sources),
    )
    sentences = plain_sentences(case)
    assert index.counts() == {name: sum(name in sentence.filters() for sentence in sentences) for name in FILTERS}
    for number, expected in enumerate(sentences):
        record = index.record(number)
        assert set(record) == {"n", "t", "s", "e", "c", "f"}
        assert record["n"] == number
        assert record["t"] == expected.tokens
        spans = [[track, *span] for track, row in enumerate(expected.tracks()) for span in row]
        assert [span[:4] for span in record["s"]] == spans
        scored = [span for span in record["s"] if len(span) == 5]
        assert [span[0] < len(predictions) for span in record["s"]] == [len(span) == 5 for span in record["s"]]
        first_model = [span for span in scored if span[0] == 0]
        assert [span[4] for span in first_model] == pytest.approx(
            [expected.score(span) for span in expected.model[0]], abs=5.1e-4
        )
        assert record["e"] == pytest.approx(expected.entropy, abs=5.1e-4)
        assert record["c"] == expected.conflict
        assert flags(record) == expected.filters()
        json.dumps(record, allow_nan=False)


@given(cases(probabilities=False))
def test_without_probabilities_no_label_has_low_confidence(case: Case) -> None:
    index = build_sentence_index(*case)
    assert not index.entropy.any()
    assert index.counts()["low_confidence"] == 0
    assert np.isnan(index.score).all()


def test_the_result_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    data = cv.demo.load_corpus().test
    probs = rng.dirichlet(np.ones(len(data.tags)), len(data.tokens)).astype(np.float32)
    labels = np.zeros(len(data.tokens), np.int16)
    item = Predictions(data=data, labels=labels, probabilities=probs)
    single_block = build_sentence_index(data, [item])
    monkeypatch.setattr(module, "BLOCK_SIZE", 7)
    small_blocks = build_sentence_index(data, [item])
    np.testing.assert_allclose(small_blocks.entropy, single_block.entropy)
    assert (small_blocks.filters == single_block.filters).all()
    assert small_blocks.search_text == single_block.search_text


def test_an_unknown_sentence_is_an_error() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {})
    index = build_sentence_index(data, [Predictions(data=data, labels=np.zeros(1, np.int16))])
    for number in (-1, 1):
        with pytest.raises(UnknownNameError, match=f"no sentence {number}; the index has 1"):
            index.record(number)


# Search


@st.composite
def queries(draw: DrawFn, case: Case) -> Query:
    """Any combination of filters, with text that occurs or nearly occurs."""
    data = case[0]
    lines = [" ".join(sentence.tokens) for sentence in plain_sentences(case)]
    text = ""
    if draw(st.booleans()):
        line = draw(st.sampled_from([*lines, "\n".join(lines), "nowhere"]))
        start = draw(st.integers(0, len(line)))
        text = line[start : start + draw(st.integers(0, 6))]
        text = draw(st.sampled_from([text, text.upper(), text.lower(), text.swapcase()]))
    return Query(
        text=text,
        filter=draw(st.sampled_from(["", *FILTERS])),
        type=draw(st.sampled_from(["", *data.tags.types])),
        source=draw(st.sampled_from(["", *data.sources])),
        order=draw(st.sampled_from(ORDERS)),
    )


def matches(case: Case, query: Query, sentence: PlainSentence) -> bool:
    """Whether a sentence matches all fields of a query."""
    data = case[0]
    line = " ".join(sentence.tokens).replace("\n", " ").lower()
    tracks = sentence.marks
    if query.source:
        tracks = [sentence.marks[data.sources.index(query.source)]]
    elif query.type:
        tracks = sentence.tracks()
    kinds = {data.tags.types[kind] for track in tracks for _, _, kind in track}
    return (
        query.text.replace("\n", " ").lower() in line
        and (not query.filter or query.filter in sentence.filters())
        and (not query.type or query.type in kinds)
        and (not query.source or bool(kinds))
    )


def expected_order(case: Case, query: Query, index: SentenceIndex) -> list[int]:
    found = [n for n, sentence in enumerate(plain_sentences(case)) if matches(case, query, sentence)]
    if query.order == "entropy":  # by the entropies of the index, tested above: sums may differ in the last bit
        found.sort(key=lambda number: -float(index.entropy[number]))
    elif query.order == "conflict":
        found.sort(key=lambda number: -plain_sentences(case)[number].conflict)
    return found


@given(st.data())
def test_every_combination_of_fields(data: st.DataObject) -> None:
    case = data.draw(cases())
    query = data.draw(queries(case))
    index = build_sentence_index(*case)
    assert index.find(query).tolist() == expected_order(case, query, index)


def index_of(*sentences: list[str]) -> SentenceIndex:
    data = cv.Dataset.from_spans(["X"], sentences, {})
    labels = np.zeros(len(data.tokens), np.int16)
    return build_sentence_index(data, [Predictions(data=data, labels=labels)])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ada l", [0]),
        ("ADA", [0, 2]),
        ("wrote nobody", []),
        ("wrote\nnobody", []),
        ("wrote\n", []),
        ("a b", [3]),
        ("a\nb", [3]),
        (".*", []),
        ("", [0, 1, 2, 3, 4, 5]),
        (" ", [0, 2, 3, 5]),
        ("  ", [5]),
        ("é", [2]),
        ("\udc00", []),
    ],
)
def test_search(text: str, found: list[int]) -> None:
    index = index_of(["Ada", "Lovelace", "wrote"], ["Nobody"], ["É", "ada", "ADA"], ["a\nb"], [], ["", "", ""])
    assert index.find(Query(text=text)).tolist() == found


def test_search_in_a_slice() -> None:
    """The tokens of a slice are in the buffer of the complete data."""
    data = cv.demo.load_corpus().test
    part = data[3:9]
    labels = np.zeros(len(part.tokens), np.int16)
    index = build_sentence_index(part, [Predictions(data=part, labels=labels)])
    assert [index.record(n)["t"] for n in range(6)] == [list(sentence.tokens) for sentence in part]
    last = " ".join(part[5].tokens)
    assert 5 in index.find(Query(text=last)).tolist()
    outside = " ".join(data[2].tokens)
    assert index.find(Query(text=outside)).tolist() == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Query(filter="source_conflcit"), "no filter 'source_conflcit'; did you mean 'source_conflict'"),
        (Query(type="Y"), "no type 'Y'; available: X"),
        (Query(source="lexicon"), "no source 'lexicon'; available: none"),
        (Query(order="entropie"), "no order 'entropie'; did you mean 'entropy'"),
        (Query(order=""), "no order ''"),
    ],
)
def test_unknown_names_are_refused(query: Query, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        index_of(["a"]).find(query)


def test_only_sources_match_a_query_for_a_source() -> None:
    """The track of a model or of gold is not a source, even with the same name."""
    data = cv.Dataset.from_spans(["X"], [["a"], ["b"]], {"gold": [[(0, 1, "X")], []]})
    labels = np.array([0, 1], np.int16)
    index = build_sentence_index(data.with_gold(labels), [Predictions(data=data, labels=labels, model="m")])
    assert index.find(Query(source="gold")).tolist() == [0]
    assert index.find(Query(type="X")).tolist() == [0, 1]
    with pytest.raises(UnknownNameError, match="no source 'm'"):
        index.find(Query(source="m"))


def test_lowercase_lines_contain_no_other_line_breaks() -> None:
    strings = lowercase_sentences(StringArray.from_list(["A\n", "\nB", "İ"]), np.array([0, 2, 2, 3]))
    assert list(strings) == ["a   b\n", "\n", "i̇\n"]


# On disk


@given(st.data())
def test_a_saved_index_gives_the_same_results(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    case = data.draw(cases())
    query = data.draw(queries(case))
    index = build_sentence_index(*case)
    folder = tmp_path_factory.mktemp("index")
    index.save(folder)
    again = SentenceIndex.open(folder)
    assert all(
        isinstance(column, np.memmap)
        for column in (again.offsets, again.start, again.tokens.data, again.search_text.data)
    )
    assert (again.types, again.tracks) == (index.types, index.tracks)
    assert [again.record(n) for n in range(len(again))] == [index.record(n) for n in range(len(index))]
    assert again.find(query).tolist() == index.find(query).tolist()
    assert again.counts() == index.counts()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    index_of(["a", "b"], ["c"]).save(tmp_path)
    assert len(SentenceIndex.open(tmp_path)) == 2
    return tmp_path


@pytest.mark.parametrize("name", ["sentences.json", "offsets.npy", "filters.npy", "lowercase_text.data.npy"])
def test_a_missing_file_is_reported(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


@pytest.mark.parametrize("name", ["sentences.json", "offsets.npy", "tokens.data.npy"])
@pytest.mark.parametrize("size", [0, 3, -1])
def test_a_truncated_file_is_reported(saved: Path, name: str, size: int) -> None:
    raw = (saved / name).read_bytes()
    (saved / name).write_bytes(raw[:size])
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


@pytest.mark.parametrize("metadata", ["[]", "{}", '{"types": ["X"]}', '{"types": 1, "tracks": 2}'])
def test_invalid_metadata_is_reported(saved: Path, metadata: str) -> None:
    (saved / "sentences.json").write_text(metadata)
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


def test_pickles_are_not_read(saved: Path) -> None:
    np.save(saved / "filters.npy", np.array([{"a": 1}, None], object), allow_pickle=True)
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


def test_columns_of_different_lengths_are_reported(saved: Path) -> None:
    np.save(saved / "span_offsets.npy", np.zeros(2, np.int64))
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


def test_tracks_are_named_after_models() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {})
    item = Predictions(data=data, labels=np.zeros(1, np.int16), model="one")
    tracks = build_sentence_index(data, [item, replace(item, model="two")]).tracks
    assert [track.name for track in tracks] == ["one", "two"]
