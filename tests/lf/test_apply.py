"""Applying functions: failures, worker processes, cache."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener import progress
from convener.data.dataset import Dataset
from convener.data.ragged import RaggedArray, StringArray
from convener.data.tags import ABSTAIN
from convener.errors import ConfigError, ConvenerWarning, DataError
from convener.lf import doc as texts_module
from convener.lf import workers as workers_module
from convener.lf.apply import ApplyOptions, ApplyResult, apply_with_report
from convener.lf.combinators import propagate, union
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.validation import Span

SIZES = (1, 2, 3)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shards, so that a small corpus has many of them."""
    monkeypatch.setattr(texts_module, "SHARD_TOKENS", 60)


@pytest.fixture
def text() -> Dataset:
    """Forty sentences; each starts with its number."""
    sentences = [[f"n{n}", "Ada", "went", "to", "Oslo"][: 2 + n % 4] for n in range(40)]
    data = Dataset.from_spans(["PER", "LOC"], sentences, {})
    return replace(data, doc_ids=StringArray.from_list(f"d{n % 7}" for n in range(40)))


@labeling_function(["PER"])
def ada(words: Doc) -> Iterator[Span]:
    for number, word in enumerate(words):
        if word == "Ada":
            yield number, number + 1, "PER"


oslo = gazetteer(["Oslo"], "LOC", name="oslo", unmarked="outside")


@labeling_function(["PER"])
def raises(words: Doc) -> Any:
    if words[0] == "n5":
        raise KeyError("five")
    return [(1, 2, "PER")]


@labeling_function(["PER"])
def leaves(words: Doc) -> Any:
    if words[0] == "n6":
        sys.exit("six")
    return [(1, 2, "PER")]


@labeling_function(["PER"])
def wild(words: Doc) -> Any:
    if words[0] == "n7":
        return [(0, 2, "PER"), (1, 3, "PER"), (0, 99, "PER"), ("0", 1, "PER"), (0, 1, "GOD"), 5]
    return [(1, 2, "PER")]


@labeling_function(["LOC"], offsets="chars")
def cuts(view: Doc) -> Any:
    return [(0, 1, "LOC")] if view[0] == "n8" else None


@labeling_function(["PER"])
def hangs(words: Doc) -> Any:
    while words[0] == "n9":
        time.sleep(0.01)
    return [(1, 2, "PER")]


@labeling_function(["PER"])
def dies(words: Doc) -> Any:
    if words[0] in ("n10", "n39"):
        os._exit(7)
    return [(1, 2, "PER")]


@labeling_function(["PER"])
def abstains(words: Doc) -> Any:
    return ABSTAIN if words[0] == "n11" else [(1, 2, "PER")]


def rows(result: ApplyResult) -> list[tuple[str, str, str]]:
    return [(case.source, case.kind, case.where) for case in result.issues]


def run(functions: list[LabelingFunction], data: Dataset, **settings: Any) -> ApplyResult:
    return apply_with_report(functions, data, ApplyOptions(**({"cache": False} | settings)))


def test_votes_are_the_spans(text: Dataset) -> None:
    data = cv.apply_lfs([ada, oslo], text, cache=False)
    assert data.sources == ("ada", "oslo")
    assert data.unmarked == ("abstain", "outside")
    expected = [[int(w == "Ada"), 3 * int(w == "Oslo")] for w in data.tokens]
    assert data.votes.tolist() == expected


@pytest.mark.parametrize("workers", SIZES)
def test_a_failing_function_loses_only_its_own_votes_on_that_text(text: Dataset, workers: int) -> None:
    functions = [ada, raises, leaves, wild, cuts, hangs, dies, abstains, propagate(ada), oslo]
    result = run(functions, text, num_workers=workers, timeout=0.4)
    reported = rows(result)
    assert reported == [
        ("raises", "error", "document d5, sentence 5"),
        ("leaves", "error", "document d6, sentence 6"),
        *[("wild", "invalid", "document d0, sentence 7")] * 4,
        ("wild", "overlap", "document d0, sentence 7"),
        ("cuts", "misaligned", "document d1, sentence 8"),
        ("hangs", "timeout", "document d2, sentence 9"),
        ("dies", "crash", "document d3, sentence 10"),
        ("dies", "crash", "document d4, sentence 39"),
    ]
    details = {case.source: case.detail for case in result.issues}
    assert details["raises"].startswith("KeyError: 'five' (test_apply.py:")
    assert details["leaves"].startswith("SystemExit: six (test_apply.py:")
    assert details["hangs"] == "timed out after 0.4 s"
    assert details["dies"] == "worker process died (exit code 7)"
    assert details["cuts"] == "0-1 became 0-2"
    # All other votes are those of functions that never fail.
    data = result.data
    alone = run([ada, propagate(ada), oslo], text).data
    for source in alone.sources:
        number, other = data.source_index(source), alone.source_index(source)
        np.testing.assert_array_equal(data.votes[:, number], alone.votes[:, other])
    for source, lost in (("raises", {5}), ("leaves", {6}), ("hangs", {9}), ("dies", {10, 39})):
        column = data.votes[:, data.source_index(source)]
        for number in range(len(data)):
            message = column[data.offsets[number] : data.offsets[number + 1]].tolist()
            fine = [0, 1, 0, 0, 0][: len(message)]
            assert message == ([ABSTAIN] * len(message) if number in lost else fine)
    assert data[7:8].votes[:, data.source_index("wild")].tolist() == [1, 2, 0, 0, 0]
    assert data[8:9].votes[:, data.source_index("cuts")].tolist() == [3, 0]
    assert data[11:12].votes[:, data.source_index("abstains")].tolist() == [ABSTAIN] * 5


