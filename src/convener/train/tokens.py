"""What models share that judge tokens one at a time: labels from classes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.kernels.vote import type_runs_to_bio, type_to_label_probabilities

Scheme = Literal["io", "bio"]


def labels_from_classes(
    best_class: NDArray[np.int64],
    class_probabilities: NDArray[np.floating[Any]],
    data: Dataset,
    scheme: Scheme,
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Legal labels (N,) and probabilities (N, L) of tokens whose best class (N,) is known.

    shares (N, C) probabilities of the classes: of types in the IO scheme, where runs of one type
    are spans, of labels in BIO, where a stray I- begins a span.
    """
    if scheme == "bio":
        labels, _ = data.tags.repair(best_class.astype(np.int16), data.offsets)
        return labels, class_probabilities.astype(np.float32)
    labels = type_runs_to_bio(best_class, data.offsets)
    return labels, type_to_label_probabilities(class_probabilities, labels)
