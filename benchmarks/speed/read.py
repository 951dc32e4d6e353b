"""`python -m benchmarks.speed.read [TOKENS]`: reading speed and peak memory, one new process per format.

5 million tokens x 10 sources by default.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import convener as cv
from benchmarks.harness.cli import simple_parser
from benchmarks.harness.data import make_dataset
from benchmarks.harness.results import RESULTS, save_tables
from benchmarks.harness.timing import call_in_process, peak_memory
from convener.data.ragged import StringArray, lengths_to_offsets

SEED = 1
SOURCES = 10
TYPES = ("PER", "LOC", "ORG", "MISC")
FILES = {
    "Parquet (long table)": "corpus.parquet",
    "CoNLL columns": "corpus.conll",
    "Wrench JSON, spans": "spans.json",
    "Wrench JSON, BIO matrix": "matrix.json",
    "npz": "corpus.npz",
}
SMOKE_TOKENS = 2_000


def generate(tokens: int) -> cv.Dataset:
    """Sentences of 5 to 45 words, 4 types, about 5 % of the tokens marked by each source."""
    rng = np.random.default_rng(SEED)
    lengths = rng.integers(5, 46, size=tokens // 25)
    lengths[-1] += max(0, tokens - lengths.sum())
    offsets = lengths_to_offsets(lengths)
    count = int(offsets[-1])
    words = StringArray.from_list(f"word{n}" for n in range(50_000))
    tags = cv.TagSet(TYPES)

    def column() -> np.ndarray:
        begins = rng.random(count) < 0.03
        labels = np.where(begins, 2 * rng.integers(4, size=count) + 1, 0).astype(np.int16)
        inside = np.flatnonzero(begins[:-1] & (rng.random(count - 1) < 0.6)) + 1
        inside = inside[labels[inside] == 0]
        labels[inside] = labels[inside - 1] + 1
        return tags.repair(labels, offsets, "drop")[0]

    votes = np.stack([column() for _ in range(SOURCES)], axis=1)
    tokens_ = words.take(rng.zipf(1.3, size=count) % len(words))
    return make_dataset(TYPES, tokens_, offsets, votes, gold=column())


def measure(path: str) -> dict[str, float]:
    """Seconds and growth of peak memory while a file is read; bytes that the data set holds."""
    with tempfile.TemporaryDirectory() as folder:  # load libraries before measuring
        tiny = Path(folder) / Path(path).name
        cv.write(generate(50), tiny)
        cv.read(tiny)
    before, begin = peak_memory(), time.perf_counter()
    data = cv.read(path)
    seconds = time.perf_counter() - begin
    held = data.votes.nbytes + data.gold.nbytes + data.tokens.data.nbytes + data.tokens.offsets.nbytes
    return {"tokens": len(data.tokens), "seconds": seconds, "peak": peak_memory() - before, "held": held}


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Write a corpus in each format, and read it in a new process."""
    parser = simple_parser("speed.read", __doc__)
    parser.add_argument("tokens", nargs="?", type=int, default=5_000_000)
    args = parser.parse_args(argv)
    data = generate(SMOKE_TOKENS if args.smoke else args.tokens)
    # Votes that abstain on part of a sentence make the Wrench writer use the matrix.
    votes = data.votes.copy()
    votes[0, 0] = -1
    matrix = data.with_sources(data.sources, votes, data.unmarked)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, file in FILES.items():
            path = Path(folder) / file
            cv.write(matrix if "matrix" in file else data, path)
            found = call_in_process("benchmarks.speed.read:measure", str(path))
            rows.append(
                (
                    name,
                    round(path.stat().st_size / 1e6, 1),
                    round(found["seconds"], 2),
                    round(found["tokens"] / found["seconds"]),
                    round(found["peak"] / found["tokens"], 1),
                    round(found["held"] / found["tokens"], 1),
                )
            )
    table = cv.Table(
        title=f"Reading {len(data.tokens):,} tokens x {SOURCES} sources",
        columns=("format", "file MB", "seconds", "tokens/s", "peak bytes/token", "data set bytes/token"),
        rows=rows,
        notes=("peak: growth of the process's resident memory; data set: the packed arrays themselves",),
    )
    save_tables(results, "speed/read", [table], seed=SEED, packages=["pyarrow"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