def test_the_report_is_a_table(text: Dataset) -> None:
    result = run([raises, wild, abstains], text)
    records = {record["function"]: record for record in result.table().to_records()}
    assert records["raises"] | {"seconds": 0} == {
        "function": "raises",
        "spans": 39,
        "abstained texts": 1,
        "invalid": 0,
        "misaligned": 0,
        "overlap": 0,
        "error": 1,
        "timeout": 0,
        "crash": 0,
        "seconds": 0,
        "status": "ran, not cached (failures)",
    }
    assert (records["wild"]["invalid"], records["wild"]["overlap"]) == (4, 1)
    assert (records["abstains"]["abstained texts"], records["abstains"]["error"]) == (1, 0)
    assert "Labeling functions on 40 sentences" in str(result)


def test_issues_reported_by_a_function_are_counted(text: Dataset) -> None:
    @labeling_function(["PER"])
    def talks(view: Doc) -> None:
        if view[0] == "n3":
            view.report_issue("refused", "too long")

    result = run([talks], text)
    assert rows(result) == [("talks", "refused", "document d3, sentence 3")]
    assert result.table().to_records()[0]["refused"] == 1


def test_the_same_bytes_for_any_number_of_workers(text: Dataset, tmp_path: Path) -> None:
    functions = [ada, oslo, wild, cuts, raises, propagate(ada)]
    written = []
    for workers in SIZES:
        result = run(functions, text, num_workers=workers)
        cv.write(result.data, tmp_path / f"{workers}.npz")
        issues = "\n".join(map(str, result.issues))
        written.append(((tmp_path / f"{workers}.npz").read_bytes(), issues))
    assert written[0] == written[1] == written[2]


def test_a_failing_batch_is_run_text_by_text(text: Dataset) -> None:
    def find_all(docs: Any) -> Iterator[list[Span]]:
        for view in docs:
            view.report_issue("seen", view[0])
            if view[0] == "n4":
                raise ValueError("four")
            yield [(0, 1, "LOC")]

    def hang_all(docs: Any) -> list[list[Span]]:
        if any(view[0] == "n4" for view in docs):
            time.sleep(60)
        return [[(0, 1, "LOC")] for _ in docs]

    for make, kind, settings in (
        (find_all, "error", {}),
        (find_all, "error", {"num_workers": 2}),
        (hang_all, "timeout", {"timeout": 0.05}),
    ):
        batch = LabelingFunction(name="batch", labels=("LOC",), batch_func=make)
        result = run([batch], text, **settings)
        failed = [row for row in rows(result) if row[1] != "seen"]
        assert failed == [("batch", kind, "document d4, sentence 4")]
        lost = (result.data.votes[:, 0] == ABSTAIN).sum()
        assert lost == len(text[4].tokens)
        if make is find_all:
            seen = [case for case in result.issues if case.kind == "seen"]
            assert len(seen) == 40  # each once, though some were asked twice


def test_a_combination_that_hangs_is_stopped_in_time(text: Dataset) -> None:
    start_time = time.monotonic()
    result = run([union(hangs, ada, name="both")], text, timeout=0.5)
    assert rows(result) == [("both", "timeout", "document d2, sentence 9")]
    assert time.monotonic() - start_time < 10


