"""`python -m benchmarks.lf [TOKENS]`: a gazetteer of 500 thousand phrases, workers, the cache.

The gazetteers run in processes of their own, one thread each, skweak's on a part of the text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import convener as cv
from benchmarks.lf.corpus import SEED
from benchmarks.lf.workers import TOKENS, measured
from benchmarks.record import save

PHRASES = 500_000
BESIDE = 500_000
"""Tokens on which skweak stands beside it."""


def gazetteer(who: str, tokens: int) -> dict[str, Any]:
    """What one gazetteer needs."""
    words = [sys.executable, "-m", "benchmarks.lf.gazetteer", who, str(PHRASES), str(tokens)]
    said = subprocess.run(words, capture_output=True, text=True)
    if said.returncode:
        raise SystemExit(said.stderr)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def gazetteers(tokens: int) -> cv.Table:
    """Ours on all of the text, both on a part of it."""
    runs = [("ours", tokens), ("ours", BESIDE), ("skweak", BESIDE)]
    found = [gazetteer(*run) for run in runs]
    rows = [
        (
            who,
            size,
            run["build"],
            size / run["match"],
            size / (run["match"] + run["ready"]),
            run["more"] / 1e6,
            run["spans"],
        )
        for (who, size), run in zip(runs, found, strict=True)
    ]
    ours, theirs = ({tuple(span) for span in run["found"]} for run in found[1:])
    return cv.Table(
        title=f"Gazetteer of {PHRASES:,} phrases",
        columns=("gazetteer", "tokens", "build s", "tokens/s", "in all", "MB more", "spans"),
        rows=rows,
        formats=dict.fromkeys(("tokens/s", "in all", "MB more"), ",.0f") | {"build s": ".1f"},
        notes=(
            "CPU seconds of one thread; tokens/s: ours from packed text to votes, skweak's from spaCy texts to spans",
            "in all: with the time that making those spaCy texts of words takes",
            "MB more: peak memory above that of the process with phrases and text",
            f"spans of the part: {len(ours & theirs):,} in common, {len(ours - theirs):,} only "
            f"ours, {len(theirs - ours):,} only skweak's (longest first, against leftmost first)",
        ),
    )


def workers() -> cv.Table:
    """Ten functions with one and two workers, and with the cache."""
    rows = measured()
    first = rows[0]["votes"]
    ratio = rows[0]["seconds"] / rows[1]["seconds"]
    return cv.Table(
        title=f"Ten functions on {TOKENS:,} tokens",
        columns=("run", "seconds", "CPU seconds", "functions run", "votes as in the first row"),
        rows=[(row["run"], row["seconds"], row["cpu"], row["ran"], row["votes"] == first) for row in rows],
        formats={"seconds": ".2f", "CPU seconds": ".2f"},
        notes=(
            f"two workers are {ratio:.2f} times as fast as one; best of three runs, turn about",
            f"load of the machine beside it: {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores",
            "the last row has other votes because one function was edited",
        ),
    )


def main(tokens: int) -> None:
    tables = [gazetteers(tokens), workers()]
    for table in tables:
        print(table, end="\n\n")
    print(save("lf", tables, seed=SEED, packages=["ahocorasick-rs", "regex", "skweak", "spacy"]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
