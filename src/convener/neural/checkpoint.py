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
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import Tensor, nn

from convener.data.dataset import Dataset
from convener.data.diagnostics import DIAGNOSTICS_PREFIX

METADATA, FINGERPRINT, FILE_NAME = "facts", "work", "training.safetensors"


class TrainingCheckpoint:
    """One file in a folder, replaced whole: tensors, and facts fit for JSON.

    `work` names what is trained, on what: a journal of other work is not gone on with.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.path, self.fingerprint = folder / FILE_NAME, fingerprint

    def write(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
        """Replace what was kept."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".new")
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        header = {METADATA: json.dumps(metadata), FINGERPRINT: self.fingerprint}
        with temporary.open("wb") as file:
            file.write(safetensors.save(contiguous, metadata=header))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was kept; None where there is nothing one can use."""
        try:
            with safe_open(self.path, framework="pt") as file:
                header = file.metadata() or {}
                if header[FINGERPRINT] != self.fingerprint:
                    return None
                metadata = json.loads(header[METADATA])
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, LookupError, ValueError):
            return None
        return tensors, metadata

    def remove(self) -> None:
        """Forget all: the work is done."""
        self.path.unlink(missing_ok=True)


def checkpoint_for(folder: Path | None, settings: Any, *data: Dataset) -> TrainingCheckpoint | None:
    """A journal for a fit with these settings on these data; none without a folder."""
    if folder is None:
        return None
    hasher = hashlib.sha256(repr(settings).encode())
    for dataset in data:
        tokens = dataset.tokens.compact()
        features = "" if dataset.features is None else dataset.features.encoder_spec.digest
        for array in (tokens.data, tokens.offsets, dataset.offsets, dataset.votes, dataset.gold):
            if array is not None:
                hasher.update(np.ascontiguousarray(array).data)
        description = dataset.sources, dataset.prior_precision, dataset.tags.types, dataset.coarse
        hasher.update(f"{description} {features}".encode())
    return TrainingCheckpoint(folder, hasher.hexdigest())


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments of Adam, by number and name."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": torch.as_tensor(value) for number, values in state.items() for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the moments back."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def weights_to_arrays(net: nn.Module) -> dict[str, NDArray[Any]]:
    """All weights and buffers, as a model's parameters."""
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


def load_weights(net: nn.Module, params: Mapping[str, NDArray[Any]]) -> None:
    """Put a model's parameters back; what is kept beside them to look at is no weight."""
    weights = {
        name: torch.from_numpy(array)
        for name, array in params.items()
        if name != "emissions" and not name.startswith(DIAGNOSTICS_PREFIX)
    }
    net.load_state_dict(weights)
