"""The account of a run: everything that a report tells, computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.evaluate import Analysis, Evaluation, analyze, evaluate
from convener.insides import Insides
from convener.kernels.vote import majority_io
from convener.predictions import Predictions
from convener.report.estimates import Estimate, estimates
from convener.report.fixes import Fix, fixes
from convener.report.sheet import Sheet, sheet_of

DRAWS = 1000
"""Of the bootstrap, for intervals of the scores."""


class Teller(Protocol):
    """What of a fitted label model is asked."""

    @property
    def name(self) -> str: ...
    def predict(self, data: Dataset) -> Predictions: ...
    def insides(self) -> Insides: ...
    def why(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Account:
    """What there is to tell of one model on one dataset.

    data        with its gold, if it has any; answer: the model's labels; vote: majority vote's
    facts       what was noted of the run: date, seconds, versions, ...; why: the model's reasons
    """

    title: str
    data: Dataset
    answer: Predictions
    vote: NDArray[np.int16]
    insides: Insides
    analysis: Analysis
    evaluation: Evaluation
    estimates: tuple[Estimate, ...]
    fixes: tuple[Fix, ...]
    sheet: Sheet
    why: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def account_of(
    model: Teller, data: Dataset, *, title: str = "", facts: Mapping[str, Any] | None = None
) -> Account:
    """Label the data with the model, and look at everything."""
    answer = answer_of(model, data)
    vote = majority_vote(data)
    return Account(
        title=title or model.name,
        data=data,
        answer=answer,
        vote=vote,
        insides=model.insides(),
        analysis=analyze(data),
        evaluation=evaluate(answer, data, bootstrap=DRAWS if data.gold is not None else 0),
        estimates=tuple(estimates(data, answer)),
        fixes=tuple(fixes(data, answer)),
        sheet=sheet_of(data, [answer], vote),
        why=model.why(),
        facts=facts or {},
    )


def answer_of(model: Teller, data: Dataset) -> Predictions:
    """The model's labels for data that can be shown."""
    if not len(data.tokens):
        raise DataError("there is nothing to report on: the data holds no token")
    answer = model.predict(data)
    if answer.probabilities is None:
        raise DataError(f"{model.name} gives no probabilities, which a report is about")
    return answer


def majority_vote(data: Dataset) -> NDArray[np.int16]:
    """The labels of majority vote in the IO scheme.  -> (N,)"""
    fine = data.fine()
    return majority_io(fine.votes, fine.opinions(), fine.offsets, len(fine.tags.types))
