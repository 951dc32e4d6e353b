"""Auto: select a label model from the votes and features alone, without gold labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.votes import entity_votes
from convener.errors import ConvenerWarning
from convener.models import get_model
from convener.models.base import FeatureConfig, LabelModel, LabelOutput
from convener.models.fitted import Params
from convener.models.plausibility import compare_with_votes

NEURAL_SEGMENT, SEGMENT, SPARSE_CHMM, MAJORITY_VOTE = "neural-segment", "segment", "sparse-chmm", "majority-vote"
MIN_MARKED_TOKENS = 50
"""Minimum number of marked tokens from which a network is fitted."""
MIN_FEATURE_GAIN = 2.0
"""Features are informative if they predict held-out votes better, by this many standard errors of the gain."""
GAIN_FACTOR, GAIN_ERROR, GAIN_RELATIVE_ERROR = 0.7, 0.1, 0.5
"""Of the gain in F1 that is expected over a vote, this share was found on generated corpora with known truth. In 86 %
of them it was within the error plus the relative error times the expected gain."""


@dataclass(frozen=True, kw_only=True)
class AutoConfig(FeatureConfig):
    """Settings of the selection."""

    num_threads: int = 1
    """Number of threads of the selected model, at least 1; results do not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "num_threads")


class VoteSummary(NamedTuple):
    """Statistics of train: the votes, the features, and the expected F1 of the selected model."""

    num_sources: float
    marked_tokens: float
    """Tokens that at least one source marks."""
    overlap: float
    """Share of these that two or more sources mark."""
    vote_scheme: str
    """Scheme of the better of two simple votes."""
    feature_gain: float = 0.0
    """Gain of the features in the log-likelihood of held-out votes, in nats per sentence."""
    feature_error: float = 0.0
    """Standard error of that gain."""
    model_f1: float = 0.0
    """Expected F1 of the model's labels on train, see `plausibility`."""
    vote_f1: float = 0.0
    """Expected F1 of the simple vote."""

    def has_informative_features(self) -> bool:
        """Whether the features predict held-out votes."""
        return self.feature_gain > max(MIN_FEATURE_GAIN * self.feature_error, 0)

    def feature_reason(self) -> str:
        """What was found of the features, in words."""
        does = "predict" if self.has_informative_features() else "do not predict"
        gain = f"{self.feature_gain:+.2f} ± {self.feature_error:.2f} nats per sentence"
        return f"the features of the text {does} held-out votes ({gain})"


class AutoParams(NamedTuple):
    """The selected model with the reason, its parameters, and the statistics on which the choice is based."""

    model: str
    reason: str
    params: Params
    summary: VoteSummary


