"""The sheet of sentences, against plain loops over the same data."""

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

ODD = Kind(partial=True, illegal=True, surrogates=True, empty_words=True)
Case = tuple[cv.Dataset, list[Predictions], NDArray[np.int16] | None]
Row = tuple[int, int, int]


@st.composite
def cases(draw: DrawFn, *, probabilities: bool = True) -> Case:
    """Data, the answers of one model or two, and a vote or none."""
    data = draw(datasets(kind=ODD))
    lengths, tags = data.lengths.tolist(), data.fine_tags
    answers = [
        Predictions(
            data=data,
            labels=draw(legal_labels(tags, lengths)),
            probabilities=draw(probability_rows(sum(lengths), len(tags))) if probabilities else None,
            model=f"model {number}",
        )
        for number in range(draw(st.integers(1, 2)))
    ]
    vote = draw(st.none() | legal_labels(tags, lengths))
    return data, answers, vote


# The oracle


def read(labels: Sequence[int]) -> list[Row]:
    """The spans (start, end, type) of one sentence; a stray I- begins one."""
    found: list[list[int]] = []
    before = 0
    for place, label in enumerate(labels):
        if label > 0:
            kind, inside = (label - 1) // 2, label % 2 == 0
            goes_on = inside and before in (label, label - 1)
            if goes_on:
                found[-1][1] = place + 1
            else:
                found.append([place, place + 1, kind])
        before = label
    return [(a, b, kind) for a, b, kind in found]


def meant(data: cv.Dataset, label: int) -> set[str]:
    """The kinds that a label allows."""
    if label == 0:
        return {"O is outside"}
    name = data.tags.types[(label - 1) // 2]
    if name not in data.coarse:
        return {name}
    return {"O is outside" if kind == "O" else kind for kind in data.coarse[name]}


def conflicts(data: cv.Dataset, votes: Sequence[int]) -> bool:
    """Whether two opinions on a token allow nothing in common."""
    said = [
        meant(data, label)
        for label, silence in zip(votes, data.silence, strict=True)
        if label > 0 or (label == 0 and silence == "abstain")
    ]
    return any(not one & other for one, other in combinations(said, 2))


class Plain:
    """One sentence, looked at token by token."""

    def __init__(self, case: Case, number: int) -> None:
        data, answers, vote = case
        here = slice(int(data.offsets[number]), int(data.offsets[number + 1]))
        votes = data.votes[here].tolist()
        self.tokens = data.tokens[here].to_list()
        self.model = [read(answer.labels[here].tolist()) for answer in answers]
        self.gold = None if data.gold is None else read(data.gold[here].tolist())
        self.vote = None if vote is None else read(vote[here].tolist())
        self.marks = [read(column) for column in data.votes[here].T.tolist()]
        self.shares = [[float(p) for p in row] for row in answers[0].probabilities[here]]
        self.labels = answers[0].labels[here].tolist()
        self.entropy = sum(-p * math.log(p) for row in self.shares for p in row if p > 0)
        self.conflict = sum(conflicts(data, row) for row in votes)
        self.marked = [any(label > 0 for label in row) for row in votes]

    def score(self, span: Row) -> float:
        return min(self.shares[place][self.labels[place]] for place in range(span[0], span[1]))

    def lanes(self) -> list[list[Row]]:
        others = [lane for lane in (self.gold, self.vote) if lane is not None]
        return [*self.model, *others, *self.marks]

    def odd(self) -> set[str]:
        crossing = any(
            a < d and c < b and (a, b) != (c, d)
            for one, other in combinations(self.marks, 2)
            for a, b, _ in one
            for c, d, _ in other
        )
        found = {
            "disagreement": self.conflict > 0 or crossing,
            "uncertain": any(row[label] < LOW_CONFIDENCE for row, label in zip(self.shares, self.labels, strict=True)),
            "error": self.gold is not None and self.gold != self.model[0],
            "unmarked": any(not any(self.marked[a:b]) for a, b, _ in self.model[0]),
            "vote": self.vote is not None and self.vote != self.model[0],
            "silent": not any(self.marked),
            "models": self.model[0] != self.model[-1],
        }
        return {name for name, holds in found.items() if holds}


def plain(case: Case) -> list[Plain]:
    return [Plain(case, number) for number in range(len(case[0]))]


def flags(record: dict[str, Any]) -> set[str]:
    return {name for bit, name in enumerate(FILTERS) if record["f"] >> bit & 1}


# Records


@given(cases())
def test_records_are_what_everybody_says(case: Case) -> None:
    data, answers, vote = case
    sheet = build_sentence_index(data, answers, vote)
    assert len(sheet) == len(data)
    assert sheet.types == data.tags.types
    assert sheet.tracks == (
        *(Track("model", answer.model) for answer in answers),
        *([] if data.gold is None else [Track("gold", "gold")]),
        *([] if vote is None else [Track("vote", "majority vote")]),
        *(Track("source", name) for name in data.sources),
    )
    looked = plain(case)
    assert sheet.counts() == {name: sum(name in sentence.odd() for sentence in looked) for name in FILTERS}
    for number, expected in enumerate(looked):
        record = sheet.record(number)
        assert set(record) == {"n", "t", "s", "e", "c", "f"}
        assert record["n"] == number
        assert record["t"] == expected.tokens
        spans = [[lane, *span] for lane, there in enumerate(expected.lanes()) for span in there]
        assert [span[:4] for span in record["s"]] == spans
        scored = [span for span in record["s"] if len(span) == 5]
        assert [span[0] < len(answers) for span in record["s"]] == [len(span) == 5 for span in record["s"]]
        ours = [span for span in scored if span[0] == 0]
        assert [span[4] for span in ours] == pytest.approx(
            [expected.score(span) for span in expected.model[0]], abs=5.1e-4
        )
        assert record["e"] == pytest.approx(expected.entropy, abs=5.1e-4)
        assert record["c"] == expected.conflict
        assert flags(record) == expected.odd()
        json.dumps(record, allow_nan=False)


@given(cases(probabilities=False))
def test_without_probabilities_nothing_is_uncertain(case: Case) -> None:
    sheet = build_sentence_index(*case)
    assert not sheet.entropy.any()
    assert sheet.counts()["uncertain"] == 0
    assert np.isnan(sheet.score).all()


def test_a_million_tokens_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    data = cv.demo.load_corpus().test
    shares = rng.dirichlet(np.ones(len(data.tags)), len(data.tokens)).astype(np.float32)
    labels = np.zeros(len(data.tokens), np.int16)
    answer = Predictions(data=data, labels=labels, probabilities=shares)
    whole = build_sentence_index(data, [answer])
    monkeypatch.setattr(module, "BLOCK_SIZE", 7)
    parts = build_sentence_index(data, [answer])
    np.testing.assert_allclose(parts.entropy, whole.entropy)
    assert (parts.filters == whole.filters).all()
    assert parts.search_text == whole.search_text


def test_a_sentence_that_is_not_there() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {})
    sheet = build_sentence_index(data, [Predictions(data=data, labels=np.zeros(1, np.int16))])
    for number in (-1, 1):
        with pytest.raises(UnknownNameError, match=f"sentence {number} of 1"):
            sheet.record(number)


