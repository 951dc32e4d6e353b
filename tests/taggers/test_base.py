"""How a held-out part is judged."""

from __future__ import annotations

import numpy as np
import pytest

from convener.taggers.base import TagOutput, validation_score
from convener.taggers.targets import Targets

from .toys import believed, sentences


def test_it_is_f1_against_the_labels() -> None:
    data = sentences(20)
    assert data.gold is not None
    labels = believed(data)
    for targets in (
        Targets.from_hard_labels(labels),
        Targets.from_soft_labels(labels),
        Targets.from_gold(data),
    ):
        assert validation_score(TagOutput(data.gold, labels.probabilities), targets) == 1.0
    half = data.gold.copy()
    half[half > 2] = 0
    spans, found = (data.tags.spans(each, data.offsets) for each in (data.gold, half))
    expected = 2 * len(found) / (len(found) + len(spans))
    assert validation_score(TagOutput(half), Targets.from_gold(data)) == pytest.approx(expected)


def test_as_long_as_nothing_is_right_likelihood_counts() -> None:
    data = sentences(20)
    targets = Targets.from_soft_labels(believed(data, 0.8))
    nothing = np.zeros(len(data.tokens), np.int16)
    even = np.full((len(nothing), 5), 0.2, np.float32)
    near = targets.label_probs()
    found = [validation_score(TagOutput(nothing, rows), targets) for rows in (even, near)]
    assert found[0] == pytest.approx(-np.log(5), abs=1e-5)
    assert found[0] < found[1] < 0
    entropy = -(near * np.log(near)).sum(1).mean()
    assert found[1] == pytest.approx(-entropy, abs=1e-5)
    assert validation_score(TagOutput(nothing), targets) == 0


def test_weights_of_labels_count() -> None:
    data = sentences(20)
    targets = Targets.from_gold(data)
    nothing, rows = np.zeros(len(data.tokens), np.int16), np.full((len(data.tokens), 5), 0.1)
    rows[:, 0] = 0.6
    tagged = TagOutput(nothing, rows.astype(np.float32))
    only = [validation_score(tagged, targets, np.eye(5, dtype=np.float32)[label]) for label in (0, 1)]
    assert only == pytest.approx([np.log(0.6), np.log(0.1)], abs=1e-4)
