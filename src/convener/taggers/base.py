"""A tagger as arrays: the bytes of the files that it saves, for models that hold one inside."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from convener import storage
from convener.config import check_min, config_from_dict, config_to_dict
from convener.data.dataset import Dataset
from convener.data.predictions import USED_GOLD, Predictions
from convener.data.ragged import hold_out
from convener.errors import DataError, MismatchError, NotFittedError
from convener.evaluation.metrics import score_labels
from convener.storage import atomic_write
from convener.taggers.targets import Targets

StateT = TypeVar("StateT")
TAGGER_KEY = "tagger"
"""Among the facts of a saved tagger: its kind."""
MIN_PROBABILITY = 1e-9
"""Probabilities below this count as this where a held-out part is judged."""


class TagOutput(NamedTuple):
    """What a tagger says: labels (N,); probabilities (N, L) and a score per span if it has them."""

    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32] | None = None
    span_scores: NDArray[np.float32] | None = None


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """Settings of every tagger."""

    seed: int = 0
    epochs: int | None = None
    """At most so many epochs; by default as many as its kind needs."""
    patience: int = 3
    """Stop when so many epochs brought nothing better on the part that is held out."""
    batch: int | None = None
    """Sentences in a batch; by default as many as suit its kind."""

    def __post_init__(self) -> None:
        check_min(self, 0, "seed")
        check_min(self, 1, "epochs", "patience", "batch")


@dataclass(frozen=True, eq=False)
class FittedTagger(Generic[StateT]):
    """A fitted tagger's memory: what it was fitted on and what it learned."""

    types: tuple[str, ...]
    uses_gold: bool
    state: StateT


