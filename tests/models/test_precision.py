"""The prior precision of sources, stated by the user, and its effect on labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.validation import Unmarked
from convener.models.majority_vote import baseline_labels, initial_labels

MODELS = (
    "hmm",
    "linked-hmm",
    "dawid-skene",
    "snorkel",
    "bsc",
    "chmm",
    "sparse-chmm",
    "dws",
    "connet",
    "neural-hidden-crf",
    "segment",
)
pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")


def contradictions(precision: tuple[float | None, float | None], unmarked: Unmarked = "abstain") -> cv.Dataset:
    """Sentences marked by neither source, by a, by both with different types, and by b."""
    rng = np.random.default_rng(0)
    words = [[f"w{rng.integers(150)}" for _ in range(10)] for _ in range(160)]
    at = rng.integers(0, 8, size=160).tolist()
    marks: dict[str, list[list[tuple[int, int, str]] | None]] = {"a": [], "b": []}
    for number, start in enumerate(at):
        if number % 4:
            words[number][start] = f"name{rng.integers(20)}"
        marks["a"].append([(start, start + 1, "PER")] if number % 4 in (1, 2) else [])
        marks["b"].append([(start, start + 1, "LOC")] if number % 4 in (2, 3) else [])
    data = cv.Dataset.from_spans(["PER", "LOC"], words, marks, unmarked=unmarked)
    return replace(data, prior_precision=precision)


def new_model(name: str) -> cv.LabelModel:
    kind = cv.get_model(name)
    return kind(**({"encoder": "hashing", "max_epochs": 2} if kind.needs_features else {}))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("precise", ["a", "b"])
def test_labels_follow_the_source_that_is_declared_precise(name: str, precise: str) -> None:
    data = contradictions((0.95, 0.3) if precise == "a" else (0.3, 0.95))
    both = (data.votes > 0).all(axis=1)
    labels = new_model(name).fit(data).predict(data).labels[both]
    expected = data.tags.encode(["B-PER" if precise == "a" else "B-LOC"])[0]
    assert (labels == expected).mean() > 0.95


@pytest.mark.parametrize("kind", ["union", "majority"])
@pytest.mark.parametrize(("precision", "expected"), [((0.6, None), 3), ((None, 0.6), 1)])
def test_initial_labels_follow_the_more_precise_source(
    kind: str, precision: tuple[float | None, float | None], expected: int
) -> None:
    data = contradictions(precision)
    both = (data.votes > 0).all(axis=1)
    assert set(initial_labels(data, kind)[both].tolist()) == {expected}  # type: ignore[arg-type]
    only_a = (data.votes[:, 0] > 0) & ~both
    assert set(baseline_labels(data, kind)[only_a].tolist()) == {1}  # type: ignore[arg-type]


def test_equal_precision_has_the_effect_of_unknown_precision() -> None:
    plain = contradictions((None, None), "outside")
    alike = contradictions((0.95, 0.95), "outside")
    for kind in ("union", "majority"):
        np.testing.assert_array_equal(baseline_labels(plain, kind), baseline_labels(alike, kind))


@pytest.mark.parametrize("name", MODELS)
def test_prior_precision_has_no_effect_at_prediction(name: str, tmp_path: Path) -> None:
    data = contradictions((0.95, 0.3))
    new_model(name).fit(data).save(tmp_path / "model")
    model = cv.load_model(tmp_path / "model")
    same = model.predict(data)
    other = model.predict(replace(data, prior_precision=(None, 0.9)))
    np.testing.assert_array_equal(same.labels, other.labels)
    np.testing.assert_array_equal(same.probabilities, other.probabilities)
