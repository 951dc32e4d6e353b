"""Encoders: exactness, speed, the cache, ten million tokens.

`python -m benchmarks.encode [exact] [windows] [speed] [second] [kills] [large]`, all by default.
"""

from __future__ import annotations

import sys

from benchmarks.encode import cache, exact, speed
from benchmarks.record import save

PARTS = {
    "exact": exact.against_naive,
    "windows": exact.windows,
    "speed": speed.ratios,
    "second": cache.second_run,
    "kills": cache.kills,
    "large": cache.ten_million,
}
SEED = 1

for name in sys.argv[1:] or PARTS:
    table = PARTS[name]()
    print(table, flush=True)
    save(f"encode-{name}", [table], seed=SEED, packages=["torch", "transformers", "tokenizers"])
