"""Training of taggers with a network: validation score and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from convener.data.predictions import LabelOutput
from convener.neural.checkpoint import checkpoint_for
from convener.neural.training import TrainingRun
from convener.storage import arrays_digest, compute_digest
from convener.taggers.base import Tagger, validation_score
from convener.taggers.targets import Targets


def make_training_run(
    tagger: Tagger[Any],
    train: Targets,
    valid: Targets,
    *,
    checkpoint_dir: Path | None,
    predict_valid: Callable[[], LabelOutput],
    class_weights: NDArray[np.float32],
    init_digest: str,
    **options: Any,
) -> TrainingRun:
    """Settings of the training loop for one fit of a tagger.

    predict_valid  labels the validation data with the current weights of the network
    class_weights  (L,) weights of the labels in the loss
    init_digest    digest of the initial weights; a checkpoint of other weights is not resumed
    options        other fields of `TrainingRun`
    """
    config = tagger.config
    targets_digest = arrays_digest(part.label_probs() for part in (train, valid)).hex()
    return TrainingRun(
        name=tagger.display_name,
        seed=config.seed,
        validation_score=(lambda: validation_score(predict_valid(), valid, class_weights))
        if len(valid.data.tokens)
        else None,
        checkpoint=checkpoint_for(checkpoint_dir, (config, init_digest, targets_digest), train.data, valid.data),
        **options,
    )


def weights_digest(network: nn.Module) -> str:
    """Digest of the weights of a network."""
    return compute_digest(arrays_digest(w.cpu().numpy().ravel() for w in network.state_dict().values()))
