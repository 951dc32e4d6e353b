"""Targets: text with the labels that a tagger learns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from convener import expect
from convener.data import Dataset
from convener.errors import ConfigError, DataError, check_known
from convener.features import Features
from convener.packed import Strings
from convener.predictions import SAW_GOLD, Predictions
from convener.sentences import BySentence

Weights = Literal["balanced"] | Mapping[str, float] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Targets(BySentence):
    """Labels to learn, on text alone: votes and gold are not there.

    data           the text
    labels         (N,) int16, legal BIO ids
    probabilities  (N, L) float32 of every label, for soft targets; None for hard ones
    gold           whether they are true labels: what learns from them is a reference

    >>> data = Dataset.from_spans(["PER"], [["Ada", "wrote"]], {}, gold=[[(0, 1, "PER")]])
    >>> Targets.of_gold(data).shares().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """

    data: Dataset
    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32] | None = None
    gold: bool = False

    def __post_init__(self) -> None:
        text = self.data.select_sources(()).without_gold().fine()
        object.__setattr__(self, "data", text)
        expect.shape("labels", self.labels.shape, (len(text.tokens),))
        expect.labels("labels", self.labels, 0, len(text.tags))
        if self.probabilities is not None:
            shape = (len(text.tokens), len(text.tags))
            expect.shape("probabilities", self.probabilities.shape, shape)

    @classmethod
    def soft(cls, labels: Predictions) -> Self:
        """A label model's probabilities."""
        if labels.probabilities is None:
            raise DataError("soft targets need probabilities, and these labels came without them")
        return replace(cls.hard(labels), probabilities=labels.probabilities)

    @classmethod
    def hard(cls, labels: Predictions) -> Self:
        """A label model's labels."""
        gold = bool(labels.settings.get(SAW_GOLD))
        return cls(data=labels.data, labels=labels.labels, gold=gold)

    @classmethod
    def of_gold(cls, data: Dataset) -> Self:
        """The true labels, repaired where they are no legal BIO."""
        if data.gold is None:
            raise DataError("gold is to be learned, and there is none")
        return cls(data=data, labels=data.tags.repair(data.gold, data.offsets)[0], gold=True)

    @property
    def offsets(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Where each sentence begins.  -> (M+1,)"""
        return self.data.offsets

    @property
    def documents(self) -> Strings | None:  # type: ignore[override]
        """The id of each sentence's document, if known.  -> (M,)"""
        return self.data.documents

    @property
    def types(self) -> tuple[str, ...]:
        """The entity types."""
        return self.data.tags.types

    def part(
        self,
        sentences: slice | NDArray[np.int64],
        tokens: slice | NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> Self:
        """These sentences, whose tokens are these; slices give views."""
        soft = self.probabilities
        return replace(
            self,
            data=self.data.part(sentences, tokens, offsets),
            labels=self.labels[tokens],
            probabilities=None if soft is None else soft[tokens],
        )

    def shares(self) -> NDArray[np.float32]:
        """How much of each token is of each label; rows sum to one.  -> (N, L)"""
        if self.probabilities is not None:
            return self.probabilities
        return np.eye(len(self.data.tags), dtype=np.float32)[self.labels]

    def with_features(self, features: Features | None) -> Self:
        """The same targets, their text with these features."""
        return replace(self, data=self.data.with_features(features))

    def class_weights(self, how: Weights) -> NDArray[np.float32]:
        """What an error on each label counts.  -> (L,)

        "balanced": as much as the label is rarer than if all were equally frequent, N / (L n_l),
        where n_l is expected of soft targets, and of those that occur. By type, "O" among them: as
        it says, 1 for others.

        >>> data = Dataset.from_spans(["PER"], [["Ada", "wrote"] * 3], {}, gold=[[(0, 1, "PER")]])
        >>> targets = Targets.of_gold(data)
        >>> targets.class_weights("balanced").round(2)
        array([0.6, 3. , 1. ], dtype=float32)
        >>> targets.class_weights({"PER": 2}).tolist()
        [1.0, 2.0, 2.0]
        """
        weights = np.ones(len(self.data.tags), np.float32)
        if how == "balanced":
            counts = self.shares().sum(axis=0, dtype=np.float64)
            there = counts > 0
            weights[there] = counts.sum() / (there.sum() * counts[there])
        elif how is not None:
            check_known("type with a weight", how, ("O", *self.types))
            for name, weight in how.items():
                if name == "O":
                    weights[0] = weight
                else:
                    first = 2 * self.types.index(name) + 1
                    weights[first : first + 2] = weight
        return weights


def checked_weights(how: Weights) -> Weights:
    """Weights by type as numbers; an error where one is no positive number."""
    if how is None or how == "balanced":
        return how
    try:
        weights = {name: float(weight) for name, weight in how.items()}
    except (TypeError, ValueError):
        raise ConfigError(f"class_weights must be numbers by type, got {how!r}") from None
    if not all(0 < weight < float("inf") for weight in weights.values()):
        raise ConfigError(f"class_weights must be above 0, got {weights}")
    return weights
