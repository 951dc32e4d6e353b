"""The contract of a tagger, and all that taggers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError, MismatchError, NotFittedError
from convener.evaluate.metrics import score_labels
from convener.io import checkpoint
from convener.io.files import whole
from convener.predictions import SAW_GOLD, Predictions
from convener.settings import at_least, from_mapping, to_mapping
from convener.tagger.targets import Targets
from convener.train.holding import held_out

S = TypeVar("S")
KIND = "tagger"
"""Among the facts of a saved tagger: its kind."""
LEAST = 1e-9
"""Probabilities below this count as this where a held-out part is judged."""


class Tagged(NamedTuple):
    """What a tagger says: labels (N,); probabilities (N, L) and a score per span if it has them."""

    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32] | None = None
    scores: NDArray[np.float32] | None = None


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
        at_least(self, 0, "seed")
        at_least(self, 1, "epochs", "patience", "batch")


@dataclass(frozen=True, eq=False)
class Fitted(Generic[S]):
    """A fitted tagger's memory: what it was fitted on and what it learned."""

    types: tuple[str, ...]
    saw_gold: bool
    state: S


class Tagger(ABC, Generic[S]):
    """Learns to tag text from labels; it never sees a vote.

    A tagger is one file: its settings, `learn`, `infer`, `write` and `read`. What it learns is a
    value of type S. This class does the rest: checks, holding out, saving and loading.
    """

    Config: ClassVar[type[TaggerConfig]] = TaggerConfig
    kind: ClassVar[str]
    summary: ClassVar[str]
    """One line for lists."""
    learns_soft: ClassVar[bool] = True
    """Whether it learns probabilities; otherwise the labels that come with them."""

    def __init__(self, **settings: Any) -> None:
        self.config: Any = from_mapping(self.Config, settings, what=f"setting of {self.name}")
        self._fitted: Fitted[S] | None = None
        self.journal: Path | None = None
        """Where training keeps what it needs to go on after a kill, while `fit` runs."""

    @property
    def name(self) -> str:
        """As tables call it."""
        return f"{self.kind} tagger"

    @abstractmethod
    def learn(self, train: Targets, valid: Targets, start: S | None) -> S:
        """Learn from train, stop by valid, which may be empty; `start`: what is known already."""

    @abstractmethod
    def infer(self, state: S, data: Dataset) -> Tagged:
        """Legal labels of text; each sentence is judged alone."""

    @abstractmethod
    def write(self, state: S, folder: Path) -> dict[str, Any]:
        """Write what was learned into an existing folder; facts that `read` will need."""

    @abstractmethod
    def read(self, folder: Path, facts: Mapping[str, Any]) -> S:
        """What was learned, from a folder and its facts."""

    def fit(
        self,
        train: Targets | Predictions,
        valid: Targets | Predictions | None = None,
        *,
        journal: str | Path | None = None,
    ) -> Self:
        """Learn from labels: soft ones where predictions have probabilities, or `Targets`.

        Training stops by `valid`, or by a tenth of train that is held out: by F1 against its
        labels, which are gold only if you give gold. On a fitted tagger, go on from what it knows.
        With a folder for a journal, training that was killed goes on from its last epoch when the
        same call is made again.
        """
        self.journal = None if journal is None else Path(journal)
        train, valid = self._targets(train), None if valid is None else self._targets(valid)
        if not len(train.data.tokens):
            raise DataError(f"{self.name}: there are no tokens to learn from")
        types = train.types if self._fitted is None else self._fitted.types
        for part in (train, *([] if valid is None else [valid])):
            if part.types != types:
                raise MismatchError(
                    f"{self.name}: expected types {', '.join(types)}; got {', '.join(part.types)}"
                )
        start = None if self._fitted is None else self._fitted.state
        knew_gold = self._fitted is not None and self._fitted.saw_gold
        state = self.learn(*held_out(train, valid, self.config.seed), start)
        self._fitted = Fitted(types, train.gold or knew_gold, state)
        return self

    def _targets(self, labels: Targets | Predictions) -> Targets:
        """What there is to learn: probabilities where there are some, if they can be learned."""
        if isinstance(labels, Predictions):
            hard = labels.probabilities is None
            labels = Targets.hard(labels) if hard else Targets.soft(labels)
        return labels if self.learns_soft else replace(labels, probabilities=None)

    def predict(self, data: Dataset) -> Predictions:
        """Labels of every sentence, from its text alone."""
        fitted = self.fitted
        try:
            data = data.without_gold().with_types(fitted.types)
        except DataError as error:
            known = ", ".join(fitted.types)
            raise MismatchError(f"{self.name} was fitted on types {known}: {error}") from None
        found = self.infer(fitted.state, data.select_sources(()).fine())
        return Predictions(
            data=data,
            labels=found.labels,
            probabilities=found.probabilities,
            scores=found.scores,
            model=self.name,
            settings=to_mapping(self.config) | ({SAW_GOLD: True} if fitted.saw_gold else {}),
        )

    @property
    def fitted(self) -> Fitted[S]:
        """What the tagger learned; an error before `fit`."""
        if self._fitted is None:
            raise NotFittedError(f"{self.name} is not fitted yet: call fit(labels) or load(folder)")
        return self._fitted

    def save(self, folder: str | Path) -> None:
        """Write the fitted tagger to a folder, whole or not at all."""
        with whole(Path(folder)) as draft:
            draft.mkdir()
            self.write_all(draft)

    def write_all(self, folder: Path) -> None:
        """Write all files of the fitted tagger into an existing folder."""
        fitted = self.fitted
        facts = {
            KIND: self.kind,
            "settings": to_mapping(self.config),
            "types": list(fitted.types),
            SAW_GOLD: fitted.saw_gold,
        }
        checkpoint.write_facts(folder, facts | self.write(fitted.state, folder))

    def restore(self, folder: Path, facts: Mapping[str, Any]) -> Self:
        """Take over what a saved tagger had learned."""
        types = tuple(facts["types"])
        self._fitted = Fitted(types, bool(facts[SAW_GOLD]), self.read(folder, facts))
        return self

    def __repr__(self) -> str:
        state = "fitted" if self._fitted is not None else "not fitted"
        return f"{type(self).__name__}({self.config}, {state})"


def agreement(found: Tagged, targets: Targets, weights: NDArray[np.float32] | None = None) -> float:
    """How well labels agree with a held-out part; higher is better.

    F1 of spans against its labels, of soft targets too: it still rises when the likelihood, which
    punishes a tagger for being sure, falls already. As long as no span is right, minus the expected
    cross-entropy, in nats per token: that is below any F1. weights (L,) of labels, as in training.
    """
    scores = score_labels(found.labels, targets.labels, targets.offsets, targets.data.tags)
    if scores.micro.f1 > 0 or found.probabilities is None:
        return scores.micro.f1
    logs = np.log(np.maximum(found.probabilities, LEAST))
    worth = targets.shares() * (1 if weights is None else weights)
    return float((worth * logs).sum() / max(worth.sum(), LEAST))
