"""The cache: the second run, kills, and ten million tokens."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import convener as cv
from benchmarks.record import DATA
from convener.data.tables import Table

KILLS, SEED, MILLIONS = 10, 1, 10
CONVENER = [sys.executable, "-m", "convener"]


def second_run() -> Table:
    """Seconds of `convener encode BC5CDR --encoder minilm` once all is in the cache."""
    command = [*CONVENER, "encode", str(DATA / "BC5CDR"), "--encoder", "minilm"]
    subprocess.run(command, check=True, capture_output=True)
    start = _seconds([sys.executable, "-c", "import convener.cli"])
    read = _seconds(
        [
            sys.executable,
            "-c",
            f"import convener.cli, convener as c; c.read({str(DATA / 'BC5CDR')!r})",
        ]
    )
    whole = _seconds(command)
    rows = [
        ("starting the interpreter and importing convener.cli", start),
        ("the same, and reading the data set", read),
        ("convener encode, from the cache", whole),
        ("beyond the start", whole - start),
    ]
    return Table(
        title="BC5CDR, the second run", columns=("what", "seconds"), rows=rows,
        formats={"seconds": ".2f"},
    )  # fmt: skip


def kills() -> Table:
    """Killed ten times at random moments, then run to the end: the bytes."""
    rng, rows = np.random.default_rng(SEED), []
    for encoder, folder, longest in (("hashing", "BC5CDR", 1.5), ("minilm", "LaptopReview", 25.0)):
        command = [*CONVENER, "encode", str(DATA / folder), "--encoder", encoder]
        with tempfile.TemporaryDirectory() as place:
            straight, killed = Path(place) / "straight", Path(place) / "killed"
            subprocess.run(command, env=_env(straight), check=True, capture_output=True)
            shards = 0
            for _ in range(KILLS):
                work = subprocess.Popen(command, env=_env(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(float(rng.uniform(0.2, longest)))
                work.kill()
                work.wait()
                shards = max(shards, len(list(killed.rglob("done.json"))))
            subprocess.run(command, env=_env(killed), check=True, capture_output=True)
            same = _digests(straight) == _digests(killed)
            rows.append((encoder, folder, KILLS, shards, "yes" if same else "NO"))
    return Table(
        title="Killed by SIGKILL at random moments, then run again",
        columns=("encoder", "data", "kills", "unfinished seen", "same bytes"),
        rows=rows,
    )


def ten_million() -> Table:
    """Ten million tokens from a file through hashing: anonymous memory, and opening the result."""
    with tempfile.TemporaryDirectory() as place:
        corpus = Path(place) / "large.conll"
        tokens = _write_large(corpus)
        command = [*CONVENER, "encode", str(corpus), "--encoder", "hashing"]
        begin, peak = time.perf_counter(), 0
        work = subprocess.Popen(command, env=_env(Path(place)), stdout=subprocess.DEVNULL)
        while work.poll() is None:
            peak = max(peak, _anonymous(work.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - begin
        folder = next((Path(place) / "features").iterdir())
        opened = _seconds(
            [sys.executable, "-c", "import sys; from pathlib import Path\n"
             "from convener.encode.store import open_features\n"
             "f = open_features(Path(sys.argv[1])); print(f.token_rows(slice(0, 5)).sum())",
             str(folder)]
        )  # fmt: skip
        size = sum(file.stat().st_size for file in folder.iterdir())
    rows = [
        ("tokens", tokens / 1e6, "million"),
        ("whole command, reading included", seconds, "s"),
        ("peak of anonymous memory", peak / 1e9, "GB"),
        ("features on disk", size / 1e9, "GB"),
        ("a new process opens them and reads a row", opened, "s"),
    ]
    return Table(
        title="Ten million tokens through hashing", columns=("what", "figure", "unit"), rows=rows,
        formats={"figure": ".2f"},
    )  # fmt: skip


def _write_large(path: Path) -> int:
    """Sentences of the data sets at hand, drawn again and again, numbers in them changed."""
    sentences = []
    for folder in sorted(place for place in DATA.iterdir() if place.is_dir()):
        sentences += [sentence.tokens for sentence in cv.read(folder).test]
    rng, total = np.random.default_rng(SEED), 0
    with path.open("w", encoding="utf-8") as file:
        while total < MILLIONS * 1_000_000:
            words = sentences[int(rng.integers(len(sentences)))]
            number = str(rng.integers(10_000))
            lines = [f"{number if word.isdigit() else word} O\n" for word in words if word.strip()]
            lines[:1] = ["B-X".join(lines[0].rsplit("O", 1))]
            file.write("".join(lines) + "\n")
            total += len(lines)
    return total


def _env(cache: Path) -> dict[str, str]:
    return os.environ | {"CONVENER_CACHE": str(cache)}


def _seconds(command: list[str]) -> float:
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def _digests(folder: Path) -> dict[str, str]:
    return {
        f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*.bin"))
    }


def _anonymous(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("RssAnon")]
    return 1024 * int(lines[0].split()[1]) if lines else 0
