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

from convener import storage
from convener.config import check_min, config_from_dict, config_to_dict
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.features import EncoderSpec, Standardizer
from convener.data.predictions import USED_GOLD, Predictions
from convener.data.ragged import RaggedArray
from convener.data.tables import PERCENT, Table
from convener.data.votes import VoteSelection, negative_sources
from convener.encoders import AUTO, ensure_features
from convener.errors import ConvenerWarning, DataError, NotFittedError
from convener.inference.counts import type_probabilities, type_reliability
from convener.models.fitted import FittedState, Params, Reliability, match_fitted, source_reliability

__all__ = [
    "EMConfig",
    "FeatureConfig",
    "FittedState",
    "LabelModel",
    "LabelOutput",
    "ModelConfig",
    "Params",
    "Reliability",
    "warn_unused_sources",
]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Settings of every model."""

    seed: int = 0

    def __post_init__(self) -> None:
        check_min(self, 0, "seed")


@dataclass(frozen=True, kw_only=True)
class EMConfig(ModelConfig):
    """Settings of every model that is learned by expectation maximisation."""

    steps: int = 50
    """At most so many steps."""
    tolerance: float = 1e-6
    """Stop when a step raises the objective by less, in nats per token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "steps")
        check_min(self, 0, "tolerance")


@dataclass(frozen=True, kw_only=True)
class FeatureConfig(ModelConfig):
    """Settings of every model that reads features."""

    encoder: str = AUTO
    """Encodes data that comes without features: auto, hashing, minilm, mpnet, a folder, or a name
    on a hub. For settings of the encoder, encode the data first: `convener.encode`."""


@dataclass(frozen=True, eq=False)
class LabelOutput:
    """What a model says of some data: labels (N,), probabilities (N, L), scores per span."""

    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32]
    span_scores: NDArray[np.float32] | None = None