class Tagger(ABC, Generic[StateT]):
    """Learns to tag text from labels; it never sees a vote.

    A tagger is one file: its settings, `learn`, `infer`, `write` and `read`. What it learns is a
    value of type S. This class does the rest: checks, holding out, saving and loading.
    """

    Config: ClassVar[type[TaggerConfig]] = TaggerConfig
    kind: ClassVar[str]
    summary: ClassVar[str]
    """One line for lists."""
    supports_soft_labels: ClassVar[bool] = True
    """Whether it learns probabilities; otherwise the labels that come with them."""

    def __init__(self, **settings: Any) -> None:
        self.config: Any = config_from_dict(self.Config, settings, kind=f"setting of {self.name}")
        self._fitted: FittedTagger[StateT] | None = None
        self.checkpoint_dir: Path | None = None
        """Where training keeps what it needs to go on after a kill, while `fit` runs."""

    @property
    def name(self) -> str:
        """As tables call it."""
        return f"{self.kind} tagger"

    @abstractmethod
    def _fit(self, train: Targets, valid: Targets, previous: StateT | None) -> StateT:
        """Learn from train, stop by valid, which may be empty; `start`: what is known already."""

    @abstractmethod
    def _infer(self, state: StateT, data: Dataset) -> TagOutput:
        """Legal labels of text; each sentence is judged alone."""

    @abstractmethod
    def _save_state(self, state: StateT, folder: Path) -> dict[str, Any]:
        """Write what was learned into an existing folder; facts that `read` will need."""

    @abstractmethod
    def _load_state(self, folder: Path, metadata: Mapping[str, Any]) -> StateT:
        """What was learned, from a folder and its facts."""

    def fit(
        self,
        train: Targets | Predictions,
        valid: Targets | Predictions | None = None,
        *,
        checkpoint_dir: str | Path | None = None,
    ) -> Self:
        """Learn from labels: soft ones where predictions have probabilities, or `Targets`.

        Training stops by `valid`, or by a tenth of train that is held out: by F1 against its
        labels, which are gold only if you give gold. On a fitted tagger, go on from what it knows.
        With a folder for a journal, training that was killed goes on from its last epoch when the
        same call is made again.
        """
        self.checkpoint_dir = None if checkpoint_dir is None else Path(checkpoint_dir)
        train, valid = self._to_targets(train), None if valid is None else self._to_targets(valid)
        if not len(train.data.tokens):
            raise DataError(f"{self.name}: there are no tokens to learn from")
        types = train.types if self._fitted is None else self._fitted.types
        for part in (train, *([] if valid is None else [valid])):
            if part.types != types:
                raise MismatchError(f"{self.name}: expected types {', '.join(types)}; got {', '.join(part.types)}")
        previous = None if self._fitted is None else self._fitted.state
        used_gold_before = self._fitted is not None and self._fitted.uses_gold
        state = self._fit(*hold_out(train, valid, self.config.seed), previous)
        self._fitted = FittedTagger(types, train.uses_gold or used_gold_before, state)
        return self

    def _to_targets(self, labels: Targets | Predictions) -> Targets:
        """What there is to learn: probabilities where there are some, if they can be learned."""
        if isinstance(labels, Predictions):
            hard = labels.probabilities is None
            labels = Targets.from_hard_labels(labels) if hard else Targets.from_soft_labels(labels)
        return labels if self.supports_soft_labels else replace(labels, probabilities=None)

    def predict(self, data: Dataset) -> Predictions:
        """Labels of every sentence, from its text alone."""
        fitted = self.fitted
        try:
            data = data.without_gold().with_types(fitted.types)
        except DataError as error:
            expected = ", ".join(fitted.types)
            raise MismatchError(f"{self.name} was fitted on types {expected}: {error}") from None
        output = self._infer(fitted.state, data.select_sources(()).without_coarse())
        return Predictions(
            data=data,
            labels=output.labels,
            probabilities=output.probabilities,
            span_scores=output.span_scores,
            model=self.name,
            settings=config_to_dict(self.config) | ({USED_GOLD: True} if fitted.uses_gold else {}),
        )

    @property
    def fitted(self) -> FittedTagger[StateT]:
        """What the tagger learned; an error before `fit`."""
        if self._fitted is None:
            raise NotFittedError(f"{self.name} is not fitted yet: call fit(labels) or load(folder)")
        return self._fitted

    def save(self, folder: str | Path) -> None:
        """Write the fitted tagger to a folder, whole or not at all."""
        with atomic_write(Path(folder)) as draft:
            draft.mkdir()
            self.save_files(draft)

    def save_files(self, folder: Path) -> None:
        """Write all files of the fitted tagger into an existing folder."""
        fitted = self.fitted
        metadata = {
            TAGGER_KEY: self.kind,
            "settings": config_to_dict(self.config),
            "types": list(fitted.types),
            USED_GOLD: fitted.uses_gold,
        }
        storage.write_metadata(folder, metadata | self._save_state(fitted.state, folder))

    def load_files(self, folder: Path, metadata: Mapping[str, Any]) -> Self:
        """Take over what a saved tagger had learned."""
        types = tuple(metadata["types"])
        self._fitted = FittedTagger(types, bool(metadata[USED_GOLD]), self._load_state(folder, metadata))
        return self

    def __repr__(self) -> str:
        state = "fitted" if self._fitted is not None else "not fitted"
        return f"{type(self).__name__}({self.config}, {state})"


def validation_score(output: TagOutput, targets: Targets, class_weights: NDArray[np.float32] | None = None) -> float:
    """How well labels agree with a held-out part; higher is better.

    F1 of spans against its labels, of soft targets too: it still rises when the likelihood, which
    punishes a tagger for being sure, falls already. As long as no span is right, minus the expected
    cross-entropy, in nats per token: that is below any F1. weights (L,) of labels, as in training.
    """
    scores = score_labels(output.labels, targets.labels, targets.offsets, targets.data.tags)
    if scores.micro.f1 > 0 or output.probabilities is None:
        return scores.micro.f1
    log_probs = np.log(np.maximum(output.probabilities, MIN_PROBABILITY))
    target_weights = targets.label_probs() * (1 if class_weights is None else class_weights)
    return float((target_weights * log_probs).sum() / max(target_weights.sum(), MIN_PROBABILITY))


def tagger_to_arrays(tagger: Tagger[Any]) -> dict[str, NDArray[Any]]:
    """The bytes of all files of a fitted tagger, by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tagger.save_files(folder)
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        return {file.relative_to(folder).as_posix(): np.frombuffer(file.read_bytes(), np.uint8) for file in files}


def tagger_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Tagger[Any]:
    """The tagger that such files hold."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for file, content in arrays.items():
            target = (folder / file).resolve()
            if folder not in target.parents:
                raise DataError(f"a tagger with a file outside of its folder: {file!r}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.tobytes())
        from convener.taggers import load_tagger

        return load_tagger(folder)
