"""The feature store: complete folders, resumed runs, detected damage."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convener import progress
from convener.cache import is_locked, lock_path
from convener.data.features import from_float32, to_float32
from convener.data.ragged import chunk_bounds
from convener.encoders import get_encoder, store
from convener.encoders.base import EncodedBatch
from convener.encoders.store import open_features, write_features
from convener.errors import DataError

from .toys import Lengths, corpus, dataset

SHARD = 20
CHILD = f"""
import sys
from pathlib import Path
from convener.encoders import get_encoder, store
from tests.encoders.toys import Lengths, corpus
store.SHARD_TOKENS = {SHARD}
slow = Lengths(pause=0.03)
encoder = get_encoder("hashing", width=16) if sys.argv[2] == "hashing" else slow
store.write_features(Path(sys.argv[1]), corpus(), encoder, "float16")
"""


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SHARD_TOKENS", SHARD)


@pytest.fixture
def written(tmp_path: Path, shards: None) -> Path:
    write_features(tmp_path / "features" / "key", corpus(), Lengths(), "float16")
    return tmp_path / "features" / "key"


def content(folder: Path) -> tuple[bytes, bytes]:
    """The content of a complete folder, without its date."""
    assert {path.name for path in folder.parent.iterdir()} == {folder.name}
    names = {"tokens.bin", "sentences.bin", "metadata.json"}
    assert {path.name for path in folder.iterdir()} == names
    return (folder / "tokens.bin").read_bytes(), (folder / "sentences.bin").read_bytes()


# What is written


def test_written_features_equal_those_of_the_encoder(written: Path) -> None:
    data, found = corpus(), open_features(written)
    words, sentences = Lengths().encode(data.tokens, data.offsets)
    np.testing.assert_array_equal(found.tokens, words.astype(np.float16))
    np.testing.assert_array_equal(found.sentences, sentences.astype(np.float16))
    assert found.encoder_spec == Lengths().spec
    assert (found.dtype, found.dim) == ("float16", 3)


def test_features_are_memory_mapped(written: Path) -> None:
    found = open_features(written)
    for array in (found.tokens, found.sentences):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    assert isinstance(found.subset(slice(3, 5), slice(2, 9)).tokens, np.memmap)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_every_dtype_is_restored(tmp_path: Path, dtype: Any) -> None:
    data, encoder = corpus(), Lengths(scale=1 / 3)
    write_features(tmp_path / "key", data, encoder, dtype)
    found = open_features(tmp_path / "key")
    assert found.dtype == dtype
    rounded = from_float32(encoder.encode(data.tokens, data.offsets).tokens, dtype)
    np.testing.assert_array_equal(found.tokens, rounded)
    np.testing.assert_array_equal(found.token_vectors(), to_float32(rounded))


@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_empty_data_is_written_and_read(tmp_path: Path, sentences: list[list[str]]) -> None:
    write_features(tmp_path / "key", dataset(sentences), Lengths(), "float16")
    found = open_features(tmp_path / "key")
    assert found.tokens.shape == (0, 3)
    assert found.sentences.shape == (len(sentences), 3)
    assert not found.sentences.any()


def test_progress_counts_tokens(tmp_path: Path, shards: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    @contextmanager
    def bar(title: str, total: int, *, unit: str, completed: int) -> Iterator[progress.Advance]:
        calls.append((title, total, unit, completed))
        yield lambda words="", by=1: calls.append(by)

    monkeypatch.setattr(progress, "progress_bar", bar)
    write_features(tmp_path / "key", corpus(), Lengths(), "float16")
    count = len(corpus().tokens)
    assert calls[0] == ("encoding with lengths", count, "tokens", 0)
    assert sum(calls[1:]) == count
    assert len(calls) > 5


# Kills and processes


def start(folder: Path, encoder: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), encoder],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )


def shards_done(folder: Path) -> int:
    """The progress of a draft; the file is replaced atomically, so it can always be read."""
    file = folder.with_name("key.partial") / "progress.json"
    return json.loads(file.read_text())["shards"] if file.exists() else 0


def test_a_killed_run_resumes_to_the_same_bytes(written: Path, tmp_path: Path) -> None:
    """Killed at random times, each later than the last."""
    whole, folder, rng = content(written), tmp_path / "killed" / "key", random.Random()
    reached = 0
    for _ in range(4):
        child, target = start(folder, "lengths"), reached + rng.randint(1, 4)
        while shards_done(folder) < target and child.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        child.send_signal(signal.SIGKILL)
        assert child.communicate()[1] == ""
        if folder.exists():  # on a busy machine the kill may come too late
            break
        assert shards_done(folder) >= target  # what was done is not done again
        reached = shards_done(folder)
    assert reached > 0
    child = start(folder, "lengths")
    assert child.communicate()[1] == ""
    assert content(folder) == whole


def test_a_killed_run_of_hashing_resumes(tmp_path: Path, shards: None) -> None:
    encoder = get_encoder("hashing", width=16)
    write_features(tmp_path / "whole" / "key", corpus(), encoder, "float16")
    folder = tmp_path / "killed" / "key"
    child = start(folder, "hashing")
    while not folder.with_name("key.partial").exists() and child.poll() is None:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    write_features(folder, corpus(), encoder, "float16")
    assert content(folder) == content(tmp_path / "whole" / "key")


class Fails(Lengths):
    """An encoder that raises in its n-th shard."""

    def __init__(self, after: int, error: BaseException) -> None:
        super().__init__()
        self.after, self.error = after, error

    def encode(self, tokens: Any, offsets: Any) -> EncodedBatch:
        if self.calls == self.after:
            raise self.error
        return super().encode(tokens, offsets)


@pytest.mark.parametrize("after", range(0, 12, 3))
def test_a_resumed_run_encodes_only_missing_shards(written: Path, after: int) -> None:
    whole, count = content(written), len(chunk_bounds(corpus().offsets, SHARD)) - 1
    folder = written.parent.parent / "again" / "key"
    with pytest.raises(KeyboardInterrupt):
        write_features(folder, corpus(), Fails(after, KeyboardInterrupt()), "float16")
    assert not folder.exists()
    second = Lengths()
    write_features(folder, corpus(), second, "float16")
    assert second.calls == count - after
    assert content(folder) == whole


@pytest.mark.parametrize(
    "damage",
    [
        lambda draft: (draft / "progress.json").write_text("{"),
        lambda draft: (draft / "progress.json").write_text("[]"),
        lambda draft: (draft / "progress.json").write_text('{"shards": 3}'),
        lambda draft: (draft / "progress.json").write_text('{"shards": 9999, "of": 9999}'),
        lambda draft: (draft / "tokens.bin").write_bytes(b"short"),
        lambda draft: (draft / "sentences.bin").unlink(),
        lambda draft: (draft / "tokens.bin").open("ab").write(b"half a shard"),
    ],
)
def test_a_damaged_draft_is_written_again(written: Path, damage: Callable[[Path], object]) -> None:
    whole, folder = content(written), written.parent.parent / "again" / "key"
    with pytest.raises(KeyboardInterrupt):
        write_features(folder, corpus(), Fails(5, KeyboardInterrupt()), "float16")
    damage(folder.with_name("key.partial"))
    write_features(folder, corpus(), Lengths(), "float16")
    assert content(folder) == whole


def test_an_encoder_that_fails_at_once_leaves_no_draft(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no model"):
        write_features(tmp_path / "key", corpus(), Fails(0, DataError("no model")), "float16")
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_two_concurrent_writers_give_one_complete_result(written: Path, tmp_path: Path) -> None:
    folder = tmp_path / "both" / "key"
    children = [start(folder, "lengths") for _ in range(2)]
    assert [child.communicate()[1] for child in children] == ["", ""]
    assert [child.returncode for child in children] == [0, 0]
    assert content(folder) == content(written)


def test_a_late_writer_does_nothing(written: Path) -> None:
    late = Lengths()
    write_features(written, corpus(), late, "float16")
    assert late.calls == 0
    content(written)


def test_a_lock_is_held_while_writing_and_removed_afterwards(tmp_path: Path) -> None:
    draft = tmp_path / "key.partial"
    assert not is_locked(draft)
    with store._write_lock(draft):
        assert is_locked(draft)
    assert not is_locked(draft)
    assert list(tmp_path.iterdir()) == []


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    draft, order = tmp_path / "key.partial", list[str]()

    def write_second() -> None:
        with store._write_lock(draft):
            order.append("second")

    thread = threading.Thread(target=write_second)
    with store._write_lock(draft):
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_the_lock_of_a_killed_writer_blocks_nobody(tmp_path: Path) -> None:
    draft = tmp_path / "key.partial"
    code = "import os, sys; from pathlib import Path; from convener.encoders import store\n"
    code += "with store._write_lock(Path(sys.argv[1])): os._exit(7)"
    killed = subprocess.run([sys.executable, "-c", code, str(draft)], check=False)
    assert killed.returncode == 7
    assert lock_path(draft).is_file()
    assert not is_locked(draft)
    with store._write_lock(draft):
        assert is_locked(draft)


# Damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "tokens.bin").open("ab").write(b"x"), "tokens.bin: damaged: expected"),
        (lambda f: os.truncate(f / "tokens.bin", 5), "tokens.bin: damaged: expected .* got 5"),
        (lambda f: os.truncate(f / "sentences.bin", 0), "sentences.bin: damaged: .* got 0"),
        (lambda f: (f / "tokens.bin").unlink(), "damaged: .*No such file"),
        (lambda f: (f / "metadata.json").unlink(), "no features"),
        (lambda f: (f / "metadata.json").write_text("{"), "no features"),
        (lambda f: (f / "metadata.json").write_text("7"), "no features"),
        (lambda f: (f / "metadata.json").write_text("[]"), "expected features of format version 2"),
        (lambda f: changed(f, version=99), "expected features of format version 2"),
        (lambda f: changed(f, dtype="float8"), "damaged: 'float8'"),
        (lambda f: changed(f, dim=None), "damaged"),
        (lambda f: changed(f, encoder={}), "damaged: 'name'"),
        (lambda f: changed(f, encoder=None), "damaged"),
    ],
)
def test_damage_is_detected(written: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(written)
    with pytest.raises(DataError, match=message):
        open_features(written)


def changed(folder: Path, **metadata: Any) -> None:
    path = folder / "metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | metadata))


class Crooked(Lengths):
    """Its `dim` is larger than that of its features."""

    dim = 4


def test_features_of_the_wrong_shape_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"features of lengths must have shape \(\d+, 4\)"):
        write_features(tmp_path / "key", corpus(), Crooked(), "float16")


def test_features_that_overflow_are_rejected(tmp_path: Path) -> None:
    huge = Lengths(scale=1e5)
    with pytest.raises(DataError, match="do not fit float16; choose bfloat16 or float32"):
        write_features(tmp_path / "key", corpus(), huge, "float16")
    write_features(tmp_path / "key", corpus(), huge, "bfloat16")
    assert open_features(tmp_path / "key").token_vectors().max() > 65504


def test_a_full_disk_is_reported(tmp_path: Path, shards: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()

    def full(number: int) -> None:
        if next(calls) == 6:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="key: cannot write features: No space left"):
        write_features(tmp_path / "key", corpus(), Lengths(), "float16")
    assert not (tmp_path / "key").exists()
    write_features(tmp_path / "key", corpus(), Lengths(), "float16")
    assert len(open_features(tmp_path / "key").tokens) == len(corpus().tokens)


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """A file in place of the folder, because permissions do not apply to an administrator."""
    (tmp_path / "cache").write_text("")
    with pytest.raises(DataError, match=r"cannot write features: (Not a directory|File exists)"):
        write_features(tmp_path / "cache" / "key", corpus(), Lengths(), "float16")
