"""The choice of a model by what the votes are like: no gold, nothing to set."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.config import check_min
from convener.data.dataset import Dataset
from convener.data.votes import entity_votes
from convener.errors import ConvenerWarning
from convener.evaluation.metrics import is_correct
from convener.models import get_model
from convener.models.base import FeatureConfig, LabelModel, LabelOutput, RecallPrecision
from convener.models.fitted import Params
from convener.models.initialization import estimate_unmarked_weight
from convener.models.majority_vote import baseline_labels

SPARSE_CHMM, HMM, BSC, MAJORITY_VOTE = "sparse-chmm", "hmm", "bsc", "majority-vote"
MIN_MARKED_TOKENS = 50
"""With fewer marked tokens there is nothing to learn from."""
MAX_UNSUPPORTED_RATIO = 1.0
"""Spans where nobody marks anything, as a share of those of the vote: more are not believed."""
MIN_AGREEMENT = 0.8
"""Of the spans that are right by the votes' own account, so many must be kept as they are."""
MAX_FALSE_RATE = 0.5
"""Where more of the lone marks look false, the union of all spans is a poor answer."""
SELECTED, SUMMARY = "chosen", "evidence"
REASONS = {
    SPARSE_CHMM: "it reads the text, and finds entities that no source marks",
    HMM: "it tells false marks from right ones; with torch the text would be read, too",
    BSC: "all sources say O where they see nothing, as people do",
    MAJORITY_VOTE: "too little is marked to learn from, or most of it looks right, and there is no torch",
}


@dataclass(frozen=True, kw_only=True)
class AutoConfig(FeatureConfig):
    """Settings of the choice."""

    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "threads")


class VoteSummary(NamedTuple):
    """What the votes on train are like, and how a model's labels compare with a simple vote."""

    num_sources: float
    marked_tokens: float
    """Tokens that some source marks."""
    overlap: float
    """Share of these that two or more mark."""
    false_rate: float
    """Share of lone marks that chance does not explain, see `kernels.priors.silence_weight`."""
    baseline_spans: float
    """Spans of the vote."""
    model_spans: float
    """Spans of the model."""
    shared_spans: float
    """Spans of both."""
    unsupported_spans: float
    """Spans of the model where no source marks anything."""
    rejected: float = 0.0
    """1 where another model's labels were not believed."""

    def is_plausible(self) -> bool:
        """Whether a model neither invents most of what it says nor drops most of the votes."""
        correct_rate = 1 - self.false_rate * (1 - self.overlap)
        return (
            self.unsupported_spans <= MAX_UNSUPPORTED_RATIO * self.baseline_spans
            and self.shared_spans >= MIN_AGREEMENT * correct_rate * self.baseline_spans
        )


