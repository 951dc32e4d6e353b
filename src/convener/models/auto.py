"""The choice of a model by what the votes are like: no gold, nothing to set."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import ConvenerWarning
from convener.evaluate.metrics import correct
from convener.kernels.priors import silence_weight
from convener.models import get
from convener.models.base import FeatureConfig, Inference, LabelModel, Params, TokenRates
from convener.models.majority_vote import simple_labels
from convener.settings import at_least
from convener.train.heard import marks

NETWORK, CHAIN, CROWD, VOTE = "sparse-chmm", "hmm", "bsc", "majority-vote"
FEW = 50
"""With fewer marked tokens there is nothing to learn from."""
MOST_INVENTED = 1.0
"""Spans where nobody marks anything, as a share of those of the vote: more are not believed."""
LEAST_SAME = 0.8
"""Of the spans that are right by the votes' own account, so many must be kept as they are."""
MOSTLY = 0.5
"""Where more of the lone marks look false, the union of all spans is a poor answer."""
CHOSEN, EVIDENCE = "chosen", "evidence"
REASONS = {
    NETWORK: "it reads the text, and finds entities that no source marks",
    CHAIN: "it tells false marks from right ones; with torch the text would be read, too",
    CROWD: "all sources say O where they see nothing, as people do",
    VOTE: "too little is marked to learn from, or most of it looks right, and there is no torch",
}


@dataclass(frozen=True, kw_only=True)
class AutoConfig(FeatureConfig):
    """Settings of the choice."""

    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "threads")


