"""How taggers with a network are trained: judged by what is held out, gone on with after a kill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from convener.neural.checkpoint import checkpoint_for
from convener.neural.training import TrainingRun
from convener.storage import arrays_digest, compute_digest
from convener.taggers.base import Tagger, TagOutput, validation_score
from convener.taggers.targets import Targets


def make_training_run(
    tagger: Tagger[Any],
    train: Targets,
    valid: Targets,
    *,
    predict_valid: Callable[[], TagOutput],
    class_weights: NDArray[np.float32],
    init_digest: str,
    **options: Any,
) -> TrainingRun:
    """The schedule of a fit.

    say: what the network says of valid, as it is then; weights (L,) of labels; origin: a digest of
    where training starts. Others are fields of `Schedule`.
    """
    config = tagger.config
    targets_digest = arrays_digest(part.label_probs() for part in (train, valid)).hex()
    return TrainingRun(
        name=tagger.name,
        seed=config.seed,
        weight_decay=config.decay,
        validation_score=(lambda: validation_score(predict_valid(), valid, class_weights))
        if len(valid.data.tokens)
        else None,
        checkpoint=checkpoint_for(tagger.checkpoint_dir, (config, init_digest, targets_digest), train.data, valid.data),
        **options,
    )


def weights_digest(network: nn.Module) -> str:
    """What tells the weights of a network from any other's."""
    return compute_digest(arrays_digest(w.cpu().numpy().ravel() for w in network.state_dict().values()))
