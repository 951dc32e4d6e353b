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
from convener.data.predictions import LabelOutput
from convener.data.votes import entity_votes
from convener.errors import ConvenerWarning
from convener.models import get_model
from convener.models.base import FeatureConfig, LabelModel
from convener.models.fitted import Params
from convener.models.vote_comparison import compare_with_votes

NEURAL_SEGMENT, SEGMENT, SPARSE_CHMM, MAJORITY_VOTE = "neural-segment", "segment", "sparse-chmm", "majority-vote"
MIN_MARKED_TOKENS = 50
"""With fewer marked tokens no network is fitted."""
MIN_FEATURE_GAIN_Z = 2.0
"""Features are informative if the mean gain in the log-likelihood of held-out votes is more than this many standard
errors."""
GAIN_FACTOR, GAIN_ERROR, GAIN_RELATIVE_ERROR = 0.7, 0.1, 0.5
"""On generated corpora the true gain in F1 was 0.7 times the difference d in expected F1, and in 86 % of them within
0.1 + 0.5 |d| of that (F1 as a fraction)."""


@dataclass(frozen=True, kw_only=True)
class AutoConfig(FeatureConfig):
    """Settings of the selection."""

    num_threads: int = 1
    """Number of threads of the selected model, at least 1; results do not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "num_threads")


class SelectionStatistics(NamedTuple):
    """Statistics of train: the votes, the features, and the expected F1 of the selected model."""

    num_sources: int
    marked_tokens: int
    """Tokens that at least one source marks."""
    overlap: float
    """Share of these that two or more sources mark."""
    vote_scheme: str
    """Scheme of the simple vote with the higher expected F1; "span" until votes are compared."""
    feature_gain: float = 0.0
    """Gain of the features in the log-likelihood of held-out votes, in nats per sentence."""
    feature_error: float = 0.0
    """Standard error of that gain."""
    model_f1: float = 0.0
    """Expected F1 of the model's labels on train, see `vote_comparison`; 0 until votes are compared."""
    vote_f1: float = 0.0
    """Expected F1 of the simple vote; 0 until votes are compared."""

    def has_informative_features(self) -> bool:
        """Whether the features predict held-out votes."""
        return self.feature_gain > max(MIN_FEATURE_GAIN_Z * self.feature_error, 0)

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
    statistics: SelectionStatistics