RecallPrecision = tuple[NDArray[np.float64], NDArray[np.float64]]
METRICS = ("recall", "precision", "F1")


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
    supports_coarse: ClassVar[bool] = False
    """Whether `learn` and `infer` take coarse votes, which lie above the labels of `fine_tags`;
    otherwise sources abstain where they say one."""
    uses_valid_gold: ClassVar[bool] = False
    """Whether gold of valid, where it may be seen, decides anything."""
    keeps_duplicate_sources: ClassVar[bool] = False
    """Whether a source that repeats another counts again, as in a plain vote."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A model is a module or a package of convener.models: sparse_chmm, or sparse_chmm.model.
        parts = cls.__module__.removeprefix("convener.models.").split(".")
        cls.name = (parts[0] if cls.__module__.startswith("convener.models.") else parts[-1]).replace("_", "-")

    def __init__(self, **settings: Any) -> None:
        self.config: Any = config_from_dict(self.Config, settings, kind=f"setting of {self.name}")
        self._fitted: FittedState | None = None
        self.checkpoint_dir: Path | None = None
        """Where training keeps what it needs to go on after a kill, while `fit` runs."""

    @abstractmethod
    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """Learn from votes; `start` is what an earlier fit learned, to go on from."""

    @abstractmethod
    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Labels and probabilities; each sentence is judged alone."""

    def _reliability(self, params: Params, train: Dataset, output: LabelOutput) -> RecallPrecision:
        """Recall and precision of each source, given what is inferred on train.  -> 2 x (K, E)

        By default counted against the model's own posterior.
        """
        return type_reliability(train.votes, type_probabilities(output.probabilities))

    def fit(
        self,
        train: Dataset,
        valid: Dataset | None = None,
        *,
        use_valid_gold: bool = False,
        checkpoint_dir: str | Path | None = None,
    ) -> Self:
        """Learn from the votes on `train`; on a fitted model, go on from what it knows.

        The gold of train is never seen. That of valid is seen only with `use_gold`, and only to
        decide when to stop. Models declared supervised see both. With a folder for a journal,
        models that train for long can be killed: the same call goes on from the last epoch.
        """
        self.checkpoint_dir = None if checkpoint_dir is None else Path(checkpoint_dir)
        if not train.sources:
            raise DataError(f"{self.name}: there are no sources to learn from")
        if not self.supervised:
            train = train.without_gold()
            valid = valid if use_valid_gold or valid is None else valid.without_gold()
        previous, standardizer = None, None
        if self._fitted is not None:
            train = self._match(train)
            previous, standardizer = self._fitted.params, self._fitted.standardizer
        selection = self._select_votes(train)
        full_train, types = train, train.fine_tags.types
        train = selection.apply(train)
        if valid is not None:
            valid = match_fitted(valid, types, full_train.sources, full_train.silence, self.name)
            valid = selection.apply(valid)
        train = self.encode(train)
        encoder_spec = None if train.features is None else train.features.encoder_spec
        if self.needs_features and train.features is not None:
            standardizer = standardizer or Standardizer.fit(train.features)
            train = _standardize(train, standardizer)
            valid = None if valid is None else _standardize(self._encode_with(valid, encoder_spec), standardizer)
        params = self._fit(train, valid, previous)
        output = self._infer(params, train)
        rates = self._reliability(params, train.without_coarse(), output)
        self._fitted = FittedState(
            types,
            full_train.sources,
            full_train.silence,
            selection,
            params,
            source_reliability([selection.expand(rate) for rate in rates], full_train, output.labels),
            encoder_spec if self.needs_features else None,
            standardizer,
        )
        return self

    def _select_votes(self, train: Dataset) -> VoteSelection:
        """Which votes count; said aloud where some do not. Going on, all is as it was before."""
        if self._fitted is not None:
            previous = self._fitted.selection
            names = dict.fromkeys([*previous.negative_sources, *negative_sources(train)])
            return replace(previous, negative_sources=tuple(names))
        selection = VoteSelection.from_dataset(
            train, keep_coarse=self.supports_coarse, keep_duplicates=self.keeps_duplicate_sources
        )
        if duplicates := selection.duplicates(train.sources):
            pairs = ", ".join(f"{name} repeats {other}" for name, other in duplicates)
            warnings.warn(
                f"{self.name}: sources that mark the same are heard once: {pairs}",
                ConvenerWarning,
                stacklevel=3,
            )
        return selection

    def encode(self, data: Dataset) -> Dataset:
        """The data with the features this model reads; as it is where there is nothing to do."""
        return self._encode_with(data, self._fitted.encoder_spec if self._fitted else None)

    def _prepare_features(self, data: Dataset) -> Dataset:
        """Data that matches, with features as the model was fitted on them."""
        encoded, standardizer = self.encode(data), self.fitted.standardizer
        return encoded if standardizer is None else _standardize(encoded, standardizer)

    def _encode_with(self, data: Dataset, encoder_spec: EncoderSpec | None) -> Dataset:
        """With features of this encoder, or of the one in the settings."""
        if not self.needs_features:
            return data
        return ensure_features(data, self.config.encoder, encoder_spec, owner=self.name)

    def predict(self, data: Dataset) -> Predictions:
        """Labels, probabilities and scored spans for every sentence."""
        params = self.fitted.params
        data = self._match(data if self.supervised else data.without_gold())
        if self.supervised and data.gold is None:
            raise DataError(f"{self.name} is a reference that needs gold, and there is none here")
        output = self._infer(params, self._prepare_features(self.fitted.selection.apply(data)))
        return Predictions(
            data=data,
            labels=output.labels,
            probabilities=output.probabilities,
            span_scores=output.span_scores,
            model=self.name,
            settings=config_to_dict(self.config) | ({USED_GOLD: True} if self.supervised else {}),
        )

    def predict_proba(self, data: Dataset) -> RaggedArray:
        """Probabilities of every label, one (T, L) array per sentence."""
        return self.predict(data).probabilities_by_sentence()

    def explain(self) -> tuple[str, ...]:
        """Lines on what was decided in the fit; most models decide nothing."""
        return ()

    def diagnostics(self) -> Diagnostics:
        """What the fit left to look at."""
        return Diagnostics.from_params(self.fitted.used_sources, self.fitted.params)

    def reliability(self) -> Table:
        """How good each source is for each entity type, as the model sees it."""
        fitted = self.fitted
        return Table(
            title=f"Reliability of the sources, as estimated by {self.name}",
            columns=("source", "type", *METRICS),
            rows=fitted.reliability.rows(fitted.sources, fitted.types),
            formats=dict.fromkeys(METRICS, PERCENT),
            notes=(
                "recall: P(source says x | truth is x); precision: P(truth is x | source says x)",
                "F1: of its spans, if what the model says of train were the truth",
                *(["this model saw gold: a reference, not a result"] if self.supervised else []),
            ),
        )

    @property
    def fitted(self) -> FittedState:
        """What the model learned; an error before `fit`."""
        if self._fitted is None:
            raise NotFittedError(f"{self.name} is not fitted yet: call fit(train) or load(folder)")
        return self._fitted

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder, whole or not at all."""
        storage.save_model_files(Path(folder), *self.to_state())

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that a fitted model is: facts fit for JSON, and arrays."""
        metadata, arrays = self.fitted.serialize()
        return {"model": self.name, "settings": config_to_dict(self.config)} | metadata, arrays

    def load_state(self, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what a saved model had learned."""
        self._fitted = FittedState.deserialize(metadata, arrays)
        return self

    def _match(self, data: Dataset) -> Dataset:
        fitted = self.fitted
        return match_fitted(data, fitted.types, fitted.sources, fitted.silence, self.name)

    def __repr__(self) -> str:
        state = "fitted" if self._fitted is not None else "not fitted"
        return f"{type(self).__name__}({self.config}, {state})"


def warn_unused_sources(data: Dataset, model: str) -> None:
    """Say which sources never speak: nothing can be learned of them."""
    unused = np.flatnonzero(~(data.votes > 0).any(axis=0))
    names = [data.sources[number] for number in unused]
    if names:
        warnings.warn(
            f"{model}: {', '.join(names)} never mark anything; their reliability is a guess",
            ConvenerWarning,
            stacklevel=4,
        )


def _standardize(data: Dataset, standardizer: Standardizer) -> Dataset:
    """The data with its features standardised when they are read."""
    if data.features is None:
        return data
    return replace(data, features=data.features.with_standardizer(standardizer))
