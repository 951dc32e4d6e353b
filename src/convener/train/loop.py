"""One loop for every schedule: stages as data, early stopping, gone on with after a kill."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from convener import progress
from convener.insides import curve
from convener.train.journal import Journal, optimizer_tensors, restore_optimizer

LOG = logging.getLogger(__name__)
Weights = dict[str, Tensor]


class Batches(Protocol):
    """What is learned from, as `train.packing.Packing` has it: so many sentences, in batches."""

    def __len__(self) -> int: ...
    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[Any]:
        """All batches of `size` sentences, each as long as it has sentences, drawn by `rng`."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stretch of training: what is minimised, by moving what, for how long."""

    name: str
    loss: Callable[[Any, Generator], Tensor]
    """Of one of the batches."""
    packing: Batches
    trains: tuple[str, ...]
    """Names of the network's parts."""
    lr: float
    epochs: int
    patience: int
    """Stop when so many epochs brought nothing better."""
    smooth: int = 1
    """Scores are averaged over so many epochs before they are compared."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Learning rates of parts that have their own."""
    before: Callable[[], None] | None = None
    """Done once, before the first epoch."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What all stages share."""

    name: str
    seed: int
    batch: int
    decay: float
    score: Callable[[], float] | None = None
    """How good the network is on held-out data; higher is better. None: train to the end."""
    journal: Journal | None = None
    pace: Callable[[float], float] | None = None
    """A factor of all learning rates, by the share of a stage's steps that are done. With it,
    weights decay apart from the gradient (AdamW)."""
    clip: float | None = None
    """Gradients that are longer than this are shortened to it."""


def warmed(share: float) -> Callable[[float], float]:
    """A pace that rises in this share of the steps, and falls to zero in the others.

    >>> pace = warmed(0.1)
    >>> [round(pace(done), 3) for done in (0.0, 0.05, 0.1, 0.55, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return lambda done: done / share if done < share else (1 - done) / (1 - share)


@dataclass(frozen=True)
class Epoch:
    """What was seen in one epoch; epoch 0 is the state before the first."""

    stage: str
    epoch: int
    loss: float | None
    score: float | None


def curves(history: Sequence[Epoch]) -> dict[str, NDArray[Any]]:
    """What was seen in all epochs, stage by stage, to be kept among a model's parameters."""
    found: dict[str, NDArray[Any]] = {}
    for number, stage in enumerate(dict.fromkeys(item.stage for item in history), start=1):
        points = [(item.loss, item.score) for item in history if item.stage == stage]
        found |= curve(f"{number} {stage}", points)
    return found


def run(net: nn.Module, stages: Sequence[Stage], schedule: Schedule) -> list[Epoch]:
    """Train stage by stage; the best weights of each go on to the next.

    Everything random in an epoch depends on the seed, the stage and the epoch alone, so that a
    run that was killed ends with the weights of one that was not.
    """
    kept = None if schedule.journal is None else schedule.journal.read()
    history = [] if kept is None else [Epoch(**item) for item in kept[1]["history"]]
    for number, stage in enumerate(stages):
        resumed = kept if kept is not None and kept[1]["stage"] == number else None
        if kept is not None and number < kept[1]["stage"]:
            continue
        work = _Work(net, stage, number, schedule, history)
        if resumed is not None:
            work.restore(*resumed)
        else:
            work.begin()
        work.finish()
    if schedule.journal is not None:
        schedule.journal.remove()
    return history


