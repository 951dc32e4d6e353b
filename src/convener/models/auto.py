"""Auto: select a label model from the votes and features alone, without gold labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import Predictions
from convener.data.votes import entity_votes
from convener.errors import ConvenerWarning
from convener.evaluation.source_reliability import span_probabilities
from convener.models import get_model
from convener.models.base import FeatureConfig, LabelModel, LabelOutput
from convener.models.fitted import Params
from convener.models.majority_vote import MajorityVote

NEURAL_SEGMENT, SEGMENT, SPARSE_CHMM, MAJORITY_VOTE = "neural-segment", "segment", "sparse-chmm", "majority-vote"
MIN_MARKED_TOKENS = 50
"""Minimum number of marked tokens from which a model is fitted; with fewer, majority vote is used."""
MIN_FEATURE_GAIN = 2.0
"""Features are informative if they predict held-out votes better, by this many standard errors of the gain."""
GAIN_FACTOR, GAIN_ERROR, GAIN_RELATIVE_ERROR = 0.7, 0.1, 0.5
"""Of the gain in F1 that a model expects over a vote, this share was found on generated corpora with known truth. In
nine of ten of them it was within the error plus the relative error times the expected gain."""
REASONS = {
    NEURAL_SEGMENT: "the features of the text predict held-out votes",
    SEGMENT: "the features of the text do not predict held-out votes",
    SPARSE_CHMM: "some votes are for coarse labels",
    MAJORITY_VOTE: "too little is marked to learn from",
}


@dataclass(frozen=True, kw_only=True)
class AutoConfig(FeatureConfig):
    """Settings of the selection."""

    num_threads: int = 1
    """Number of threads of the selected model, at least 1; results do not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "num_threads")


class VoteSummary(NamedTuple):
    """Statistics of train: the votes, the features, and what the selected model expects of its labels."""

    num_sources: float
    marked_tokens: float
    """Tokens that at least one source marks."""
    overlap: float
    """Share of these that two or more sources mark."""
    feature_gain: float = 0.0
    """Gain of the features in the log-likelihood of held-out votes, in nats per sentence."""
    feature_error: float = 0.0
    """Standard error of that gain."""
    model_f1: float = 0.0
    """Expected F1 of the model's labels, by its own probabilities."""
    vote_f1: float = 0.0
    """Expected F1 of the better of two simple votes, by the same probabilities."""

    def has_informative_features(self) -> bool:
        """Whether the features predict held-out votes."""
        return self.feature_gain > max(MIN_FEATURE_GAIN * self.feature_error, 0)


class AutoParams(NamedTuple):
    """The selected model, its parameters, and the statistics on which the choice is based."""

    model: str
    params: Params
    summary: VoteSummary


