"""Reading speed and peak memory for a large corpus, one fresh process per format.

`python -m benchmarks.read [TOKENS]`, 5 million tokens x 10 sources by default.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import convener as cv
from benchmarks.record import save
from convener.data.ragged import StringArray, lengths_to_offsets

SEED = 1
SOURCES = 10
FILES = {
    "Parquet (long table)": "corpus.parquet",
    "CoNLL columns": "corpus.conll",
    "Wrench JSON, spans": "spans.json",
    "Wrench JSON, BIO matrix": "matrix.json",
    "npz": "corpus.npz",
}
READ_ONE = """
import json, sys, time
import convener as cv
from benchmarks.record import peak_memory
from convener.io import formats
formats.available()
if sys.argv[1].endswith(".parquet"):
    import pyarrow, pyarrow.parquet
before, begin = peak_memory(), time.perf_counter()
data = cv.read(sys.argv[1])
seconds = time.perf_counter() - begin
kept = data.votes.nbytes + data.gold.nbytes + data.tokens.data.nbytes + data.tokens.offsets.nbytes
print(json.dumps({"tokens": len(data.tokens), "seconds": seconds, "peak": peak_memory() - before,
                  "kept": kept}))
"""


def generated(tokens: int) -> cv.Dataset:
    """Sentences of 5 to 45 words, 4 types, about 5 % of the tokens marked by each source."""
    rng = np.random.default_rng(SEED)
    lengths = rng.integers(5, 46, size=tokens // 25)
    lengths[-1] += max(0, tokens - lengths.sum())
    offsets = lengths_to_offsets(lengths)
    count = int(offsets[-1])
    words = StringArray.from_list(f"word{n}" for n in range(50_000))
    tags = cv.TagSet(("PER", "LOC", "ORG", "MISC"))

    def marks() -> np.ndarray:
        begins = rng.random(count) < 0.03
        labels = np.where(begins, 2 * rng.integers(4, size=count) + 1, 0).astype(np.int16)
        goes_on = np.flatnonzero(begins[:-1] & (rng.random(count - 1) < 0.6)) + 1
        goes_on = goes_on[labels[goes_on] == 0]
        labels[goes_on] = labels[goes_on - 1] + 1
        return tags.repair(labels, offsets, "drop")[0]

    return cv.Dataset(
        tags=tags,
        tokens=words.take(rng.zipf(1.3, size=count) % len(words)),
        offsets=offsets,
        sources=tuple(f"source-{n}" for n in range(SOURCES)),
        votes=np.stack([marks() for _ in range(SOURCES)], axis=1),
        silence=("O",) * SOURCES,
        gold=marks(),
    )


def main(tokens: int) -> None:
    """Write the corpus in each format, read it back in a new process, save the table."""
    data = generated(tokens)
    partly = data.votes.copy()
    partly[0, 0] = -1  # abstaining on part of a sentence makes the Wrench writer use the matrix
    matrix = data.with_sources(data.sources, partly, data.silence)
    rows = []
    with tempfile.TemporaryDirectory() as room:
        for name, file in FILES.items():
            path = Path(room) / file
            cv.write(matrix if "matrix" in file else data, path)
            said = subprocess.run([sys.executable, "-c", READ_ONE, str(path)], capture_output=True, text=True)
            if said.returncode:
                raise SystemExit(said.stderr)
            found = json.loads(said.stdout)
            rows.append(
                (
                    name,
                    round(path.stat().st_size / 1e6, 1),
                    round(found["seconds"], 2),
                    round(found["tokens"] / found["seconds"]),
                    round(found["peak"] / found["tokens"], 1),
                    round(found["kept"] / found["tokens"], 1),
                )
            )
            print(rows[-1], file=sys.stderr)
    table = cv.Table(
        title=f"Reading {len(data.tokens):,} tokens x {SOURCES} sources",
        columns=(
            "format",
            "file MB",
            "seconds",
            "tokens/s",
            "peak bytes/token",
            "kept bytes/token",
        ),
        rows=rows,
        notes=("peak: growth of the process's resident memory; kept: the packed dataset itself",),
    )
    print(table)
    print(save("read", [table], seed=SEED, packages=["pyarrow"]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
