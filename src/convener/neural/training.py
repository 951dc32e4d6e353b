"""Training loop: stages as data, early stopping, and resuming from a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from convener import progress
from convener.data.diagnostics import learning_curve
from convener.neural.checkpoint import TrainingCheckpoint, optimizer_tensors, restore_optimizer

LOG = logging.getLogger(__name__)
StateDict = dict[str, Tensor]


class BatchIterable(Protocol):
    """Training data of a stage, such as `batch.PackedDataset`: a number of sentences, in batches."""

    def __len__(self) -> int: ...
    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[Any]:
        """Batches of `size` sentences, in an order drawn by `rng`; len(batch) is its number of sentences."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of training: the loss, the parameters it trains, and when it ends."""

    name: str
    """Name in learning curves; no two stages of a run have the same."""
    loss: Callable[[Any, Generator], Tensor]
    """Loss of one batch; the generator is the source of randomness."""
    data: BatchIterable
    trains: tuple[str, ...]
    """Names of the parameter groups that are trained: parameter names up to the first dot."""
    learning_rate: float
    max_epochs: int
    patience: int
    """Stop after this many epochs without improvement."""
    score_window: int = 1
    """Number of epochs over which scores are averaged before they are compared."""
    early_stopping: bool = True
    """Stop after `patience` epochs and keep the weights with the best score; otherwise train `max_epochs` epochs and
    keep the last weights."""
    learning_rates: Mapping[str, float] = field(default_factory=dict)
    """Learning rates of parameter groups that differ from `learning_rate`."""
    on_start: Callable[[], None] | None = None
    """Called once, before the first epoch."""
    before_epoch: Callable[[int], None] | None = None
    """Called before each epoch with the number of those before it, also when a run resumes there."""


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """Settings shared by all stages."""

    name: str
    seed: int
    batch_size: int
    weight_decay: float
    validation_score: Callable[[], float] | None = None
    """Score on held-out data, higher is better. None switches early stopping off."""
    checkpoint: TrainingCheckpoint | None = None
    lr_schedule: Callable[[float], float] | None = None
    """Factor of all learning rates as a function of the completed fraction of a stage. It switches the optimizer from
    Adam to AdamW."""
    max_grad_norm: float | None = None
    """Gradients with a larger norm are scaled down to it. None switches clipping off."""


def linear_warmup(warmup_ratio: float) -> Callable[[float], float]:
    """A schedule that rises linearly to 1 in this fraction of the steps, then falls linearly to 0.

    >>> schedule = linear_warmup(0.1)
    >>> [round(schedule(done), 3) for done in (0.0, 0.05, 0.1, 0.55, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return lambda done: done / warmup_ratio if done < warmup_ratio else (1 - done) / (1 - warmup_ratio)


@dataclass(frozen=True)
class EpochRecord:
    """Loss and validation score of one epoch; epoch 0 is the state before training."""

    stage: str
    epoch: int
    loss: float | None
    score: float | None


@contextmanager
def torch_threads(num_threads: int) -> Iterator[None]:
    """Set the number of threads of torch within the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def learning_curves(history: Sequence[EpochRecord]) -> dict[str, NDArray[np.float64]]:
    """Loss and validation score of all epochs, by number and name of the stage."""
    stages = dict.fromkeys(record.stage for record in history)
    return {
        f"{number} {stage}": learning_curve((item.loss, item.score) for item in history if item.stage == stage)
        for number, stage in enumerate(stages, start=1)
    }


def train_network(net: nn.Module, stages: Sequence[Stage], settings: TrainingRun) -> list[EpochRecord]:
    """Train stage by stage; each stage starts from the best weights of the previous one.

    All randomness of an epoch depends on the seed, the stage and the epoch only, so that an interrupted and resumed
    run ends with the same weights as an uninterrupted one.
    """
    _check_stages(net, stages)
    saved = None if settings.checkpoint is None else settings.checkpoint.read()
    history = [] if saved is None else [EpochRecord(**record) for record in saved[1]["history"]]
    for index, stage in enumerate(stages):
        resumed = saved if saved is not None and saved[1]["stage"] == index else None
        if saved is not None and index < saved[1]["stage"]:
            continue
        stage_run = _StageRun(net, stage, index, settings, history)
        if resumed is not None:
            stage_run.restore(*resumed)
        else:
            stage_run.start()
        stage_run.finish()
    if settings.checkpoint is not None:
        settings.checkpoint.remove()
    return history


def _check_stages(net: nn.Module, stages: Sequence[Stage]) -> None:
    """Refuse parameter groups that the network does not have, and names that occur twice."""
    known, names = set(parameter_groups(net)), [stage.name for stage in stages]
    for stage in stages:
        if unknown := sorted(set(stage.trains) - known):
            raise ValueError(f"stage {stage.name!r} trains unknown parameters: {', '.join(unknown)}")
        if names.count(stage.name) > 1:
            raise ValueError(f"two stages are named {stage.name!r}")


