"""Training checkpoints, written after every epoch to resume an interrupted fit, and weights as arrays."""

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

METADATA, FINGERPRINT, FILE_NAME = "metadata", "fingerprint", "training.safetensors"


class TrainingCheckpoint:
    """One file in a directory, replaced atomically: tensors, and metadata that JSON can hold.

    `fingerprint` identifies settings and data; a checkpoint with another fingerprint is not resumed.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.path, self.fingerprint = folder / FILE_NAME, fingerprint

    def write(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
        """Replace the file."""
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
        """Tensors and metadata; None if there is no readable file with the same fingerprint."""
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
        """Delete the file."""
        self.path.unlink(missing_ok=True)


def checkpoint_for(folder: Path | None, settings: Any, *data: Dataset) -> TrainingCheckpoint | None:
    """Checkpoint of a fit with these settings on these datasets; None without a folder."""
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
    """The state of Adam as tensors named PARAMETER_INDEX.NAME."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": torch.as_tensor(value) for number, values in state.items() for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Set the state of Adam; the inverse of `optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def weights_to_arrays(net: nn.Module) -> dict[str, NDArray[Any]]:
    """All weights and buffers as arrays, by name."""
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


def load_weights(net: nn.Module, params: Mapping[str, NDArray[Any]]) -> None:
    """Set all weights and buffers; the inverse of `weights_to_arrays`."""
    net.load_state_dict({name: torch.from_numpy(array) for name, array in params.items()})