class Auto(LabelModel):
    """Selects a label model from the votes and the features of the text.

    The first rule that applies decides:

    - fewer than 50 tokens are marked: `majority-vote` with scheme="span", or `segment` if there are workers (sources
      with unmarked="outside")
    - some votes are for coarse labels: `sparse-chmm`
    - the features are informative, that is, `neural-segment` with them predicts held-out votes better than without, by
      more than 2 standard errors of the log-likelihood: `neural-segment`
    - otherwise: `segment`, which needs no features

    If the expected F1 of this model on train is more than one point below that of the better of two simple votes, a
    fallback is used. It is `segment` for `neural-segment`; for `segment` and `sparse-chmm` it is the better vote. With
    workers there is no fallback to a vote: it is `segment` for `sparse-chmm`, and none for `segment`.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 30,
    ...     {"names": [[(0, 2, "PER")]] * 30, "first": [[(0, 1, "PER")]] * 15 + [[]] * 15},
    ... )
    >>> for line in Auto(encoder="hashing").fit(data).explain()[:2]:
    ...     print(line)
    2 sources mark 60 tokens; 25% are marked by two or more
    selected neural-segment: the features of the text predict held-out votes (+1.22 ± 0.00 nats per sentence)
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
        """Fit one model after the other until a fit has no problem; a refit keeps the selection."""
        statistics = _vote_statistics(train)
        self._warn_weak_evidence(statistics)
        if previous is not None:
            model = self._build_model(previous.model, previous.statistics.vote_scheme)
            params, diagnostics = _fit_model(model, train, valid, previous.params, checkpoint_dir)
            return previous._replace(params=params), diagnostics
        names, reason = _models_to_try(train, statistics)
        for name in names:
            model = self._build_model(name, statistics.vote_scheme)
            params, diagnostics = _fit_model(model, train, valid, None, checkpoint_dir)
            statistics, problem = _check_fit(model, params, train, statistics)
            if problem is None or name == names[-1]:
                break
            reason = problem
        return AutoParams(name, reason or statistics.feature_reason(), params, statistics), diagnostics

    def _infer(self, params: AutoParams, data: Dataset) -> LabelOutput:
        """The output of the selected model."""
        return _infer_with(self._build_model(params.model, params.statistics.vote_scheme), params.params, data)

    def _save_params(self, params: AutoParams, folder: Path) -> tuple[dict[str, Any], Params]:
        """Name, reason and statistics as JSON; arrays of the selected model."""
        return {"model": params.model, "reason": params.reason, "summary": params.statistics._asdict()}, params.params

    def _load_params(self, metadata: Mapping[str, Any], arrays: Params, folder: Path) -> AutoParams:
        """The parameters that `_save_params` wrote."""
        return AutoParams(metadata["model"], metadata["reason"], arrays, SelectionStatistics(**metadata["summary"]))

    @property
    def selected_model(self) -> str:
        """The name of the selected model."""
        return self._fitted_params().model

    def explain(self) -> tuple[str, ...]:
        """Statistics of the votes; the selected model with the reason; the gain to expect, unless it is a vote."""
        params = self._fitted_params()
        statistics = params.statistics
        lines = (
            f"{statistics.num_sources:,} sources mark {statistics.marked_tokens:,} tokens; {statistics.overlap:.0%} "
            "are marked by two or more",
            f"selected {params.model}: {params.reason}",
        )
        if params.model == MAJORITY_VOTE:
            return lines
        difference = statistics.model_f1 - statistics.vote_f1
        gain, error = GAIN_FACTOR * difference, GAIN_ERROR + GAIN_RELATIVE_ERROR * abs(difference)
        low, value, high = (f"{100 * each:+.1f}" for each in (gain - error, gain, gain + error))
        return (*lines, f"expected gain over a simple vote, in points of F1: {value} ({low} to {high})")

    def _fitted_params(self) -> AutoParams:
        params: AutoParams = self.fitted.params
        return params

    def _build_model(self, name: str, vote_scheme: str) -> LabelModel:
        """The model with this name."""
        settings = {"seed": self.config.seed}
        if name == MAJORITY_VOTE:
            return get_model(name)(**settings, scheme=vote_scheme)
        return get_model(name)(**settings, num_threads=self.config.num_threads)

    def _warn_weak_evidence(self, statistics: SelectionStatistics) -> None:
        """Warn if there is too little evidence for any model to be better than a vote."""
        reasons = []
        if statistics.num_sources == 1:
            reasons.append("there is only one source")
        elif not statistics.overlap:
            reasons.append("no token is marked by two sources, so their reliability cannot be estimated")
        if statistics.marked_tokens < MIN_MARKED_TOKENS:
            reasons.append(f"only {statistics.marked_tokens:,} tokens are marked")
        for reason in reasons:
            warnings.warn(
                f"{self.name}: {reason}; the result may be no better than majority vote",
                ConvenerWarning,
                stacklevel=4,
            )


def _models_to_try(train: Dataset, statistics: SelectionStatistics) -> tuple[tuple[str, ...], str]:
    """The models to try in this order, and the reason if it is known."""
    # The many votes of workers for O can outvote nearly all marks; the segment model does not lose them.
    last = MAJORITY_VOTE if train.unmarked_is_abstain().all() else SEGMENT
    if statistics.marked_tokens < MIN_MARKED_TOKENS:
        return (last,), "too little is marked to learn from the text"
    if (train.votes >= len(train.fine_tags)).any():
        return (SPARSE_CHMM, last), "some votes are for coarse labels"
    return tuple(dict.fromkeys((NEURAL_SEGMENT, SEGMENT, last))), ""


def _vote_statistics(train: Dataset) -> SelectionStatistics:
    """Statistics of the votes."""
    entity_vote_counts = entity_votes(train).sum(axis=1)
    num_marked = int((entity_vote_counts > 0).sum())
    return SelectionStatistics(
        num_sources=len(train.sources),
        marked_tokens=num_marked,
        overlap=float((entity_vote_counts > 1).sum() / max(1, num_marked)),
        vote_scheme="span",
    )


def _check_fit(
    model: LabelModel, params: Params, train: Dataset, statistics: SelectionStatistics
) -> tuple[SelectionStatistics, str | None]:
    """The statistics completed by this fit, and the reason not to select the model if there is one."""
    if model.name == MAJORITY_VOTE:
        return statistics._replace(model_f1=statistics.vote_f1), None
    if model.name == NEURAL_SEGMENT:
        gain, error = params["feature_gain"].tolist()
        statistics = statistics._replace(feature_gain=gain, feature_error=error)
        if not statistics.has_informative_features():
            return statistics, statistics.feature_reason()
    found = compare_with_votes(train, _infer_with(model, params, train).labels)
    statistics = statistics._replace(model_f1=found.model.f1, vote_f1=found.vote.f1, vote_scheme=found.scheme)
    if found.is_worse:
        return statistics, f"{model.name} is probably worse than a simple vote"
    if model.name == NEURAL_SEGMENT and found.contradicts_segment:
        return statistics, f"{model.name} differs too much from what the votes alone tell"
    return statistics, None


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
