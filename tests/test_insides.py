"""What a fit leaves to look at."""

from __future__ import annotations

import numpy as np
import pytest

import convener as cv
from convener.insides import Insides, curve, start


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
    params = {"emissions": emissions, **start(emissions / 2), **curve("one", [(1.0, None)])}
    found = Insides.of(("a", "b"), params)
    assert found.emissions is not None
    assert (found.emissions == emissions).all()
    assert found.start is not None
    assert (found.start == emissions / 2).all()
    assert list(found.curves) == ["one"]
    assert found.curves["one"].shape == (1, 2)
    assert np.isnan(found.curves["one"][0, 1])


def test_a_vote_behind_the_sources_is_left_out() -> None:
    emissions = np.zeros((3, 3, 3))
    found = Insides.of(("a", "b"), {"emissions": emissions, **start(emissions)})
    assert found.emissions is not None
    assert found.start is not None
    assert len(found.emissions) == len(found.start) == 2


@pytest.mark.parametrize("name", ["hmm", "sparse-chmm", "chmm", "linked-hmm"])
def test_chains_show_emissions_that_are_distributions(name: str, toy: cv.Dataset) -> None:
    settings = {"encoder": "hashing", "epochs": 2} if "chmm" in name else {}
    seen = cv.get(name)(**settings).fit(toy).insides()
    assert seen.sources == (toy.sources[:2] if name == "linked-hmm" else toy.sources)
    for emissions in (seen.start, seen.emissions):
        assert emissions is not None
        np.testing.assert_allclose(emissions.sum(axis=2), 1, atol=1e-4)
    assert seen.curves


@pytest.mark.parametrize("name", ["hmm", "linked-hmm", "bsc", "dawid-skene", "snorkel"])
def test_the_loss_of_expectation_maximisation_falls(name: str, toy: cv.Dataset) -> None:
    loss = cv.get(name)().fit(toy).insides().curves["EM"][:, 0]
    assert (np.diff(loss) <= 1e-9).all()


def test_a_saved_model_shows_the_same(toy: cv.Dataset, tmp_path) -> None:
    model = cv.HMM().fit(toy)
    model.save(tmp_path / "run")
    ours, theirs = model.insides(), cv.load(tmp_path / "run").insides()
    np.testing.assert_array_equal(ours.start, theirs.start)
    np.testing.assert_array_equal(ours.curves["EM"], theirs.curves["EM"])


def test_stages_have_a_curve_each(toy: cv.Dataset) -> None:
    seen = cv.SparseCHMM(encoder="hashing", epochs=2).fit(toy).insides()
    assert [name.split()[0] for name in seen.curves] == ["1", "2", "3", "4"]
    for points in seen.curves.values():
        assert np.isnan(points[0, 0])
        assert np.isfinite(points[1:, 0]).all()
