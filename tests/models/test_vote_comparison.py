"""Whether a model is compared fairly with simple votes: labels that are worse are found, good ones are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import convener as cv
from convener.models.vote_comparison import compare_with_votes
from tests.conftest import crowd

Span = tuple[int, int, str]
WORSE = "probably worse than a simple vote"
TYPES = ("PER", "LOC", "ORG", "DATE")


def functions(seed: int, *, unmarked: str = "abstain", narrow: bool = False, sentences: int = 200) -> cv.Dataset:
    """Sentences of twelve tokens with gold, marked by eight independent sources; narrow ones know one type each."""
    rng = np.random.default_rng(seed)
    gold: list[list[Span]] = []
    for _ in range(sentences):
        starts = rng.choice([0, 4, 8], size=int(rng.integers(0, 3)), replace=False).tolist()
        gold.append([(at, at + int(rng.integers(1, 4)), str(rng.choice(TYPES))) for at in sorted(starts)])
    votes = {
        f"source-{k}": [
            [span for span in spans if (not narrow or span[2] == TYPES[k % 4]) and rng.random() < 0.7]
            + ([] if spans or rng.random() < 0.9 else [(2, 3, TYPES[k % 4])])
            for spans in gold
        ]
        for k in range(8)
    }
    return cv.Dataset.from_spans(TYPES, [["w"] * 12] * sentences, votes, gold=gold, unmarked=unmarked)


def warned(model: cv.LabelModel, data: cv.Dataset) -> str:
    """The warning of a fit that its labels are worse than those of a vote, or an empty string."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cv.ConvenerWarning)
        model.fit(data)
    return "".join(str(each.message) for each in caught if WORSE in str(each.message))


def gain(model: cv.LabelModel, data: cv.Dataset) -> float:
    """True F1 above the better vote."""
    votes = [cv.MajorityVote(scheme=scheme).fit(data).predict(data) for scheme in ("io", "span")]
    return cv.evaluate(model.predict(data), data).f1 - max(cv.evaluate(vote, data).f1 for vote in votes)


@pytest.mark.parametrize("name", ["hmm", "dawid-skene", "bsc", "snorkel", "segment", "linked-hmm"])
def test_a_good_fit_is_not_warned_of(name: str) -> None:
    data, model = functions(0), cv.get_model(name)()
    assert warned(model, data) == ""
    assert gain(model, data) > -0.01


@pytest.mark.parametrize("name", ["hmm", "bsc", "snorkel"])
def test_a_wrong_fit_is_warned_of(name: str) -> None:
    """Each source knows one type, but is said to vote O for all others: together they outvote it."""
    data, model = functions(1, unmarked="outside", narrow=True), cv.get_model(name)()
    message = warned(model, data)
    assert message.startswith(f"{name}: on this data it is {WORSE}")
    assert message.endswith("use segment or majority-vote with scheme=span")
    assert gain(model, data) < -0.5


LABELS = {
    "good": lambda data: data.gold,
    "nothing": lambda data: np.zeros_like(data.gold),
    "half": lambda data: np.where(np.arange(len(data.gold)) < len(data.gold) // 2, data.gold, 0),
    "other types": lambda data: np.where(data.gold > 0, 1 + (data.gold + 1) % (2 * len(TYPES)), 0),
    "first tokens only": lambda data: np.where(data.gold % 2 == 1, data.gold, 0),
    "every token": lambda data: np.where(data.gold > 0, data.gold, 1),
}


@pytest.mark.parametrize("name", LABELS)
def test_only_labels_that_are_worse_are_called_worse(name: str) -> None:
    data = functions(2)
    comparison = compare_with_votes(data.without_gold(), LABELS[name](data).astype(np.int16))
    assert comparison.is_worse == (name != "good")
    assert 0 <= comparison.model.f1 <= 1
    assert comparison.vote.f1 > 0.7


def test_a_few_entities_that_no_source_marks_are_no_fault() -> None:
    data = functions(3)
    labels, last = data.gold.copy(), data.offsets[1:] - 1
    labels[last[::4]] = 1
    found = compare_with_votes(data, labels)
    assert found.model.f1 == compare_with_votes(data, data.gold).model.f1
    assert found.model.spans == len(data.tags.spans(labels, data.offsets))


def test_coarse_votes_alone_are_not_compared() -> None:
    votes = {"names": [[(0, 1, "ENT")]] * 20}
    data = cv.Dataset.from_spans(["PER", "LOC", "ENT"], [["Ada", "wrote"]] * 20, votes).with_coarse({"ENT": "any"})
    found = compare_with_votes(data, np.tile(np.array([1, 0], np.int16), 20))
    assert found.model.f1 == found.vote.f1 == 0
    assert not found.is_worse


def test_a_vote_and_models_that_use_gold_are_not_compared() -> None:
    data = functions(1, unmarked="outside", narrow=True)
    assert warned(cv.MajorityVote(), data) == ""
    assert warned(cv.get_model("best-consensus")(), data) == ""


def test_gold_and_order_do_not_matter() -> None:
    data = crowd(5, 60)
    labels = cv.MajorityVote().fit(data).predict(data).labels
    found = compare_with_votes(data, labels)
    assert compare_with_votes(data.without_gold(), labels) == found
    turned = data.select_sources(data.sources[::-1])
    assert compare_with_votes(turned, labels).model.f1 == pytest.approx(found.model.f1)


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
@pytest.mark.parametrize("seed", range(3))
def test_segment_is_compared_by_the_labels_that_it_predicts(seed: int) -> None:
    data = crowd(seed, 80)
    found = compare_with_votes(data, cv.Segment().fit(data).predict(data).labels)
    assert found.segment.f1 == pytest.approx(found.model.f1)
    assert not found.contradicts_segment
    nothing = compare_with_votes(data, np.zeros_like(data.votes[:, 0]))
    assert nothing.segment == found.segment
    assert nothing.contradicts_segment == (found.segment.f1 > 0.15)
