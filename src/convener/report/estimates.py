"""How good each source is for each type, and how far that is to be trusted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.evaluate.bootstrap import Interval
from convener.evaluate.metrics import Score, correct
from convener.predictions import Predictions
from convener.report.marks import marks_of, probability_of, shares_of
from convener.spans import Spans

WIDTH = 1.96
"""Standard deviations on either side that hold 95 %."""


class Estimate(NamedTuple):
    """What one source is worth for one type, by the model's labels and, if known, by gold."""

    source: str
    type: str
    marks: int
    precision: Interval
    recall: Interval
    f1: Interval
    true: Score | None


def estimates(data: Dataset, answer: Predictions) -> list[Estimate]:
    """Of every source and every type that it marks, source by source.

    Precision, recall and F1 of its spans, if the model's labels were the truth. The intervals
    know three doubts: other sentences might have been drawn, marks may be right or wrong other
    than the model thinks, and there may be entities that it does not find, as many as it expects.

    >>> data = Dataset.from_spans(["X"], [["a", "b"]] * 8, {"s": [[(0, 1, "X")], []] * 4})
    >>> shares = np.tile(np.array([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]], np.float32), (8, 1))
    >>> labels = np.array([1, 0] * 8, np.int16)
    >>> found = estimates(data, Predictions(data=data, labels=labels, probabilities=shares))
    >>> found[0].marks, found[0].precision.value, found[0].recall.value
    (4, 1.0, 0.5)
    """
    fine = data.fine()
    gold = None if data.gold is None else fine.tags.spans(data.gold, data.offsets)
    unseen = _unseen(answer)
    result = []
    for name, spans in zip(data.sources, marks_of(data), strict=True):
        chance = probability_of(spans, answer)
        for number in np.unique(spans.type).tolist():
            ours = spans.take(spans.type == number)
            theirs = answer.spans.take(answer.spans.type == number)
            true = None if gold is None else gold.take(gold.type == number)
            precision, recall, f1 = _figures(
                ours, theirs, chance[spans.type == number], unseen[number], len(data)
            )
            result.append(
                Estimate(
                    name,
                    fine.tags.types[number],
                    len(ours),
                    precision,
                    recall,
                    f1,
                    _score(ours, true),
                )
            )
    return result


def interval(
    part: NDArray[np.float64],
    whole: NDArray[np.float64],
    *,
    doubt: float = 0.0,
    false: float = 0.0,
    unseen: float = 0.0,
) -> Interval:
    """A ratio of sums over sentences, and about 95 % around it.

    part, whole (M,); doubt: variance of the sum of the parts that lies in the parts themselves;
    false, unseen: how much less the parts, and how much more the whole is expected to be, which
    moves the lower end. The delta method: var(A / B) = (sum of (a - r b)^2 + doubt) / B^2.
    """
    total = float(whole.sum())
    if not total:
        return Interval(0.0, 0.0, 1.0)
    value, least = float(part.sum()) / total, (float(part.sum()) - false) / (total + unseen)
    spread = WIDTH * float(np.sqrt(((part - value * whole) ** 2).sum() + doubt)) / total
    return Interval(value, max(0.0, least - spread), min(1.0, value + spread))


def _figures(
    ours: Spans, theirs: Spans, chance: NDArray[np.float64], unseen: float, sentences: int
) -> tuple[Interval, Interval, Interval]:
    """Precision, recall and F1 of ours where theirs are the truth."""
    same = correct(ours, theirs)
    right, said, true = (
        np.bincount(spans.sentence, minlength=sentences).astype(np.float64)
        for spans in (ours.take(same), ours, theirs)
    )
    doubt, false = float((chance * (1 - chance)).sum()), float((1 - chance)[same].sum())
    return (
        interval(right, said, doubt=doubt, false=false),
        interval(right, true, doubt=doubt, false=false, unseen=unseen),
        interval(2 * right, said + true, doubt=4 * doubt, false=2 * false, unseen=unseen),
    )


def _unseen(answer: Predictions) -> NDArray[np.float64]:
    """Entities of each type that are expected where the labels have none.  -> (E,)"""
    silent = shares_of(answer)[answer.labels == 0, 1::2]
    found: NDArray[np.float64] = silent.sum(axis=0, dtype=np.float64)
    return found


def _score(ours: Spans, true: Spans | None) -> Score | None:
    if true is None:
        return None
    return Score(int(correct(ours, true).sum()), len(ours), len(true))
