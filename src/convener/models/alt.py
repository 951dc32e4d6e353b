"""Label model and tagger in turns: each learns from what the other says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener import tagger as taggers
from convener.data import Dataset
from convener.errors import ConfigError
from convener.evaluate import score_labels
from convener.insides import Insides
from convener.io import checkpoint
from convener.models import get
from convener.models.base import FeatureConfig, Inference, LabelModel, Params, TokenRates
from convener.predictions import Predictions
from convener.settings import at_least, shares
from convener.tagger import Tagger
from convener.tagger.packed import packed, unpacked
from convener.train.heard import with_source
from convener.train.holding import held_out

TAGGER = "(tagger)"
"""The name of the source that the tagger becomes."""
OF_LABELS, OF_TAGGER = "labels.", "tagger."


@dataclass(frozen=True, kw_only=True)
class AltConfig(FeatureConfig):
    """Settings of the turns."""

    labels: str = "sparse-chmm"
    """The label model; any that sees no gold and reads votes."""
    finetune: bool = False
    """Train the tagger's encoder as a whole; otherwise a small network on its features."""
    rounds: int = 3
    """At most so many times the tagger speaks."""
    same: float = 0.99
    """Stop when so much of what is found on held-out sentences, as F1, is the same as before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "rounds")
        shares(self, "same")


class Turn(NamedTuple):
    """What is known after a turn, and what it says of held-out sentences."""

    params: Params
    labels: NDArray[np.int16]


class Alt(LabelModel):
    """The label model's labels train a tagger, whose labels are one more source, and so on.

    Turn 0: q = label model(votes). Turn r: the tagger learns E_q[-log p(z | text)], its labels on
    all sentences become a source whose O is an opinion, and q = label model(votes, tagger). Votes
    of other sources cannot tell which turn is the best: their likelihood is that of other data in
    every turn. So without gold the turns end when labels of held-out sentences stay as they were;
    with gold of valid the best turn by F1 is kept. Li et al. 2021, "BERTifying the Hidden Markov
    Model for Multi-Source Weakly Supervised Named Entity Recognition" (CHMM-ALT).

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> Alt(encoder="hashing", labels="hmm").fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = AltConfig
    summary = "a label model and a tagger in turns, each learning from the other (ACL 2021)"
    needs_features = True
    hears_coarse = True
    uses_valid_gold = True

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """Turn by turn, until nothing changes any more."""
        train, valid = held_out(train, valid, self.config.seed)
        known, tagger = _opened(start) if start is not None else (None, None)
        turn = self._turn(0, train, valid, known, tagger)
        turns = [turn]
        for number in range(1, self.config.rounds + 1):
            tagger = self._trained(number, turn, train, valid)
            # Emissions of fewer sources are no start for those of more.
            turn = self._turn(number, train, valid, None, tagger)
            turns.append(turn)
            if valid.gold is None and self._same(turns[-2:], valid) >= self.config.same:
                break
        best = turns[-1]
        if valid.gold is not None:
            best = max(turns, key=lambda turn: _f1(turn.labels, valid.gold, valid))
        return best.params

    def infer(self, params: Params, data: Dataset) -> Inference:
        """The label model's word, with the tagger heard."""
        known, tagger = _opened(params)
        model, heard = self._model(0), self._heard(data, tagger)
        return model.infer(known, heard if model.hears_coarse else heard.fine())

    def reliability_of(self, params: Params, train: Dataset, found: Inference) -> TokenRates:
        """Counted against the posterior; the tagger is no source of the user's."""
        return LabelModel.reliability_of(self, params, train, found)

    def insides(self) -> Insides:
        """What the last fit of the label model left to look at, the tagger among its sources."""
        known, tagger = _opened(self.fitted.params)
        names = (*self.fitted.heard, *([] if tagger is None else [TAGGER]))
        return Insides.of(names, known)

    def _model(self, number: int) -> LabelModel:
        """The label model, not fitted."""
        kind = get(self.config.labels)
        if kind.supervised or kind is Alt:
            raise ConfigError(f"labels must name a model that sees no gold, got {kind.name!r}")
        model = kind(seed=self.config.seed)
        model.journal = self._journal(f"labels-{number}")
        return model

    def _turn(
        self,
        number: int,
        train: Dataset,
        valid: Dataset,
        known: Params | None,
        tagger: Tagger[Any] | None,
    ) -> Turn:
        """Fit the label model with the tagger as a source, if there is one yet."""
        model = self._model(number)
        train, valid = (self._heard(part, tagger) for part in (train, valid))
        if not model.hears_coarse:
            train, valid = train.fine(), valid.fine()
        learned = model.learn(train, valid, known)
        said = {} if tagger is None else packed(tagger)
        params = {OF_LABELS + name: array for name, array in learned.items()}
        params |= {OF_TAGGER + name: array for name, array in said.items()}
        return Turn(params, model.infer(learned, valid).labels)

    def _trained(self, number: int, turn: Turn, train: Dataset, valid: Dataset) -> Tagger[Any]:
        """A tagger that has learned what the label model says."""
        kind = "finetuned" if self.config.finetune else "frozen"
        made = taggers.get(kind)(seed=self.config.seed, encoder=self.config.encoder)
        targets = [self._said(turn.params, part) for part in (train, valid)]
        there = targets if len(valid.tokens) else targets[:1]
        return made.fit(*there, journal=self._journal(f"tagger-{number}"))

    def _said(self, params: Params, data: Dataset) -> Predictions:
        found = self.infer(params, data)
        return Predictions(
            data=data.fine().without_gold(),
            labels=found.labels,
            probabilities=found.probabilities,
            scores=found.scores,
            model=self.name,
        )

    def _heard(self, data: Dataset, tagger: Tagger[Any] | None) -> Dataset:
        """The data with the tagger among the sources."""
        if tagger is None:
            return data
        labels = tagger.predict(data.fine()).labels
        return with_source(data, TAGGER, labels, "abstain")

    def _same(self, turns: list[Turn], valid: Dataset) -> float:
        before, now = turns
        return _f1(now.labels, before.labels, valid)

    def _journal(self, name: str) -> Path | None:
        return None if self.journal is None else self.journal / name


def _f1(labels: NDArray[np.int16], truth: NDArray[np.int16] | None, data: Dataset) -> float:
    if truth is None or not (np.any(labels) or np.any(truth)):
        return 1.0
    return score_labels(labels, truth, data.offsets, data.fine_tags).micro.f1


def _opened(params: Mapping[str, NDArray[Any]]) -> tuple[Params, Tagger[Any] | None]:
    """What the label model has learned, and the tagger."""
    known, said = (checkpoint.under(prefix, params) for prefix in (OF_LABELS, OF_TAGGER))
    return known, unpacked(said) if said else None
