"""How taggers with a network are trained: judged by what is held out, gone on with after a kill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from convener.caching import digest_of, digest_of_arrays
from convener.tagger.base import Tagged, Tagger, agreement
from convener.tagger.targets import Targets
from convener.train.journal import journal_of
from convener.train.loop import Schedule


def schedule_of(
    tagger: Tagger[Any],
    train: Targets,
    valid: Targets,
    *,
    say: Callable[[], Tagged],
    weights: NDArray[np.float32],
    origin: str,
    **others: Any,
) -> Schedule:
    """The schedule of a fit.

    say: what the network says of valid, as it is then; weights (L,) of labels; origin: a digest of
    where training starts. Others are fields of `Schedule`.
    """
    config = tagger.config
    digest = digest_of_arrays(part.shares() for part in (train, valid)).hex()
    return Schedule(
        name=tagger.name,
        seed=config.seed,
        decay=config.decay,
        score=(lambda: agreement(say(), valid, weights)) if len(valid.data.tokens) else None,
        journal=journal_of(tagger.journal, (config, origin, digest), train.data, valid.data),
        **others,
    )


def digest_of_weights(net: nn.Module) -> str:
    """What tells the weights of a network from any other's."""
    return digest_of(digest_of_arrays(w.cpu().numpy().ravel() for w in net.state_dict().values()))
