"""A journal of training: what is needed to go on after a kill, kept from epoch to epoch."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import Tensor

from convener.data import Dataset

FACTS, WORK, FILE = "facts", "work", "training.safetensors"


class Journal:
    """One file in a folder, replaced whole: tensors, and facts fit for JSON.

    `work` names what is trained, on what: a journal of other work is not gone on with.
    """

    def __init__(self, folder: Path, work: str) -> None:
        self.path, self.work = folder / FILE, work

    def write(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Replace what was kept."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".new")
        whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
        said = {FACTS: json.dumps(facts), WORK: self.work}
        with draft.open("wb") as file:
            file.write(safetensors.save(whole, metadata=said))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was kept; None where there is nothing one can use."""
        try:
            with safe_open(self.path, framework="pt") as file:
                said = file.metadata() or {}
                if said[WORK] != self.work:
                    return None
                facts = json.loads(said[FACTS])
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, LookupError, ValueError):
            return None
        return tensors, facts

    def remove(self) -> None:
        """Forget all: the work is done."""
        self.path.unlink(missing_ok=True)


def journal_of(folder: Path | None, settings: Any, *data: Dataset) -> Journal | None:
    """A journal for a fit with these settings on these data; none without a folder."""
    if folder is None:
        return None
    work = hashlib.sha256(repr(settings).encode())
    for part in data:
        words = part.tokens.compact()
        features = "" if part.features is None else part.features.encoding.digest
        for array in (words.data, words.offsets, part.offsets, part.votes, part.gold):
            if array is not None:
                work.update(np.ascontiguousarray(array).data)
        stated = part.sources, part.precision, part.tags.types, part.coarse
        work.update(f"{stated} {features}".encode())
    return Journal(folder, work.hexdigest())


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments of Adam, by number and name."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, values in state.items()
        for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the moments back."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
