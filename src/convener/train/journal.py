"""A journal of training: what is needed to go on after a kill, kept from epoch to epoch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor

FACTS, FILE = "facts", "training.safetensors"


class Journal:
    """One file in a folder, replaced whole: tensors, and facts fit for JSON."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def write(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Replace what was kept."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".new")
        whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
        with draft.open("wb") as file:
            file.write(safetensors.save(whole, metadata={FACTS: json.dumps(facts)}))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was kept; None where there is nothing one can use."""
        from safetensors import safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                facts = json.loads((file.metadata() or {})[FACTS])
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, LookupError, ValueError):
            return None
        return tensors, facts

    def remove(self) -> None:
        """Forget all: the work is done."""
        self.path.unlink(missing_ok=True)


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
