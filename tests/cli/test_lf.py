"""lf init, lf preview and lf apply."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import convener as cv

from .conftest import Command

LFS = """
import time
from convener.lf import gazetteer, labeling_function

places = gazetteer(["Oslo", "Porto", "Lima"], "LOC", name="places")

@labeling_function(["PER"])
def raises(words):
    if words[0] == "Porto":
        raise ValueError("no Porto")
    return [(0, 1, "PER")]

@labeling_function(["PER"], offsets="chars")
def cuts(view):
    return [(0, 2, "PER")]
"""


@pytest.fixture
def lfs(tmp_path: Path) -> Path:
    path = tmp_path / "lfs.py"
    path.write_text(LFS, encoding="utf-8")
    return path


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("Ada left Oslo. She flew to Lima.\nPorto is far.\n", encoding="utf-8")
    return path


def test_apply_to_raw_text(convener: Command, lfs: Path, raw: Path, tmp_path: Path, cache: Path) -> None:
    out = tmp_path / "voted.jsonl"
    done = convener("lf", "apply", lfs, raw, "-o", out, "--num-workers", 2)
    assert done.code == 0, done.err
    assert "places" in done.out
    assert "error: 1 issue" in done.err
    assert "document texts-2, sentence 2: error (raises): ValueError: no Porto (lfs.py:" in done.err
    assert "misaligned: 3 issues" in done.err
    data = cv.read(out)
    assert data.sources == ("places", "raises", "cuts")
    assert data.tags.types == ("LOC", "PER")
    assert data[2:3].votes.tolist() == [[1, -1, 3], [0, -1, 0], [0, -1, 0], [0, -1, 0]]
    shown = convener("analyze", out)
    assert shown.code == 0
    assert "places" in shown.out


def test_apply_as_json(convener: Command, lfs: Path, raw: Path, tmp_path: Path, cache: Path) -> None:
    words = ("lf", "apply", lfs, raw, "-o", tmp_path / "v.npz", "--json", "--num-workers", 1)
    first = convener(*words, "--issues", tmp_path / "issues.txt").json
    assert first["output"].endswith("v.npz")
    places, raises, cuts = first["splits"]["data"]
    assert (places["function"], places["spans"], places["status"]) == ("places", 3, "ran")
    assert (raises["error"], raises["abstained_texts"]) == (1, 1)
    assert cuts["misaligned"] == 3
    listed = (tmp_path / "issues.txt").read_text(encoding="utf-8").splitlines()
    assert len(listed) == 4
    again = convener(*words).json["splits"]["data"]
    assert [row["status"] for row in again] == [
        "cached",
        "ran, not cached (failures)",
        "cached",
    ]
    anew = convener(*words, "--no-cache").json["splits"]["data"]
    assert anew[0]["status"] == "ran"


def test_apply_to_a_corpus(convener: Command, lfs: Path, news: Path, tmp_path: Path, cache: Path) -> None:
    out = tmp_path / "voted"
    words = ("lf", "apply", lfs, news, "-o", out, "--output-format", "jsonl", "--lf", "places")
    done = convener(*words, "--timeout", 0)
    assert done.code == 0, done.err
    assert "train: Labeling functions on" in done.out
    assert "--split train" in done.err
    corpus = cv.read_corpus(out)
    assert set(corpus.splits) == {"train", "valid", "test"}
    assert corpus.test.sources == ("places",)
    assert corpus.test.gold is not None
    kept = tmp_path / "both.jsonl"
    assert convener("lf", "apply", lfs, news, "--split", "test", "-o", kept, "--keep-sources").code == 0
    assert cv.read(kept).sources == (
        *cv.demo.load_corpus().test.sources,
        "places",
        "raises",
        "cuts",
    )


def test_a_function_that_hangs_times_out(convener: Command, raw: Path, tmp_path: Path, cache: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(LFS.replace('raise ValueError("no Porto")', "time.sleep(60)"), encoding="utf-8")
    done = convener("lf", "apply", slow, raw, "-o", tmp_path / "v.jsonl", "--timeout", 0.3)
    assert done.code == 0
    assert "timeout (raises): timed out after 0.3 s" in done.err


def test_errors_can_stop_the_run(convener: Command, lfs: Path, raw: Path, tmp_path: Path, cache: Path) -> None:
    out = tmp_path / "v.jsonl"
    stopped = convener("lf", "apply", lfs, raw, "-o", out, "--on-error", "raise")
    assert stopped.code == 2
    assert "labeling function raises: document texts-2, sentence 2: error: ValueError" in stopped.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--lf", "place"), "did you mean 'places'"),
        (("--num-workers", 0), "--num-workers"),
        (("--on-error", "ignore"), "--on-error"),
    ],
)
def test_bad_input_is_one_line(
    convener: Command, lfs: Path, raw: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    refused = convener("lf", "apply", lfs, raw, "-o", tmp_path / "v.jsonl", *words)
    assert refused.code == 2
    assert message in refused.err
    assert len(refused.err.strip().splitlines()) == 1


def test_the_template_works_unchanged(convener: Command, news: Path, tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "mine.py"
    assert convener("lf", "init", path).code == 0
    assert "convener lf preview mine.py" in path.read_text(encoding="utf-8")
    tried = convener("lf", "preview", path, news, "--split", "train", "-n", 3)
    assert tried.code == 0, tried.err
    assert tried.out.count("\n\n") == 3
    assert "[Dunmore Brewing Ltd](ORG)" in tried.out
    out = tmp_path / "v.jsonl"
    assert convener("lf", "apply", path, news, "--split", "test", "-o", out).code == 0
    names = ("cities", "company", "after_title", "acronym", "safe_cities", "titled_everywhere")
    assert cv.read(out).sources == names
    again = convener("lf", "init", path)
    assert again.code == 2
    assert "already exists" in again.err


def test_preview_of_random_sentences_without_text(convener: Command, lfs: Path, tmp_path: Path, cache: Path) -> None:
    data = tmp_path / "data.conll"
    data.write_text("From O\nOslo B-LOC\n\nOslo B-LOC\n\nRome B-LOC\n", encoding="utf-8")
    tried = convener("lf", "preview", lfs, data, "--lf", "places", "--seed", 1)
    assert tried.code == 0, tried.err
    assert "places  From [Oslo](LOC)\n" in tried.out
    assert "places  [Oslo](LOC)\n" in tried.out
    assert "Rome" not in tried.out


def test_spans_are_highlighted_on_a_terminal(
    convener: Command, lfs: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    tried = convener("lf", "preview", lfs, raw, "--lf", "places", "-n", 1)
    assert "\x1b[1;36mOslo\x1b[0m" in tried.out
    assert "[Oslo]" not in tried.out


def test_the_help_warns_about_running_code(convener: Command) -> None:
    for words in (("lf", "apply", "--help"), ("lf", "preview", "--help")):
        output = " ".join(convener(*words).out.replace("│", " ").split())
        assert "use only files that you trust" in output


def test_cached_votes_are_listed_and_removed(
    convener: Command, lfs: Path, raw: Path, tmp_path: Path, cache: Path
) -> None:
    convener("lf", "apply", lfs, raw, "-o", tmp_path / "v.jsonl", "--num-workers", 1)
    listed = convener("cache", "list", "--json").json
    assert {(row["kind"], row["label"]) for row in listed["entries"]} == {("votes", "places"), ("votes", "cuts")}
    assert "places" in convener("cache", "list").out
    assert len(convener("cache", "prune", "--all", "--dry-run", "--json").json["entries"]) == 2
    assert len(convener("cache", "prune", "--all", "--json").json["entries"]) == 2
    assert convener("cache", "list", "--json").json["entries"] == []


def test_a_file_that_fails_is_not_left_in_sys_modules(tmp_path: Path) -> None:
    from convener.errors import DataError
    from convener.lf.load import load_lfs

    path = tmp_path / "broken_lfs.py"
    path.write_text("1 / 0", encoding="utf-8")
    with pytest.raises(DataError):
        load_lfs(path)
    assert not [name for name in sys.modules if "broken_lfs" in name]
