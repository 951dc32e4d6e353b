"""The linked hidden Markov model."""

from __future__ import annotations

import numpy as np
import pytest

import convener as cv
from tests.models.test_hmm import generated_chain

# The comparison with votes takes links for marks, and data drawn token by token for spans.
pytestmark = pytest.mark.filterwarnings("ignore:.*probably worse than a simple vote")

LinkedHMM = cv.get_model("linked-hmm")


def linked(accuracy: float, seed: int = 0) -> cv.Dataset:
    """Data with a fourth source that links adjacent tokens with this accuracy."""
    data, _ = generated_chain(seed)
    rng = np.random.default_rng(seed)
    together = np.zeros(len(data.tokens), bool)
    together[1:] = (data.gold[1:] == 2) | ((data.gold[1:] == 0) & (data.gold[:-1] == 0))
    voted = rng.random(len(together)) < 0.5
    right = rng.random(len(together)) < accuracy
    column = np.where(voted & (together == right), 2, -1).astype(np.int16)
    votes = np.concatenate([data.votes, column[:, None]], axis=1)
    return data.with_sources((*data.sources, "link-phrase"), votes, ("outside",) * 4)


def phrases() -> cv.Dataset:
    """A tagger that marks only the first word of each name, and a source that links whole names."""
    rng = np.random.default_rng(0)
    gold = [[(at, at + int(rng.integers(2, 4)), "PER")] for at in rng.integers(0, 5, size=200)]
    first = [[(s, s + 1, "PER")] if rng.random() < 0.8 else [] for ((s, _, _),) in gold]
    links = [spans if rng.random() < 0.9 else [] for spans in gold]
    words = [["w"] * 9 for _ in gold]
    return cv.Dataset.from_spans(["PER"], words, {"first": first, "link-name": links}, gold=gold)


def test_links_extend_the_spans_of_a_tagger() -> None:
    data = phrases()
    with_links = cv.evaluate(LinkedHMM().fit(data).predict(data), data).f1
    plain = data.select_sources(["first"])
    without = cv.evaluate(cv.get_model("hmm")().fit(plain).predict(plain), plain).f1
    assert without < 0.2
    assert with_links > 0.7


def test_the_accuracy_of_links_is_estimated() -> None:
    good, bad = (
        LinkedHMM(link_prior_votes=10).fit(linked(accuracy)).fitted.params["link_accuracy"][0]
        for accuracy in (0.98, 0.6)
    )
    assert good > bad + 0.05


def test_without_links_it_equals_the_hmm() -> None:
    data, _ = generated_chain(3)
    plain = cv.get_model("hmm")(max_iter=200, tol=1e-9).fit(data).predict(data)
    model = LinkedHMM(max_iter=200, tol=1e-9).fit(data)
    assert np.mean(plain.labels == model.predict(data).labels) > 0.99
    assert model.explain() == ("no source is named link-...: the model equals hmm",)


def test_the_type_of_a_link_is_ignored() -> None:
    data = cv.Dataset.from_spans(
        ["PER", "LOC"],
        [["Ada", "Lovelace", "wrote"]] * 30 + [["She", "left"]] * 30,
        {
            "first": [[(0, 1, "PER")]] * 30 + [[]] * 30,
            "link-capitals": [[(0, 2, "LOC")]] * 30 + [[]] * 30,
        },
    )
    assert LinkedHMM().fit(data).predict(data).tags()[0] == ["B-PER", "I-PER", "O"]


def test_data_with_links_only_is_an_error() -> None:
    data = cv.Dataset.from_spans(["PER"], [["a", "b"]], {"link-x": [[(0, 2, "PER")]]})
    with pytest.raises(cv.DataError, match="one must vote for types"):
        LinkedHMM().fit(data)


def test_the_prefix_of_links_is_a_setting() -> None:
    data = linked(0.95)
    renamed = data.with_sources((*data.sources[:3], "chunk"), data.votes, data.unmarked)
    labels = LinkedHMM(link_prefix="chunk").fit(renamed).predict(renamed)
    assert labels.tags() == LinkedHMM().fit(data).predict(data).tags()


@pytest.mark.parametrize(("setting", "value"), [("link_accuracy", 0.3), ("link_prior_votes", 0.0)])
def test_settings_out_of_range_are_refused(setting: str, value: float) -> None:
    with pytest.raises(cv.ConfigError, match=setting):
        LinkedHMM(**{setting: value})
