"""ALT: alternate between a label model and a tagger, each trained on the output of the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener import taggers
from convener.config import check_min, check_range, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.data.ragged import hold_out
from convener.errors import ConfigError
from convener.evaluation.metrics import score_labels
from convener.models import get_model
from convener.models.base import FeatureConfig, LabelModel
from convener.models.fitted import Params
from convener.models.initialization import add_source
from convener.taggers.base import TAGGER_FOLDER, Tagger
from convener.taggers.targets import Targets

TAGGER_SOURCE = "(tagger)"
"""Name of the source that holds the votes of the tagger."""


@dataclass(frozen=True, kw_only=True)
class AltConfig(FeatureConfig):
    """Settings of ALT."""

    label_model: str = "sparse-chmm"
    """Name of the label model; any that uses votes and no gold labels."""
    fine_tune: bool = False
    """Fine-tune the encoder of the tagger; otherwise train a small network on its features."""
    max_rounds: int = 3
    """Maximum number of rounds; at least 1."""
    num_folds: int = 2
    """Number of folds of train, at least 1. Each fold is labeled by a tagger that was trained on the others; a tagger
    would repeat the labels that it was trained on. 1 switches this off."""
    tol: float = 0.01
    """Stop when the labels of held-out sentences agree with those of the previous round, with an F1 of at least 1 -
    tol; in [0, 1). With 0 they must be equal."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "max_rounds", "num_folds")
        check_range(self, "[0, 1)", "tol")


class AltParams(NamedTuple):
    """Parameters of the label model, and the tagger that was one of its sources, if any."""

    label_params: Any
    tagger: Tagger[Any] | None


class Round(NamedTuple):
    """One round: parameters, diagnostics, and labels of train and of held-out sentences."""

    params: AltParams
    diagnostics: Diagnostics
    train: Targets
    valid: Targets


