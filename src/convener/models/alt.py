"""Label model and tagger in turns: each learns from what the other says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener import storage, taggers
from convener.config import check_fraction, check_min
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.ragged import hold_out
from convener.errors import ConfigError
from convener.evaluation.metrics import score_labels
from convener.models import get_model
from convener.models.base import FeatureConfig, LabelModel, LabelOutput, RecallPrecision
from convener.models.fitted import Params
from convener.models.initialization import add_source
from convener.taggers.base import Tagger, tagger_from_arrays, tagger_to_arrays
from convener.taggers.targets import Targets

TAGGER_SOURCE = "(tagger)"
"""The name of the source that the tagger becomes."""
LABEL_MODEL_PREFIX, TAGGER_PREFIX = "labels.", "tagger."


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
        check_min(self, 1, "rounds", "folds")
        check_fraction(self, "same")


class Round(NamedTuple):
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
    supports_coarse = True
    uses_valid_gold = True

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """Turn by turn, until nothing changes any more."""
        train, valid = hold_out(train, valid, self.config.seed)
        label_params, tagger = _split_params(previous) if previous is not None else (None, None)
        datasets = (self._add_tagger_source(dataset, tagger) for dataset in (train, valid))
        rounds = [latest := self._run_round(0, tagger, *datasets, previous=label_params)]
        for number in range(1, self.config.rounds + 1):
            tagger = self._fit_tagger(str(number), latest.train, latest.valid)
            labels = self._cross_predict(number, latest, tagger)
            train_with_tagger = add_source(train, TAGGER_SOURCE, labels, "abstain")
            # Emissions of fewer sources are no start for those of more.
            latest = self._run_round(
                number,
                tagger,
                train_with_tagger,
                self._add_tagger_source(valid, tagger),
                previous=None,
            )
            rounds.append(latest)
            if valid.gold is None and self._agreement(rounds[-2:]) >= self.config.same:
                break
        best = rounds[-1]
        if valid.gold is not None:
            best = max(rounds, key=lambda turn: _f1(turn.valid, valid.gold))
        return best.params

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """The label model's word, with the tagger heard."""
        label_params, tagger = _split_params(params)
        model, data_with_tagger = self._build_label_model(0), self._add_tagger_source(data, tagger)
        return model._infer(
            label_params,
            data_with_tagger if model.supports_coarse else data_with_tagger.without_coarse(),
        )

    def _reliability(self, params: Params, train: Dataset, output: LabelOutput) -> RecallPrecision:
        """Counted against the posterior; the tagger is no source of the user's."""
        return LabelModel._reliability(self, params, train, output)

    def diagnostics(self) -> Diagnostics:
        """What the last fit of the label model left to look at, the tagger among its sources."""
        label_params, tagger = _split_params(self.fitted.params)
        sources = (*self.fitted.used_sources, *([] if tagger is None else [TAGGER_SOURCE]))
        return Diagnostics.from_params(sources, label_params)

    def _build_label_model(self, number: int) -> LabelModel:
        """The label model, not fitted."""
        model_class = get_model(self.config.labels)
        if model_class.supervised or model_class is Alt:
            raise ConfigError(f"labels must name a model that sees no gold, got {model_class.name!r}")
        model = model_class(seed=self.config.seed)
        model.checkpoint_dir = self._checkpoint_subdir(f"labels-{number}")
        return model

    def _run_round(
        self,
        number: int,
        tagger: Tagger[Any] | None,
        train: Dataset,
        valid: Dataset,
        *,
        previous: Params | None,
    ) -> Round:
        """Fit the label model; the tagger is among the sources already, if there is one yet."""
        model = self._build_label_model(number)
        if not model.supports_coarse:
            train, valid = train.without_coarse(), valid.without_coarse()
        label_params = model._fit(train, valid, previous)
        tagger_params = {} if tagger is None else tagger_to_arrays(tagger)
        params = {LABEL_MODEL_PREFIX + name: array for name, array in label_params.items()}
        params |= {TAGGER_PREFIX + name: array for name, array in tagger_params.items()}
        return Round(
            params,
            *(_to_targets(dataset, model._infer(label_params, dataset)) for dataset in (train, valid)),
        )

    def _fit_tagger(self, name: str, train: Targets, valid: Targets) -> Tagger[Any]:
        """A tagger that has learned what the label model says."""
        tagger_name = "finetuned" if self.config.finetune else "frozen"
        tagger = taggers.get_tagger(tagger_name)(seed=self.config.seed, encoder=self.config.encoder)
        validation = valid if len(valid.labels) else None
        return tagger.fit(train, validation, checkpoint_dir=self._checkpoint_subdir(f"tagger-{name}"))

    def _cross_predict(self, number: int, latest: Round, tagger: Tagger[Any]) -> NDArray[np.int16]:
        """What taggers say of the sentences of train that they did not learn from.  -> (N,)"""
        train = latest.train
        non_empty = np.flatnonzero(train.lengths)
        folds = min(self.config.folds, len(non_empty))
        if folds < 2:
            return tagger.predict(train.data).labels
        rng = np.random.default_rng((self.config.seed, number))
        fold_of_sentence = np.zeros(len(train), np.int64)
        fold_of_sentence[non_empty] = rng.permutation(len(non_empty)) % folds
        labels = np.zeros_like(train.labels)
        for fold in range(folds):
            fold_tagger = self._fit_tagger(f"{number}-{fold}", train.take(fold_of_sentence != fold), latest.valid)
            in_fold = np.repeat(fold_of_sentence == fold, train.lengths)
            labels[in_fold] = fold_tagger.predict(train.data.take(fold_of_sentence == fold)).labels
        return labels

    def _add_tagger_source(self, data: Dataset, tagger: Tagger[Any] | None) -> Dataset:
        """The data with the tagger among the sources."""
        if tagger is None:
            return data
        labels = tagger.predict(data.without_coarse()).labels
        return add_source(data, TAGGER_SOURCE, labels, "abstain")

    def _agreement(self, rounds: list[Round]) -> float:
        previous, latest = rounds
        return _f1(latest.valid, previous.valid.labels)

    def _checkpoint_subdir(self, name: str) -> Path | None:
        return None if self.checkpoint_dir is None else self.checkpoint_dir / name


def _to_targets(data: Dataset, output: LabelOutput) -> Targets:
    """What a label model infers of some data, to be learned."""
    return Targets(data=data, labels=output.labels, probabilities=output.probabilities)


def _f1(targets: Targets, reference: NDArray[np.int16] | None) -> float:
    if reference is None or not (np.any(targets.labels) or np.any(reference)):
        return 1.0
    return score_labels(targets.labels, reference, targets.data.offsets, targets.data.tags).micro.f1


def _split_params(params: Mapping[str, NDArray[Any]]) -> tuple[Params, Tagger[Any] | None]:
    """What the label model has learned, and the tagger."""
    label_params, tagger_params = (
        storage.select_prefix(prefix, params) for prefix in (LABEL_MODEL_PREFIX, TAGGER_PREFIX)
    )
    return label_params, tagger_from_arrays(tagger_params) if tagger_params else None
