"""Base class of taggers: fitting on labels, prediction from text, saving and loading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from convener import storage
from convener.config import Configurable, Settings, check_min, config_from_dict, config_to_dict
from convener.data.dataset import Dataset
from convener.data.predictions import GOLD_USES, GoldUse, LabelOutput, Predictions
from convener.data.ragged import hold_out
from convener.errors import DataError, MismatchError, NotFittedError
from convener.evaluation.metrics import score_labels
from convener.storage import atomic_write
from convener.taggers.targets import Targets

StateT = TypeVar("StateT")
TAGGER_FOLDER = "tagger"
"""Subfolder in which a label model saves the tagger it contains."""
TAGGER_KEY = "tagger"
"""Key of the name of a saved tagger in its metadata; label models do not have it."""
MIN_PROBABILITY = 1e-9
"""Lower bound of the probabilities whose logarithm enters a validation score."""


@dataclass(frozen=True, kw_only=True)
class TaggerConfig(Settings):
    """Settings of every tagger."""

    seed: int = 0
    """Seed of all random numbers; at least 0."""
    max_epochs: int | None = None
    """Maximum number of epochs, at least 1; None for the default of the tagger."""
    patience: int = 3
    """Epochs without a better validation score before training stops; at least 1."""
    batch_size: int | None = None
    """Sentences per batch, at least 1; None for the default of the tagger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "seed")
        check_min(self, 1, "max_epochs", "patience", "batch_size")


@dataclass(frozen=True, eq=False)
class FittedTagger(Generic[StateT]):
    """State of a fitted tagger.

    types      entity types of the training labels
    uses_gold  which gold labels the training labels used
    state      learned by the tagger
    """

    types: tuple[str, ...]
    uses_gold: GoldUse
    state: StateT


