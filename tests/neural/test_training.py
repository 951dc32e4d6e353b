"""The training loop on a small network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

import convener as cv
from convener.neural.batch import Batch, PackedDataset
from convener.neural.checkpoint import TrainingCheckpoint, checkpoint_for
from convener.neural.training import EpochRecord, Stage, TrainingRun, linear_warmup, parameter_groups, train_network


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(24, 1)
        self.second = nn.Linear(24, 1)
        nn.init.zeros_(self.first.weight)
        nn.init.zeros_(self.second.weight)


def loss_of(net: Toy, part: str) -> Callable[[Batch, Generator], Tensor]:
    def loss(batch: Batch, generator: Generator) -> Tensor:
        noise = torch.randn(len(batch.sentences), 1, generator=generator)
        return (getattr(net, part)(batch.sentences) - 1 + 0.01 * noise).square().mean()

    return loss


def stages(net: Toy, packed: PackedDataset, **changes: object) -> list[Stage]:
    common = {"data": packed, "learning_rate": 0.01, "max_epochs": 6, "patience": 10} | changes
    return [
        Stage(name=part, loss=loss_of(net, part), trains=(part,), **common)  # type: ignore[arg-type]
        for part in ("first", "second")
    ]


def schedule(**changes: object) -> TrainingRun:
    return TrainingRun(**({"name": "toy", "seed": 3, "batch_size": 8, "weight_decay": 0.0} | changes))  # type: ignore[arg-type]


def weights(net: nn.Module) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in net.state_dict().values()]


def trained(packed: PackedDataset, **changes: object) -> tuple[Toy, list[EpochRecord]]:
    torch.manual_seed(0)
    net = Toy()
    return net, train_network(net, stages(net, packed), schedule(**changes))


def test_the_loss_falls_and_only_named_groups_change(encoded: cv.Dataset) -> None:
    packed = PackedDataset.from_dataset(encoded)
    torch.manual_seed(0)
    net = Toy()
    before = net.second.weight.detach().clone()
    history = train_network(net, stages(net, packed)[:1], schedule())
    losses = [item.loss for item in history if item.loss is not None]
    assert losses[-1] < 0.7 * losses[0]
    assert torch.equal(net.second.weight, before)
    assert net.first.weight.abs().max() > 0


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(encoded: cv.Dataset) -> None:
    packed = PackedDataset.from_dataset(encoded)
    assert weights(trained(packed)[0]) == weights(trained(packed)[0])
    assert weights(trained(packed)[0]) != weights(trained(packed, seed=4)[0])


def test_schedule_and_clipping_equal_a_plain_loop(encoded: cv.Dataset) -> None:
    """AdamW with warm-up, decay to zero and clipped gradients, written out."""
    packed, epochs, lr = PackedDataset.from_dataset(encoded), 3, 0.05
    torch.manual_seed(0)
    net, plain = Toy(), Toy()
    plain.load_state_dict(net.state_dict())
    only = stages(net, packed, max_epochs=epochs, learning_rate=lr)[:1]
    train_network(net, only, schedule(lr_schedule=linear_warmup(0.25), max_grad_norm=0.1, weight_decay=0.3))

    groups = [
        {"params": [plain.first.weight], "weight_decay": 0.3},
        {"params": [plain.first.bias], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=lr)
    loss_of_batch, total, step = loss_of(plain, "first"), epochs * len(list(packed.batches(8))), 0
    for epoch in range(epochs):
        rng = np.random.default_rng((3, 0, epoch))
        generator = torch.Generator().manual_seed(int(rng.integers(1 << 62)))
        for batch in packed.batches(8, rng):
            share = (step + 0.5) / total
            factor = share / 0.25 if share < 0.25 else (1 - share) / 0.75
            for group in optimizer.param_groups:
                group["lr"] = lr * factor
            optimizer.zero_grad()
            loss_of_batch(batch, generator).backward()
            nn.utils.clip_grad_norm_([plain.first.weight, plain.first.bias], 0.1)
            optimizer.step()
            step += 1
    assert step == total
    for one, other in zip(net.first.parameters(), plain.first.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert parameter_groups(net) == ("first", "second")


def test_the_best_weights_are_kept_and_patience_ends_a_stage(encoded: cv.Dataset) -> None:
    scores = iter([0.1, 0.5, 0.9, 0.4, 0.3, 0.2])
    net = Toy()
    seen: list[Tensor] = []

    def score() -> float:
        seen.append(net.first.weight.detach().clone())
        return next(scores)

    only = stages(net, PackedDataset.from_dataset(encoded), patience=2)[:1]
    history = train_network(net, only, schedule(validation_score=score))
    assert [item.score for item in history] == [0.1, 0.5, 0.9, 0.4, 0.3]
    assert torch.equal(net.first.weight, seen[2])


def test_a_stage_without_improvement_keeps_the_initial_weights(encoded: cv.Dataset) -> None:
    net = Toy()
    scores = iter([0.9, 0.1, 0.1])
    before = net.first.weight.detach().clone()
    train_network(
        net,
        stages(net, PackedDataset.from_dataset(encoded), patience=2)[:1],
        schedule(validation_score=lambda: next(scores)),
    )
    assert torch.equal(net.first.weight, before)


def test_a_stage_without_early_stopping_keeps_its_last_weights(encoded: cv.Dataset) -> None:
    net = Toy()
    scores = iter([0.9, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
    seen: list[Tensor] = []

    def score() -> float:
        seen.append(net.first.weight.detach().clone())
        return next(scores)

    only = stages(net, PackedDataset.from_dataset(encoded), patience=1, early_stopping=False)[:1]
    history = train_network(net, only, schedule(validation_score=score))
    assert [item.epoch for item in history] == list(range(7))
    assert torch.equal(net.first.weight, seen[-1])


def test_scores_are_smoothed_before_they_are_compared(encoded: cv.Dataset) -> None:
    scores = iter([0.0, 0.0, 0.9, 0.5, 0.5, 0.0, 0.0])
    net = Toy()
    seen: list[Tensor] = []

    def score() -> float:
        seen.append(net.first.weight.detach().clone())
        return next(scores)

    train_network(
        net, stages(net, PackedDataset.from_dataset(encoded), score_window=2)[:1], schedule(validation_score=score)
    )
    assert torch.equal(net.first.weight, seen[3])  # (0.9 + 0.5) / 2 is the best mean of two


class KilledError(Exception):
    pass


@pytest.mark.parametrize("moment", range(1, 12))
def test_training_resumed_after_any_epoch_ends_with_the_same_weights(
    encoded: cv.Dataset, tmp_path: Path, moment: int
) -> None:
    packed = PackedDataset.from_dataset(encoded)

    def score_of(net: Toy) -> Callable[[], float]:
        return lambda: -float(sum(part.detach().square().sum() for part in net.parameters()))

    def fit(checkpoint: TrainingCheckpoint | None, net: Toy, stop: int | None) -> None:
        parts = stages(net, packed)
        if stop is not None:
            count = 0

            def guard(loss: Callable[[Batch, Generator], Tensor]) -> Callable[..., Tensor]:
                def guarded(batch: Batch, generator: Generator) -> Tensor:
                    nonlocal count
                    if count == stop * len(list(packed.batches(8))):
                        raise KilledError
                    count += 1
                    return loss(batch, generator)

                return guarded

            parts = [Stage(**(vars(stage) | {"loss": guard(stage.loss)})) for stage in parts]
        train_network(net, parts, schedule(validation_score=score_of(net), checkpoint=checkpoint))

    torch.manual_seed(0)
    straight = Toy()
    fit(None, straight, None)
    torch.manual_seed(0)
    killed = Toy()
    with pytest.raises(KilledError):
        fit(TrainingCheckpoint(tmp_path, "work"), killed, moment)
    again = Toy()
    if (tmp_path / "training.safetensors").is_file():
        nn.init.ones_(again.first.weight)  # overwritten by the checkpoint
    fit(TrainingCheckpoint(tmp_path, "work"), again, None)
    assert weights(again) == weights(straight)
    assert not any(tmp_path.iterdir())


def test_a_checkpoint_with_another_fingerprint_is_ignored(encoded: cv.Dataset, tmp_path: Path) -> None:
    checkpoint = TrainingCheckpoint(tmp_path, "one")
    checkpoint.write({"x": torch.ones(2)}, {"stage": 0})
    assert TrainingCheckpoint(tmp_path, "two").read() is None
    kept = TrainingCheckpoint(tmp_path, "one").read()
    assert kept is not None
    assert kept[1] == {"stage": 0}
    checkpoint.path.write_bytes(b"damaged")
    assert checkpoint.read() is None


def test_fingerprints_depend_on_settings_and_data(encoded: cv.Dataset, tmp_path: Path) -> None:
    one = checkpoint_for(tmp_path, {"lr": 1}, encoded)
    names = {
        checkpoint.fingerprint
        for checkpoint in (
            one,
            checkpoint_for(tmp_path, {"lr": 2}, encoded),
            checkpoint_for(tmp_path, {"lr": 1}, encoded[:20]),
            checkpoint_for(tmp_path, {"lr": 1}, encoded.select_sources(encoded.sources[:2])),
        )
        if checkpoint is not None
    }
    assert len(names) == 4
    assert one is not None
    again = checkpoint_for(tmp_path, {"lr": 1}, encoded)
    assert again is not None
    assert again.fingerprint == one.fingerprint
    assert checkpoint_for(None, {}, encoded) is None


def test_unknown_parameters_and_repeated_names_are_refused(encoded: cv.Dataset) -> None:
    net, packed = Toy(), PackedDataset.from_dataset(encoded)
    first, second = stages(net, packed)
    with pytest.raises(ValueError, match="stage 'first' trains unknown parameters: frist"):
        train_network(net, [replace(first, trains=("frist",)), second], schedule())
    with pytest.raises(ValueError, match="two stages are named 'first'"):
        train_network(net, [first, replace(second, name="first")], schedule())
