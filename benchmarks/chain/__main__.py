"""`python -m benchmarks.chain`: ratios of CPU time, one thread each, in turns, in one run."""

from __future__ import annotations

import os

# Before anything loads: every library gets one thread.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import argparse
import math
import statistics
import time
from typing import Any

import torch

from benchmarks.chain.peers import Step, constant, error, time_varying
from benchmarks.chain.shapes import GENERATOR, SHAPES, Batch, make_batch
from benchmarks.record import save
from convener.tables import Table

WINDOW = 0.1
NOTE = (
    "Median CPU time of one thread, contenders in turns; a ratio is the other's time over ours. "
    "textbook: padded, log space, a loop over time that indexes x[:, t], autograd; unbound: the "
    "same with the steps taken apart once before the loop. dynamax: hmm_smoother, jit and vmap "
    "over the padded batch, float32, compilation not counted. hmmlearn: score_samples, scaling, "
    "float64, marginals only. Lengths are those of random sentences of the real data sets; "
    f"OntoNotes: {GENERATOR}."
)


def measured(steps: dict[str, Step], rounds: int) -> dict[str, float]:
    """Median CPU milliseconds of each step over the rounds, all contenders in turns.

    A turn lasts at least `WINDOW` seconds: over less, the clock can miss the time of a library's
    own threads (one step of dynamax on Laptop was seen as 0.14 ms of CPU in 1.5 ms of wall time).
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    repeats = {}
    for name, step in steps.items():
        step()  # compiles, allocates
        begin = time.perf_counter()
        step()
        repeats[name] = max(1, math.ceil(WINDOW / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for name, step in steps.items():
            begin = time.process_time()
            for _ in range(repeats[name]):
                step()
            times[name].append(1e3 * (time.process_time() - begin) / repeats[name])
    return {name: statistics.median(values) for name, values in times.items()}


def compared(title: str, batches: list[Batch], rounds: int, tau: float | None) -> Table:
    """One row a shape; `tau` None: one constant matrix."""
    rows: list[list[Any]] = []
    peers: list[str] = []
    for batch in batches:
        shape = batch.shape
        steps = constant(batch) if tau is None else time_varying(batch, tau)
        times = measured(steps, rounds)
        ours = times.pop("convener")
        peers = list(times)
        size = f"B {shape.batch}, L {shape.labels}, K {shape.sources}"
        tokens, longest = int(batch.lengths.sum()), int(batch.lengths.max())
        row = [shape.name, size, tokens, longest, ours, *(ms / ours for ms in times.values())]
        rows.append(row if tau is None else [*row, *error(batch, tau)])
        print(title, row, flush=True)
    middle = [statistics.median(row[5 + p] for row in rows) for p in range(len(peers))]
    errors = [] if tau is None else ["error", "textbook's error"]
    rows.append(["median", "", None, None, None, *middle, *(None for _ in errors)])
    columns = ["shape", "size", "tokens", "longest", "convener, ms", *peers, *errors]
    formats = {"convener, ms": ".3f"} | dict.fromkeys(peers, ".1f") | dict.fromkeys(errors, ".0e")
    return Table(title=title, columns=columns, rows=rows, formats=formats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dry", action="store_true", help="print only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    batches = [make_batch(shape, options.seed) for shape in SHAPES]
    tables = [
        compared("log p(x) - H(z|x) and gradients, time-varying", batches, options.rounds, 1.0),
        compared("log p(x) and gradients, time-varying", batches, options.rounds, 0.0),
        compared("marginals and expected moves, constant", batches, options.rounds, None),
    ]
    for table in tables:
        print(table)
    if not options.dry:
        packages = ("numba", "torch", "dynamax", "jax", "hmmlearn")
        print(save("chain", tables, seed=options.seed, packages=packages, note=NOTE))


if __name__ == "__main__":
    main()