def test_a_crashing_batch_is_run_text_by_text(text: Dataset) -> None:
    def die_all(docs: Any) -> list[list[Span]]:
        if any(view[0] == "n4" for view in docs):
            os._exit(9)
        return [[(0, 1, "LOC")] for _ in docs]

    batch = LabelingFunction(name="batch", labels=("LOC",), batch_func=die_all)
    result = run([batch], text, num_workers=2)
    assert rows(result) == [("batch", "crash", "document d4, sentence 4")]


def test_functions_of_the_main_process_are_not_sent_to_workers(text: Dataset) -> None:
    here = os.getpid()
    elsewhere: list[LabelingFunction] = []
    for alone in (True, False):

        @labeling_function(["PER"], name=f"alone {alone}", in_main_process=alone)
        def where(words: Doc) -> Any:
            return [(0, 1, "PER")] if os.getpid() == here else None

        elsewhere.append(where)
    result = run(elsewhere, text, num_workers=2)
    assert [row.num_spans for row in result.stats] == [40, 0]


def test_on_error_raise_stops_the_run(text: Dataset) -> None:
    message = "labeling function raises: document d5, sentence 5: error: KeyError: 'five'"
    for workers in (1, 2):
        before = len(multiprocessing.active_children())
        with pytest.raises(DataError, match=message):
            run([ada, raises], text, num_workers=workers, on_error="raise")
        assert len(multiprocessing.active_children()) == before


def test_issues_are_summarised_in_a_warning(text: Dataset) -> None:
    with pytest.warns(ConvenerWarning, match="1 error; first: document d5, sentence 5: error"):
        cv.apply_lfs([raises], text, cache=False)


def test_a_corpus_is_processed_split_by_split(text: Dataset) -> None:
    corpus = cv.Corpus(splits={"train": text[:30], "test": text[30:]})
    voted = cv.apply_lfs([ada], corpus, cache=False)
    assert voted.train.sources == voted.test.sources == ("ada",)
    assert (len(voted.train), len(voted.test)) == (30, 10)


def test_document_scope_receives_complete_documents(text: Dataset) -> None:
    seen: list[tuple[str | None, int]] = []

    @labeling_function(["PER"], scope="document")
    def looks(view: Doc) -> Any:
        seen.append((view.doc_id, len(view.sentences)))
        return [(start, start + 1, "PER") for start, end in view.sentences if end > start]

    data = run([looks], text).data
    assert seen == [(f"d{n}", 6 if n < 5 else 5) for n in range(7)]
    assert all(votes[0] == 1 and not votes[1:].any() for votes in RaggedArray(data.votes, data.offsets))


def test_without_document_ids_each_sentence_is_a_document(text: Dataset) -> None:
    bare = replace(text, doc_ids=None)
    with pytest.warns(ConvenerWarning, match="ada everywhere has scope='document' but the data has no document ids"):
        data = run([propagate(ada)], bare).data
    np.testing.assert_array_equal(data.votes, run([ada], bare).data.votes)


def test_raw_text_takes_the_types_of_the_functions(text: Dataset) -> None:
    raw = cv.tokenize("Ada went to Oslo.")
    data = cv.apply_lfs([oslo, ada], raw, cache=False)
    assert data.tags.types == ("LOC", "PER")
    assert data.votes.tolist() == [[0, 3], [0, 0], [0, 0], [1, 0], [0, 0]]
    kept = cv.apply_lfs([ada], cv.tokenize("Ada", types=["LOC", "PER"]), cache=False)
    assert kept.tags.types == ("LOC", "PER")


def test_a_label_unknown_to_the_data_is_an_error(text: Dataset) -> None:
    voted = cv.apply_lfs([ada], text, cache=False)
    strange = gazetteer(["Oslo"], "LOCC", name="strange")
    with pytest.raises(DataError, match="function strange: no entity type 'LOCC'; did you mean"):
        cv.apply_lfs([strange], voted, cache=False)


def test_existing_sources_can_be_kept(text: Dataset) -> None:
    voted = cv.apply_lfs([ada], text, cache=False)
    both = cv.apply_lfs([oslo], voted, cache=False, keep_sources=True)
    assert (both.sources, both.unmarked) == (("ada", "oslo"), ("abstain", "outside"))
    np.testing.assert_array_equal(both.votes[:, 0], voted.votes[:, 0])
    with pytest.raises(DataError, match="got twice: ada"):
        cv.apply_lfs([ada], voted, cache=False, keep_sources=True)


@pytest.mark.parametrize("sentences", [[], [[]], [[], ["Ada"], []]])
def test_empty_sentences_and_empty_datasets(sentences: list[list[str]]) -> None:
    data = Dataset.from_spans(["PER", "LOC"], sentences, {})
    for workers in (1, 2):
        votes = run([ada, oslo], data, num_workers=workers).data.votes
        assert votes.tolist() == [[1, 0]] * sum(map(len, sentences))


