"""The contract of a label model."""

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
from convener.config import Configurable, Settings, check_min, config_from_dict, config_to_dict
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.features import EncoderSpec, Standardizer
from convener.data.predictions import GOLD_USES, UPPER_BOUND, GoldUse, LabelOutput, Predictions
from convener.data.ragged import RaggedArray
from convener.data.tables import Table
from convener.data.votes import VoteSelection, negative_sources
from convener.encoders import AUTO, ensure_features
from convener.errors import ConvenerWarning, DataError, NotFittedError
from convener.evaluation.source_reliability import Reliability, estimate_reliability
from convener.models.fitted import FittedState, Params, match_fitted

__all__ = [
    "FeatureConfig",
    "FittedState",
    "LabelModel",
    "ModelConfig",
    "Reliability",
    "warn_unused_sources",
]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Settings):
    """Settings of every model."""

    seed: int = 0
    """Seed of all random numbers; at least 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "seed")


@dataclass(frozen=True, kw_only=True)
class FeatureConfig(ModelConfig):
    """Settings of every model that reads features."""

    encoder: str = AUTO
    """Encoder for data without features: auto (the best installed one), hashing, minilm, mpnet, a folder, or a name on
    the Hugging Face Hub. To change the settings of an encoder, encode the data first with `convener.encode`."""


class LabelModel(Configurable, ABC):
    """Aggregates the votes of many sources into one set of labels.

    A model defines its settings (`Config`), `_fit` and `_infer`. This class does the rest: it checks the data against
    what the model was fitted on, hides gold labels, encodes text, estimates the reliability of the sources, saves and
    loads.
    """

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    config: ModelConfig
    """The settings; a subclass declares its own type."""
    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for the list of models."""
    supervised: ClassVar[bool] = False
    """Whether the model is a reference that needs gold labels: `_fit` receives those of train and valid."""
    needs_gold_to_predict: ClassVar[bool] = False
    """Whether `_infer` reads the gold labels of the data that it labels: an oracle. It is then `supervised`, too."""
    needs_features: ClassVar[bool] = False
    """Whether `_fit` and `_infer` use features. They receive them encoded and standardized."""
    supports_coarse: ClassVar[bool] = False
    """Whether `_fit` and `_infer` handle coarse votes, whose ids follow the labels of `fine_tags`. For other models
    coarse votes are abstentions."""
    uses_valid_gold: ClassVar[bool] = False
    """Whether the model can use the gold labels of the validation split for early stopping."""
    keeps_duplicate_sources: ClassVar[bool] = False
    """Whether a source that duplicates another is counted again, as in a plain vote."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # The name is that of the module or package below convener.models: sparse_chmm, or sparse_chmm.model. Elsewhere
        # it is that of the module, and in a script that of the class.
        parts = cls.__module__.removeprefix("convener.models.").split(".")
        name = parts[0] if cls.__module__.startswith("convener.models.") else parts[-1]
        cls.name = (cls.__name__ if name == "__main__" else name).replace("_", "-")

    def __init__(self, **settings: Any) -> None:
        self.config = config_from_dict(self.Config, settings, kind=f"setting of {self.name}")
        self._fitted: FittedState | None = None

    @abstractmethod
    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Any, checkpoint_dir: Path | None
    ) -> tuple[Any, Diagnostics]:
        """Fit the model to the votes.  -> parameters, diagnostics

        `previous` holds the parameters of an earlier fit to continue from. Long training writes checkpoints to
        `checkpoint_dir`. Parameters are named arrays; a model with other parameters defines `_save_params` and
        `_load_params`.
        """

    @abstractmethod
    def _infer(self, params: Any, data: Dataset) -> LabelOutput:
        """Labels and probabilities; each sentence is labeled independently of the others."""

    def fit(
        self,
        train: Dataset,
        valid: Dataset | None = None,
        *,
        use_valid_gold: bool = False,
        checkpoint_dir: str | Path | None = None,
    ) -> Self:
        """Fit the model to the votes of `train`.  -> the model

        Unlike in scikit-learn, a second call continues from the first. Use `clone()` to start afresh.

        Gold labels of train are never used. Those of valid are used only with `use_valid_gold`, and only for early
        stopping. Models declared `supervised` use both. With `checkpoint_dir`, training that was interrupted resumes
        from its last epoch when the same call is repeated.
        """
        if not train.sources:
            raise DataError(f"{self.name}: the data has no sources")
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
            valid = match_fitted(valid, types, full_train.sources, full_train.unmarked, self.name)
            valid = selection.apply(valid)
        train = self.encode(train)
        encoder_spec = None if train.features is None else train.features.encoder_spec
        if self.needs_features and train.features is not None:
            standardizer = standardizer or Standardizer.fit(train.features)
            train = _standardize(train, standardizer)
            valid = None if valid is None else _standardize(self._encode_with(valid, encoder_spec), standardizer)
        folder = None if checkpoint_dir is None else Path(checkpoint_dir)
        params, diagnostics = self._fit(train, valid, previous, folder)
        predictions = self._predictions(full_train, self._infer(params, train), "none")
        self._fitted = FittedState(
            types=types,
            sources=full_train.sources,
            unmarked=full_train.unmarked,
            selection=selection,
            params=params,
            reliability=estimate_reliability(full_train, predictions),
            diagnostics=diagnostics.for_sources(diagnostics.sources or selection.used_sources(full_train.sources)),
            encoder_spec=encoder_spec if self.needs_features else None,
            standardizer=standardizer,
            uses_gold=self._gold_use(valid if use_valid_gold else None),
        )
        if not self.supervised:
            self._warn_if_worse_than_a_vote(full_train, predictions.labels)
        return self

    def _warn_if_worse_than_a_vote(self, train: Dataset, labels: NDArray[np.int16]) -> None:
        """Warn if the expected F1 of a simple vote on train is more than one point higher, and name what is better."""
        from convener.models.vote_comparison import compare_with_votes  # imported here, since it imports models

        comparison = compare_with_votes(train, labels)
        if comparison.is_worse:
            warnings.warn(comparison.warning(self.name), ConvenerWarning, stacklevel=3)

    def _gold_use(self, valid_with_gold: Dataset | None) -> GoldUse:
        """Which gold labels this fit and earlier ones used."""
        used_before: GoldUse = "none" if self._fitted is None else self._fitted.uses_gold
        if self.supervised:
            return "test" if self.needs_gold_to_predict else "train"
        used_now = self.uses_valid_gold and valid_with_gold is not None and valid_with_gold.gold is not None
        return max("valid" if used_now else "none", used_before, key=GOLD_USES.index)

    def _select_votes(self, train: Dataset) -> VoteSelection:
        """The votes that the model uses; warns if some are dropped. A refit keeps the selection of the first fit."""
        if self._fitted is not None:
            previous = self._fitted.selection
            names = dict.fromkeys([*previous.negative_sources, *negative_sources(train)])
            return replace(previous, negative_sources=tuple(names))
        selection = VoteSelection.from_dataset(
            train, keep_coarse=self.supports_coarse, keep_duplicates=self.keeps_duplicate_sources
        )
        if duplicates := selection.duplicates(train.sources):
            pairs = ", ".join(f"{name} duplicates {other}" for name, other in duplicates)
            warnings.warn(
                f"{self.name}: duplicate sources are counted once: {pairs}",
                ConvenerWarning,
                stacklevel=3,
            )
        return selection

    def encode(self, data: Dataset) -> Dataset:
        """The data with the features that this model uses; unchanged if it has them or needs none."""
        return self._encode_with(data, self._fitted.encoder_spec if self._fitted else None)

    def _prepare_features(self, data: Dataset) -> Dataset:
        """Encode data that `_match` returned, and standardize as in `fit`."""
        encoded, standardizer = self.encode(data), self.fitted.standardizer
        return encoded if standardizer is None else _standardize(encoded, standardizer)

    def _encode_with(self, data: Dataset, encoder_spec: EncoderSpec | None) -> Dataset:
        """The data with features of this encoder, or of the one in the settings."""
        if not self.needs_features:
            return data
        encoder = self.config.encoder if isinstance(self.config, FeatureConfig) else AUTO
        return ensure_features(data, encoder, encoder_spec, owner=self.name)

    def predict(self, data: Dataset) -> Predictions:
        """Labels, probabilities and span scores for every sentence."""
        params = self.fitted.params
        data = self._match(data if self.needs_gold_to_predict else data.without_gold())
        if self.needs_gold_to_predict and data.gold is None:
            raise DataError(f"{self.name} needs gold labels; the data has none")
        output = self._infer(params, self._prepare_features(self.fitted.selection.apply(data)))
        return self._predictions(data, output, self.fitted.uses_gold)

    def _predictions(self, data: Dataset, output: LabelOutput, uses_gold: GoldUse) -> Predictions:
        return Predictions(
            data=data,
            labels=output.labels,
            probabilities=output.probabilities,
            span_scores=output.span_scores,
            model=self.name,
            settings=config_to_dict(self.config),
            uses_gold=uses_gold,
        )

    def predict_proba(self, data: Dataset) -> RaggedArray:
        """Probabilities of every label, one (T, L) array per sentence."""
        return self.predict(data).probabilities_by_sentence()

    def explain(self) -> tuple[str, ...]:
        """Lines that explain decisions made during the fit; empty for most models."""
        return ()

    def diagnostics(self) -> Diagnostics:
        """Emissions and learning curves of the fit."""
        return self.fitted.diagnostics

    def reliability(self) -> Table:
        """Recall, precision and F1 of each source for each type it gives, by span on train, with intervals of 95 %."""
        fitted = self.fitted
        return fitted.reliability.table(
            fitted.sources,
            fitted.types,
            title=f"Source reliability, estimated by {self.name}",
            notes=(
                "by span on train: a mark is correct if its bounds and its type are both correct",
                *([f"uses gold labels: {UPPER_BOUND}"] if self.supervised else []),
            ),
        )

    @property
    def fitted(self) -> FittedState:
        """The fitted state; an error before `fit`."""
        if self._fitted is None:
            raise NotFittedError(
                f"{self.name} is not fitted: call fit(train), or load a saved model with convener.load_model(folder)"
            )
        return self._fitted

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder, completely or not at all."""
        with storage.atomic_write(Path(folder)) as draft:
            draft.mkdir()
            self.save_files(draft)

    def save_files(self, folder: Path) -> None:
        """Write all files of the fitted model into an existing folder."""
        metadata, arrays = self.fitted.serialize()
        params_metadata, params = self._save_params(self.fitted.params, folder)
        metadata |= {"params": params_metadata} if params_metadata else {}
        arrays |= {f"params.{name}": array for name, array in params.items()}
        header = {"model": self.name, "settings": config_to_dict(self.config)}
        storage.write_model_files(folder, header | metadata, arrays)

    def load_files(self, folder: Path, metadata: Mapping[str, Any]) -> Self:
        """Restore the fitted state from the files of a saved model; `metadata` was read from its folder."""
        arrays = storage.read_arrays(folder)
        params = self._load_params(metadata.get("params", {}), storage.select_prefix("params.", arrays), folder)
        self._fitted = FittedState.deserialize(metadata, arrays, params)
        return self

    def _save_params(self, params: Any, folder: Path) -> tuple[dict[str, Any], Params]:
        """Parameters as JSON values and named arrays; nested models may write a subfolder."""
        return {}, params

    def _load_params(self, metadata: Mapping[str, Any], arrays: Params, folder: Path) -> Any:
        """The parameters that `_save_params` wrote."""
        return arrays

    def _match(self, data: Dataset) -> Dataset:
        fitted = self.fitted
        return match_fitted(data, fitted.types, fitted.sources, fitted.unmarked, self.name)

    def __repr__(self) -> str:
        state = "fitted" if self._fitted is not None else "not fitted"
        return f"{type(self).__name__}({self.config}, {state})"


def warn_unused_sources(data: Dataset, model: str) -> None:
    """Warn about sources without any entity vote: their reliability cannot be estimated."""
    unused = np.flatnonzero(~(data.votes > 0).any(axis=0))
    names = [data.sources[number] for number in unused]
    if names:
        warnings.warn(
            f"{model}: sources without votes: {', '.join(names)}; their reliability cannot be estimated",
            ConvenerWarning,
            stacklevel=4,
        )


def _standardize(data: Dataset, standardizer: Standardizer) -> Dataset:
    """The data with features that are standardized when they are read."""
    if data.features is None:
        return data
    return replace(data, features=data.features.with_standardizer(standardizer))