# Search


@st.composite
def queries(draw: DrawFn, case: Case) -> Query:
    """Any filter, none or all of them, and some text that is there or nearly so."""
    data = case[0]
    lines = [" ".join(sentence.tokens) for sentence in plain(case)]
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


def asked_for(case: Case, query: Query, sentence: Plain) -> bool:
    """Whether a sentence is one of those, every filter read for itself."""
    data = case[0]
    line = " ".join(sentence.tokens).replace("\n", " ").lower()
    chosen = sentence.marks
    if query.source:
        chosen = [sentence.marks[data.sources.index(query.source)]]
    elif query.type:
        chosen = sentence.lanes()
    kinds = {data.tags.types[kind] for lane in chosen for _, _, kind in lane}
    return (
        query.text.replace("\n", " ").lower() in line
        and (not query.filter or query.filter in sentence.odd())
        and (not query.type or query.type in kinds)
        and (not query.source or bool(kinds))
    )


def expected_order(case: Case, query: Query, sheet: SentenceIndex) -> list[int]:
    found = [n for n, here in enumerate(plain(case)) if asked_for(case, query, here)]
    if query.order == "entropy":  # by what the sheet says, tested above: sums may differ in a bit
        found.sort(key=lambda number: -float(sheet.entropy[number]))
    elif query.order == "conflict":
        found.sort(key=lambda number: -plain(case)[number].conflict)
    return found


@given(st.data())
def test_every_filter_and_order_together(data: st.DataObject) -> None:
    case = data.draw(cases())
    query = data.draw(queries(case))
    sheet = build_sentence_index(*case)
    assert sheet.find(query).tolist() == expected_order(case, query, sheet)


def sheet_with(*sentences: list[str]) -> SentenceIndex:
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
    sheet = sheet_with(["Ada", "Lovelace", "wrote"], ["Nobody"], ["É", "ada", "ADA"], ["a\nb"], [], ["", "", ""])
    assert sheet.find(Query(text=text)).tolist() == found