@pytest.mark.parametrize(
    ("functions", "settings", "message"),
    [
        ([len], {}, "expected labeling functions, got <built-in function len>"),
        (ada, {}, "expected a list of labeling functions, got a single one: LabelingFunction"),
        ([ada, ada], {}, "unique names, got 'ada' twice"),
        ([ada], {"num_workers": 0}, "num_workers must be at least 1, got 0"),
        ([ada], {"timeout": 0.0}, "timeout must be positive, got 0.0"),
        ([ada], {"on_error": "ignore"}, "on_error must be abstain or raise, got 'ignore'"),
    ],
)
def test_options_are_validated(text: Dataset, functions: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(functions, text, **settings)


def test_platforms_without_fork_get_a_warning(text: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "can_fork", lambda: False)
    with pytest.warns(ConvenerWarning, match="process forking is unavailable"):
        data = run([ada], text, num_workers=2).data
    assert data == run([ada], text).data


def test_progress_counts_tokens(text: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int]] = []
    totals: list[int] = []

    class Bar:
        def __init__(self, title: str, total: int, *, unit: str) -> None:
            totals.append(total)

        def __enter__(self) -> Callable[..., None]:
            return lambda message="", by=1: steps.append((message, by))

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(progress, "progress_bar", Bar)
    run([ada, propagate(ada)], text)
    assert [total for total in totals if total] == [2 * len(text.tokens)]
    assert sum(by for _, by in steps) == 2 * len(text.tokens)
    assert {message for message, _ in steps} == {"ada", "ada everywhere"}


# What is kept


def counted(name: str, limit: int, calls: list[str]) -> LabelingFunction:
    """A function that counts its calls; the limit is part of its behaviour."""

    @labeling_function(["PER"], name=name, version=f"{limit}")
    def finds(words: Doc) -> Any:
        calls.append(name)
        return [(0, 1, "PER")] if len(words) > limit else None

    return finds


def test_editing_one_function_reruns_only_that_one(text: Dataset, tmp_path: Path) -> None:
    calls: list[str] = []
    limits = {f"f{n}": n % 4 for n in range(10)}

    def run_all() -> ApplyResult:
        calls.clear()
        functions = [counted(name, limit, calls) for name, limit in limits.items()]
        # Two that do the same are one to the cache, whatever their names: told apart by version.
        functions = [replace(item, version=f"{item.name} {item.version}") for item in functions]
        return run(functions, text, cache=tmp_path)

    first = run_all()
    assert len(calls) == 400
    again = run_all()
    assert calls == []
    assert again.data == first.data
    assert {row.status for row in again.stats} == {"cached"}
    assert {row.seconds for row in again.stats} == {None}
    limits["f3"] = 0
    edited = run_all()
    assert calls == ["f3"] * 40
    assert [row.status for row in edited.stats].count("ran") == 1
    assert edited.data != first.data


def test_the_code_is_part_of_the_cache_key(text: Dataset, tmp_path: Path) -> None:
    calls: list[str] = []  # a list that changes would be part of what the function does

    def make(word: str) -> LabelingFunction:
        @labeling_function(["PER"])
        def finds(words: Doc) -> Any:
            return [(i, i + 1, "PER") for i, some in enumerate(words) if some == word]

        return finds

    for word, how in (("Ada", "ran"), ("Ada", "cached"), ("went", "ran")):
        result = run([make(word)], text, cache=tmp_path)
        assert [row.status for row in result.stats] == [how]
        alone = run([make(word)], text)
        assert result.data == alone.data
    assert calls == []


def test_the_text_is_part_of_the_cache_key(text: Dataset, tmp_path: Path) -> None:
    run([ada], text, cache=tmp_path)
    others = [
        text[1:],
        replace(text, doc_ids=None),
        replace(text, doc_ids=StringArray.from_list(["x"] * 40)),
        cv.tokenize("Ada went."),
    ]
    for other in others:
        assert run([ada], other, cache=tmp_path).stats[0].status == "ran"
    voted = cv.apply_lfs([oslo], text, cache=False)
    assert run([ada], voted, cache=tmp_path).stats[0].status == "cached"  # votes do not matter


