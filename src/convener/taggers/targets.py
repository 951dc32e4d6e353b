"""Targets: text with the labels that a tagger is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from convener.data import validation
from convener.data.dataset import Dataset
from convener.data.features import Features
from convener.data.predictions import GoldUse, Predictions
from convener.data.ragged import SentenceIndexed, StringArray
from convener.errors import ConfigError, DataError, check_known

ClassWeights = Literal["balanced"] | Mapping[str, float] | None
"""Weights of the labels in a loss: inversely proportional to their frequency, by type, or none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Targets(SentenceIndexed):
    """Training labels of N tokens; votes and gold are removed from the data.

    data           text, with features if available
    labels         (N,) int16, legal BIO ids
    probabilities  (N, L) float32 for soft labels; None for hard labels
    uses_gold      which gold labels were used, as in `Predictions`; a tagger trained on gold is an upper bound. Labels
                   of an oracle are gold of the training data: "train"

    >>> data = Dataset.from_spans(["PER"], [["Ada", "wrote"]], {}, gold=[[(0, 1, "PER")]])
    >>> Targets.from_gold(data).label_probs().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """

    data: Dataset
    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32] | None = None
    uses_gold: GoldUse = "none"

    def __post_init__(self) -> None:
        text = self.data.select_sources(()).without_gold().without_coarse()
        object.__setattr__(self, "data", text)
        validation.check_shape("labels", self.labels.shape, (len(text.tokens),))
        validation.check_labels("labels", self.labels, 0, len(text.tags))
        if self.probabilities is not None:
            shape = (len(text.tokens), len(text.tags))
            validation.check_shape("probabilities", self.probabilities.shape, shape)

    @classmethod
    def from_soft_labels(cls, predictions: Predictions) -> Self:
        """Targets from predicted probabilities."""
        if predictions.probabilities is None:
            raise DataError("soft labels need probabilities; these predictions have none")
        return replace(cls.from_hard_labels(predictions), probabilities=predictions.probabilities)

    @classmethod
    def from_hard_labels(cls, predictions: Predictions) -> Self:
        """Targets from predicted labels."""
        uses_gold: GoldUse = "train" if predictions.uses_gold == "test" else predictions.uses_gold
        return cls(data=predictions.data, labels=predictions.labels, uses_gold=uses_gold)

    @classmethod
    def from_gold(cls, data: Dataset) -> Self:
        """Targets from gold labels; illegal transitions are repaired."""
        if data.gold is None:
            raise DataError("the data has no gold labels")
        return cls(data=data, labels=data.tags.repair(data.gold, data.offsets)[0], uses_gold="train")

    @property
    def offsets(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Bounds of the sentences.  -> (M+1,)"""
        return self.data.offsets

    @property
    def doc_ids(self) -> StringArray | None:  # type: ignore[override]
        """Document id of each sentence, if known.  -> (M,)"""
        return self.data.doc_ids

    @property
    def types(self) -> tuple[str, ...]:
        """Entity types."""
        return self.data.tags.types

    def subset(
        self,
        sentences: slice | NDArray[np.int64],
        tokens: slice | NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> Self:
        """Targets of the given sentences and their tokens; slices give views."""
        probabilities = self.probabilities
        return replace(
            self,
            data=self.data.subset(sentences, tokens, offsets),
            labels=self.labels[tokens],
            probabilities=None if probabilities is None else probabilities[tokens],
        )

    def label_probs(self) -> NDArray[np.float32]:
        """Label probabilities, one-hot for hard labels.  -> (N, L)"""
        if self.probabilities is not None:
            return self.probabilities
        return np.eye(len(self.data.tags), dtype=np.float32)[self.labels]

    def with_features(self, features: Features | None) -> Self:
        """Targets with these features."""
        return replace(self, data=self.data.with_features(features))

    def class_weights(self, weighting: ClassWeights) -> NDArray[np.float32]:
        """Weight of each label in a loss.  -> (L,)

        "balanced" gives N / (L n_l), where n_l is the (expected) number of tokens with label l and L the number of
        labels that occur; labels that do not occur get 1. Weights by type, including "O", apply to both labels of the
        type; types without a weight get 1.

        >>> data = Dataset.from_spans(["PER"], [["Ada", "wrote"] * 3], {}, gold=[[(0, 1, "PER")]])
        >>> targets = Targets.from_gold(data)
        >>> targets.class_weights("balanced").round(2)
        array([0.6, 3. , 1. ], dtype=float32)
        >>> targets.class_weights({"PER": 2}).tolist()
        [1.0, 2.0, 2.0]
        """
        weights = np.ones(len(self.data.tags), np.float32)
        if weighting == "balanced":
            counts = self.label_probs().sum(axis=0, dtype=np.float64)
            occurs = counts > 0
            weights[occurs] = counts.sum() / (occurs.sum() * counts[occurs])
        elif weighting is not None:
            check_known("type in class_weights", weighting, ("O", *self.types))
            for name, weight in weighting.items():
                if name == "O":
                    weights[0] = weight
                else:
                    b_label = 2 * self.types.index(name) + 1
                    weights[b_label : b_label + 2] = weight
        return weights


def validate_class_weights(class_weights: ClassWeights) -> ClassWeights:
    """Class weights with float values; raises ConfigError unless all are positive and finite."""
    if class_weights is None or class_weights == "balanced":
        return class_weights
    try:
        weights = {name: float(weight) for name, weight in class_weights.items()}
    except (TypeError, ValueError):
        raise ConfigError(f"class_weights must be 'balanced' or numbers by type, got {class_weights!r}") from None
    if not all(0 < weight < float("inf") for weight in weights.values()):
        raise ConfigError(f"class_weights must be positive and finite, got {weights}")
    return weights
