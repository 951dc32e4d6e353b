"""CHMM-FE: emissions counted from gold and fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.models.chmm_fe import CHMMFE
from convener.models.initialization import emission_from_gold
from tests.models.test_chmm import f1, planted

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
QUICK: dict[str, Any] = {"encoder": "hashing", "max_epochs": 2}


def counted_emission(data: cv.Dataset) -> np.ndarray:
    """Shares of the votes of each source by gold label, counted in loops; half a vote is added to each row."""
    size = len(data.tags)
    counts = np.zeros((len(data.sources), size, size))
    assert data.gold is not None
    for gold, votes in zip(data.gold, data.votes, strict=True):
        for k, vote in enumerate(votes):
            if vote >= 0:
                counts[k, gold, vote] += 1
    votes_of_source = counts.sum(axis=1, keepdims=True) + 1e-3
    counts += 0.5 * votes_of_source / votes_of_source.sum(axis=2, keepdims=True)
    return counts / counts.sum(axis=2, keepdims=True)


def test_emissions_are_counted_from_gold_and_not_trained(toy: cv.Dataset) -> None:
    model = CHMMFE(**QUICK, learning_rate=0.1).fit(toy, toy)
    np.testing.assert_allclose(model.diagnostics().emission, counted_emission(toy), atol=2e-5)


def test_smoothing_leaves_no_row_empty(toy: cv.Dataset) -> None:
    without_places = toy.with_gold(np.where(toy.gold > 2, 0, toy.gold).astype(np.int16))
    emission = emission_from_gold(without_places)
    assert (emission > 0).all()
    np.testing.assert_allclose(emission.sum(axis=2), 1, atol=1e-6)
    np.testing.assert_allclose(emission[:, 3], emission[:, 4])  # labels without gold: the votes of the source


def test_only_initial_and_transition_parameters_are_trained(toy: cv.Dataset) -> None:
    model = CHMMFE(**QUICK).fit(toy, toy)
    names = set(model.fitted.params)
    trained = {"initial_logits", "transition_layer.weight", "transition_layer.bias", "context_weight", "illegal_logits"}
    assert names == trained | {"log_emission"}


def test_it_is_better_than_majority_vote_on_planted_data() -> None:
    data, emissions = planted()
    model = CHMMFE(encoder="hashing", learning_rate=1e-2, max_epochs=10).fit(data, data)
    assert model.fitted.params["transition_layer.weight"].any()
    assert np.abs(model.diagnostics().emission - emissions).mean() < 0.03
    assert f1(model, data) > f1(cv.MajorityVote().fit(data), data) + 0.05


def test_gold_is_required_and_its_use_is_reported(toy: cv.Dataset) -> None:
    with pytest.raises(cv.DataError, match="chmm-fe needs gold labels; train"):
        CHMMFE(**QUICK).fit(toy.without_gold())
    with pytest.raises(cv.DataError, match="emissions from gold need gold labels"):
        emission_from_gold(toy.without_gold())
    model = CHMMFE(**QUICK).fit(toy)
    assert "uses gold labels" in str(model.reliability())
    assert model.predict(toy).uses_gold == "train"


def test_a_single_source(toy: cv.Dataset) -> None:
    alone = toy.select_sources(["good"])
    assert len(CHMMFE(**QUICK).fit(alone).predict(alone).spans)


def test_the_same_seed_gives_the_same_weights(toy: cv.Dataset) -> None:
    first, second = (CHMMFE(**QUICK).fit(toy).fitted.params for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


@pytest.mark.parametrize("bad", [{"tau": -1}, {"learning_rate": -1}])
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        CHMMFE(**bad)


def test_settings_without_effect_do_not_exist() -> None:
    with pytest.raises(cv.ConfigError, match="no setting of chmm-fe 'emission_learning_rate'"):
        CHMMFE(emission_learning_rate=1)
