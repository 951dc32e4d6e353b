"""Auto: select a label model from the votes alone, without gold labels."""

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
from convener.data.votes import entity_votes
from convener.errors import ConvenerWarning
from convener.evaluation.metrics import is_correct
from convener.models import get_model
from convener.models.base import FeatureConfig, LabelModel, LabelOutput
from convener.models.fitted import Params
from convener.models.initialization import estimate_unmarked_weight
from convener.models.majority_vote import baseline_labels

SPARSE_CHMM, BSC, MAJORITY_VOTE = "sparse-chmm", "bsc", "majority-vote"
MIN_MARKED_TOKENS = 50
"""Minimum number of marked tokens from which a model is fitted; with fewer, majority vote is used."""
MAX_UNSUPPORTED_RATIO = 1.0
"""Plausible models predict at most this many unsupported spans per span of the majority vote."""
MIN_AGREEMENT = 0.8
"""Plausible models keep at least this share of the spans that are correct by the votes' own estimate."""
REASONS = {
    SPARSE_CHMM: "it uses the text and finds entities that no source marks",
    BSC: "every source votes O where it marks nothing, as annotators do",
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
    """Statistics of the votes on train, and a comparison of a model's spans with those of a simple vote."""

    num_sources: float
    marked_tokens: float
    """Tokens that at least one source marks."""
    overlap: float
    """Share of these that two or more sources mark."""
    false_rate: float
    """Estimated share of single-source marks that are false, see `initialization.estimate_unmarked_weight`."""
    baseline_spans: float
    """Spans of the simple vote."""
    model_spans: float
    """Spans of the model."""
    shared_spans: float
    """Spans of both."""
    unsupported_spans: float
    """Spans of the model where no source marks anything."""
    rejected: float = 0.0
    """1 if the spans of the selected model were implausible and the vote was used instead."""

    def is_plausible(self) -> bool:
        """Whether the model neither invents most of its spans nor drops most of the correct votes."""
        correct_rate = 1 - self.false_rate * (1 - self.overlap)
        return (
            self.unsupported_spans <= MAX_UNSUPPORTED_RATIO * self.baseline_spans
            and self.shared_spans >= MIN_AGREEMENT * correct_rate * self.baseline_spans
        )


class AutoParams(NamedTuple):
    """The selected model, its parameters, and the statistics on which the choice is based."""

    model: str
    params: Params
    summary: VoteSummary


class Auto(LabelModel):
    """Selects a label model from the votes alone, and falls back to majority vote.

    If every source votes O where it marks nothing, as annotators do, the model is `bsc`; otherwise `sparse-chmm`. If
    fewer than MIN_MARKED_TOKENS tokens are marked, it is majority vote. A model that invents most of its spans on
    train, or drops most of the spans that must be correct by the votes' own estimate, is implausible: majority vote
    is used instead, with a warning.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 30,
    ...     {"names": [[(0, 2, "PER")]] * 30, "first": [[(0, 1, "PER")]] * 15 + [[]] * 15},
    ... )
    >>> for line in Auto(encoder="hashing").fit(data).explain():
    ...     print(line)
    2 sources mark 60 tokens; 25% are marked by two or more; 10% of single-source marks are estimated to be false
    selected sparse-chmm: it uses the text and finds entities that no source marks
    on train it predicts 30 spans, majority vote 30; 30 are identical, 0 are where no source marks anything
    """

    Config = AutoConfig
    config: AutoConfig
    summary = "selects one of the other models from the votes alone, and explains why"
    needs_features = True
    supports_coarse = True
    uses_valid_gold = True

    @init_with(AutoConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: AutoParams | None, checkpoint_dir: Path | None
    ) -> tuple[AutoParams, Diagnostics]:
        """Fit the selected model; if its labels are implausible, use majority vote."""
        fine = train.without_coarse()
        baseline = baseline_labels(fine)
        name = self._select_model(fine) if previous is None else previous.model
        model = self._build_model(name, train)
        if not model.supports_coarse:
            train, valid = fine, None if valid is None else valid.without_coarse()
        params, diagnostics = model._fit(train, valid, None if previous is None else previous.params, checkpoint_dir)
        summary = _summarize_votes(train, baseline, self._infer_with(name, params, train).labels)
        if name == SPARSE_CHMM and not summary.is_plausible():
            warnings.warn(
                f"{self.name}: {name} predicts {summary.model_spans:.0f} spans, {summary.unsupported_spans:.0f} of "
                f"them where no source marks anything, and keeps {summary.shared_spans:.0f} of the "
                f"{summary.baseline_spans:.0f} spans of majority vote: implausible; using majority vote",
                ConvenerWarning,
                stacklevel=3,
            )
            name, params, diagnostics = MAJORITY_VOTE, {}, Diagnostics()
            summary = _summarize_votes(train, baseline, baseline)._replace(rejected=1.0)
        self._warn_weak_evidence(summary)
        return AutoParams(name, params, summary), diagnostics

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
        """Three lines: statistics of the votes, the selected model, and how it compares with majority vote."""
        summary = self._fitted_params().summary
        reason = "the spans of the other model were implausible" if summary.rejected else REASONS[self.selected_model]
        return (
            f"{summary.num_sources:,.0f} sources mark {summary.marked_tokens:,.0f} tokens; {summary.overlap:.0%} are "
            f"marked by two or more; {summary.false_rate:.0%} of single-source marks are estimated to be false",
            f"selected {self.selected_model}: {reason}",
            f"on train it predicts {summary.model_spans:,.0f} spans, majority vote {summary.baseline_spans:,.0f}; "
            f"{summary.shared_spans:,.0f} are identical, {summary.unsupported_spans:,.0f} are where no source marks "
            "anything",
        )

    def _fitted_params(self) -> AutoParams:
        params: AutoParams = self.fitted.params
        return params

    def _select_model(self, train: Dataset) -> str:
        if (train.votes > 0).any(axis=1).sum() < MIN_MARKED_TOKENS:
            return MAJORITY_VOTE
        if not train.unmarked_is_abstain().any():
            return BSC
        return SPARSE_CHMM

    def _build_model(self, name: str, data: Dataset) -> LabelModel:
        """The model with this name, configured for this kind of data."""
        settings = {"seed": self.config.seed}
        if name == MAJORITY_VOTE:
            return get_model(name)(**settings, scheme="span" if data.unmarked_is_abstain().all() else "io")
        return get_model(name)(**settings, num_threads=self.config.num_threads)

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


def _summarize_votes(train: Dataset, baseline: NDArray[np.int16], labels: NDArray[np.int16]) -> VoteSummary:
    """Statistics of the votes, and a comparison of these labels with those of a simple vote."""
    fine = train.without_coarse()
    model_spans, baseline_spans = (fine.tags.spans(tag_ids, train.offsets) for tag_ids in (labels, baseline))
    entity_vote_counts = entity_votes(train).sum(axis=1)
    num_marked = int((entity_vote_counts > 0).sum())
    cumulative = np.concatenate([[0], np.cumsum(entity_vote_counts)])
    sentence_start = train.offsets[model_spans.sentence]
    unsupported = cumulative[sentence_start + model_spans.end] == cumulative[sentence_start + model_spans.start]
    return VoteSummary(
        num_sources=len(train.sources),
        marked_tokens=num_marked,
        overlap=float((entity_vote_counts > 1).sum() / max(1, num_marked)),
        false_rate=estimate_unmarked_weight(fine.votes, baseline, len(fine.tags.types)),
        baseline_spans=len(baseline_spans),
        model_spans=len(model_spans),
        shared_spans=int(is_correct(model_spans, baseline_spans).sum()),
        unsupported_spans=int(unsupported.sum()),
    )
