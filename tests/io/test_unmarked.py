"""What unmarked tokens mean where a file does not state it: inferred from the data, the same in all splits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import convener as cv
from convener.data.ragged import RaggedArray
from tests.generators import Kind, datasets
from tests.helpers.crowd import CrowdConfig, make_crowd

SpanLists = Sequence[list[Any] | None]
MARK, EMPTY = [[0, 1, "PER"]], list[Any]()
WORDS = ["Ada", "left"]
CROWD: dict[str, SpanLists] = {
    "both": [MARK, EMPTY, None, MARK],
    "also": [None, EMPTY, EMPTY, MARK],
    "all": [MARK, EMPTY, EMPTY, MARK],
}
"""Two workers who did not see all sentences, and one who did."""
FUNCTIONS: dict[str, SpanLists] = {
    "names": [MARK, None, None, MARK],
    "llm": [EMPTY, EMPTY, MARK, EMPTY],
    "never": [None, None, None, None],
}
"""Labeling functions: null where one finds nothing, or lists that may be empty, but not both."""


def expected_votes(sources: Mapping[str, SpanLists]) -> list[list[int]]:
    def votes(spans: list[Any] | None) -> list[int]:
        return [-1, -1] if spans is None else [1, 0] if spans else [0, 0]

    columns = [[vote for spans in rows for vote in votes(spans)] for rows in sources.values()]
    return [list(row) for row in zip(*columns, strict=True)]


def write_spans(folder: Path, sources: Mapping[str, SpanLists], name: str = "train", **stated: Any) -> Path:
    """Write a Wrench file of span lists; `stated` is added to its meta file."""
    rows = zip(*sources.values(), strict=True)
    items = {str(n): {"data": {"text": WORDS}, "weak_labels": list(row)} for n, row in enumerate(rows)}
    meta = {"entity_types": ["PER"], "lf": list(sources), **stated}
    folder.mkdir(exist_ok=True)
    (folder / "meta.json").write_text(json.dumps(meta))
    (folder / f"{name}.json").write_text(json.dumps(items))
    return folder / f"{name}.json"


def write_tags(folder: Path, sources: Mapping[str, SpanLists]) -> Path:
    """Write a Wrench file of tags: null where a source abstains."""

    def tags(spans: list[Any] | None) -> list[str | None]:
        return [None, None] if spans is None else ["B-PER", "O"] if spans else ["O", "O"]

    path = write_spans(folder, sources)
    rows = zip(*sources.values(), strict=True)
    items = {
        str(n): {"data": {"text": WORDS}, "weak_labels": [list(token) for token in zip(*map(tags, row), strict=True)]}
        for n, row in enumerate(rows)
    }
    path.write_text(json.dumps(items))
    return path


def write_jsonl(folder: Path, sources: Mapping[str, SpanLists], *, omit: bool = False, name: str = "train") -> Path:
    """Write JSON lines: null where a source abstains, or with `omit` no entry."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.jsonl"
    with path.open("w") as file:
        for row in zip(*sources.values(), strict=True):
            votes = {source: spans for source, spans in zip(sources, row, strict=True) if spans is not None or not omit}
            file.write(json.dumps({"tokens": WORDS, "votes": votes}) + "\n")
    return path


def write_omitting(folder: Path, sources: Mapping[str, SpanLists]) -> Path:
    return write_jsonl(folder, sources, omit=True)


def write_conll(folder: Path, sources: Mapping[str, SpanLists]) -> Path:
    """Write columns of tags: "-" where a source abstains."""
    path = folder / "train.conll"
    columns = [
        [tag for spans in rows for tag in (["-", "-"] if spans is None else ["B-PER", "O"] if spans else ["O", "O"])]
        for rows in sources.values()
    ]
    words = WORDS * len(next(iter(sources.values())))
    lines = ["\t".join(row) for row in zip(words, *columns, strict=True)]
    path.write_text("\n\n".join("\n".join(lines[n : n + 2]) for n in range(0, len(lines), 2)) + "\n")
    return path


