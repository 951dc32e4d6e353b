"""Speed: ratios on 1,000 real sentences, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

import convener as cv
from benchmarks.encode.naive import Naive
from benchmarks.record import DATA
from convener.data.tables import Table
from convener.encoders import get_encoder

COUNT, BATCH, ROUNDS = 1000, 32, 3


def ratios() -> Table:
    """CPU seconds of one thread, designs in turn, the median of rounds."""
    torch.set_num_threads(1)
    naive = Naive()
    plain, half = (get_encoder("minilm", layers="last", precision=name) for name in ("float32", "bfloat16"))
    rows = []
    for name, split in (("LaptopReview", "train"), ("CoNLL", "valid")):
        data = cv.read(DATA / name, split)[:COUNT]
        sentences = [sentence.tokens for sentence in data]
        order = np.random.default_rng(1).permutation(len(sentences))
        mixed = [sentences[n] for n in order]
        designs: dict[str, Callable[[], object]] = {
            "one at a time": lambda s=sentences: [naive.words(words) for words in s],
            "random batches of 32": lambda m=mixed: [naive.batch(m[n : n + BATCH]) for n in range(0, len(m), BATCH)],
            "ours, float32": lambda d=data: plain.encode(d.tokens, d.offsets),
            "ours, bfloat16": lambda d=data: half.encode(d.tokens, d.offsets),
        }
        plain.encode(data[:8].tokens, data[:8].offsets)
        half.encode(data[:8].tokens, data[:8].offsets)
        seconds: dict[str, list[float]] = {name: [] for name in designs}
        for number in range(ROUNDS):
            for design, work in designs.items():
                if design.endswith("bfloat16") and number:
                    continue
                begin = time.process_time()
                work()
                seconds[design].append(time.process_time() - begin)
        middle = {design: float(np.median(times)) for design, times in seconds.items()}
        base = middle["one at a time"]
        rows += [(name, len(data.tokens), d, t, base / t) for d, t in middle.items()]
    native = "has" if half._model.dtype is torch.bfloat16 and _native() else "does not have"
    return Table(
        title=f"{COUNT} sentences through MiniLM, one thread",
        columns=("data", "tokens", "design", "CPU seconds", "times faster"),
        rows=rows,
        formats={"CPU seconds": ".2f", "times faster": ".2f"},
        notes=(f"this processor {native} bfloat16 of its own: there `auto` means float32",),
    )


def _native() -> bool:
    return get_encoder("minilm")._model.dtype is torch.bfloat16