def test_a_part_of_a_corpus_is_searched_by_itself() -> None:
    """Tokens of a slice lie in the buffer of the whole."""
    data = cv.demo.load_corpus().test
    part = data[3:9]
    labels = np.zeros(len(part.tokens), np.int16)
    sheet = build_sentence_index(part, [Predictions(data=part, labels=labels)])
    assert [sheet.record(n)["t"] for n in range(6)] == [here.tokens for here in part]
    last = " ".join(part[5].tokens)
    assert 5 in sheet.find(Query(text=last)).tolist()
    gone = " ".join(data[2].tokens)
    assert sheet.find(Query(text=gone)).tolist() == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (Query(filter="disagrement"), "no filter 'disagrement'; did you mean 'disagreement'"),
        (Query(type="Y"), "no type 'Y'; available: X"),
        (Query(source="lexicon"), "no source 'lexicon'; available: none"),
        (Query(order="entropie"), "no order 'entropie'; did you mean 'entropy'"),
        (Query(order=""), "no order ''"),
    ],
)
def test_unknown_names_are_refused(query: Query, said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        sheet_with(["a"]).find(query)


def test_only_sources_are_sources() -> None:
    """A model's lane is no source, even where it has the name of one."""
    data = cv.Dataset.from_spans(["X"], [["a"], ["b"]], {"gold": [[(0, 1, "X")], []]})
    labels = np.array([0, 1], np.int16)
    sheet = build_sentence_index(data.with_gold(labels), [Predictions(data=data, labels=labels, model="m")])
    assert sheet.find(Query(source="gold")).tolist() == [0]
    assert sheet.find(Query(type="X")).tolist() == [0, 1]
    with pytest.raises(UnknownNameError, match="no source 'm'"):
        sheet.find(Query(source="m"))


def test_folded_lines_hold_no_other_line_breaks() -> None:
    strings = lowercase_sentences(StringArray.from_list(["A\n", "\nB", "İ"]), np.array([0, 2, 2, 3]))
    assert list(strings) == ["a   b\n", "\n", "i̇\n"]


# On disk


@given(st.data())
def test_what_is_saved_gives_the_same_answers(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    case = data.draw(cases())
    query = data.draw(queries(case))
    sheet = build_sentence_index(*case)
    folder = tmp_path_factory.mktemp("sheet")
    sheet.save(folder)
    again = SentenceIndex.open(folder)
    assert all(
        isinstance(column, np.memmap)
        for column in (again.offsets, again.start, again.tokens.data, again.search_text.data)
    )
    assert (again.types, again.tracks) == (sheet.types, sheet.tracks)
    assert [again.record(n) for n in range(len(again))] == [sheet.record(n) for n in range(len(sheet))]
    assert again.find(query).tolist() == sheet.find(query).tolist()
    assert again.counts() == sheet.counts()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    sheet_with(["a", "b"], ["c"]).save(tmp_path)
    assert len(SentenceIndex.open(tmp_path)) == 2
    return tmp_path


@pytest.mark.parametrize("name", ["sheet.json", "offsets.npy", "odd.npy", "folded.data.npy"])
def test_a_missing_file_is_damage(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


@pytest.mark.parametrize("name", ["sheet.json", "offsets.npy", "tokens.data.npy"])
@pytest.mark.parametrize("keeps", [0, 3, -1])
def test_half_a_file_is_damage(saved: Path, name: str, keeps: int) -> None:
    raw = (saved / name).read_bytes()
    (saved / name).write_bytes(raw[:keeps])
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


@pytest.mark.parametrize("facts", ["[]", "{}", '{"types": ["X"]}', '{"types": 1, "lanes": 2}'])
def test_facts_of_another_kind_are_damage(saved: Path, facts: str) -> None:
    (saved / "sheet.json").write_text(facts)
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


def test_pickles_are_not_read(saved: Path) -> None:
    np.save(saved / "odd.npy", np.array([{"a": 1}, None], object), allow_pickle=True)
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


def test_columns_that_do_not_fit_are_damage(saved: Path) -> None:
    np.save(saved / "bounds.npy", np.zeros(2, np.int64))
    with pytest.raises(DataError, match="damaged"):
        SentenceIndex.open(saved)


def test_names_are_the_answers() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {})
    answer = Predictions(data=data, labels=np.zeros(1, np.int16), model="one")
    lanes = build_sentence_index(data, [answer, replace(answer, model="two")]).tracks
    assert [lane.name for lane in lanes] == ["one", "two"]
