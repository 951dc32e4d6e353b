"""Bootstrap intervals equal those from drawing the sentences one by one."""

import json
import sys

import numpy as np
import pytest

from convener.data.dataset import Dataset
from convener.data.ragged import StringArray
from convener.errors import ConfigError, MismatchError
from convener.evaluation.intervals import bootstrap_intervals, paired_difference, resampling_units, sum_by_unit


def random_counts(rng, size=300):
    gold, predicted = rng.poisson(1.0, size), rng.poisson(1.2, size)
    correct = rng.binomial(np.minimum(gold, predicted), 0.8)
    return np.stack([correct, predicted, gold], axis=1).astype(np.int64)


def draw_one_by_one(counts, samples, rng):
    picks = rng.integers(0, len(counts), size=(samples, len(counts)))
    return counts[picks].sum(axis=1)


def f1(totals):
    return 2 * totals[:, 0] / (totals[:, 1] + totals[:, 2])


def test_equals_drawing_sentences_one_by_one():
    counts = random_counts(np.random.default_rng(1))
    intervals = bootstrap_intervals(counts, samples=4000, seed=2)
    direct = f1(draw_one_by_one(counts, 4000, np.random.default_rng(3)))
    assert intervals.f1.value == pytest.approx(f1(counts.sum(axis=0, keepdims=True))[0])
    assert (intervals.f1.low, intervals.f1.high) == pytest.approx(tuple(np.quantile(direct, [0.025, 0.975])), abs=0.005)
    for name in ("precision", "recall"):
        interval = getattr(intervals, name)
        assert interval.low < interval.value < interval.high


def test_paired_difference_is_narrower_than_its_parts():
    rng = np.random.default_rng(4)
    first = random_counts(rng)
    second = first.copy()
    worse = rng.random(len(first)) < 0.1
    second[worse, 0] = np.maximum(second[worse, 0] - 1, 0)
    intervals = paired_difference(first, second, samples=2000, seed=5)
    rows = np.random.default_rng(6).integers(0, len(first), size=(2000, len(first)))
    direct = f1(first[rows].sum(axis=1)) - f1(second[rows].sum(axis=1))
    assert (intervals.f1.low, intervals.f1.high) == pytest.approx(tuple(np.quantile(direct, [0.025, 0.975])), abs=0.004)
    assert intervals.f1.low > 0  # never better anywhere, so the interval is above 0
    alone = bootstrap_intervals(first, samples=2000)
    assert intervals.f1.high - intervals.f1.low < alone.f1.high - alone.f1.low


def test_intervals_depend_on_the_seed_alone():
    counts = random_counts(np.random.default_rng(7))
    assert bootstrap_intervals(counts, samples=100, seed=1) == bootstrap_intervals(counts, samples=100, seed=1)
    assert bootstrap_intervals(counts, samples=100, seed=1) != bootstrap_intervals(counts, samples=100, seed=2)
    same = paired_difference(counts, counts, samples=50)
    assert same.f1 == (0.0, 0.0, 0.0)


def test_blocks_do_not_change_the_number_of_samples(monkeypatch):
    monkeypatch.setattr(sys.modules[bootstrap_intervals.__module__], "_MAX_BLOCK_CELLS", 10)
    intervals = bootstrap_intervals(random_counts(np.random.default_rng(8)), samples=37)
    assert intervals.samples == 37


def test_no_sentences_and_no_spans_give_zeros():
    for counts in (np.zeros((0, 3), np.int64), np.zeros((5, 3), np.int64)):
        assert bootstrap_intervals(counts, samples=10).f1 == (0.0, 0.0, 0.0)


def test_units_are_documents_if_there_are_several():
    data = Dataset.from_spans(["X"], [["a"], ["b"], ["c"]], {})
    assert resampling_units(data)[0] == "sentences"

    def with_documents(names):
        return Dataset(
            **{name: getattr(data, name) for name in ("tags", "tokens", "offsets", "sources", "votes", "unmarked")},
            doc_ids=StringArray.from_list(names),
        )

    name, unit = resampling_units(with_documents(["d2", "d1", "d2"]))
    assert name == "documents"
    assert unit.tolist() == [1, 0, 1]
    assert sum_by_unit(np.array([[1, 2, 3], [1, 1, 1], [0, 0, 5]]), unit).tolist() == [
        [1, 1, 1],
        [1, 2, 8],
    ]
    assert resampling_units(with_documents(["one"] * 3))[0] == "sentences"


def test_json():
    intervals = bootstrap_intervals(random_counts(np.random.default_rng(9)), samples=20, level=0.9)
    plain = json.loads(json.dumps(intervals.to_json()))
    assert plain["f1"] == [intervals.f1.low, intervals.f1.high]
    assert plain["level"] == 0.9


def test_invalid_input_is_rejected():
    counts = np.ones((2, 3), np.int64)
    with pytest.raises(ConfigError, match="samples"):
        bootstrap_intervals(counts, samples=0)
    with pytest.raises(ConfigError, match="level"):
        bootstrap_intervals(counts, level=95)
    with pytest.raises(MismatchError, match="found 2 and 1 units"):
        paired_difference(counts, counts[:1])
