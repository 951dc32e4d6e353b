"""`python -m benchmarks.speed.chain`: CPU time of the chain compared with other implementations.

One thread each, alternating, in one process.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before the libraries are loaded: one thread each
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"

import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness.cli import simple_parser
from benchmarks.harness.results import RESULTS, save_tables
from benchmarks.harness.timing import WINDOW, is_installed, median_times
from benchmarks.speed.batches import GENERATOR, Array, ChainBatch, available_shapes, chain_batch
from benchmarks.speed.textbook import chain_objective as textbook_objective
from convener.data.tables import Table
from convener.inference import autograd, chain
from tests.oracles.chain import chain_objective_reference

NOTE = (
    "Median CPU time of one thread, implementations alternate; a ratio is the other's time over ours. "
    "textbook: padded, log space, a loop over time that indexes x[:, t], autograd; unbound: the "
    "same with the steps taken apart once before the loop. dynamax: hmm_smoother, jit and vmap "
    "over the padded batch, float32, compilation not counted. hmmlearn: score_samples, scaling, "
    "float64, marginals only. Lengths are those of random sentences of the real data sets; "
    f"OntoNotes: {GENERATOR}."
)
OURS = "convener"
Step = Callable[[], Any]


def padded(rows: Array, lengths: Array) -> Array:
    """Packed rows as (B, T, ...), zeros after the end."""
    out = np.zeros((len(lengths), lengths.max(), *rows.shape[1:]), rows.dtype)
    out[np.arange(lengths.max())[None] < lengths[:, None]] = rows
    return out


def time_varying_steps(batch: ChainBatch, tau: float) -> dict[str, Step]:
    """Objective and gradients with logits by token, all through autograd."""
    packed = [torch.tensor(x) for x in (batch.log_initial, batch.logits, batch.log_evidence)]
    wide = [packed[0], *(torch.tensor(padded(x.numpy(), batch.lengths)) for x in packed[1:])]
    offsets, lengths = torch.tensor(batch.offsets), torch.tensor(batch.lengths)

    def step(inputs: list[torch.Tensor], objective: Callable[..., torch.Tensor]) -> Step:
        leaves = [x.clone().requires_grad_() for x in inputs]

        def run() -> tuple[Any, ...]:
            total = objective(*leaves).sum()
            return (total.detach(), *torch.autograd.grad(total, leaves))

        return run

    return {
        OURS: step(packed, lambda a, b, c: autograd.chain_objective(a, b, c, offsets, tau=tau)[0]),
        "torch reference": step(packed, lambda a, b, c: chain_objective_reference(a, b, c, offsets, tau=tau)[0]),
        "textbook": step(wide, lambda a, b, c: textbook_objective(a, b, c, lengths, tau)),
        "textbook, unbound": step(wide, lambda a, b, c: textbook_objective(a, b, c, lengths, tau, unbound=True)),
    }


def constant_steps(batch: ChainBatch) -> dict[str, Step]:
    """Posterior marginals, expected transitions and log-likelihood with one transition matrix."""
    arrays = (batch.log_initial, batch.log_transition, batch.log_evidence, batch.offsets)
    transition = np.exp(batch.log_transition)
    first = np.exp(batch.log_initial) @ transition
    steps: dict[str, Step] = {OURS: lambda: chain.expected_counts(*arrays)}
    if is_installed("jax") and is_installed("dynamax"):
        steps["dynamax"] = _dynamax_step(batch, first, transition)
    if is_installed("hmmlearn"):
        steps["hmmlearn"] = _hmmlearn_step(batch, first, transition)
    return steps


def _dynamax_step(batch: ChainBatch, first: Array, transition: Array) -> Step:
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import hmm_smoother

    # A padded step with evidence 1 changes no likelihood, so padding needs no mask here.
    wide = jnp.asarray(padded(batch.log_evidence, batch.lengths))
    smooth = jax.jit(jax.vmap(lambda like: hmm_smoother(jnp.asarray(first), jnp.asarray(transition), like)))

    def run() -> Any:
        done = smooth(wide)
        return jax.block_until_ready((done.marginal_loglik, done.smoothed_probs, done.trans_probs))

    return run


def _hmmlearn_step(batch: ChainBatch, first: Array, transition: Array) -> Step:
    from hmmlearn.base import BaseHMM

    class GivenLikelihoods(BaseHMM):  # type: ignore[misc]
        """hmmlearn on likelihoods instead of observations."""

        def _compute_likelihood(self, X: Array) -> Array:
            return np.exp(X)

    model = GivenLikelihoods(len(first), implementation="scaling")
    rows, initial = transition.astype(np.float64), first.astype(np.float64)
    model.startprob_, model.transmat_ = initial / initial.sum(), rows / rows.sum(1, keepdims=True)
    double = batch.log_evidence.astype(np.float64)
    return lambda: model.score_samples(double, batch.lengths)


def relative_errors(batch: ChainBatch, tau: float) -> tuple[float, float]:
    """Relative error of the summed objective against float64, ours and the textbook's."""
    inputs = [torch.tensor(x) for x in (batch.log_initial, batch.logits, batch.log_evidence)]
    wide = [inputs[0], *(torch.tensor(padded(x.numpy(), batch.lengths)) for x in inputs[1:])]
    lengths, offsets = torch.tensor(batch.lengths), torch.tensor(batch.offsets)
    with torch.no_grad():
        exact = float(textbook_objective(*(x.double() for x in wide), lengths, tau).sum())
        ours = float(autograd.chain_objective(*inputs, offsets, tau=tau)[0].double().sum())
        theirs = float(textbook_objective(*wide, lengths, tau).double().sum())
    return abs(ours / exact - 1), abs(theirs / exact - 1)