class _Work:
    """One stage in progress."""

    def __init__(
        self, net: nn.Module, stage: Stage, number: int, schedule: Schedule, history: list[Epoch]
    ) -> None:
        self.net, self.stage, self.number = net, stage, number
        self.schedule, self.history = schedule, history
        self.optimizer = _optimizer(net, stage, schedule)
        self.steps = -(-len(stage.packing) // schedule.batch)
        self.best: Weights = {}
        self.best_score, self.waited, self.done = -np.inf, 0, 0

    def begin(self) -> None:
        """Prepare, and look where the stage starts from: it may be the best already."""
        if self.stage.before is not None:
            self.stage.before()
        self.best = _weights(self.net)
        self._judge(0, None)

    def finish(self) -> None:
        """All epochs that are left; then the best weights."""
        stage = self.stage
        title = f"{self.schedule.name}: {stage.name}"
        total, done, said = stage.epochs * self.steps, self.done * self.steps, ""
        with progress.bar(title, total, done=done) as advance:
            while self.done < stage.epochs and self.waited < stage.patience:
                epoch = f"epoch {self.done + 1}/{stage.epochs}{said}"
                loss = self._epoch(lambda epoch=epoch: advance(epoch))  # type: ignore[misc]
                self.done += 1
                score = self._judge(self.done, loss)
                said = f", loss {loss:.4f}" + ("" if score is None else f", held out {score:.4f}")
                self._keep()
        if self.schedule.score is not None:
            self.net.load_state_dict(self.best)
        LOG.info("%s: %s: %d epochs", self.schedule.name, stage.name, self.done)

    def restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Go on from where a journal was kept."""
        self.net.load_state_dict(_under("net.", tensors))
        self.best = _under("best.", tensors)
        restore_optimizer(self.optimizer, _under("adam.", tensors))
        self.best_score, self.waited, self.done = (
            facts[name] for name in ("best_score", "waited", "done")
        )

    def _keep(self) -> None:
        if self.schedule.journal is None:
            return
        parts = {
            "net.": _weights(self.net),
            "best.": self.best,
            "adam.": optimizer_tensors(self.optimizer),
        }
        tensors = {prefix + name: t for prefix, part in parts.items() for name, t in part.items()}
        facts = {
            "stage": self.number,
            "best_score": self.best_score,
            "waited": self.waited,
            "done": self.done,
            "history": [asdict(item) for item in self.history],
        }
        self.schedule.journal.write(tensors, facts)

    def _judge(self, epoch: int, loss: float | None) -> float | None:
        """Note the epoch, and whether it is the best so far."""
        score = None if self.schedule.score is None else self.schedule.score()
        self.history.append(Epoch(self.stage.name, epoch, loss, score))
        if score is None:
            return None
        recent = [
            item.score
            for item in self.history[-self.stage.smooth :]
            if item.stage == self.stage.name and item.score is not None
        ]
        smoothed = float(np.mean(recent))
        self.waited += 1
        if smoothed > self.best_score:
            self.best, self.best_score, self.waited = _weights(self.net), smoothed, 0
        return score

    def _epoch(self, step: Callable[[], None]) -> float:
        """One epoch, with a step told after each batch; the mean loss of its sentences."""
        rng = np.random.default_rng((self.schedule.seed, self.number, self.done))
        generator = torch.Generator().manual_seed(int(rng.integers(1 << 62)))
        total, count = 0.0, 0
        batches = self.stage.packing.batches(self.schedule.batch, rng)
        for number, batch in enumerate(batches):
            self._set_pace(self.done * self.steps + number + 1)
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.stage.loss(batch, generator)
            loss.backward()  # type: ignore[no-untyped-call]
            if self.schedule.clip is not None:
                nn.utils.clip_grad_norm_(self.net.parameters(), self.schedule.clip)
            self.optimizer.step()
            total += float(loss.detach()) * len(batch)
            count += len(batch)
            step()
        return total / max(count, 1)

    def _set_pace(self, step: int) -> None:
        """Learning rates for the step of this number, counted from 1 over the whole stage."""
        if self.schedule.pace is None:
            return
        # The last step must not be for nothing: half a step back.
        factor = self.schedule.pace((step - 0.5) / (self.stage.epochs * self.steps))
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor


def _optimizer(net: nn.Module, stage: Stage, schedule: Schedule) -> torch.optim.Optimizer:
    """Adam over the parts that the stage trains; matrices decay, biases do not."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in net.named_parameters():
        part = name.partition(".")[0]
        parameter.requires_grad_(part in stage.trains)
        if part in stage.trains:
            decay = schedule.decay if parameter.ndim > 1 else 0.0
            groups.setdefault((stage.rates.get(part, stage.lr), decay), []).append(parameter)
    kind = torch.optim.Adam if schedule.pace is None else torch.optim.AdamW
    # One pass over each matrix instead of a dozen: with many labels that is a third of a step.
    return kind(
        [
            {"params": found, "lr": lr, "peak": lr, "weight_decay": decay}
            for (lr, decay), found in groups.items()
        ],
        fused=True,
    )


def parts_of(net: nn.Module) -> tuple[str, ...]:
    """Names of all parts of a network, for a stage that trains them all."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name, _ in net.named_parameters()))


def _weights(net: nn.Module) -> Weights:
    return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> Weights:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
