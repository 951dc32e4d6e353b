"""Which source to mend next: where labels are expected to be wrong, and who made them so.

If the model's probabilities can be believed, of the P spans that it finds TP = sum of their scores
are right, G = sum over tokens of P(B-) are there, and F1 is 2 TP / (P + G). A source's wrong marks
do harm where the model follows them, its right ones do no good where the model does not: to mend a
source is to take away the first and to have the second believed. A mark that several sources make
is shared between them. What nobody marks is a gain for a source that is yet to be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.evaluate.metrics import correct, span_keys
from convener.predictions import Predictions
from convener.report.marks import marks_of, probability_of, shares_of, unmarked
from convener.spans import Spans

EXAMPLES = 6
MOST_SPANS = 50_000
NOBODY = ""
"""In the place of a source: nobody marks these."""


@dataclass(frozen=True, kw_only=True)
class Fix:
    """What is to be gained with one source and one type.

    wrong, lost    spans of the labels expected to be wrong because of it, and right marks of it
                   that are not believed; for nobody: entities that are found by no source
    gain           of F1, if these were put right; true: the same by gold, None without
    examples       its most doubtful phrases, and for nobody the surest that no source marks
    """

    source: str
    type: str
    marks: int
    wrong: float
    lost: float
    gain: float
    true: float | None
    examples: tuple[tuple[str, int], ...]


def fixes(data: Dataset, answer: Predictions) -> list[Fix]:
    """All there is to gain, the most promising first."""
    fine, marks = data.fine(), marks_of(data)
    gold = None if data.gold is None else fine.tags.spans(data.gold, data.offsets)
    chances = [probability_of(spans, answer) for spans in marks]
    shares = _shares(marks)
    followed = [correct(spans, answer.spans) for spans in marks]
    right = None if gold is None else [correct(spans, gold) for spans in marks]
    base = _Base.expected(answer)
    known = None if gold is None else _Base.counted(answer, gold)
    result = []
    for k, source in enumerate(data.sources):
        for kind in np.unique(marks[k].type).tolist():
            of_type = marks[k].type == kind
            wrong, lost = _harm(chances[k], followed[k], shares[k], of_type)
            true = None
            if right is not None and known is not None:
                true = known.gain(*_harm(right[k], followed[k], shares[k], of_type))
            result.append(
                Fix(
                    source=source,
                    type=fine.tags.types[kind],
                    marks=int(of_type.sum()),
                    wrong=wrong,
                    lost=lost,
                    gain=base.gain(wrong, lost),
                    true=true,
                    examples=phrases(data, marks[k].take(of_type), 1 - chances[k][of_type]),
                )
            )
    result += _unmarked(data, answer, marks, base, known, gold)
    return sorted(result, key=lambda fix: -fix.gain)


def phrases(
    data: Dataset, spans: Spans, weight: NDArray[np.float64]
) -> tuple[tuple[str, int], ...]:
    """The phrases with the most weight together, and how often each stands there.

    Of very many spans the heaviest are looked at.
    """
    if len(spans) > MOST_SPANS:
        heaviest = np.sort(np.argsort(-weight, kind="stable")[:MOST_SPANS])
        spans, weight = spans.take(heaviest), weight[heaviest]
    total: dict[str, float] = {}
    count: dict[str, int] = {}
    begins = data.offsets[spans.sentence]
    for a, b, heavy in zip(
        (begins + spans.start).tolist(), (begins + spans.end).tolist(), weight.tolist(), strict=True
    ):
        phrase = " ".join(data.tokens[a:b].to_list())
        total[phrase] = total.get(phrase, 0.0) + heavy
        count[phrase] = count.get(phrase, 0) + 1
    chosen = sorted(total, key=lambda phrase: (-total[phrase], phrase))[:EXAMPLES]
    return tuple((phrase, count[phrase]) for phrase in chosen if total[phrase] > 0)


@dataclass(frozen=True)
class _Base:
    """Spans that are right, found and there."""

    right: float
    found: float
    there: float

    @classmethod
    def expected(cls, answer: Predictions) -> _Base:
        """By the model's own probabilities."""
        right = float(probability_of(answer.spans, answer).sum())
        there = float(shares_of(answer)[:, 1::2].sum(dtype=np.float64))
        return cls(right, len(answer.spans), there)

    @classmethod
    def counted(cls, answer: Predictions, gold: Spans) -> _Base:
        """By gold."""
        return cls(int(correct(answer.spans, gold).sum()), len(answer.spans), len(gold))

    @property
    def f1(self) -> float:
        return 2 * self.right / max(self.found + self.there, 1e-9)

    def gain(self, wrong: float, lost: float) -> float:
        """Of F1, without so many wrong spans and with so many right ones more."""
        better = _Base(self.right + lost, self.found - wrong + lost, self.there)
        return better.f1 - self.f1


def _harm(
    right: NDArray[np.float64] | NDArray[np.bool_],
    followed: NDArray[np.bool_],
    shares: NDArray[np.float64],
    chosen: NDArray[np.bool_],
) -> tuple[float, float]:
    """Wrong marks that are followed, and right ones that are not."""
    wrong = ((1.0 - right) * followed * shares)[chosen].sum()
    lost = (right * ~followed * shares)[chosen].sum()
    return float(wrong), float(lost)


def _shares(marks: Sequence[Spans]) -> list[NDArray[np.float64]]:
    """One over the number of sources that make each mark."""
    keys = span_keys(*marks)
    _, number, times = np.unique(
        np.concatenate([np.zeros(0, np.int64), *keys]), return_inverse=True, return_counts=True
    )
    split = np.split(number.reshape(-1), np.cumsum([len(key) for key in keys])[:-1])
    return [1.0 / times[numbers] for numbers in split[: len(marks)]]


def _unmarked(
    data: Dataset,
    answer: Predictions,
    marks: Sequence[Spans],
    base: _Base,
    known: _Base | None,
    gold: Spans | None,
) -> list[Fix]:
    """For each type what a new source could find: entities that nobody marks, and not the model."""
    shares, types = shares_of(answer), data.fine_tags.types
    bare = ~(data.votes > 0).any(axis=1) & (answer.labels == 0)
    surest = answer.spans.take(unmarked(answer.spans, data))
    result = []
    for kind, name in enumerate(types):
        lost = float(shares[bare, 1 + 2 * kind].sum(dtype=np.float64))
        true = None
        if known is not None and gold is not None:
            ours = gold.take(gold.type == kind)
            begins = data.offsets[ours.sentence] + ours.start
            true = known.gain(0.0, float(bare[begins].sum()))
        shown = surest.take(surest.type == kind)
        score = np.zeros(0) if shown.score is None else shown.score.astype(np.float64)
        result.append(
            Fix(
                source=NOBODY,
                type=name,
                marks=0,
                wrong=0.0,
                lost=lost,
                gain=base.gain(0.0, lost),
                true=true,
                examples=phrases(data, shown, score),
            )
        )
    return result
