"""Diagnostics of fitted models."""

from __future__ import annotations

import numpy as np
import pytest

import convener as cv
from convener.data.diagnostics import Diagnostics, learning_curve

pytestmark = pytest.mark.slow


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


def test_arrays_contain_everything_but_the_names_of_sources() -> None:
    emission = np.arange(18.0).reshape(2, 3, 3)
    curves = {"one": learning_curve([(1.0, None)])}
    before = Diagnostics(emission=emission, initial_emission=emission / 2, learning_curves=curves)
    after = Diagnostics.from_arrays(("a", "b"), before.to_arrays())
    assert after.sources == ("a", "b")
    np.testing.assert_array_equal(after.emission, emission)
    np.testing.assert_array_equal(after.initial_emission, emission / 2)
    np.testing.assert_array_equal(after.learning_curves["one"], [[1.0, np.nan]])
    assert Diagnostics.from_arrays((), Diagnostics().to_arrays()).emission is None


def test_rows_of_added_sources_are_dropped() -> None:
    emission = np.zeros((3, 3, 3))
    trimmed = Diagnostics(emission=emission, initial_emission=emission).for_sources(("a", "b"))
    assert trimmed.sources == ("a", "b")
    assert trimmed.emission is not None
    assert trimmed.initial_emission is not None
    assert len(trimmed.emission) == len(trimmed.initial_emission) == 2


@pytest.mark.parametrize("name", ["hmm", "sparse-chmm", "chmm", "linked-hmm"])
def test_emissions_of_chains_are_distributions(name: str, toy: cv.Dataset) -> None:
    settings = {"encoder": "hashing", "epochs": 2} if "chmm" in name else {}
    seen = cv.get_model(name)(**settings).fit(toy).diagnostics()
    assert seen.sources == (toy.sources[:2] if name == "linked-hmm" else toy.sources)
    for emissions in (seen.initial_emission, seen.emission):
        assert emissions is not None
        np.testing.assert_allclose(emissions.sum(axis=2), 1, atol=1e-4)
    assert seen.learning_curves


@pytest.mark.parametrize("name", ["hmm", "linked-hmm", "bsc", "dawid-skene", "snorkel"])
def test_the_loss_of_em_falls(name: str, toy: cv.Dataset) -> None:
    loss = cv.get_model(name)().fit(toy).diagnostics().learning_curves["EM"][:, 0]
    assert (np.diff(loss) <= 1e-9).all()


def test_a_saved_model_has_the_same_diagnostics(toy: cv.Dataset, tmp_path) -> None:
    model = cv.HMM().fit(toy)
    model.save(tmp_path / "run")
    ours, theirs = model.diagnostics(), cv.load_model(tmp_path / "run").diagnostics()
    np.testing.assert_array_equal(ours.initial_emission, theirs.initial_emission)
    np.testing.assert_array_equal(ours.learning_curves["EM"], theirs.learning_curves["EM"])


def test_every_stage_has_a_learning_curve(toy: cv.Dataset) -> None:
    seen = cv.SparseCHMM(encoder="hashing", epochs=2).fit(toy).diagnostics()
    assert [name.split()[0] for name in seen.learning_curves] == ["1", "2", "3", "4"]
    for points in seen.learning_curves.values():
        assert np.isnan(points[0, 0])
        assert np.isfinite(points[1:, 0]).all()