def write_spacy(folder: Path, sources: Mapping[str, SpanLists]) -> Path:
    """Write documents with one span group per source: no group where it abstains."""
    spacy = pytest.importorskip("spacy")
    from spacy.tokens import Doc, DocBin, Span

    vocab, path = spacy.blank("en").vocab, folder / "train.spacy"
    docs = DocBin(store_user_data=True)
    for row in zip(*sources.values(), strict=True):
        doc = Doc(vocab, words=WORDS)
        for source, spans in zip(sources, row, strict=True):
            if spans is not None:
                doc.spans[source] = [Span(doc, start, end, label=label) for start, end, label in spans]
        docs.add(doc)
    docs.to_disk(path)
    return path


Writer = Callable[[Path, Mapping[str, SpanLists]], Path]
WRITERS: list[Writer] = [write_spans, write_tags, write_jsonl, write_omitting, write_conll, write_spacy]


def read(path: Path, sources: Mapping[str, SpanLists], **options: Any) -> cv.Dataset:
    """Read a file with the sources in this order."""
    if path.suffix == ".conll":
        options["columns"] = ("token", *(f"source:{name}" for name in sources))
    return cv.read(path, types=("PER",), **options).select_sources(sources)


@pytest.mark.parametrize("write", WRITERS)
def test_a_crowd_is_recognised_in_every_format(write: Writer, tmp_path: Path) -> None:
    issues = cv.Issues()
    data = read(write(tmp_path, CROWD), CROWD, issues=issues)
    assert data.unmarked == ("outside",) * 3
    assert data.votes.tolist() == expected_votes(CROWD)
    assert [(issue.kind, issue.source) for issue in issues if issue.kind == "unmarked"] == [
        ("unmarked", "3 of 3 sources")
    ]


@pytest.mark.parametrize("write", [write_spans, write_tags, write_jsonl, write_conll])
def test_labeling_functions_keep_the_default(write: Writer, tmp_path: Path) -> None:
    issues = cv.Issues()
    data = read(write(tmp_path, FUNCTIONS), FUNCTIONS, issues=issues)
    assert data.unmarked == ("abstain",) * 3
    assert data.votes.tolist() == expected_votes(FUNCTIONS)
    assert not issues.items


def test_a_source_missing_from_records_has_marked_nothing_if_its_entries_are_never_empty(tmp_path: Path) -> None:
    functions = {name: FUNCTIONS[name] for name in ("names", "llm")}
    data = read(write_omitting(tmp_path, functions), functions)
    assert data.unmarked == ("abstain",) * 2
    assert data.votes[:, 0].tolist() == [1, 0, 0, 0, 0, 0, 1, 0]


def test_at_most_half_of_the_sources_do_not_decide_for_the_others(tmp_path: Path) -> None:
    sources = {"worker": CROWD["both"], "llm": FUNCTIONS["llm"]}
    issues = cv.Issues()
    data = cv.read(write_spans(tmp_path, sources), issues=issues)
    assert data.unmarked == ("outside", "abstain")
    assert [issue.source for issue in issues] == ["worker"]


def test_a_crowd_decides_for_workers_who_have_read_or_marked_everything(tmp_path: Path) -> None:
    sources = {**CROWD, "always marks": FUNCTIONS["names"]}
    with pytest.warns(cv.ConvenerWarning, match=r"unmarked \(4 of 4 sources\): read as votes for O"):
        assert cv.read(write_spans(tmp_path, sources)).unmarked == ("outside",) * 4


def test_empty_entries_of_few_sources_do_not_decide_for_the_others(tmp_path: Path) -> None:
    """An LLM that failed once beside dictionaries, for which null means that they found nothing."""
    dictionary = [MARK] * 10 + [None] * 30
    sources = {"llm": [MARK] * 20 + [EMPTY] * 19 + [None]} | dict.fromkeys(("a", "b", "c", "d"), dictionary)
    data = cv.read(write_spans(tmp_path, sources), issues=cv.Issues())
    assert data.unmarked == ("outside", *("abstain",) * 4)


@pytest.mark.parametrize("annotated", [0.02, 0.08])
def test_a_crowd_of_long_documents_with_few_empty_entries_is_recognised(annotated: float, tmp_path: Path) -> None:
    data = make_crowd(0, CrowdConfig(annotated=annotated)).data
    cv.write(data, tmp_path / "x.json")
    strip(tmp_path, ".json")
    assert cv.read(tmp_path / "x.json", issues=cv.Issues()) == data


