"""The contenders: each a function of no arguments that does one complete training step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from benchmarks.step.shapes import Problem
from benchmarks.step.textbook import Textbook, padded_inputs
from convener.models.neural_chain import chain_loss
from convener.models.sparse_chmm.network import SparseCHMMNetwork
from convener.neural.training import Stage, _build_optimizer

Step = Callable[[], float]
TRAINS = ("initial", "transition", "around", "reliability")
STILL = 1e-12
"""Learning rate: every step does all its work, and the next finds the weights where they were."""


def contenders(problem: Problem, tau: float) -> dict[str, Step]:
    """The textbook, the same written with care, ours, ours with neighbours, the bare layer."""
    return {
        "textbook": textbook_step(problem, tau),
        "careful": textbook_step(problem, tau, careful=True),
        "convener": our_step(problem, problem.net, tau),
        "with context": our_step(problem, problem.wide, tau),
        "layer": layer_step(problem),
    }


def our_step(problem: Problem, net: SparseCHMMNetwork, tau: float) -> Step:
    """What `train.loop` does with a batch in stage 1."""
    stage = Stage(
        name="reliability",
        loss=chain_loss(net, tau, sample=True),
        data=problem.packing,
        trains=TRAINS,
        learning_rate=STILL,
        max_epochs=1,
        patience=1,
    )
    optimizer = _build_optimizer(net, stage, problem.config.decay)
    generator = Generator().manual_seed(0)

    def run() -> float:
        batch = problem.batch
        optimizer.zero_grad(set_to_none=True)
        loss = stage.loss(batch, generator)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return float(loss.detach())

    return run


def textbook_step(problem: Problem, tau: float, *, careful: bool = False) -> Step:
    """Padding and one-hot votes are made beforehand, as by a data loader."""
    net, inputs = Textbook(problem.net), padded_inputs(problem)
    optimizer = torch.optim.Adam(net.parameters(), lr=STILL, weight_decay=problem.config.decay)

    def run() -> float:
        optimizer.zero_grad()
        loss = net(*inputs, tau, careful=careful)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return run


def layer_step(problem: Problem) -> Step:
    """The linear layer of the transitions alone, over the same tokens, under a fixed gradient.

    Adam is fused, as ours is: a floor should not be higher than need be.
    """
    tokens = problem.batch.tokens
    layer = nn.Linear(tokens.shape[1], problem.shape.labels**2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=STILL, weight_decay=problem.config.decay, fused=True)
    gradient = torch.randn(len(tokens), problem.shape.labels**2)

    def run() -> float:
        optimizer.zero_grad()
        out = layer(tokens)
        out.backward(gradient)
        optimizer.step()
        return 0.0

    return run


def disagreement(problem: Problem, tau: float) -> float:
    """Largest relative difference from our objective on mean emissions, of either textbook."""
    net, inputs = Textbook(problem.net), padded_inputs(problem)
    with torch.no_grad():
        ours: Tensor = chain_loss(problem.net, tau, sample=False)(problem.batch, Generator())
        theirs = [net(*inputs, tau, sample=False, careful=careful) for careful in (False, True)]
    return max(abs(float(value) / float(ours) - 1) for value in theirs)