class Evidence(NamedTuple):
    """What the votes on train are like, and how a model's labels compare with a simple vote."""

    sources: float
    marked: float
    """Tokens that some source marks."""
    shared: float
    """Share of these that two or more mark."""
    false: float
    """Share of lone marks that chance does not explain, see `kernels.priors.silence_weight`."""
    simple: float
    """Spans of the vote."""
    found: float
    """Spans of the model."""
    same: float
    """Spans of both."""
    invented: float
    """Spans of the model where no source marks anything."""
    refused: float = 0.0
    """1 where another model's labels were not believed."""

    def believable(self) -> bool:
        """Whether a model neither invents most of what it says nor drops most of the votes."""
        right = 1 - self.false * (1 - self.shared)
        return (
            self.invented <= MOST_INVENTED * self.simple
            and self.same >= LEAST_SAME * right * self.simple
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
    >>> for line in Auto(encoder="hashing").fit(data).why():
    ...     print(line)
    2 sources mark 60 tokens, 25% of them twice or more; of what only one marks, 10% looks false
    sparse-chmm is chosen: it reads the text, and finds entities that no source marks
    on train it finds 30 spans, a simple vote 30; 30 are the same, 0 are where no source marks any
    """

    Config = AutoConfig
    summary = "chooses among the others by the votes alone, and says why"
    needs_features = find_spec("torch") is not None
    hears_coarse = True
    uses_valid_gold = True

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """What fits the votes, if its labels can be believed; else a simple vote."""
        fine = train.fine()
        simple = simple_labels(fine)
        name, known = _opened(start) if start is not None else (self._choice(fine, simple), None)
        model = self._model(name, train)
        if not model.hears_coarse:
            train, valid = fine, None if valid is None else valid.fine()
        params = model.learn(train, valid, known)
        evidence = _evidence(train, simple, self._said(name, params, train).labels)
        if name in (NETWORK, CHAIN) and not evidence.believable():
            warnings.warn(
                f"{self.name}: {name} finds {evidence.found:.0f} spans, {evidence.invented:.0f} of "
                f"them where no source marks any, and keeps {evidence.same:.0f} of the "
                f"{evidence.simple:.0f} of a simple vote: not believed; the vote is taken",
                ConvenerWarning,
                stacklevel=3,
            )
            name, params = VOTE, {}
            evidence = _evidence(train, simple, simple)._replace(refused=1.0)
        self._warn(evidence)
        code = np.frombuffer(name.encode(), np.uint8)
        return {**params, CHOSEN: code, EVIDENCE: np.array(evidence)}

    def infer(self, params: Params, data: Dataset) -> Inference:
        """What the chosen model says."""
        return self._said(*_opened(params), data)

    def reliability_of(self, params: Params, train: Dataset, found: Inference) -> TokenRates:
        """As the chosen model has it."""
        name, params = _opened(params)
        return self._model(name, train).reliability_of(params, train, found)

    @property
    def chosen(self) -> str:
        """The name of the model that was chosen."""
        return _opened(self.fitted.params)[0]

    def why(self) -> tuple[str, ...]:
        """Three lines: what the votes are like, what was chosen, and how it compares."""
        seen = Evidence(*self.fitted.params[EVIDENCE].tolist())
        reason = "what else was tried is not believable" if seen.refused else REASONS[self.chosen]
        return (
            f"{seen.sources:,.0f} sources mark {seen.marked:,.0f} tokens, {seen.shared:.0%} of "
            f"them twice or more; of what only one marks, {seen.false:.0%} looks false",
            f"{self.chosen} is chosen: {reason}",
            f"on train it finds {seen.found:,.0f} spans, a simple vote {seen.simple:,.0f}; "
            f"{seen.same:,.0f} are the same, {seen.invented:,.0f} are where no source marks any",
        )

    def _choice(self, train: Dataset, simple: NDArray[np.int16]) -> str:
        if (train.votes > 0).any(axis=1).sum() < FEW:
            return VOTE
        if not train.quiet().any():
            return CROWD
        if self.needs_features:
            return NETWORK
        false = silence_weight(train.votes, simple, len(train.tags.types))
        return CHAIN if false > MOSTLY else VOTE

    def _model(self, name: str, data: Dataset) -> LabelModel:
        """The model of that name, set up for such data."""
        settings = {"seed": self.config.seed}
        if name == VOTE:
            return get(name)(**settings, scheme="span" if data.quiet().all() else "io")
        model = get(name)(**settings, threads=self.config.threads)
        model.journal = self.journal
        return model

    def _said(self, name: str, params: Params, data: Dataset) -> Inference:
        """What the model of that name infers."""
        model = self._model(name, data)
        return model.infer(params, data if model.hears_coarse else data.fine())

    def _warn(self, evidence: Evidence) -> None:
        """Say where the evidence is too thin for anything to be better than a vote."""
        doubts = []
        if evidence.sources == 1:
            doubts.append("there is one source only, and nothing to compare it with")
        elif not evidence.shared:
            doubts.append("no token is marked by two sources, so how good they are is a guess")
        if evidence.marked < FEW:
            doubts.append(f"only {evidence.marked:.0f} tokens are marked")
        for doubt in doubts:
            warnings.warn(
                f"{self.name}: {doubt}; the result may be no better than a simple vote",
                ConvenerWarning,
                stacklevel=4,
            )


def _evidence(train: Dataset, simple: NDArray[np.int16], labels: NDArray[np.int16]) -> Evidence:
    """What the votes are like, and how these labels compare with those of a simple vote."""
    fine = train.fine()
    ours, theirs = (fine.tags.spans(each, train.offsets) for each in (labels, simple))
    count = marks(train).sum(axis=1)
    marked = int((count > 0).sum())
    before = np.concatenate([[0], np.cumsum(count)])
    begins = train.offsets[ours.sentence]
    bare = before[begins + ours.end] == before[begins + ours.start]
    return Evidence(
        sources=len(train.sources),
        marked=marked,
        shared=float((count > 1).sum() / max(1, marked)),
        false=silence_weight(fine.votes, simple, len(fine.tags.types)),
        simple=len(theirs),
        found=len(ours),
        same=int(correct(ours, theirs).sum()),
        invented=int(bare.sum()),
    )


def _opened(params: Params) -> tuple[str, Params]:
    """The name of the model that was chosen, and what it has learned."""
    theirs = {name: array for name, array in params.items() if name not in (CHOSEN, EVIDENCE)}
    return bytes(params[CHOSEN].tolist()).decode(), theirs
