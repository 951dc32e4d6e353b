"""The contenders: each a function of no arguments that does one complete step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from dynamax.hidden_markov_model import hmm_smoother
from hmmlearn.base import BaseHMM

from benchmarks.chain.shapes import Array, Batch
from benchmarks.chain.textbook import textbook
from convener.inference import autograd, chain

Step = Callable[[], Any]
ours: Any = autograd.chain_objective
twin: Any = autograd.objective_twin
ready: Any = jax.block_until_ready


def padded(rows: Array, lengths: Array) -> Array:
    """Packed rows as (B, T, ...), zeros after the end."""
    out = np.zeros((len(lengths), lengths.max(), *rows.shape[1:]), rows.dtype)
    out[np.arange(lengths.max())[None] < lengths[:, None]] = rows
    return out


def time_varying(batch: Batch, tau: float) -> dict[str, Step]:
    """Objective and gradients with logits of their own at every token; all through autograd."""
    packed = [torch.tensor(x) for x in (batch.log_init, batch.logits, batch.log_like)]
    wide = [packed[0], *(torch.tensor(padded(x.numpy(), batch.lengths)) for x in packed[1:])]
    offsets, lengths = torch.tensor(batch.offsets), torch.tensor(batch.lengths)

    def step(inputs: list[torch.Tensor], value: Callable[..., torch.Tensor]) -> Step:
        leaves = [x.clone().requires_grad_() for x in inputs]

        def run() -> tuple[Any, ...]:
            total = value(*leaves).sum()
            return (total.detach(), *torch.autograd.grad(total, leaves))

        return run

    return {
        "convener": step(packed, lambda a, b, c: autograd.chain_objective(a, b, c, offsets, tau=tau)[0]),
        "torch twin": step(packed, lambda a, b, c: autograd.objective_twin(a, b, c, offsets, tau=tau)[0]),
        "textbook": step(wide, lambda a, b, c: textbook(a, b, c, lengths, tau)),
        "textbook, unbound": step(wide, lambda a, b, c: textbook(a, b, c, lengths, tau, unbound=True)),
    }


class _Given(BaseHMM):  # type: ignore[misc]
    """hmmlearn on likelihoods instead of observations."""

    def _compute_likelihood(self, X: Array) -> Array:
        return np.exp(X)


def constant(batch: Batch) -> dict[str, Step]:
    """Posterior marginals, expected moves and log-likelihood with one matrix for all."""
    arrays = (batch.log_init, batch.log_trans, batch.log_like, batch.offsets)
    moves = np.exp(batch.log_trans)
    first = np.exp(batch.log_init) @ moves

    # A padded step with evidence 1 changes no likelihood, so padding needs no mask here.
    wide = jnp.asarray(padded(batch.log_like, batch.lengths))
    smooth = jax.jit(jax.vmap(lambda like: hmm_smoother(jnp.asarray(first), jnp.asarray(moves), like)))

    peer = _Given(len(first), implementation="scaling")
    rows = moves.astype(np.float64)
    start = first.astype(np.float64)
    peer.startprob_, peer.transmat_ = start / start.sum(), rows / rows.sum(1, keepdims=True)
    double = batch.log_like.astype(np.float64)

    def run_dynamax() -> Any:
        done = smooth(wide)
        return ready((done.marginal_loglik, done.smoothed_probs, done.trans_probs))

    return {
        "convener": lambda: chain.expected_counts(*arrays),
        "dynamax": run_dynamax,
        "hmmlearn": lambda: peer.score_samples(double, batch.lengths),
    }


def error(batch: Batch, tau: float) -> tuple[float, float]:
    """Relative error of the summed objective, ours and the textbook's, beside float64."""
    inputs = [torch.tensor(x) for x in (batch.log_init, batch.logits, batch.log_like)]
    wide = [inputs[0], *(torch.tensor(padded(x.numpy(), batch.lengths)) for x in inputs[1:])]
    lengths, offsets = torch.tensor(batch.lengths), torch.tensor(batch.offsets)
    with torch.no_grad():
        start, logits, like = wide
        precise = textbook(start.double(), logits.double(), like.double(), lengths, tau)
        exact = float(precise.sum())
        found = float(ours(*inputs, offsets, tau=tau)[0].double().sum())
        theirs = float(textbook(start, logits, like, lengths, tau).double().sum())
    return abs(found / exact - 1), abs(theirs / exact - 1)