class Auto(LabelModel):
    """Selects a label model from the votes and the features alone.

    `neural-segment` is fitted, and selected if the features predict held-out votes: if they increase their
    log-likelihood by more than MIN_FEATURE_GAIN standard errors. Otherwise the model is `segment`, which needs no
    features. If fewer than MIN_MARKED_TOKENS tokens are marked, it is majority vote, and if some votes are for coarse
    labels, `sparse-chmm`.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 30,
    ...     {"names": [[(0, 2, "PER")]] * 30, "first": [[(0, 1, "PER")]] * 15 + [[]] * 15},
    ... )
    >>> for line in Auto(encoder="hashing").fit(data).explain()[:2]:
    ...     print(line)
    2 sources mark 60 tokens; 25% are marked by two or more
    selected neural-segment: the features of the text predict held-out votes (+1.47 ± 0.00 nats per sentence)
    """

    Config = AutoConfig
    config: AutoConfig
    summary = "selects one of the other models from the votes and features alone, and explains why"
    needs_features = True
    supports_coarse = True

    @init_with(AutoConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: AutoParams | None, checkpoint_dir: Path | None
    ) -> tuple[AutoParams, Diagnostics]:
        """Fit the selected model; a refit keeps the selection."""
        summary = _summarize_votes(train)
        name = _first_choice(train, summary) if previous is None else previous.model
        earlier = None if previous is None else previous.params
        params, diagnostics = self._fit_with(name, train, valid, earlier, checkpoint_dir)
        if name == NEURAL_SEGMENT:
            gain, error = params["feature_gain"].tolist()
            summary = summary._replace(feature_gain=gain, feature_error=error)
            if previous is None and not summary.has_informative_features():
                name = SEGMENT
                params, diagnostics = self._fit_with(name, train, valid, None, checkpoint_dir)
        model_f1, vote_f1 = _expected_f1(train, self._infer_with(name, params, train))
        self._warn_weak_evidence(summary)
        return AutoParams(name, params, summary._replace(model_f1=model_f1, vote_f1=vote_f1)), diagnostics

    def _infer(self, params: AutoParams, data: Dataset) -> LabelOutput:
        """The output of the selected model."""
        return self._infer_with(params.model, params.params, data)

    def _save_params(self, params: AutoParams, folder: Path) -> tuple[dict[str, Any], Params]:
        """Name and summary as JSON; arrays of the selected model."""
        return {"model": params.model, "summary": params.summary._asdict()}, params.params

    def _load_params(self, metadata: Mapping[str, Any], arrays: Params, folder: Path) -> AutoParams:
        """The parameters that `_save_params` wrote."""
        return AutoParams(metadata["model"], arrays, VoteSummary(**metadata["summary"]))

    @property
    def selected_model(self) -> str:
        """The name of the selected model."""
        return self._fitted_params().model

    def explain(self) -> tuple[str, ...]:
        """Three lines: statistics of the votes, the selected model with the reason, and the gain to expect."""
        params = self._fitted_params()
        summary = params.summary
        reason = REASONS[params.model]
        if params.model in (NEURAL_SEGMENT, SEGMENT):
            reason += f" ({summary.feature_gain:+.2f} ± {summary.feature_error:.2f} nats per sentence)"
        gain = GAIN_FACTOR * (summary.model_f1 - summary.vote_f1)
        error = GAIN_ERROR + GAIN_RELATIVE_ERROR * abs(summary.model_f1 - summary.vote_f1)
        return (
            f"{summary.num_sources:,.0f} sources mark {summary.marked_tokens:,.0f} tokens; {summary.overlap:.0%} are "
            "marked by two or more",
            f"selected {params.model}: {reason}",
            f"expected gain over a simple vote, in points of F1: {100 * gain:+.1f} "
            f"({100 * (gain - error):+.1f} to {100 * (gain + error):+.1f})",
        )

    def _fitted_params(self) -> AutoParams:
        params: AutoParams = self.fitted.params
        return params

    def _build_model(self, name: str, data: Dataset) -> LabelModel:
        """The model with this name, configured for this kind of data."""
        settings = {"seed": self.config.seed}
        if name == MAJORITY_VOTE:
            return get_model(name)(**settings, scheme="span" if data.unmarked_is_abstain().all() else "io")
        return get_model(name)(**settings, num_threads=self.config.num_threads)

    def _fit_with(
        self, name: str, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Fit the model with this name."""
        model = self._build_model(name, train)
        if not model.supports_coarse:
            train, valid = train.without_coarse(), None if valid is None else valid.without_coarse()
        return model._fit(train, valid, previous, checkpoint_dir)

    def _infer_with(self, name: str, params: Params, data: Dataset) -> LabelOutput:
        """The output of the model with this name."""
        model = self._build_model(name, data)
        return model._infer(params, data if model.supports_coarse else data.without_coarse())

    def _warn_weak_evidence(self, summary: VoteSummary) -> None:
        """Warn if there is too little evidence for any model to be better than a vote."""
        reasons = []
        if summary.num_sources == 1:
            reasons.append("there is only one source")
        elif not summary.overlap:
            reasons.append("no token is marked by two sources, so their reliability cannot be estimated")
        if summary.marked_tokens < MIN_MARKED_TOKENS:
            reasons.append(f"only {summary.marked_tokens:.0f} tokens are marked")
        for reason in reasons:
            warnings.warn(
                f"{self.name}: {reason}; the result may be no better than majority vote",
                ConvenerWarning,
                stacklevel=4,
            )


def _first_choice(train: Dataset, summary: VoteSummary) -> str:
    """The model to fit first, by the votes."""
    if summary.marked_tokens < MIN_MARKED_TOKENS:
        return MAJORITY_VOTE
    has_coarse_votes = bool((train.votes >= len(train.fine_tags)).any())
    return SPARSE_CHMM if has_coarse_votes else NEURAL_SEGMENT


def _summarize_votes(train: Dataset) -> VoteSummary:
    """Statistics of the votes."""
    entity_vote_counts = entity_votes(train).sum(axis=1)
    num_marked = int((entity_vote_counts > 0).sum())
    overlap = float((entity_vote_counts > 1).sum() / max(1, num_marked))
    return VoteSummary(num_sources=len(train.sources), marked_tokens=num_marked, overlap=overlap)


def _expected_f1(train: Dataset, output: LabelOutput) -> tuple[float, float]:
    """Expected F1 of a model's labels, and of the better of two simple votes, by the model's probabilities."""
    data = train.without_coarse()
    predictions = Predictions(
        data=data, labels=output.labels, probabilities=output.probabilities, span_scores=output.span_scores
    )
    votes = [MajorityVote(scheme=scheme)._infer({}, data).labels for scheme in ("io", "span")]
    model, *simple = (_expected_score(labels, predictions) for labels in (output.labels, *votes))
    return model, max(simple)


def _expected_score(labels: NDArray[np.int16], predictions: Predictions) -> float:
    """Expected F1 of labels (N,) by the probabilities of predictions."""
    spans = predictions.data.tags.spans(labels, predictions.data.offsets)
    correct = float(span_probabilities(spans, predictions).sum())
    present = max(float(predictions.require_probabilities()[:, 1::2].sum(dtype=np.float64)), correct)
    return 2 * correct / max(len(spans) + present, 1e-9)