class _StageRun:
    """One stage in progress."""

    def __init__(
        self,
        net: nn.Module,
        stage: Stage,
        index: int,
        settings: TrainingRun,
        history: list[EpochRecord],
    ) -> None:
        self.net, self.stage, self.index = net, stage, index
        self.settings, self.history = settings, history
        self.optimizer = _build_optimizer(net, stage, settings)
        self.steps_per_epoch = -(-len(stage.data) // settings.batch_size)
        self.best_weights: StateDict = {}
        self.best_score, self.epochs_since_best, self.epochs_done = -np.inf, 0, 0

    def start(self) -> None:
        """Prepare the stage and score the initial weights, which may already be the best."""
        if self.stage.on_start is not None:
            self.stage.on_start()
        self.best_weights = _copy_state_dict(self.net)
        self._record_epoch(0, None)

    def finish(self) -> None:
        """Run the remaining epochs, then load the best weights."""
        stage = self.stage
        title = f"{self.settings.name}: {stage.name}"
        total_steps, steps_done, status = (
            stage.max_epochs * self.steps_per_epoch,
            self.epochs_done * self.steps_per_epoch,
            "",
        )
        with progress.progress_bar(title, total_steps, completed=steps_done) as advance:
            while self.epochs_done < stage.max_epochs and self.epochs_since_best < stage.patience:
                epoch = f"epoch {self.epochs_done + 1}/{stage.max_epochs}{status}"
                if stage.before_epoch is not None:
                    stage.before_epoch(self.epochs_done)
                loss = self._train_epoch(lambda epoch=epoch: advance(epoch))  # type: ignore[misc]
                self.epochs_done += 1
                score = self._record_epoch(self.epochs_done, loss)
                status = f", loss {loss:.4f}" + ("" if score is None else f", validation score {score:.4f}")
                self._save_checkpoint()
        if self.settings.validation_score is not None and stage.early_stopping:
            self.net.load_state_dict(self.best_weights)
        LOG.info("%s: %s: %d epochs", self.settings.name, stage.name, self.epochs_done)

    def restore(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.net.load_state_dict(_strip_prefix("net.", tensors))
        self.best_weights = _strip_prefix("best.", tensors)
        restore_optimizer(self.optimizer, _strip_prefix("optimizer.", tensors))
        self.best_score, self.epochs_since_best, self.epochs_done = (
            metadata[name] for name in ("best_score", "epochs_since_best", "epochs_done")
        )

    def _save_checkpoint(self) -> None:
        if self.settings.checkpoint is None:
            return
        state_dicts = {
            "net.": _copy_state_dict(self.net),
            "best.": self.best_weights,
            "optimizer.": optimizer_tensors(self.optimizer),
        }
        tensors = {
            prefix + name: tensor for prefix, state_dict in state_dicts.items() for name, tensor in state_dict.items()
        }
        metadata = {
            "stage": self.index,
            "best_score": self.best_score,
            "epochs_since_best": self.epochs_since_best,
            "epochs_done": self.epochs_done,
            "history": [asdict(record) for record in self.history],
        }
        self.settings.checkpoint.write(tensors, metadata)

    def _record_epoch(self, epoch: int, loss: float | None) -> float | None:
        """Append the epoch to the history; keep its weights if its smoothed score is the best so far."""
        score = None if self.settings.validation_score is None else self.settings.validation_score()
        self.history.append(EpochRecord(self.stage.name, epoch, loss, score))
        if score is None or not self.stage.early_stopping:
            return score
        recent = [
            record.score
            for record in self.history[-self.stage.score_window :]
            if record.stage == self.stage.name and record.score is not None
        ]
        smoothed = float(np.mean(recent))
        self.epochs_since_best += 1
        if smoothed > self.best_score:
            self.best_weights, self.best_score, self.epochs_since_best = (
                _copy_state_dict(self.net),
                smoothed,
                0,
            )
        return score

    def _train_epoch(self, on_step: Callable[[], None]) -> float:
        """Train one epoch, calling `on_step` after each batch; return the mean loss per sentence."""
        rng = np.random.default_rng((self.settings.seed, self.index, self.epochs_done))
        generator = torch.Generator().manual_seed(int(rng.integers(1 << 62)))
        total, count = 0.0, 0
        batches = self.stage.data.batches(self.settings.batch_size, rng)
        for number, batch in enumerate(batches):
            self._set_learning_rates(self.epochs_done * self.steps_per_epoch + number + 1)
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.stage.loss(batch, generator)
            loss.backward()  # type: ignore[no-untyped-call]
            if self.settings.max_grad_norm is not None:
                nn.utils.clip_grad_norm_(self.net.parameters(), self.settings.max_grad_norm)
            self.optimizer.step()
            total += float(loss.detach()) * len(batch)
            count += len(batch)
            on_step()
        return total / max(count, 1)

    def _set_learning_rates(self, step: int) -> None:
        """Set the learning rates of a step, counted from 1 over all epochs of the stage."""
        if self.settings.lr_schedule is None:
            return
        # Half a step back, so that the last step has a positive learning rate.
        factor = self.settings.lr_schedule((step - 0.5) / (self.stage.max_epochs * self.steps_per_epoch))
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor


def _build_optimizer(net: nn.Module, stage: Stage, settings: TrainingRun) -> torch.optim.Optimizer:
    """Adam over the parameter groups of the stage; weight decay applies to matrices, not to biases."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in net.named_parameters():
        group_name = name.partition(".")[0]
        parameter.requires_grad_(group_name in stage.trains)
        if group_name in stage.trains:
            decay = settings.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((stage.learning_rates.get(group_name, stage.learning_rate), decay), []).append(parameter)
    optimizer_class = torch.optim.Adam if settings.lr_schedule is None else torch.optim.AdamW
    # Fused: one pass over each matrix instead of a dozen, which saves a third of a step with many labels.
    return optimizer_class(
        [
            {
                "params": parameters,
                "lr": learning_rate,
                "peak": learning_rate,
                "weight_decay": decay,
            }
            for (learning_rate, decay), parameters in groups.items()
        ],
        fused=True,
    )


def parameter_groups(net: nn.Module) -> tuple[str, ...]:
    """Names of all parameter groups of a network: parameter names up to the first dot."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name, _ in net.named_parameters()))


def _copy_state_dict(net: nn.Module) -> StateDict:
    return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}


def _strip_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> StateDict:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
