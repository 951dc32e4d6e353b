"""What a fit leaves to look at."""

from __future__ import annotations

import numpy as np
import pytest

import convener as cv
from convener.data.diagnostics import Diagnostics, initial_emission, learning_curve


@pytest.fixture(scope="module")
def toy() -> cv.Dataset:
    return cv.Dataset.from_spans(
        ["PER", "LOC"],
        [["Ada", "Lovelace", "wrote"]] * 20,
        {
            "names": [[(0, 2, "PER")]] * 20,
            "first": [[(0, 1, "PER")]] * 10 + [[(0, 1, "LOC")]] * 10,
            "link-all": [[(0, 2, "PER")]] * 12 + [[]] * 8,
        },
    )


def test_what_is_kept_is_found_again() -> None:
    emissions = np.arange(18.0).reshape(2, 3, 3)
    params = {
        "emissions": emissions,
        **initial_emission(emissions / 2),
        **learning_curve("one", [(1.0, None)]),
    }
    found = Diagnostics.from_params(("a", "b"), params)
    assert found.emission is not None
    assert (found.emission == emissions).all()
    assert found.initial_emission is not None
    assert (found.initial_emission == emissions / 2).all()
    assert list(found.learning_curves) == ["one"]
    assert found.learning_curves["one"].shape == (1, 2)
    assert np.isnan(found.learning_curves["one"][0, 1])


def test_a_vote_behind_the_sources_is_left_out() -> None:
    emissions = np.zeros((3, 3, 3))
    found = Diagnostics.from_params(("a", "b"), {"emissions": emissions, **initial_emission(emissions)})
    assert found.emission is not None
    assert found.initial_emission is not None
    assert len(found.emission) == len(found.initial_emission) == 2


@pytest.mark.parametrize("name", ["hmm", "sparse-chmm", "chmm", "linked-hmm"])
def test_chains_show_emissions_that_are_distributions(name: str, toy: cv.Dataset) -> None:
    settings = {"encoder": "hashing", "epochs": 2} if "chmm" in name else {}
    seen = cv.get_model(name)(**settings).fit(toy).diagnostics()
    assert seen.sources == (toy.sources[:2] if name == "linked-hmm" else toy.sources)
    for emissions in (seen.initial_emission, seen.emission):
        assert emissions is not None
        np.testing.assert_allclose(emissions.sum(axis=2), 1, atol=1e-4)
    assert seen.learning_curves


@pytest.mark.parametrize("name", ["hmm", "linked-hmm", "bsc", "dawid-skene", "snorkel"])
def test_the_loss_of_expectation_maximisation_falls(name: str, toy: cv.Dataset) -> None:
    loss = cv.get_model(name)().fit(toy).diagnostics().learning_curves["EM"][:, 0]
    assert (np.diff(loss) <= 1e-9).all()


def test_a_saved_model_shows_the_same(toy: cv.Dataset, tmp_path) -> None:
    model = cv.HMM().fit(toy)
    model.save(tmp_path / "run")
    ours, theirs = model.diagnostics(), cv.load_model(tmp_path / "run").diagnostics()
    np.testing.assert_array_equal(ours.initial_emission, theirs.initial_emission)
    np.testing.assert_array_equal(ours.learning_curves["EM"], theirs.learning_curves["EM"])


def test_stages_have_a_curve_each(toy: cv.Dataset) -> None:
    seen = cv.SparseCHMM(encoder="hashing", epochs=2).fit(toy).diagnostics()
    assert [name.split()[0] for name in seen.learning_curves] == ["1", "2", "3", "4"]
    for points in seen.learning_curves.values():
        assert np.isnan(points[0, 0])
        assert np.isfinite(points[1:, 0]).all()