def test_issues_are_cached_with_the_votes(text: Dataset, tmp_path: Path) -> None:
    first = run([wild, cuts], text, cache=tmp_path)
    again = run([wild, cuts], text, cache=tmp_path)
    assert {row.status for row in again.stats} == {"cached"}
    assert rows(first) == rows(again) != []
    assert [replace(row, seconds=0, status="") for row in first.stats] == [
        replace(row, seconds=0, status="") for row in again.stats
    ]


def test_failures_are_not_cached(text: Dataset, tmp_path: Path) -> None:
    for _ in range(2):
        result = run([raises], text, cache=tmp_path)
        assert result.stats[0].status == "ran, not cached (failures)"


def test_votes_are_cached_before_functions_of_the_main_process_run(text: Dataset, tmp_path: Path) -> None:
    @labeling_function(["PER"], in_main_process=True, version="dear")
    def dear(words: Doc) -> Any:
        raise KeyboardInterrupt

    for workers in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            run([dear, ada], text, cache=tmp_path / str(workers), num_workers=workers)
        result = run([ada], text, cache=tmp_path / str(workers))
        assert result.stats[0].status == "cached"


def test_votes_without_a_fingerprint_are_not_cached(text: Dataset, tmp_path: Path) -> None:
    stream = sys.__stdout__

    @labeling_function(["PER"])
    def prints(words: Doc) -> Any:
        return [(0, 1, "PER")] if stream is None else None

    result = run([prints], text, cache=tmp_path)
    assert result.stats[0].status == (
        "ran, not cached: cannot fingerprint _io.TextIOWrapper; pass version=... to enable caching"
    )
    assert list(tmp_path.iterdir()) == []


def test_the_default_cache_is_used(text: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVENER_CACHE_DIR", str(tmp_path / "usual"))
    cv.apply_lfs([ada], text)
    assert list((tmp_path / "usual" / "votes").glob("*.safetensors"))


def test_prior_precision_and_unmarked_of_functions_are_passed_to_sources() -> None:
    sure = gazetteer(["Oslo"], "LOC", name="sure", prior_precision=0.9)
    unsure = gazetteer(["Rome"], "LOC", name="unsure", unmarked="outside")
    data = Dataset.from_spans(["LOC"], [["Oslo"]], {"old": [[]]})
    data = replace(data, prior_precision=(0.2,))
    assert cv.apply_lfs([sure, unsure], data, cache=False).prior_precision == (0.9, None)
    kept = cv.apply_lfs([sure, unsure], data, cache=False, keep_sources=True)
    assert (kept.prior_precision, kept.unmarked) == ((0.2, 0.9, None), ("abstain", "abstain", "outside"))


def test_coarse_labels_are_added_to_the_types_of_the_data() -> None:
    names = gazetteer(["Ada"], "PER", name="names")
    some = gazetteer(["Oslo"], "ENT", name="some", coarse={"ENT": "any"})
    no = gazetteer(["Reading"], "NOT-LOC", name="no", coarse={"NOT-LOC": "not LOC"})
    words = [["Ada", "in", "Oslo"], ["Reading", "on"]]
    gold = Dataset.from_spans(["LOC", "PER"], words, {}, gold=[[], []])
    for data in (gold, gold.without_gold()):
        voted = cv.apply_lfs([names, some, no], data, cache=False)
        assert voted.tags.types == ("LOC", "PER", "ENT", "NOT-LOC")
        assert voted.coarse == {"ENT": ("LOC", "PER"), "NOT-LOC": ("O", "PER")}
        assert voted.votes.tolist() == [[3, 0, 0], [0, 0, 0], [0, 5, 0], [0, 0, 7], [0, 0, 0]]
        more = cv.apply_lfs([names], voted, cache=False, keep_sources=False)
        assert more.coarse == voted.coarse
    raw = cv.tokenize(["Ada in Oslo"])
    assert cv.apply_lfs([names, some], raw, cache=False).tags.types == ("PER", "ENT")
    with pytest.raises(DataError, match="no entity type 'ENT'"):
        cv.apply_lfs([gazetteer(["Oslo"], "ENT", name="slip")], gold, cache=False)
    with pytest.raises(DataError, match="'ENT' allows nothing"):
        cv.apply_lfs([some], raw, cache=False)


def test_conflicting_coarse_labels_are_an_error() -> None:
    data = Dataset.from_spans(["LOC", "PER"], [["Oslo"]], {}, gold=[[]])
    one = gazetteer(["Oslo"], "X", name="one", coarse={"X": "any"})
    two = gazetteer(["Oslo"], "X", name="two", coarse={"X": "not PER"})
    with pytest.raises(ConfigError, match="two: coarse label 'X' is 'not PER', but another function"):
        cv.apply_lfs([one, two], data, cache=False)
