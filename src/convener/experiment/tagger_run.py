"""Training labels and scores of a tagger run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from convener.data.corpus import Corpus
from convener.data.predictions import Predictions
from convener.evaluation.evaluation import evaluate
from convener.models.base import LabelModel
from convener.taggers.base import Tagger
from convener.taggers.targets import Targets

METRICS = ("precision", "recall", "f1")
EVAL_SPLITS = ("valid", "test", "train")
"""Splits to evaluate on, in order of preference."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingLabels:
    """Labels a tagger is trained on, and the data they come from."""

    train: Predictions | Targets | None
    valid: Predictions | Targets | None = None
    model: LabelModel | None = None
    """Label model that predicted the labels; None for labels from a file."""
    corpus: Corpus


@dataclass(frozen=True, kw_only=True)
class TaggerScores:
    """Scores of a tagger, of its label model and of majority vote on one split.

    `rows` maps the name of each to its metrics and to `uses_gold`, which gold labels it used.
    """

    split: str
    rows: Mapping[str, Mapping[str, Any]]


def make_targets(labels: Predictions | Targets | None, *, soft: bool, require_soft: bool) -> Targets | None:
    """Training targets: soft if wanted and the labels have probabilities, else hard.

    With `require_soft`, labels without probabilities are an error.
    """
    if labels is None or isinstance(labels, Targets):
        return labels
    if soft and (labels.probabilities is not None or require_soft):
        return Targets.from_soft_labels(labels)
    return Targets.from_hard_labels(labels)


def score_tagger(tagger: Tagger[Any], labels: TrainingLabels, split: str | None) -> TaggerScores | None:
    """Scores on a split, by default the first of valid, test and train with gold; None without gold."""
    corpus = labels.corpus
    names = [split] if split else [name for name in EVAL_SPLITS if name in corpus]
    splits_with_gold = [name for name in names if corpus[name].gold is not None]
    if not splits_with_gold:
        return None
    dataset = corpus[splits_with_gold[0]]
    evaluation = evaluate(tagger.predict(dataset), dataset)
    evaluations = {tagger.display_name: evaluation}
    if labels.model is not None:
        evaluations[labels.model.name] = evaluate(labels.model.predict(dataset), dataset)
    rows: dict[str, dict[str, Any]] = {
        name: {metric: getattr(result, metric) for metric in METRICS} | {"uses_gold": result.uses_gold}
        for name, result in evaluations.items()
    }
    if evaluation.majority_vote is not None:
        micro = evaluation.majority_vote.micro
        rows["majority vote (IO)"] = {metric: getattr(micro, metric) for metric in METRICS} | {"uses_gold": "none"}
    return TaggerScores(split=splits_with_gold[0], rows=rows)