class Auto(LabelModel):
    """Selects a label model from the votes and the features of the text.

    `neural-segment` is fitted, and selected if the features predict held-out votes: if they increase their
    log-likelihood by more than 2 standard errors. Otherwise the model is `segment`, which needs no features. If some
    votes are for coarse labels, it is `sparse-chmm`. If fewer than 50 tokens are marked, it is majority vote, or
    `segment` if unmarked tokens of some source are votes for O. If the expected F1 of a model on train is more than one
    point below that of the better of two simple votes, the next model is used: `segment` after `neural-segment`, and
    majority vote last, if no unmarked tokens are votes.

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
        """Fit one model after the other until there is no objection to it; a refit keeps the selection."""
        summary = _summarize_votes(train)
        self._warn_weak_evidence(summary)
        if previous is not None:
            model = self._build_model(previous.model, previous.summary.vote_scheme)
            params, diagnostics = _fit_model(model, train, valid, previous.params, checkpoint_dir)
            return previous._replace(params=params), diagnostics
        names, reason = _candidates(train, summary)
        for name in names:
            model = self._build_model(name, summary.vote_scheme)
            params, diagnostics = _fit_model(model, train, valid, None, checkpoint_dir)
            summary, objection = _examine(model, params, train, summary)
            if objection is None or name == names[-1]:
                break
            reason = objection
        return AutoParams(name, reason or summary.feature_reason(), params, summary), diagnostics

    def _infer(self, params: AutoParams, data: Dataset) -> LabelOutput:
        """The output of the selected model."""
        return _infer_with(self._build_model(params.model, params.summary.vote_scheme), params.params, data)

    def _save_params(self, params: AutoParams, folder: Path) -> tuple[dict[str, Any], Params]:
        """Name, reason and summary as JSON; arrays of the selected model."""
        return {"model": params.model, "reason": params.reason, "summary": params.summary._asdict()}, params.params

    def _load_params(self, metadata: Mapping[str, Any], arrays: Params, folder: Path) -> AutoParams:
        """The parameters that `_save_params` wrote."""
        return AutoParams(metadata["model"], metadata["reason"], arrays, VoteSummary(**metadata["summary"]))

    @property
    def selected_model(self) -> str:
        """The name of the selected model."""
        return self._fitted_params().model

    def explain(self) -> tuple[str, ...]:
        """Three lines: statistics of the votes, the selected model with the reason, and the gain to expect."""
        params = self._fitted_params()
        summary = params.summary
        difference = summary.model_f1 - summary.vote_f1
        gain, error = GAIN_FACTOR * difference, GAIN_ERROR + GAIN_RELATIVE_ERROR * abs(difference)
        low, value, high = (f"{100 * each:+.1f}" for each in (gain - error, gain, gain + error))
        return (
            f"{summary.num_sources:,.0f} sources mark {summary.marked_tokens:,.0f} tokens; {summary.overlap:.0%} are "
            "marked by two or more",
            f"selected {params.model}: {params.reason}",
            f"expected gain over a simple vote, in points of F1: {value} ({low} to {high})",
        )

    def _fitted_params(self) -> AutoParams:
        params: AutoParams = self.fitted.params
        return params

    def _build_model(self, name: str, vote_scheme: str) -> LabelModel:
        """The model with this name."""
        settings = {"seed": self.config.seed}
        if name == MAJORITY_VOTE:
            return get_model(name)(**settings, scheme=vote_scheme)
        return get_model(name)(**settings, num_threads=self.config.num_threads)

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


def _candidates(train: Dataset, summary: VoteSummary) -> tuple[tuple[str, ...], str]:
    """The models to try in this order, and the reason if it is known."""
    # Where unmarked tokens are votes for O, a vote may drop nearly everything; the segment model does not.
    last = MAJORITY_VOTE if train.unmarked_is_abstain().all() else SEGMENT
    if summary.marked_tokens < MIN_MARKED_TOKENS:
        return (last,), "too little is marked to learn from the text"
    if (train.votes >= len(train.fine_tags)).any():
        return (SPARSE_CHMM, last), "some votes are for coarse labels"
    return tuple(dict.fromkeys((NEURAL_SEGMENT, SEGMENT, last))), ""


def _summarize_votes(train: Dataset) -> VoteSummary:
    """Statistics of the votes."""
    entity_vote_counts = entity_votes(train).sum(axis=1)
    num_marked = int((entity_vote_counts > 0).sum())
    return VoteSummary(
        num_sources=len(train.sources),
        marked_tokens=num_marked,
        overlap=float((entity_vote_counts > 1).sum() / max(1, num_marked)),
        vote_scheme="span",
    )


def _examine(model: LabelModel, params: Params, train: Dataset, summary: VoteSummary) -> tuple[VoteSummary, str | None]:
    """The summary with what this fit tells, and an objection to the model if there is one."""
    if model.name == MAJORITY_VOTE:
        return summary._replace(model_f1=summary.vote_f1), None
    if model.name == NEURAL_SEGMENT:
        gain, error = params["feature_gain"].tolist()
        summary = summary._replace(feature_gain=gain, feature_error=error)
        if not summary.has_informative_features():
            return summary, summary.feature_reason()
    found = compare_with_votes(train, _infer_with(model, params, train).labels)
    summary = summary._replace(model_f1=found.model.f1, vote_f1=found.vote.f1, vote_scheme=found.scheme)
    return summary, f"{model.name} is probably worse than a simple vote" if found.is_worse else None


def _fit_model(
    model: LabelModel, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
) -> tuple[Params, Diagnostics]:
    """Fit a model that may not support coarse votes."""
    if not model.supports_coarse:
        train, valid = train.without_coarse(), None if valid is None else valid.without_coarse()
    return model._fit(train, valid, previous, checkpoint_dir)


def _infer_with(model: LabelModel, params: Params, data: Dataset) -> LabelOutput:
    """The output of a model that may not support coarse votes."""
    return model._infer(params, data if model.supports_coarse else data.without_coarse())