class Auto(LabelModel):
    """Chooses among the models by the votes alone, and keeps to a simple vote where in doubt.

    Sources whose silence is an opinion are people: `bsc`. Others are heard by `sparse-chmm`; where
    there is no torch by `hmm`, if most lone marks look false, else by majority vote. A model that
    invents most of its spans on train, or drops most of what must be right by the votes' own
    account, is not believed: then majority vote is taken, as where next to nothing is marked. By
    votes alone `hmm` is no better than the union of spans but where that is mostly wrong.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 30,
    ...     {"names": [[(0, 2, "PER")]] * 30, "first": [[(0, 1, "PER")]] * 15 + [[]] * 15},
    ... )
    >>> for line in Auto(encoder="hashing").fit(data).explain():
    ...     print(line)
    2 sources mark 60 tokens, 25% of them twice or more; of what only one marks, 10% looks false
    sparse-chmm is chosen: it reads the text, and finds entities that no source marks
    on train it finds 30 spans, a simple vote 30; 30 are the same, 0 are where no source marks any
    """

    Config = AutoConfig
    summary = "chooses among the others by the votes alone, and says why"
    needs_features = find_spec("torch") is not None
    supports_coarse = True
    uses_valid_gold = True

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """What fits the votes, if its labels can be believed; else a simple vote."""
        fine = train.without_coarse()
        baseline = baseline_labels(fine)
        name, previous_params = (
            _unpack_params(previous) if previous is not None else (self._select_model(fine, baseline), None)
        )
        model = self._build_model(name, train)
        if not model.supports_coarse:
            train, valid = fine, None if valid is None else valid.without_coarse()
        params = model._fit(train, valid, previous_params)
        summary = _summarize_votes(train, baseline, self._infer_with(name, params, train).labels)
        if name in (SPARSE_CHMM, HMM) and not summary.is_plausible():
            warnings.warn(
                f"{self.name}: {name} finds {summary.model_spans:.0f} spans, {summary.unsupported_spans:.0f} of "
                f"them where no source marks any, and keeps {summary.shared_spans:.0f} of the "
                f"{summary.baseline_spans:.0f} of a simple vote: not believed; the vote is taken",
                ConvenerWarning,
                stacklevel=3,
            )
            name, params = MAJORITY_VOTE, {}
            summary = _summarize_votes(train, baseline, baseline)._replace(rejected=1.0)
        self._warn_weak_evidence(summary)
        encoded_name = np.frombuffer(name.encode(), np.uint8)
        return {**params, SELECTED: encoded_name, SUMMARY: np.array(summary)}

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """What the chosen model says."""
        return self._infer_with(*_unpack_params(params), data)

    def _reliability(self, params: Params, train: Dataset, output: LabelOutput) -> RecallPrecision:
        """As the chosen model has it."""
        name, params = _unpack_params(params)
        return self._build_model(name, train)._reliability(params, train, output)

    @property
    def selected_model(self) -> str:
        """The name of the model that was chosen."""
        return _unpack_params(self.fitted.params)[0]

    def explain(self) -> tuple[str, ...]:
        """Three lines: what the votes are like, what was chosen, and how it compares."""
        summary = VoteSummary(*self.fitted.params[SUMMARY].tolist())
        reason = "what else was tried is not believable" if summary.rejected else REASONS[self.selected_model]
        return (
            f"{summary.num_sources:,.0f} sources mark {summary.marked_tokens:,.0f} tokens, {summary.overlap:.0%} of "
            f"them twice or more; of what only one marks, {summary.false_rate:.0%} looks false",
            f"{self.selected_model} is chosen: {reason}",
            f"on train it finds {summary.model_spans:,.0f} spans, a simple vote {summary.baseline_spans:,.0f}; "
            f"{summary.shared_spans:,.0f} are the same, {summary.unsupported_spans:,.0f} are where no source marks any",
        )

    def _select_model(self, train: Dataset, baseline: NDArray[np.int16]) -> str:
        if (train.votes > 0).any(axis=1).sum() < MIN_MARKED_TOKENS:
            return MAJORITY_VOTE
        if not train.quiet().any():
            return BSC
        if self.needs_features:
            return SPARSE_CHMM
        false_rate = estimate_unmarked_weight(train.votes, baseline, len(train.tags.types))
        return HMM if false_rate > MAX_FALSE_RATE else MAJORITY_VOTE

    def _build_model(self, name: str, data: Dataset) -> LabelModel:
        """The model of that name, set up for such data."""
        settings = {"seed": self.config.seed}
        if name == MAJORITY_VOTE:
            return get_model(name)(**settings, scheme="span" if data.quiet().all() else "io")
        model = get_model(name)(**settings, threads=self.config.threads)
        model.checkpoint_dir = self.checkpoint_dir
        return model

    def _infer_with(self, name: str, params: Params, data: Dataset) -> LabelOutput:
        """What the model of that name infers."""
        model = self._build_model(name, data)
        return model._infer(params, data if model.supports_coarse else data.without_coarse())

    def _warn_weak_evidence(self, summary: VoteSummary) -> None:
        """Say where the evidence is too thin for anything to be better than a vote."""
        reasons = []
        if summary.num_sources == 1:
            reasons.append("there is one source only, and nothing to compare it with")
        elif not summary.overlap:
            reasons.append("no token is marked by two sources, so how good they are is a guess")
        if summary.marked_tokens < MIN_MARKED_TOKENS:
            reasons.append(f"only {summary.marked_tokens:.0f} tokens are marked")
        for reason in reasons:
            warnings.warn(
                f"{self.name}: {reason}; the result may be no better than a simple vote",
                ConvenerWarning,
                stacklevel=4,
            )


def _summarize_votes(train: Dataset, baseline: NDArray[np.int16], labels: NDArray[np.int16]) -> VoteSummary:
    """What the votes are like, and how these labels compare with those of a simple vote."""
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


def _unpack_params(params: Params) -> tuple[str, Params]:
    """The name of the model that was chosen, and what it has learned."""
    model_params = {name: array for name, array in params.items() if name not in (SELECTED, SUMMARY)}
    return bytes(params[SELECTED].tolist()).decode(), model_params