class Tagger(Configurable, ABC, Generic[StateT]):
    """Sequence tagger (end model): trained on labels, it predicts from text alone and never uses votes.

    A tagger is one module: its settings, `_fit`, `_infer`, `_save_state` and `_load_state`. What it learns is a value
    of type StateT. This class does the rest: checks, the validation split, saving and loading.
    """

    Config: ClassVar[type[TaggerConfig]] = TaggerConfig
    config: TaggerConfig
    """The settings; a subclass declares its own type."""
    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for lists of taggers."""
    supports_soft_labels: ClassVar[bool] = True
    """Whether it is trained on label probabilities; otherwise it uses only the labels."""

    def __init__(self, **settings: Any) -> None:
        self.config = config_from_dict(self.Config, settings, kind=f"setting of {self.display_name}")
        self._fitted: FittedTagger[StateT] | None = None

    @property
    def display_name(self) -> str:
        """Name in tables, messages and predictions, such as "frozen tagger"."""
        return f"{self.name} tagger"

    @abstractmethod
    def _fit(self, train: Targets, valid: Targets, previous: StateT | None, checkpoint_dir: Path | None) -> StateT:
        """Train on `train`, with early stopping on `valid`, which may be empty.

        `previous` is the state of an earlier fit to continue from. Checkpoints are written to `checkpoint_dir`.
        """

    @abstractmethod
    def _infer(self, state: StateT, data: Dataset) -> LabelOutput:
        """Legal labels; each sentence is labeled independently of the others."""

    @abstractmethod
    def _save_state(self, state: StateT, folder: Path) -> dict[str, Any]:
        """Write the state into an existing folder.  -> metadata that `_load_state` needs"""

    @abstractmethod
    def _load_state(self, folder: Path, metadata: Mapping[str, Any]) -> StateT:
        """Read the state from a folder and the metadata of `_save_state`."""

    def fit(
        self,
        train: Targets | Predictions,
        valid: Targets | Predictions | None = None,
        *,
        checkpoint_dir: str | Path | None = None,
    ) -> Self:
        """Train on predictions, as soft labels if they have probabilities, or on `Targets`.

        Training stops early by F1 against the labels of `valid`, by default a held-out tenth of `train`. A fitted
        tagger continues from its state. With `checkpoint_dir`, calling `fit` again with the same arguments resumes
        interrupted training after the last complete epoch.
        """
        train, valid = self._to_targets(train), None if valid is None else self._to_targets(valid)
        if not len(train.data.tokens):
            raise DataError(f"{self.display_name}: the training data has no tokens")
        types = train.types if self._fitted is None else self._fitted.types
        for part in (train, *([] if valid is None else [valid])):
            if part.types != types:
                raise MismatchError(
                    f"{self.display_name}: expected types {', '.join(types)}; found {', '.join(part.types)}"
                )
        previous = None if self._fitted is None else self._fitted.state
        used_before: GoldUse = "none" if self._fitted is None else self._fitted.uses_gold
        folder = None if checkpoint_dir is None else Path(checkpoint_dir)
        state = self._fit(*hold_out(train, valid, self.config.seed), previous, folder)
        self._fitted = FittedTagger(types, max(train.uses_gold, used_before, key=GOLD_USES.index), state)
        return self

    def _to_targets(self, labels: Targets | Predictions) -> Targets:
        """Targets with probabilities, if they are available and the tagger supports them."""
        if isinstance(labels, Predictions):
            hard = labels.probabilities is None
            labels = Targets.from_hard_labels(labels) if hard else Targets.from_soft_labels(labels)
        return labels if self.supports_soft_labels else replace(labels, probabilities=None)

    def predict(self, data: Dataset) -> Predictions:
        """Predict labels from the text of `data`; its votes and gold are not used."""
        fitted = self.fitted
        try:
            data = data.without_gold().with_types(fitted.types)
        except DataError as error:
            expected = ", ".join(fitted.types)
            raise MismatchError(f"{self.display_name} was fitted on types {expected}: {error}") from None
        output = self._infer(fitted.state, data.select_sources(()).without_coarse())
        return Predictions(
            data=data,
            labels=output.labels,
            probabilities=output.probabilities,
            span_scores=output.span_scores,
            model=self.display_name,
            settings=config_to_dict(self.config),
            uses_gold=fitted.uses_gold,
        )

    @property
    def fitted(self) -> FittedTagger[StateT]:
        """State of the tagger; raises NotFittedError before `fit`."""
        if self._fitted is None:
            raise NotFittedError(f"{self.display_name} is not fitted; call fit(labels) or convener.load_tagger(folder)")
        return self._fitted

    def save(self, folder: str | Path) -> None:
        """Write the fitted tagger to a folder, completely or not at all."""
        with atomic_write(Path(folder)) as draft:
            draft.mkdir()
            self.save_files(draft)

    def save_files(self, folder: Path) -> None:
        """Write the files of the fitted tagger into an existing folder."""
        fitted = self.fitted
        metadata = {
            TAGGER_KEY: self.name,
            "settings": config_to_dict(self.config),
            "types": list(fitted.types),
            "uses_gold": fitted.uses_gold,
        }
        storage.write_metadata(folder, metadata | self._save_state(fitted.state, folder))

    def load_files(self, folder: Path, metadata: Mapping[str, Any]) -> Self:
        """Restore the state from the files of a saved tagger."""
        types = tuple(metadata["types"])
        self._fitted = FittedTagger(types, metadata["uses_gold"], self._load_state(folder, metadata))
        return self

    def __repr__(self) -> str:
        state = "fitted" if self._fitted is not None else "not fitted"
        return f"{type(self).__name__}({self.config}, {state})"


def validation_score(output: LabelOutput, targets: Targets, class_weights: NDArray[np.float32] | None = None) -> float:
    """Score for early stopping on validation targets; higher is better.

    F1 of the spans against the labels, of soft targets too: F1 often still rises when the likelihood, which penalizes
    overconfidence, already falls. While no span is correct, the negative expected cross-entropy in nats per token,
    which is below any F1. class_weights (L,) are those of training.
    """
    scores = score_labels(output.labels, targets.labels, targets.offsets, targets.data.tags)
    if scores.micro.f1 > 0 or output.probabilities is None:
        return scores.micro.f1
    log_probs = np.log(np.maximum(output.probabilities, MIN_PROBABILITY))
    target_weights = targets.label_probs() * (1 if class_weights is None else class_weights)
    return float((target_weights * log_probs).sum() / max(target_weights.sum(), MIN_PROBABILITY))
