"""The contenders: each a function of no arguments that does one complete training step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from benchmarks.step.shapes import Problem
from benchmarks.step.textbook import Textbook, padded_inputs
from convener.train.loop import Stage, _optimizer
from convener.train.neural import chain_loss

Step = Callable[[], float]
TRAINS = ("initial", "transition", "reliability")
STILL = 1e-12
"""Learning rate: every step does all its work, and the next finds the weights where they were."""


def contenders(problem: Problem, tau: float) -> dict[str, Step]:
    """The textbook, the same with care for autograd, ours, the bare layer."""
    return {
        "textbook": textbook_step(problem, tau),
        "with lists": textbook_step(problem, tau, lists=True),
        "convener": our_step(problem, tau),
        "layer": layer_step(problem),
    }


def our_step(problem: Problem, tau: float) -> Step:
    """What `train.loop` does with a batch in stage 1."""
    net, config, size = problem.net, problem.config, problem.shape.batch
    stage = Stage(
        name="reliability",
        loss=chain_loss(net, tau, sample=True),
        packing=problem.packing,
        trains=TRAINS,
        lr=STILL,
        epochs=1,
        patience=1,
    )
    optimizer = _optimizer(net, stage, config.decay)
    generator = Generator().manual_seed(0)

    def run() -> float:
        batch = problem.packing.batch(size, 2 * size)
        optimizer.zero_grad(set_to_none=True)
        loss = stage.loss(batch, generator)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return float(loss.detach())

    return run


def textbook_step(problem: Problem, tau: float, *, lists: bool = False) -> Step:
    """Padding and one-hot votes are made beforehand, as by a data loader."""
    net, inputs = Textbook(problem.net), padded_inputs(problem)
    optimizer = torch.optim.Adam(net.parameters(), lr=STILL, weight_decay=problem.config.decay)

    def run() -> float:
        optimizer.zero_grad()
        loss = net(*inputs, tau, lists=lists)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return run


def layer_step(problem: Problem) -> Step:
    """The linear layer of the transitions alone, over the same tokens, under a fixed gradient."""
    tokens = problem.batch.tokens
    layer = nn.Linear(tokens.shape[1], problem.shape.labels**2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=STILL, weight_decay=problem.config.decay)
    gradient = torch.randn(len(tokens), problem.shape.labels**2)

    def run() -> float:
        optimizer.zero_grad()
        out = layer(tokens)
        out.backward(gradient)
        optimizer.step()
        return 0.0

    return run


def disagreement(problem: Problem, tau: float) -> float:
    """Relative difference of the objectives on mean emissions, the textbook's and ours."""
    with torch.no_grad():
        ours: Tensor = chain_loss(problem.net, tau, sample=False)(problem.batch, Generator())
        theirs = Textbook(problem.net)(*padded_inputs(problem), tau, sample=False)
    return abs(float(theirs) / float(ours) - 1)
