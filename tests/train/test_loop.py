"""The loop on a network small enough to know what it must do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

import convener as cv
from convener.train.journal import Journal, journal_of
from convener.train.loop import Epoch, Schedule, Stage, parts_of, run, warmed
from convener.train.packing import Batch, Packing


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


def stages(net: Toy, packing: Packing, **changes: object) -> list[Stage]:
    common = {"packing": packing, "lr": 0.01, "epochs": 6, "patience": 10} | changes
    return [
        Stage(name=part, loss=loss_of(net, part), trains=(part,), **common)  # type: ignore[arg-type]
        for part in ("first", "second")
    ]


def schedule(**changes: object) -> Schedule:
    return Schedule(**({"name": "toy", "seed": 3, "batch": 8, "decay": 0.0} | changes))  # type: ignore[arg-type]


def weights(net: nn.Module) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in net.state_dict().values()]


def trained(packing: Packing, **changes: object) -> tuple[Toy, list[Epoch]]:
    torch.manual_seed(0)
    net = Toy()
    return net, run(net, stages(net, packing), schedule(**changes))


def test_the_loss_falls_and_only_the_named_part_moves(encoded: cv.Dataset) -> None:
    packing = Packing.of(encoded)
    torch.manual_seed(0)
    net = Toy()
    before = net.second.weight.detach().clone()
    history = run(net, stages(net, packing)[:1], schedule())
    losses = [item.loss for item in history if item.loss is not None]
    assert losses[-1] < 0.7 * losses[0]
    assert torch.equal(net.second.weight, before)
    assert net.first.weight.abs().max() > 0


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(encoded: cv.Dataset) -> None:
    packing = Packing.of(encoded)
    assert weights(trained(packing)[0]) == weights(trained(packing)[0])
    assert weights(trained(packing)[0]) != weights(trained(packing, seed=4)[0])


def test_pace_and_clip_are_those_of_a_plain_loop(encoded: cv.Dataset) -> None:
    """AdamW with warm-up, decay to zero and clipped gradients, written out."""
    packing, epochs, lr = Packing.of(encoded), 3, 0.05
    torch.manual_seed(0)
    net, plain = Toy(), Toy()
    plain.load_state_dict(net.state_dict())
    only = stages(net, packing, epochs=epochs, lr=lr)[:1]
    run(net, only, schedule(pace=warmed(0.25), clip=0.1, decay=0.3))

    groups = [
        {"params": [plain.first.weight], "weight_decay": 0.3},
        {"params": [plain.first.bias], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=lr)
    loss_of_batch, total, step = loss_of(plain, "first"), epochs * len(list(packing.batches(8))), 0
    for epoch in range(epochs):
        rng = np.random.default_rng((3, 0, epoch))
        generator = torch.Generator().manual_seed(int(rng.integers(1 << 62)))
        for batch in packing.batches(8, rng):
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
    assert parts_of(net) == ("first", "second")


def test_the_best_weights_stay_and_patience_ends_a_stage(encoded: cv.Dataset) -> None:
    scores = iter([0.1, 0.5, 0.9, 0.4, 0.3, 0.2])
    net = Toy()
    seen: list[Tensor] = []

    def score() -> float:
        seen.append(net.first.weight.detach().clone())
        return next(scores)

    only = stages(net, Packing.of(encoded), patience=2)[:1]
    history = run(net, only, schedule(score=score))
    assert [item.score for item in history] == [0.1, 0.5, 0.9, 0.4, 0.3]
    assert torch.equal(net.first.weight, seen[2])


def test_a_stage_that_brings_nothing_leaves_things_as_they_were(encoded: cv.Dataset) -> None:
    net = Toy()
    scores = iter([0.9, 0.1, 0.1])
    before = net.first.weight.detach().clone()
    run(net, stages(net, Packing.of(encoded), patience=2)[:1], schedule(score=lambda: next(scores)))
    assert torch.equal(net.first.weight, before)


def test_scores_are_smoothed_before_they_are_compared(encoded: cv.Dataset) -> None:
    scores = iter([0.0, 0.0, 0.9, 0.5, 0.5, 0.0, 0.0])
    net = Toy()
    seen: list[Tensor] = []

    def score() -> float:
        seen.append(net.first.weight.detach().clone())
        return next(scores)

    run(net, stages(net, Packing.of(encoded), smooth=2)[:1], schedule(score=score))
    assert torch.equal(net.first.weight, seen[3])  # (0.9 + 0.5) / 2 is the best mean of two


class KilledError(Exception):
    pass


@pytest.mark.parametrize("moment", range(1, 12))
def test_training_killed_after_any_epoch_ends_with_the_same_weights(
    encoded: cv.Dataset, tmp_path: Path, moment: int
) -> None:
    packing = Packing.of(encoded)

    def score_of(net: Toy) -> Callable[[], float]:
        return lambda: -float(sum(part.detach().square().sum() for part in net.parameters()))

    def fit(journal: Journal | None, net: Toy, stop: int | None) -> None:
        parts = stages(net, packing)
        if stop is not None:
            count = 0

            def guard(loss: Callable[[Batch, Generator], Tensor]) -> Callable[..., Tensor]:
                def guarded(batch: Batch, generator: Generator) -> Tensor:
                    nonlocal count
                    if count == stop * len(list(packing.batches(8))):
                        raise KilledError
                    count += 1
                    return loss(batch, generator)

                return guarded

            parts = [Stage(**(vars(stage) | {"loss": guard(stage.loss)})) for stage in parts]
        run(net, parts, schedule(score=score_of(net), journal=journal))

    torch.manual_seed(0)
    straight = Toy()
    fit(None, straight, None)
    torch.manual_seed(0)
    killed = Toy()
    with pytest.raises(KilledError):
        fit(Journal(tmp_path, "work"), killed, moment)
    again = Toy()
    if (tmp_path / "training.safetensors").is_file():
        nn.init.ones_(again.first.weight)  # all comes from the journal
    fit(Journal(tmp_path, "work"), again, None)
    assert weights(again) == weights(straight)
    assert not any(tmp_path.iterdir())


def test_a_journal_of_other_work_is_not_used(encoded: cv.Dataset, tmp_path: Path) -> None:
    journal = Journal(tmp_path, "one")
    journal.write({"x": torch.ones(2)}, {"stage": 0})
    assert Journal(tmp_path, "two").read() is None
    kept = Journal(tmp_path, "one").read()
    assert kept is not None
    assert kept[1] == {"stage": 0}
    journal.path.write_bytes(b"damaged")
    assert journal.read() is None


def test_work_is_told_apart_by_settings_and_data(encoded: cv.Dataset, tmp_path: Path) -> None:
    one = journal_of(tmp_path, {"lr": 1}, encoded)
    names = {
        journal.work
        for journal in (
            one,
            journal_of(tmp_path, {"lr": 2}, encoded),
            journal_of(tmp_path, {"lr": 1}, encoded[:20]),
            journal_of(tmp_path, {"lr": 1}, encoded.select_sources(encoded.sources[:2])),
        )
        if journal is not None
    }
    assert len(names) == 4
    assert one is not None
    again = journal_of(tmp_path, {"lr": 1}, encoded)
    assert again is not None
    assert again.work == one.work
    assert journal_of(None, {}, encoded) is None