def compare(title: str, batches: list[ChainBatch], rounds: int, window: float, tau: float | None) -> Table:
    """One row per shape; with `tau` None one constant transition matrix."""
    rows: list[list[Any]] = []
    others: list[str] = []
    for batch in batches:
        shape = batch.shape
        times = median_times(
            constant_steps(batch) if tau is None else time_varying_steps(batch, tau), rounds, window=window
        )
        ours = times.pop(OURS)
        others = list(times)
        size = f"B {shape.batch}, L {shape.labels}, K {shape.sources}"
        tokens, longest = int(batch.lengths.sum()), int(batch.lengths.max())
        row = [shape.name, size, tokens, longest, ours, *(ms / ours for ms in times.values())]
        rows.append(row if tau is None else [*row, *relative_errors(batch, tau)])
    medians = [statistics.median(row[5 + n] for row in rows) for n in range(len(others))]
    errors = [] if tau is None else ["error", "textbook's error"]
    rows.append(["median", "", None, None, None, *medians, *(None for _ in errors)])
    columns = ["shape", "size", "tokens", "longest", f"{OURS}, ms", *others, *errors]
    formats = {f"{OURS}, ms": ".3f"} | dict.fromkeys(others, ".1f") | dict.fromkeys(errors, ".0e")
    return Table(title=title, columns=columns, rows=rows, formats=formats)


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("speed.chain", __doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args(argv)
    rounds, window = (1, 0.0) if args.smoke else (args.rounds, WINDOW)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        batches = [chain_batch(shape, args.seed) for shape in available_shapes(smoke=args.smoke)]
        tables = [
            compare("log p(x) - H(z|x) and gradients, time-varying", batches, rounds, window, 1.0),
            compare("log p(x) and gradients, time-varying", batches, rounds, window, 0.0),
            compare("marginals and expected transitions, constant", batches, rounds, window, None),
        ]
    finally:
        torch.set_num_threads(threads)
    packages = ("numba", "torch", "dynamax", "jax", "hmmlearn")
    save_tables(results, "speed/chain", tables, seed=args.seed, packages=packages, note=NOTE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