def test_empty_sentences_tell_nothing(tmp_path: Path) -> None:
    path = write_spans(tmp_path, {"a": [MARK, None, MARK]})
    items = json.loads(path.read_text())
    items["3"] = {"data": {"text": []}, "weak_labels": [[]]}
    path.write_text(json.dumps(items))
    assert cv.read(path).unmarked == ("abstain",)


@pytest.mark.parametrize("unmarked", ["abstain", "outside"])
def test_the_reading_option_decides(unmarked: Any, tmp_path: Path) -> None:
    issues = cv.Issues()
    assert cv.read(write_spans(tmp_path, CROWD), unmarked=unmarked, issues=issues).unmarked == (unmarked,) * 3
    assert not issues.items


def test_the_metadata_decide_for_the_sources_they_name(tmp_path: Path) -> None:
    path = write_spans(tmp_path, CROWD, unmarked={"both": "abstain"})
    issues = cv.Issues()
    assert cv.read(path, issues=issues).unmarked == ("abstain", "outside", "abstain")
    assert [issue.source for issue in issues] == ["also"]


def read_all_ways(folder: Path, **options: Any) -> set[tuple[str, ...]]:
    """The meanings of unmarked tokens in all splits, read together and one by one."""
    corpus = cv.read_corpus(folder, **options)
    single = [cv.read(folder, split, **options) for split in corpus.splits]
    assert all(data == corpus[split] for split, data in zip(corpus.splits, single, strict=True))
    return {data.unmarked for data in corpus.splits.values()}


READ_BY_ALL = {name: [MARK, EMPTY] for name in CROWD}


@pytest.mark.parametrize("names", [("train", "test"), ("test", "train")])
def test_splits_agree_if_only_one_makes_the_distinction(names: tuple[str, str], tmp_path: Path) -> None:
    write_spans(tmp_path, CROWD, names[0])
    write_spans(tmp_path, READ_BY_ALL, names[1])
    assert read_all_ways(tmp_path, issues=cv.Issues()) == {("outside",) * 3}


def test_all_splits_together_make_the_distinction(tmp_path: Path) -> None:
    write_spans(tmp_path, {"a": [MARK, None]}, "train")
    write_spans(tmp_path, {"a": [MARK, EMPTY]}, "test")
    assert read_all_ways(tmp_path, issues=cv.Issues()) == {("outside",)}
    assert cv.read(tmp_path / "test.json").unmarked == ("abstain",)


def test_a_split_that_states_the_meaning_decides_for_the_others(tmp_path: Path) -> None:
    write_jsonl(tmp_path, CROWD, name="test")
    stated = cv.read(tmp_path / "test.jsonl", unmarked="abstain")
    cv.write(stated, tmp_path / "train.jsonl")
    issues = cv.Issues()
    assert {data.unmarked for data in cv.read_corpus(tmp_path, issues=issues).splits.values()} == {("abstain",) * 3}
    assert not issues.items
    assert cv.read(tmp_path, "test").unmarked == ("abstain",) * 3


def test_splits_that_contradict_each_other_follow_the_first(tmp_path: Path) -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada"]], {"a": [[]], "b": [[]]})
    cv.write(replace(data, unmarked=("outside", "abstain")), tmp_path / "train.jsonl")
    cv.write(data, tmp_path / "test.jsonl")
    issues = cv.Issues()
    assert cv.read_corpus(tmp_path, issues=issues).test.unmarked == ("outside", "abstain")
    assert [issue.source for issue in issues] == ["a"]
    assert "states outside, a later one abstain; all are read as outside" in issues.items[0].detail


def test_missing_records_of_a_split_follow_the_decision_of_all(tmp_path: Path) -> None:
    write_jsonl(tmp_path, CROWD, omit=True)
    test = {"all": [MARK, None], "also": [MARK, MARK], "both": [None, MARK]}
    path = write_jsonl(tmp_path, test, omit=True, name="test")
    corpus = cv.read_corpus(tmp_path, issues=cv.Issues())
    assert corpus.test.select_sources(test).votes.tolist() == expected_votes(test)
    assert read(path, test).votes.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1], [0, 0, 0]]


