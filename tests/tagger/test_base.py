"""How a held-out part is judged."""

from __future__ import annotations

import numpy as np
import pytest

from convener.tagger.base import Tagged, agreement
from convener.tagger.targets import Targets

from .toys import believed, sentences


def test_it_is_f1_against_the_labels() -> None:
    data = sentences(20)
    assert data.gold is not None
    labels = believed(data)
    for targets in (Targets.hard(labels), Targets.soft(labels), Targets.of_gold(data)):
        assert agreement(Tagged(data.gold, labels.probabilities), targets) == 1.0
    half = data.gold.copy()
    half[half > 2] = 0
    spans, found = (data.tags.spans(each, data.offsets) for each in (data.gold, half))
    expected = 2 * len(found) / (len(found) + len(spans))
    assert agreement(Tagged(half), Targets.of_gold(data)) == pytest.approx(expected)


def test_as_long_as_nothing_is_right_likelihood_counts() -> None:
    data = sentences(20)
    targets = Targets.soft(believed(data, 0.8))
    nothing = np.zeros(len(data.tokens), np.int16)
    even = np.full((len(nothing), 5), 0.2, np.float32)
    near = targets.shares()
    found = [agreement(Tagged(nothing, rows), targets) for rows in (even, near)]
    assert found[0] == pytest.approx(-np.log(5), abs=1e-5)
    assert found[0] < found[1] < 0
    entropy = -(near * np.log(near)).sum(1).mean()
    assert found[1] == pytest.approx(-entropy, abs=1e-5)
    assert agreement(Tagged(nothing), targets) == 0


def test_weights_of_labels_count() -> None:
    data = sentences(20)
    targets = Targets.of_gold(data)
    nothing, rows = np.zeros(len(data.tokens), np.int16), np.full((len(data.tokens), 5), 0.1)
    rows[:, 0] = 0.6
    tagged = Tagged(nothing, rows.astype(np.float32))
    only = [agreement(tagged, targets, np.eye(5, dtype=np.float32)[label]) for label in (0, 1)]
    assert only == pytest.approx([np.log(0.6), np.log(0.1)], abs=1e-4)