class ALT(LabelModel):
    """Alternates between a label model and a tagger, each trained on the output of the other.

    Round 0: q = label model(votes). Round r: the tagger minimizes E_q[-log p(z | text)], its labels on all sentences
    become a source that votes O where it marks nothing, and q = label model(votes, tagger). Each fold of train is
    labeled by a tagger that was trained on the others, so that the label model receives evidence from the text, not
    its own output. The likelihood of the votes cannot select a round, since every round has other votes. Without gold,
    the rounds end when the labels of held-out sentences no longer change; with gold labels of valid, the round with
    the best F1 is kept. Li et al. 2021, "BERTifying the Hidden Markov Model for Multi-Source Weakly
    Supervised Named Entity Recognition" (CHMM-ALT).

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> ALT(encoder="hashing", label_model="hmm").fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = AltConfig
    config: AltConfig
    summary = "alternates between a label model and a tagger, each trained on the other's output (ACL 2021)"
    needs_features = True
    supports_coarse = True
    uses_valid_gold = True

    @init_with(AltConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: AltParams | None, checkpoint_dir: Path | None
    ) -> tuple[AltParams, Diagnostics]:
        """Run rounds until the labels no longer change."""
        train, valid = hold_out(train, valid, self.config.seed)
        label_params, tagger = (None, None) if previous is None else previous
        checkpoints = _Checkpoints(checkpoint_dir)
        datasets = (self._add_tagger_source(dataset, tagger) for dataset in (train, valid))
        rounds = [latest := self._run_round(checkpoints.subdir("labels-0"), tagger, *datasets, previous=label_params)]
        for number in range(1, self.config.max_rounds + 1):
            tagger = self._fit_tagger(checkpoints.subdir(f"tagger-{number}"), latest.train, latest.valid)
            labels = self._cross_predict(number, latest, tagger, checkpoints)
            train_with_tagger = add_source(train, TAGGER_SOURCE, labels, "outside")
            # Parameters for fewer sources cannot initialize a model with more.
            latest = self._run_round(
                checkpoints.subdir(f"labels-{number}"),
                tagger,
                train_with_tagger,
                self._add_tagger_source(valid, tagger),
                previous=None,
            )
            rounds.append(latest)
            if valid.gold is None and self._agreement(rounds[-2:]) >= 1 - self.config.tol:
                break
        best = rounds[-1]
        if valid.gold is not None:
            best = max(rounds, key=lambda candidate: _f1(candidate.valid, valid.gold))
        return best.params, best.diagnostics

    def _infer(self, params: AltParams, data: Dataset) -> LabelOutput:
        """The output of the label model, with the tagger among the sources."""
        model, data_with_tagger = self._build_label_model(), self._add_tagger_source(data, params.tagger)
        return model._infer(
            params.label_params,
            data_with_tagger if model.supports_coarse else data_with_tagger.without_coarse(),
        )

    def _save_params(self, params: AltParams, folder: Path) -> tuple[dict[str, Any], Params]:
        """The parameters of the label model; the tagger in a folder of its own."""
        metadata, arrays = self._build_label_model()._save_params(params.label_params, folder)
        if params.tagger is not None:
            params.tagger.save(folder / TAGGER_FOLDER)
        return {"has_tagger": params.tagger is not None, "label_params": metadata}, arrays

    def _load_params(self, metadata: Mapping[str, Any], arrays: Params, folder: Path) -> AltParams:
        """The parameters that `_save_params` wrote."""
        label_params = self._build_label_model()._load_params(metadata["label_params"], arrays, folder)
        tagger = taggers.load_tagger(folder / TAGGER_FOLDER) if metadata["has_tagger"] else None
        return AltParams(label_params, tagger)

    def _build_label_model(self) -> LabelModel:
        """An unfitted label model."""
        model_class = get_model(self.config.label_model)
        if model_class.supervised or model_class is ALT:
            raise ConfigError(f"label_model must name a label model that uses no gold labels, got {model_class.name!r}")
        return model_class(seed=self.config.seed)

    def _run_round(
        self,
        checkpoint_dir: Path | None,
        tagger: Tagger[Any] | None,
        train: Dataset,
        valid: Dataset,
        *,
        previous: Any,
    ) -> Round:
        """Fit the label model; the votes of the tagger, if there is one, are in the data already."""
        model = self._build_label_model()
        if not model.supports_coarse:
            train, valid = train.without_coarse(), valid.without_coarse()
        label_params, diagnostics = model._fit(train, valid, previous, checkpoint_dir)
        return Round(
            AltParams(label_params, tagger),
            diagnostics.for_sources(diagnostics.sources or train.sources),
            *(_to_targets(dataset, model._infer(label_params, dataset)) for dataset in (train, valid)),
        )

    def _fit_tagger(self, checkpoint_dir: Path | None, train: Targets, valid: Targets) -> Tagger[Any]:
        """A tagger trained on the output of the label model."""
        tagger_name = "finetuned" if self.config.fine_tune else "frozen"
        tagger = taggers.get_tagger(tagger_name)(seed=self.config.seed, encoder=self.config.encoder)
        validation = valid if len(valid.labels) else None
        return tagger.fit(train, validation, checkpoint_dir=checkpoint_dir)

    def _cross_predict(
        self, number: int, latest: Round, tagger: Tagger[Any], checkpoints: _Checkpoints
    ) -> NDArray[np.int16]:
        """Labels of train, each fold by a tagger that was not trained on it.  -> (N,)"""
        train = latest.train
        non_empty = np.flatnonzero(train.lengths)
        folds = min(self.config.num_folds, len(non_empty))
        if folds < 2:
            return tagger.predict(train.data).labels
        rng = np.random.default_rng((self.config.seed, number))
        fold_of_sentence = np.zeros(len(train), np.int64)
        fold_of_sentence[non_empty] = rng.permutation(len(non_empty)) % folds
        labels = np.zeros_like(train.labels)
        for fold in range(folds):
            fold_tagger = self._fit_tagger(
                checkpoints.subdir(f"tagger-{number}-{fold}"), train.take(fold_of_sentence != fold), latest.valid
            )
            in_fold = np.repeat(fold_of_sentence == fold, train.lengths)
            labels[in_fold] = fold_tagger.predict(train.data.take(fold_of_sentence == fold)).labels
        return labels

    def _add_tagger_source(self, data: Dataset, tagger: Tagger[Any] | None) -> Dataset:
        """The data with the votes of the tagger as an additional source."""
        if tagger is None:
            return data
        labels = tagger.predict(data.without_coarse()).labels
        return add_source(data, TAGGER_SOURCE, labels, "outside")

    def _agreement(self, rounds: list[Round]) -> float:
        previous, latest = rounds
        return _f1(latest.valid, previous.valid.labels)


class _Checkpoints(NamedTuple):
    """Checkpoint folders of one fit, one for each model that it trains."""

    folder: Path | None

    def subdir(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / name


def _to_targets(data: Dataset, output: LabelOutput) -> Targets:
    """The output of a label model as targets of a tagger."""
    return Targets(data=data, labels=output.labels, probabilities=output.probabilities)


def _f1(targets: Targets, reference: NDArray[np.int16] | None) -> float:
    if reference is None or not (np.any(targets.labels) or np.any(reference)):
        return 1.0
    return score_labels(targets.labels, reference, targets.data.offsets, targets.data.tags).micro.f1