def test_a_split_that_cannot_be_read_does_not_prevent_reading_another(tmp_path: Path) -> None:
    write_spans(tmp_path, CROWD)
    (tmp_path / "test.json").write_text("junk")
    assert cv.read(tmp_path, "train", issues=cv.Issues()).unmarked == ("outside",) * 3


def test_other_splits_add_no_issues_of_their_own(tmp_path: Path) -> None:
    write_spans(tmp_path, {"a": [[[0, 1, "PER"], [0, 2, "PER"]]]}, "train")
    write_spans(tmp_path, {"a": [MARK]}, "test")
    issues = cv.Issues()
    cv.read(tmp_path, "test", issues=issues)
    assert not issues.items


def strip(folder: Path, suffix: str) -> None:
    """Remove what the file states about unmarked tokens."""
    if suffix == ".json":
        meta = next(folder.glob("*meta.json"))
        values = json.loads(meta.read_text())
        del values["unmarked"]
        meta.write_text(json.dumps(values))
        return
    path = folder / f"x{suffix}"
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    record = json.loads(first)
    del record["convener"]["unmarked"]
    path.write_text("\n".join([json.dumps(record), *lines]), encoding="utf-8")


def naive_outside(data: cv.Dataset) -> list[bool]:
    """Which sources make the distinction, sentence by sentence."""
    kinds = [
        [
            "none" if set(votes) == {-1} else "marks" if max(votes) > 0 else "empty"
            for rows in RaggedArray(data.votes, data.offsets)
            if (votes := rows[:, column].tolist())
        ]
        for column in range(len(data.sources))
    ]
    found = ["none" in kind and "empty" in kind for kind in kinds]
    abstaining = [kind for kind in kinds if "none" in kind]
    entries = [[kind for kind in source if kind != "none"] for source in abstaining]
    total = sum(map(len, entries))
    empty = sum(source.count("empty") for source in entries)
    expected = sum(1 - (1 - empty / total) ** len(source) for source in entries if source)
    if 2 * len(abstaining) > len(kinds) and any(found) and 2 * sum(found) >= expected:
        return [True] * len(found)
    return found


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=datasets(kind=Kind(partial=False)))
def test_the_inferred_meaning_round_trips(suffix: str, data: cv.Dataset) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        cv.write(data, folder / f"x{suffix}")
        strip(folder, suffix)
        inferred = cv.read(folder / f"x{suffix}", issues=cv.Issues())
        expected = tuple("outside" if outside else "abstain" for outside in naive_outside(data))
        assert inferred == replace(data, unmarked=expected)
        for other in (".json", ".jsonl", ".csv"):
            issues = cv.Issues()
            cv.write(inferred, folder / f"again{other}")
            assert cv.read(folder / f"again{other}", issues=issues) == inferred
            assert not issues.items


def test_models_and_analysis_treat_a_recognised_crowd_as_a_crowd(tmp_path: Path) -> None:
    data = make_crowd(0, CrowdConfig(documents=60, length=20, workers=6, annotated=0.4, spans=1.0)).data
    corpus = cv.Corpus(splits={"train": data, "test": data[:10]})
    cv.write(corpus, tmp_path / "crowd", format="wrench")
    meta = tmp_path / "crowd" / "meta.json"
    meta.write_text(json.dumps({key: json.loads(meta.read_text())[key] for key in ("entity_types", "lf")}))
    found = cv.read_corpus(tmp_path / "crowd", issues=cv.Issues())
    assert found.train == data
    assert found.test == data[:10]
    read_tokens = (data.votes >= 0).mean(axis=0)
    assert [source.coverage for source in cv.analyze(found.train).sources] == pytest.approx(read_tokens.tolist())
    model = cv.Auto().fit(found.train)
    assert model.selected_model == "segment"
    assert len(model.predict(cv.read(tmp_path / "crowd", "test", issues=cv.Issues())).labels) == 200
    vote = cv.MajorityVote().fit(found.train).predict(found.train)
    assert np.array_equal(vote.labels, cv.MajorityVote().fit(data).predict(data).labels)
