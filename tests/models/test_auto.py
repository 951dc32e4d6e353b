"""The selection of a model from the votes and features alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.features import EncoderSpec, Features
from convener.models.auto import Auto, SelectionStatistics
from tests.helpers.crowd import CrowdConfig, make_crowd

# The toy data hold a source without votes, of which some models rightly warn.
pytestmark = pytest.mark.filterwarnings("ignore:.*sources without votes")

NAMES, OTHERS = ["Ada", "Bo", "Cy", "Di"], ["saw", "met", "ran", "sat", "ate"]


def corpus(seed: int = 0, count: int = 60, unmarked: str = "abstain") -> cv.Dataset:
    """Sentences of names and verbs; two sources mark each name with probability 0.7."""
    rng = np.random.default_rng(seed)
    tokens, votes = [], {"first": [], "second": []}
    for _ in range(count):
        is_name = rng.random(8) < 0.4
        tokens.append([str(rng.choice(NAMES if name else OTHERS)) for name in is_name])
        for spans in votes.values():
            spans.append([(t, t + 1, "PER") for t in np.flatnonzero(is_name & (rng.random(8) < 0.7)).tolist()])
    return cv.Dataset.from_spans(["PER"], tokens, votes, unmarked=unmarked)


def with_random_features(data: cv.Dataset, dim: int = 8) -> cv.Dataset:
    """The data with features that are independent of the text."""
    rng = np.random.default_rng(0)
    tokens, sentences = (rng.normal(size=(n, dim)).astype(np.float32) for n in (len(data.tokens), len(data)))
    return replace(data, features=Features(tokens, sentences, EncoderSpec(name="random", digest="0")))


def test_neural_segment_is_selected_if_features_predict_votes() -> None:
    data = corpus()
    model = Auto(encoder="hashing", seed=3).fit(data)
    assert model.selected_model == "neural-segment"
    assert "features of the text predict held-out votes" in model.explain()[1]
    alone = cv.NeuralSegment(encoder="hashing", seed=3).fit(data)
    np.testing.assert_array_equal(model.predict(data).probabilities, alone.predict(data).probabilities)
    assert model.reliability().rows == alone.reliability().rows


def test_segment_is_selected_if_features_tell_nothing() -> None:
    data = with_random_features(corpus())
    model = Auto().fit(data)
    assert model.selected_model == "segment"
    assert "do not predict" in model.explain()[1]
    alone = cv.Segment().fit(data)
    np.testing.assert_array_equal(model.predict(data).labels, alone.predict(data).labels)


def test_features_are_informative_beyond_two_standard_errors() -> None:
    statistics = SelectionStatistics(2, 100, 0.5, "span", feature_gain=1.0, feature_error=0.49)
    assert statistics.has_informative_features()
    assert not statistics._replace(feature_error=0.51).has_informative_features()
    assert not statistics._replace(feature_gain=0.0, feature_error=0.0).has_informative_features()


def test_majority_vote_is_selected_if_few_tokens_are_marked() -> None:
    with pytest.warns(cv.ConvenerWarning, match="tokens are marked"):
        model = Auto(encoder="hashing").fit(corpus(count=5))
    assert model.selected_model == "majority-vote"
    lines = model.explain()
    assert "too little is marked" in lines[1]
    assert len(lines) == 2  # a vote has no gain over a vote


def test_segment_is_selected_for_small_crowds() -> None:
    with pytest.warns(cv.ConvenerWarning, match="tokens are marked"):
        model = Auto(encoder="hashing").fit(corpus(count=5, unmarked="outside"))
    assert model.selected_model == "segment"
    assert "too little is marked" in model.explain()[1]


def test_sparse_chmm_is_selected_for_coarse_votes() -> None:
    data = corpus()
    tags = cv.TagSet(("PER", "ENT"))
    votes = np.where((data.votes == 1) & (np.arange(len(data.tokens))[:, None] % 3 == 0), 3, data.votes)
    coarse = replace(data, tags=tags, votes=votes.astype(np.int16), coarse={"ENT": ("PER",)})
    assert Auto(encoder="hashing").fit(coarse).selected_model == "sparse-chmm"


def test_the_gain_to_expect_is_stated_with_an_interval() -> None:
    line = Auto(encoder="hashing").fit(corpus()).explain()[2]
    found = re.fullmatch(r"expected gain .*: ([+-][\d.]+) \(([+-][\d.]+) to ([+-][\d.]+)\)", line)
    assert found is not None
    value, low, high = map(float, found.groups())
    assert low < value < high


def test_a_crowd_gets_a_better_result_than_a_vote() -> None:
    data = make_crowd(1, CrowdConfig(documents=100)).data
    gain = cv.evaluate(Auto(encoder="hashing").fit(data).predict(data), data).f1
    assert gain > cv.evaluate(cv.MajorityVote().fit(data).predict(data), data).f1


def test_missing_overlap_of_sources_gives_a_warning() -> None:
    data = corpus()
    with pytest.warns(cv.ConvenerWarning, match="only one source"):
        Auto(encoder="hashing").fit(data.select_sources(["first"]))
    votes = np.where(np.arange(len(data.tokens))[:, None] % 2 == [0, 1], data.votes, 0)
    apart = data.with_sources(data.sources, votes.astype(np.int16), data.unmarked)
    with pytest.warns(cv.ConvenerWarning, match="no token is marked by two sources"):
        Auto(encoder="hashing").fit(apart)


def test_the_selection_is_saved_and_kept_by_a_refit(tmp_path: Path) -> None:
    data = corpus()
    model = Auto(encoder="hashing").fit(data)
    model.save(tmp_path / "m")
    again = cv.load_model(tmp_path / "m")
    assert again.explain() == model.explain()
    np.testing.assert_array_equal(again.predict(data).probabilities, model.predict(data).probabilities)
    assert isinstance(model.fit(data), Auto)
    assert model.selected_model == "neural-segment"


def test_the_statistics_count_sources_tokens_and_overlap() -> None:
    data = corpus()
    statistics = Auto(encoder="hashing").fit(data).fitted.params.statistics
    marks = (data.votes > 0).sum(axis=1)
    assert (statistics.num_sources, statistics.marked_tokens) == (2, (marks > 0).sum())
    assert statistics.overlap == pytest.approx((marks > 1).sum() / (marks > 0).sum())
