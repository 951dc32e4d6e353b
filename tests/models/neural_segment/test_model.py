"""The neural segment model: what features add, early stopping, resuming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.features import EncoderSpec, Features
from convener.models.neural_segment.model import mean_and_error
from tests.models.kills import killed_at
from tests.models.test_auto import corpus, with_random_features

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")


def test_features_find_spans_that_no_source_marks() -> None:
    data = corpus(count=200)
    is_name = np.isin(data.tokens.to_list(), ["Ada", "Bo", "Cy", "Di"])
    unmarked = is_name & ~(data.votes > 0).any(axis=1)
    found = cv.NeuralSegment(encoder="hashing").fit(data).predict(data).labels > 0
    assert unmarked.sum() > 20
    assert found[unmarked].mean() > 0.4
    assert not found[~is_name].any()
    assert not (cv.Segment().fit(data).predict(data).labels > 0)[unmarked].any()


def test_random_features_change_little() -> None:
    data = with_random_features(corpus())
    labels = cv.NeuralSegment().fit(data).predict(data).labels
    assert (labels == cv.Segment().fit(data).predict(data).labels).mean() > 0.97


def test_the_feature_gain_separates_informative_from_random_features() -> None:
    data = corpus()
    gain, error = cv.NeuralSegment(encoder="hashing").fit(data).fitted.params["feature_gain"]
    assert gain > 3 * error
    gain, error = cv.NeuralSegment().fit(with_random_features(data)).fitted.params["feature_gain"]
    assert gain < 2 * error


def test_many_sources_that_agree_are_believed() -> None:
    rng = np.random.default_rng(0)
    true = [[(2, 4, "X")] if rng.random() < 0.5 else [] for _ in range(80)]
    votes = {f"s{n}": [[s for s in spans if rng.random() < 0.3] for spans in true] for n in range(60)}
    data = cv.Dataset.from_spans(["X"], [["w"] * 10] * 80, votes, gold=true)
    tokens = rng.normal(size=(len(data.tokens), 4)).astype(np.float32)
    features = Features(tokens, tokens[:80], EncoderSpec(name="random", digest="0"))
    data = replace(data, features=features)
    assert cv.evaluate(cv.NeuralSegment().fit(data).predict(data), data).f1 > 0.95


def test_mean_and_error() -> None:
    values = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(mean_and_error(values), [7 / 3, np.sqrt(7 / 3) / np.sqrt(3)])
    np.testing.assert_array_equal(mean_and_error(values[:1]), [0, 0])


def test_a_killed_fit_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    data = corpus()
    settings = {"encoder": "hashing", "max_steps": 6, "batch_size": 16}
    straight = cv.NeuralSegment(**settings).fit(data).fitted.params
    with killed_at(7):
        cv.NeuralSegment(**settings).fit(data, checkpoint_dir=tmp_path)
    assert any(tmp_path.iterdir())
    again = cv.NeuralSegment(**settings).fit(data, checkpoint_dir=tmp_path).fitted.params
    assert all(again[name].tobytes() == straight[name].tobytes() for name in straight)


def test_a_second_fit_continues() -> None:
    data = corpus()
    model = cv.NeuralSegment(encoder="hashing", max_steps=6).fit(data)
    before = model.fitted.params["network.weight"].copy()
    after = model.fit(data).fitted.params["network.weight"]
    assert not np.array_equal(before, after)
    fresh = cv.NeuralSegment(encoder="hashing", max_steps=6).fit(data).fitted.params["network.weight"]
    assert not np.array_equal(fresh, after)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    data = corpus()
    first, second = (
        cv.NeuralSegment(encoder="hashing", max_steps=6, num_threads=n).fit(data).predict(data).probabilities
        for n in (1, 2)
    )
    np.testing.assert_array_equal(first, second)


def test_what_is_known_of_workers_counts_in_full_by_default() -> None:
    data = corpus(count=200)
    for unmarked, strength in (("outside", 1.0), ("abstain", 0.3)):
        votes = data.with_sources(data.sources, data.votes, (unmarked,) * len(data.sources))
        labels = [
            cv.NeuralSegment(encoder="hashing", max_steps=20, **settings)
            .fit(votes)
            .predict(votes)
            .require_probabilities()
            for settings in ({}, {"prior_strength": strength}, {"prior_strength": 5.0})
        ]
        assert np.array_equal(labels[0], labels[1])
        assert not np.array_equal(labels[0], labels[2])


def test_a_corpus_without_sentences_can_be_fitted() -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada", "wrote"]] * 3, {"a": [[(0, 1, "PER")]] * 3})
    model = cv.NeuralSegment(encoder="hashing").fit(data[:0])
    assert len(model.predict(data)) == 3
