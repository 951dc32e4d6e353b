"""CHMM-FE: true emissions, fixed; gold is needed and said to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.models.chmm_fe import CHMMFE
from convener.models.initialization import emission_from_gold
from tests.models.test_chmm import f1, planted

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
QUICK: dict[str, Any] = {"encoder": "hashing", "epochs": 2}


def counted(data: cv.Dataset) -> np.ndarray:
    """How often each source says what where gold is known, by loops; NaN where it never is."""
    size = len(data.tags)
    counts = np.zeros((len(data.sources), size, size))
    assert data.gold is not None
    for gold, votes in zip(data.gold, data.votes, strict=True):
        for k, said in enumerate(votes):
            if said >= 0:
                counts[k, gold, said] += 1
    with np.errstate(invalid="ignore"):
        return counts / counts.sum(axis=2, keepdims=True)


def test_emissions_are_those_of_gold_and_stay_so(toy: cv.Dataset) -> None:
    model = CHMMFE(**QUICK, smoothing=1e-6, lr=0.1).fit(toy, toy)
    np.testing.assert_allclose(model.diagnostics().emission, counted(toy), atol=2e-5)


def test_smoothing_moves_rows_towards_what_a_source_usually_says(toy: cv.Dataset) -> None:
    some, much = (CHMMFE(**QUICK, smoothing=votes).fit(toy, toy).diagnostics().emission for votes in (0.5, 1e6))
    assert (some > 0).all()
    np.testing.assert_allclose(some.sum(axis=2), 1, atol=1e-6)
    np.testing.assert_allclose(much[0], np.broadcast_to(much[0, 0], much[0].shape), atol=1e-2)


def test_only_moves_and_the_start_are_trained(toy: cv.Dataset) -> None:
    model = CHMMFE(**QUICK).fit(toy, toy)
    names = set(model.fitted.params)
    moves = {"initial_logits", "transition_layer.weight", "transition_layer.bias", "context_weight", "illegal_logits"}
    assert names == moves | {"log_emission"}


def test_it_is_better_than_majority_vote_on_planted_data() -> None:
    data, emissions = planted()
    model = CHMMFE(encoder="hashing", lr=1e-2, epochs=10).fit(data, data)
    assert model.fitted.params["transition_layer.weight"].any()
    assert np.abs(model.diagnostics().emission - emissions).mean() < 0.03
    assert f1(model, data) > f1(cv.MajorityVote().fit(data), data) + 0.05


@pytest.mark.parametrize("start", ["votes", "paper"])
def test_both_starts_work(toy: cv.Dataset, start: str) -> None:
    labels = CHMMFE(**QUICK, start=start).fit(toy).predict(toy)
    assert len(labels.spans)


def test_it_needs_gold_and_says_so_everywhere(toy: cv.Dataset) -> None:
    with pytest.raises(cv.DataError, match="chmm-fe needs gold labels; train"):
        CHMMFE(**QUICK).fit(toy.without_gold())
    with pytest.raises(cv.DataError, match="true emissions need gold"):
        emission_from_gold(toy.without_gold(), smoothing=1)
    model = CHMMFE(**QUICK).fit(toy)
    assert "saw gold" in str(model.reliability())
    assert model.predict(toy).uses_gold == "train"


def test_a_single_source(toy: cv.Dataset) -> None:
    alone = toy.select_sources(["good"])
    assert len(CHMMFE(**QUICK).fit(alone).predict(alone).spans)


def test_the_same_seed_gives_the_same_weights(toy: cv.Dataset) -> None:
    first, second = (CHMMFE(**QUICK).fit(toy).fitted.params for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


@pytest.mark.parametrize("bad", [{"smoothing": 0}, {"lr": -1}])
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        CHMMFE(**bad)


def test_it_has_no_settings_that_do_nothing() -> None:
    with pytest.raises(cv.ConfigError, match="no setting of chmm-fe 'emission_lr'"):
        CHMMFE(emission_lr=1)
