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
from convener.settings import at_least, shares
from convener.tagger import Tagger, Targets
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
    folds: int = 2
    """Parts of train. What the tagger says of a part is said by one that learned from the others:
    one that learned from it would repeat what it was told. 1: it speaks of what it learned from."""
    same: float = 0.99
    """Stop when so much of what is found on held-out sentences, as F1, is the same as before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "rounds", "folds")
        shares(self, "same")


class Turn(NamedTuple):
    """What is known after a turn, and what it says of train and of held-out sentences."""

    params: Params
    train: Targets
    valid: Targets


class Alt(LabelModel):
    """The label model's labels train a tagger, whose labels are one more source, and so on.

    Turn 0: q = label model(votes). Turn r: the tagger learns E_q[-log p(z | text)], its labels on
    all sentences become a source whose O is an opinion, and q = label model(votes, tagger). Each
    part of train is labelled by a tagger that learned from the others, so that the label model
    hears what the text tells, and not its own echo. Votes of other sources cannot tell which turn
    is the best: their likelihood is that of other data in every turn. So without gold the turns
    end when labels of held-out sentences stay as they were; with gold of valid the best turn by
    F1 is kept. Li et al. 2021, "BERTifying the Hidden Markov Model for Multi-Source Weakly
    Supervised Named Entity Recognition" (CHMM-ALT).

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
        heard = (self._heard(part, tagger) for part in (train, valid))
        turns = [turn := self._turn(0, tagger, *heard, known=known)]
        for number in range(1, self.config.rounds + 1):
            tagger = self._trained(str(number), turn.train, turn.valid)
            labels = self._crossed(number, turn, tagger)
            spoken = with_source(train, TAGGER, labels, "abstain")
            # Emissions of fewer sources are no start for those of more.
            turn = self._turn(number, tagger, spoken, self._heard(valid, tagger), known=None)
            turns.append(turn)
            if valid.gold is None and self._same(turns[-2:]) >= self.config.same:
                break
        best = turns[-1]
        if valid.gold is not None:
            best = max(turns, key=lambda turn: _f1(turn.valid, valid.gold))
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
        tagger: Tagger[Any] | None,
        train: Dataset,
        valid: Dataset,
        *,
        known: Params | None,
    ) -> Turn:
        """Fit the label model; the tagger is among the sources already, if there is one yet."""
        model = self._model(number)
        if not model.hears_coarse:
            train, valid = train.fine(), valid.fine()
        learned = model.learn(train, valid, known)
        said = {} if tagger is None else packed(tagger)
        params = {OF_LABELS + name: array for name, array in learned.items()}
        params |= {OF_TAGGER + name: array for name, array in said.items()}
        return Turn(params, *(_said(part, model.infer(learned, part)) for part in (train, valid)))

    def _trained(self, name: str, train: Targets, valid: Targets) -> Tagger[Any]:
        """A tagger that has learned what the label model says."""
        kind = "finetuned" if self.config.finetune else "frozen"
        made = taggers.get(kind)(seed=self.config.seed, encoder=self.config.encoder)
        held = valid if len(valid.labels) else None
        return made.fit(train, held, journal=self._journal(f"tagger-{name}"))

    def _crossed(self, number: int, turn: Turn, tagger: Tagger[Any]) -> NDArray[np.int16]:
        """What taggers say of the sentences of train that they did not learn from.  -> (N,)"""
        train = turn.train
        spoken = np.flatnonzero(train.lengths)
        folds = min(self.config.folds, len(spoken))
        if folds < 2:
            return tagger.predict(train.data).labels
        rng = np.random.default_rng((self.config.seed, number))
        fold = np.zeros(len(train), np.int64)
        fold[spoken] = rng.permutation(len(spoken)) % folds
        labels = np.zeros_like(train.labels)
        for part in range(folds):
            other = self._trained(f"{number}-{part}", train.take(fold != part), turn.valid)
            mine = np.repeat(fold == part, train.lengths)
            labels[mine] = other.predict(train.data.take(fold == part)).labels
        return labels

    def _heard(self, data: Dataset, tagger: Tagger[Any] | None) -> Dataset:
        """The data with the tagger among the sources."""
        if tagger is None:
            return data
        labels = tagger.predict(data.fine()).labels
        return with_source(data, TAGGER, labels, "abstain")

    def _same(self, turns: list[Turn]) -> float:
        before, now = turns
        return _f1(now.valid, before.valid.labels)

    def _journal(self, name: str) -> Path | None:
        return None if self.journal is None else self.journal / name


def _said(data: Dataset, found: Inference) -> Targets:
    """What a label model infers of some data, to be learned."""
    return Targets(data=data, labels=found.labels, probabilities=found.probabilities)


def _f1(said: Targets, truth: NDArray[np.int16] | None) -> float:
    if truth is None or not (np.any(said.labels) or np.any(truth)):
        return 1.0
    return score_labels(said.labels, truth, said.data.offsets, said.data.tags).micro.f1


def _opened(params: Mapping[str, NDArray[Any]]) -> tuple[Params, Tagger[Any] | None]:
    """What the label model has learned, and the tagger."""
    known, said = (checkpoint.under(prefix, params) for prefix in (OF_LABELS, OF_TAGGER))
    return known, unpacked(said) if said else None
