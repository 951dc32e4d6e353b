"""`python -m benchmarks.chain`: ratios of CPU time, one thread each, in turns, in one run."""

from __future__ import annotations

import os

# Before anything loads: every library gets one thread.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import argparse
import statistics
from typing import Any

import torch

from benchmarks.chain.peers import constant, error, time_varying
from benchmarks.chain.shapes import GENERATOR, SHAPES, Batch, make_batch
from benchmarks.record import save
from benchmarks.turns import measured
from convener.data.tables import Table

NOTE = (
    "Median CPU time of one thread, contenders in turns; a ratio is the other's time over ours. "
    "textbook: padded, log space, a loop over time that indexes x[:, t], autograd; unbound: the "
    "same with the steps taken apart once before the loop. dynamax: hmm_smoother, jit and vmap "
    "over the padded batch, float32, compilation not counted. hmmlearn: score_samples, scaling, "
    "float64, marginals only. Lengths are those of random sentences of the real data sets; "
    f"OntoNotes: {GENERATOR}."
)


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
