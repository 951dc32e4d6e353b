"""convert, analyze and format list."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import convener as cv

from .conftest import Command


def test_analyze_as_json(convener: Command, news: Path) -> None:
    result = convener("analyze", news, "--split", "test", "--json")
    assert result.code == 0
    assert result.err == ""
    rows = result.json["sources"]
    assert [row["name"] for row in rows] == list(cv.demo.load_corpus().test.sources)
    keys = {"name", "coverage", "overlap", "conflict", "precision", "recall", "f1"}
    for row in rows:
        assert keys <= set(row)
        assert all(0 <= row[key] <= 1 for key in keys - {"name"})


def test_analyze_prints_tables(convener: Command, news: Path) -> None:
    output = convener("analyze", news, "--split", "test", "--pairwise", "overlap").out
    assert "place_list" in output
    assert "coverage" in output


def test_an_inferred_meaning_of_unmarked_tokens_is_printed_and_can_be_overridden(
    convener: Command, tmp_path: Path
) -> None:
    path = tmp_path / "crowd.jsonl"
    rows = [{"a": [[0, 1, "PER"]]}, {"a": []}, {"a": None}]
    path.write_text("".join(json.dumps({"tokens": ["Ada"], "votes": votes}) + "\n" for votes in rows))
    inferred = convener("analyze", path)
    assert "crowd.jsonl: unmarked (a): read as votes for O" in " ".join(inferred.err.split())
    assert "outside" in inferred.out
    overridden = convener("analyze", path, "--unmarked", "abstain")
    assert overridden.err == ""
    assert "abstain" in overridden.out


def test_a_misspelt_reading_option_is_named(convener: Command, news: Path) -> None:
    refused = convener("analyze", news, "--split", "test", "--read-option", "on_overlp=first")
    assert refused.code == 2
    assert "did you mean 'on_overlap'" in refused.err


def test_the_default_split_is_printed(convener: Command, news: Path) -> None:
    described = convener("analyze", news)
    assert described.code == 0
    assert described.err == "split: train\n"
    assert described.out == convener("analyze", news, "--split", "train").out
    assert convener("analyze", news, "--quiet").err == ""


def test_names_of_splits_may_be_aliases(convener: Command, news: Path) -> None:
    assert convener("analyze", news, "--split", "dev").out == convener("analyze", news, "--split", "valid").out


def test_a_folder_needs_a_split(convener: Command, news: Path, tmp_path: Path) -> None:
    assert convener("fit", news, "--model", "majority-vote", "-o", tmp_path / "run").code == 0
    refused = convener("predict", tmp_path / "run", news, "-o", tmp_path / "p.jsonl")
    assert refused.code == 2
    assert "is a folder of splits; choose one with --split {train,valid,test}" in refused.err


def test_formats_and_reader_options_are_listed(convener: Command) -> None:
    found = convener("format", "list", "--json").json
    assert [row["format"] for row in found["formats"]] == [item.name for item in cv.list_formats()]
    assert all(row["description"] for row in found["formats"])
    assert all(found["read_options"].values())
    shown = convener("format", "list").out
    assert "on_overlap" in shown
    assert "one record per sentence" in shown
    help_text = convener("convert", "--help").out
    assert all(item.name in help_text for item in cv.list_formats())


@pytest.mark.parametrize("name", ["wrench", "conll", "jsonl", "table", "npz", "spacy", "huggingface"])
def test_a_corpus_converts_to_every_format(convener: Command, news: Path, tmp_path: Path, name: str) -> None:
    done = convener("convert", news, tmp_path / "out", "--output-format", name)
    assert done.code == 0, done.err
    assert set(cv.read_corpus(tmp_path / "out").splits) == {"train", "valid", "test"}


def test_convert_writes_another_scheme(convener: Command, news: Path, tmp_path: Path) -> None:
    target = tmp_path / "test.conll"
    assert convener("convert", news, target, "--split", "test", "--scheme", "biluo").code == 0
    assert "\tU-LOC" in target.read_text(encoding="utf-8")
    assert cv.read(target).gold.tolist() == cv.read(news, "test").gold.tolist()


def test_convert_writes_every_issue(convener: Command, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "Ada Lovelace", "gold": [[0, 3, "PER"], [0, 12, "PER"]]}\n')
    done = convener("convert", source, tmp_path / "b.jsonl", "--issues", tmp_path / "issues.txt")
    assert done.code == 0
    assert "overlap: 1 issue" in done.err
    listed = (tmp_path / "issues.txt").read_text().splitlines()
    assert len(listed) == 1
    assert "kept 0-2 PER, dropped 0-1 PER" in listed[0]


def test_a_policy_can_be_an_error(convener: Command, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "Ada Lovelace", "gold": [[0, 3, "PER"], [0, 12, "PER"]]}\n')
    refused = convener("convert", source, tmp_path / "b.jsonl", "--read-option", "on_overlap=error")
    assert refused.code == 2
    assert "a.jsonl:1" in refused.err
    assert not (tmp_path / "b.jsonl").exists()


def test_convert_never_replaces_a_folder_with_other_files(convener: Command, news: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    refused = convener("convert", news, tmp_path, "--output-format", "jsonl")
    assert refused.code == 2
    assert "contains other files, e.g. thesis.txt" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def write_wrench(folder: Path) -> Path:
    """Write a Wrench folder that recommends one of its three sources."""
    folder.mkdir()
    votes = [[[0, 1, "PER"]], [], [[1, 2, "PER"]]]
    items = {str(n): {"label": [], "data": {"text": ["Ada", "ran"]}, "weak_labels": votes} for n in range(3)}
    for split in ("train", "test"):
        (folder / f"{split}.json").write_text(json.dumps(items))
    meta = {"entity_types": ["PER"], "lf": ["a", "b", "c"], "lf_rec": ["c"]}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def test_convert_keeps_the_recommended_sources(convener: Command, tmp_path: Path) -> None:
    source = write_wrench(tmp_path / "wrench")
    for name in ("wrench", "jsonl", "npz"):
        done = convener("convert", source, tmp_path / name / "out", "--output-format", name)
        assert done.code == 0, done.err
        assert "read 1 of 3 sources, the recommended ones" in done.err
        assert cv.read_corpus(tmp_path / name / "out").train.sources == ("c",)
        arguments = ("--model", "majority-vote", "-o", tmp_path / name / "run", "--json")
        assert convener("fit", tmp_path / name / "out", *arguments).json["sources"] == ["c"]
    assert convener("convert", source, tmp_path / "all", "--output-format", "jsonl", "--source", "all").code == 0
    assert cv.read_corpus(tmp_path / "all").train.sources == ("a", "b", "c")


def test_convert_of_real_data_reads_what_fit_reads(convener: Command, real_data: Path, tmp_path: Path) -> None:
    target = tmp_path / "test.jsonl"
    for options, count in (((), 3), (("--source", "all"), 16)):
        convener("convert", real_data / "LaptopReview" / "test.json", target, *options)
        assert len(cv.read(target).sources) == count


def test_the_encoding_of_a_file_can_be_stated(convener: Command, tmp_path: Path) -> None:
    source = tmp_path / "notes.txt"
    source.write_bytes("Adéle left Århus.\n".encode("utf-16"))
    refused = convener("convert", source, tmp_path / "n.jsonl")
    assert (refused.code, "UTF-16 text, expected UTF-8; pass" in refused.err) == (2, True)
    done = convener("convert", source, tmp_path / "n.jsonl", "--encoding", "utf-16")
    assert done.code == 0, done.err
    assert cv.read(tmp_path / "n.jsonl", types=["PER"])[0].tokens[:2] == ["Adéle", "left"]


def test_standard_input_and_output(
    convener: Command, news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))

    give(b"Ada left.\nBob too.\n")
    done = convener("convert", "-", "-")
    assert done.code == 0, done.err
    assert [json.loads(line)["text"] for line in done.out.splitlines()] == ["Ada left.", "Bob too."]
    give(done.out.encode())
    assert convener("convert", "-", tmp_path / "again.jsonl").code == 0
    assert len(cv.read(tmp_path / "again.jsonl", types=["PER"])) == 2
    convener("convert", news, tmp_path / "test.jsonl", "--split", "test")
    convener("fit", news, "--model", "majority-vote", "-o", tmp_path / "run")
    give((tmp_path / "test.jsonl").read_bytes())
    predicted = convener("predict", tmp_path / "run", "-", "-o", "-", "--output-format", "conll")
    assert predicted.code == 0, predicted.err
    assert predicted.out.splitlines()[0] == "Northwind B-ORG"
    give(b"Ada left.\n")
    assert "both write to standard output" in convener("convert", "-", "-", "--json").err
    assert "a folder cannot be written" in convener("convert", news, "-", "--output-format", "jsonl").err
    assert not Path("-").exists()
