"""What models share that judge tokens one at a time: labels from classes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.kernels.vote import label_probabilities, runs

Scheme = Literal["io", "bio"]


def labelled(
    best: NDArray[np.int64], shares: NDArray[np.floating[Any]], data: Dataset, scheme: Scheme
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Legal labels (N,) and probabilities (N, L) of tokens whose best class (N,) is known.

    shares (N, C) probabilities of the classes: of types in the IO scheme, where runs of one type
    are spans, of labels in BIO, where a stray I- begins a span.
    """
    if scheme == "bio":
        labels, _ = data.tags.repair(best.astype(np.int16), data.offsets)
        return labels, shares.astype(np.float32)
    labels = runs(best, data.offsets)
    return labels, label_probabilities(shares, labels)
