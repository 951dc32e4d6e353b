"""The contract of a label model, and all that models share."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.encode import AUTO, ensured
from convener.errors import ConvenerWarning, DataError, NotFittedError
from convener.features import Encoding, Scaling
from convener.insides import Insides
from convener.io import checkpoint
from convener.kernels.confusion import type_probabilities, type_reliability
from convener.models.fitted import Fitted, Params, Reliability, judged, matching
from convener.models.hearing import Hearing, negating
from convener.packed import Ragged
from convener.predictions import SAW_GOLD, Predictions
from convener.settings import at_least, from_mapping, to_mapping
from convener.tables import PERCENT, Table

__all__ = [
    "EMConfig",
    "FeatureConfig",
    "Fitted",
    "Inference",
    "LabelModel",
    "ModelConfig",
    "Params",
    "Reliability",
    "warn_of_silent_sources",
]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Settings of every model."""

    seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, 0, "seed")


@dataclass(frozen=True, kw_only=True)
class EMConfig(ModelConfig):
    """Settings of every model that is learned by expectation maximisation."""

    steps: int = 50
    """At most so many steps."""
    tolerance: float = 1e-6
    """Stop when a step raises the objective by less, in nats per token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "steps")
        at_least(self, 0, "tolerance")


@dataclass(frozen=True, kw_only=True)
class FeatureConfig(ModelConfig):
    """Settings of every model that reads features."""

    encoder: str = AUTO
    """Encodes data that comes without features: auto, hashing, minilm, mpnet, a folder, or a name
    on a hub. For settings of the encoder, encode the data first: `convener.encode`."""


@dataclass(frozen=True, eq=False)
class Inference:
    """What a model says of some data: labels (N,), probabilities (N, L), scores per span."""

    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32]
    scores: NDArray[np.float32] | None = None


TokenRates = tuple[NDArray[np.float64], NDArray[np.float64]]
FIGURES = ("recall", "precision", "F1")


class LabelModel(ABC):
    """Turns the votes of many sources into one set of labels.

    A model is one file: its settings, `learn` and `infer`. This class does the rest: checks,
    hiding gold, encoding, reliability, saving and loading.
    """

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for the list of models."""
    supervised: ClassVar[bool] = False
    """Whether the model is a reference that sees gold, even in inference."""
    needs_features: ClassVar[bool] = False
    """Whether `learn` and `infer` read features: they come encoded and standardised."""
    hears_coarse: ClassVar[bool] = False
    """Whether `learn` and `infer` take coarse votes, which lie above the labels of `fine_tags`;
    otherwise sources abstain where they say one."""
    uses_valid_gold: ClassVar[bool] = False
    """Whether gold of valid, where it may be seen, decides anything."""
    counts_repeats: ClassVar[bool] = False
    """Whether a source that repeats another counts again, as in a plain vote."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")

    def __init__(self, **settings: Any) -> None:
        self.config: Any = from_mapping(self.Config, settings, what=f"setting of {self.name}")
        self._fitted: Fitted | None = None
        self.journal: Path | None = None
        """Where training keeps what it needs to go on after a kill, while `fit` runs."""

    @abstractmethod
    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """Learn from votes; `start` is what an earlier fit learned, to go on from."""

    @abstractmethod
    def infer(self, params: Params, data: Dataset) -> Inference:
        """Labels and probabilities; each sentence is judged alone."""

    def reliability_of(self, params: Params, train: Dataset, found: Inference) -> TokenRates:
        """Recall and precision of each source, given what is inferred on train.  -> 2 x (K, E)

        By default counted against the model's own posterior.
        """
        return type_reliability(train.votes, type_probabilities(found.probabilities))

    def fit(
        self,
        train: Dataset,
        valid: Dataset | None = None,
        *,
        use_gold: bool = False,
        journal: str | Path | None = None,
    ) -> Self:
        """Learn from the votes on `train`; on a fitted model, go on from what it knows.

        The gold of train is never seen. That of valid is seen only with `use_gold`, and only to
        decide when to stop. Models declared supervised see both. With a folder for a journal,
        models that train for long can be killed: the same call goes on from the last epoch.
        """
        self.journal = None if journal is None else Path(journal)
        if not train.sources:
            raise DataError(f"{self.name}: there are no sources to learn from")
        if not self.supervised:
            train = train.without_gold()
            valid = valid if use_gold or valid is None else valid.without_gold()
        start, scaling = None, None
        if self._fitted is not None:
            train = self._matched(train)
            start, scaling = self._fitted.params, self._fitted.scaling
        hearing = self._hearing(train)
        voted, types = train, train.fine_tags.types
        train = hearing.heard(train)
        if valid is not None:
            valid = matching(valid, types, voted.sources, voted.silence, self.name)
            valid = hearing.heard(valid)
        train = self.encoded(train)
        encoding = None if train.features is None else train.features.encoding
        if self.needs_features and train.features is not None:
            scaling = scaling or Scaling.of(train.features)
            train = _scaled(train, scaling)
            valid = None if valid is None else _scaled(self._encoded_by(valid, encoding), scaling)
        params = self.learn(train, valid, start)
        found = self.infer(params, train)
        rates = self.reliability_of(params, train.fine(), found)
        self._fitted = Fitted(
            types,
            voted.sources,
            voted.silence,
            hearing,
            params,
            judged([hearing.of_all(rate) for rate in rates], voted, found.labels),
            encoding if self.needs_features else None,
            scaling,
        )
        return self

    def _hearing(self, train: Dataset) -> Hearing:
        """Which votes count; said aloud where some do not. Going on, all is as it was before."""
        if self._fitted is not None:
            known = self._fitted.hearing
            names = dict.fromkeys([*known.negating, *negating(train)])
            return replace(known, negating=tuple(names))
        hearing = Hearing.of_votes(train, coarse=self.hears_coarse, repeats=self.counts_repeats)
        if repeated := hearing.repeated(train.sources):
            pairs = ", ".join(f"{name} repeats {other}" for name, other in repeated)
            warnings.warn(
                f"{self.name}: sources that mark the same are heard once: {pairs}",
                ConvenerWarning,
                stacklevel=3,
            )
        return hearing

    def encoded(self, data: Dataset) -> Dataset:
        """The data with the features this model reads; as it is where there is nothing to do."""
        return self._encoded_by(data, self._fitted.encoding if self._fitted else None)

    def _scaled(self, data: Dataset) -> Dataset:
        """Data that matches, with features as the model was fitted on them."""
        encoded, scaling = self.encoded(data), self.fitted.scaling
        return encoded if scaling is None else _scaled(encoded, scaling)

    def _encoded_by(self, data: Dataset, encoding: Encoding | None) -> Dataset:
        """With features of this encoder, or of the one in the settings."""
        if not self.needs_features:
            return data
        return ensured(data, self.config.encoder, encoding, whose=self.name)

    def predict(self, data: Dataset) -> Predictions:
        """Labels, probabilities and scored spans for every sentence."""
        params = self.fitted.params
        data = self._matched(data if self.supervised else data.without_gold())
        if self.supervised and data.gold is None:
            raise DataError(f"{self.name} is a reference that needs gold, and there is none here")
        result = self.infer(params, self._scaled(self.fitted.hearing.heard(data)))
        return Predictions(
            data=data,
            labels=result.labels,
            probabilities=result.probabilities,
            scores=result.scores,
            model=self.name,
            settings=to_mapping(self.config) | ({SAW_GOLD: True} if self.supervised else {}),
        )

    def predict_proba(self, data: Dataset) -> Ragged:
        """Probabilities of every label, one (T, L) array per sentence."""
        return self.predict(data).by_sentence()

    def why(self) -> tuple[str, ...]:
        """Lines on what was decided in the fit; most models decide nothing."""
        return ()

    def insides(self) -> Insides:
        """What the fit left to look at."""
        return Insides.of(self.fitted.heard, self.fitted.params)

    def reliability(self) -> Table:
        """How good each source is for each entity type, as the model sees it."""
        fitted = self.fitted
        return Table(
            title=f"Reliability of the sources, as estimated by {self.name}",
            columns=("source", "type", *FIGURES),
            rows=fitted.reliability.rows(fitted.sources, fitted.types),
            formats=dict.fromkeys(FIGURES, PERCENT),
            notes=(
                "recall: P(source says x | truth is x); precision: P(truth is x | source says x)",
                "F1: of its spans, if what the model says of train were the truth",
                *(["this model saw gold: a reference, not a result"] if self.supervised else []),
            ),
        )

    @property
    def fitted(self) -> Fitted:
        """What the model learned; an error before `fit`."""
        if self._fitted is None:
            raise NotFittedError(f"{self.name} is not fitted yet: call fit(train) or load(folder)")
        return self._fitted

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder, whole or not at all."""
        checkpoint.save(Path(folder), *self.state())

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that a fitted model is: facts fit for JSON, and arrays."""
        facts, arrays = self.fitted.state()
        return {"model": self.name, "settings": to_mapping(self.config)} | facts, arrays

    def restore(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what a saved model had learned."""
        self._fitted = Fitted.of_state(facts, arrays)
        return self

    def _matched(self, data: Dataset) -> Dataset:
        fitted = self.fitted
        return matching(data, fitted.types, fitted.sources, fitted.silence, self.name)

    def __repr__(self) -> str:
        state = "fitted" if self._fitted is not None else "not fitted"
        return f"{type(self).__name__}({self.config}, {state})"


def warn_of_silent_sources(data: Dataset, model: str) -> None:
    """Say which sources never speak: nothing can be learned of them."""
    quiet = np.flatnonzero(~(data.votes > 0).any(axis=0))
    silent = [data.sources[number] for number in quiet]
    if silent:
        warnings.warn(
            f"{model}: {', '.join(silent)} never mark anything; their reliability is a guess",
            ConvenerWarning,
            stacklevel=4,
        )


def _scaled(data: Dataset, scaling: Scaling) -> Dataset:
    """The data with its features standardised when they are read."""
    if data.features is None:
        return data
    return replace(data, features=data.features.scaled(scaling))
