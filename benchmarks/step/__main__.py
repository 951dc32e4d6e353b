"""`python -m benchmarks.step`: one training step beside the textbook's and the bare layer.

CPU time of one thread, contenders in turns, in one run; then the time of whole fits.
"""

from __future__ import annotations

import os

# Before anything loads: every library gets one thread.
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import warnings
from typing import Any

import torch

import convener as cv
from benchmarks.record import save
from benchmarks.step.fits import ENCODER, fits
from benchmarks.step.shapes import GENERATOR, WIDTH, Problem, problems
from benchmarks.step.steps import contenders, disagreement
from benchmarks.turns import measured

ALIKE = 1e-3
"""The objectives may differ by so much, relative."""
# At least so many times as fast as the textbook, at most so many times as slow as the layer.
WANTED = {
    "NCBI": (25, 1.7),
    "Laptop": (12, 3.0),
    "BC5CDR": (60, 1.7),
    "CoNLL": (30, 3.0),
    "OntoNotes": (30, 2.2),
}
NOTE = (
    f"One step of stage 1 (forward, backward, Adam), width {WIDTH}, float32, the paper's moves: "
    "median CPU time of one thread in ms, contenders in turns. Real votes and lengths, of the "
    "batch of an epoch whose "
    "longest sentence is of median length; features are standard normal numbers, for speed does "
    f"not see their values; {GENERATOR}. textbook: the public implementation's structure (padded, "
    "log space, alpha, beta and xi filled by loops over time, one-hot votes times emissions in log "
    "space, all emissions drawn, autograd), but exact; for tau = 0 only the forward recursion. "
    "careful: the same with an ordinary product for the evidence, lists instead of filled tensors, "
    "xi without a loop. Their padding is made beforehand and not counted. convener: as "
    "`train.loop` does it; with context: the same with the default's neighbours and dropout. "
    "layer: the transitions' linear layer alone, forward and backward under "
    "a fixed gradient, and fused Adam. Learning rates are next to zero, so that every step is the "
    "same. alike: the largest relative difference of the textbooks' objectives from ours, on "
    "mean emissions."
)


def row_of(problem: Problem, tau: float, rounds: int) -> list[Any]:
    """Sizes, times and ratios of one shape."""
    shape, batch = problem.shape, problem.batch
    alike = disagreement(problem, tau)
    if alike > ALIKE:
        raise SystemExit(f"{shape.name}: the objectives differ by {alike:.0e}")
    times = measured(contenders(problem, tau), rounds)
    ours, (faster, slower) = times["convener"], WANTED[shape.name]
    size = f"B {shape.batch}, L {shape.labels}, K {shape.sources}"
    sizes = [size, len(batch.tokens), int(batch.offsets.diff().max())]
    ratios = [times["textbook"] / ours, faster, times["careful"] / ours]
    return [shape.name, *sizes, *times.values(), *ratios, ours / times["layer"], slower, alike]


def compared(tau: float, found: list[Problem], rounds: int) -> cv.Table:
    """One row a shape."""
    rows = []
    for problem in found:
        rows.append(row_of(problem, tau, rounds))
        print(tau, rows[-1], flush=True)
    times = ("textbook", "careful", "convener", "with context", "layer")
    ratios = ("textbook / convener", "careful / convener", "convener / layer")
    columns = ["shape", "size", "tokens", "longest", *times]
    columns += [ratios[0], "at least", *ratios[1:], "at most", "alike"]
    formats = dict.fromkeys(times, ".1f") | dict.fromkeys(ratios[:2], ".1f")
    formats |= {ratios[2]: ".2f", "at most": ".1f", "alike": ".0e"}
    objective = "log p(x)" if tau == 0 else "log p(x) - H(z|x)"
    return cv.Table(title=f"{objective}, tau {tau:g}", columns=columns, rows=rows, formats=formats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dry", action="store_true", help="print only")
    options = parser.parse_args()
    warnings.simplefilter("ignore", cv.ConvenerWarning)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    found = problems(options.seed)
    tables = [compared(tau, found, options.rounds) for tau in (1.0, 0.0)]
    tables.append(fits())
    for table in tables:
        print(table)
    if not options.dry:
        note = f"{NOTE} Whole fits: default settings, cached features of {ENCODER}."
        print(save("step", tables, seed=options.seed, packages=("numba", "torch"), note=note))


if __name__ == "__main__":
    main()
