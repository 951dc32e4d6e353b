"""Figures: axes, shapes, and values against direct counts."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.data.diagnostics import Diagnostics
from convener.evaluation.evaluation import evaluate
from convener.evaluation.metrics import score_spans
from convener.report import figures
from convener.report.figures import MAX_LABELS, Axis, ticks
from convener.report.run_summary import RunSummary, summarize_run
from tests.report.fake_model import FakeModel

numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))


@given(numbers, st.floats(1e-3, 1e6))
def test_ticks_are_round_few_and_in_range(low: float, width: float) -> None:
    high = low + width
    found = ticks(low, high)
    assert 1 <= len(found) <= 8
    assert found == sorted(set(found))
    slack = width * 1e-6 + 1e-9
    assert low - slack <= found[0]
    assert found[-1] <= high + slack
    if len(found) > 1:
        step = found[1] - found[0]
        digit = step / 10.0 ** math.floor(math.log10(step) + 1e-6)
        assert min(abs(digit - whole) for whole in (1, 2, 5, 10)) < 1e-3
        assert found[0] - step < low + slack
        assert found[-1] + step > high - slack


def test_ticks_of_an_empty_range() -> None:
    assert ticks(3.0, 3.0) == [3.0]
    assert ticks(3.0, 2.0) == [3.0]


@given(numbers, st.floats(1, 1e6), st.floats(0, 1))
def test_axis_is_linear(low: float, width: float, share: float) -> None:
    axis = Axis(low, low + width, 300, 20)
    assert axis(low) == 300
    assert axis(low + width) == 20
    assert axis(low + share * width) == pytest.approx(300 - 280 * share, abs=0.02)
    assert all(19.9 <= at <= 300.1 for at, _ in axis.ticks)


def test_axis_of_a_single_value() -> None:
    assert Axis(2, 2, 0, 10)(2) == 0
    assert Axis(0, 1, 0, 100).ticks[1] == (20.0, "0.2")


# Figures of a report


def test_reliability_shows_the_estimates(hmm: RunSummary) -> None:
    figure = figures.reliability(hmm)
    assert len(figure.rows) == len(hmm.estimates) > 0
    for row, item in zip(figure.rows, hmm.estimates, strict=True):
        assert (row.name, row.series) == (item.source, item.type)
        assert (row.value, row.low, row.high) == item.f1
        assert row.gold == item.gold_score.f1
        assert row.low <= row.value <= row.high
    assert "F1 against gold" in figure.caption


def test_reliability_without_gold(no_gold: RunSummary) -> None:
    figure = figures.reliability(no_gold)
    assert {row.gold for row in figure.rows} == {None}
    assert "gold" not in figure.caption


def test_estimated_vs_gold(hmm: RunSummary) -> None:
    figure = figures.estimated_vs_gold(hmm)
    assert figure is not None
    for point, item in zip(figure.points, hmm.estimates, strict=True):
        assert (point.x, point.y) == (item.gold_score.f1, item.f1.value)
        assert point.series == item.type
    pairs = np.array([[point.x, point.y] for point in figure.points])
    found = float(np.corrcoef(pairs.T)[0, 1])
    assert figures.f1_correlation(hmm) == pytest.approx(found)
    assert f"Pearson correlation {found:.3f} over {len(pairs)} pairs" in figure.caption


def test_estimated_vs_gold_needs_gold(no_gold: RunSummary) -> None:
    assert figures.estimated_vs_gold(no_gold) is None
    assert figures.f1_correlation(no_gold) is None


def test_two_points_give_no_correlation() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {"s": [[(0, 1, "X")]], "t": [[(0, 1, "X")]]}, gold=[[(0, 1, "X")]])
    summary = summarize_run(FakeModel(labels=np.ones(1, np.int16)), data)
    assert figures.f1_correlation(summary) is None
    figure = figures.estimated_vs_gold(summary)
    assert figure is not None
    assert figure.caption.startswith("One dot")


def test_source_similarity_is_f1_of_one_source_against_another(vote: RunSummary) -> None:
    figure = figures.source_similarity(vote)
    assert figure is not None
    names, data = vote.data.sources, vote.data
    assert tuple(figure.rows) == tuple(figure.columns) == names
    assert np.isnan(np.diag(figure.values)).all()
    spans = [data.tags.spans(column, data.offsets) for column in data.votes.T]
    for i, one in enumerate(spans):
        for j, other in enumerate(spans):
            if i != j:
                expected = score_spans(one, other, data.tags.types).micro.f1
                assert figure.values[i, j] == pytest.approx(expected)
    assert not np.isnan(np.diag(vote.analysis.pairwise["span_f1"])).all()  # the analysis is unchanged


def test_source_similarity_needs_two_sources() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {"s": [[(0, 1, "X")]]})
    summary = summarize_run(FakeModel(labels=np.ones(1, np.int16)), data)
    assert figures.source_similarity(summary) is None


def count_emissions(votes: list[int], label_probs: list[list[float]], size: int) -> np.ndarray:
    """Emission matrix counted in a loop; NaN rows for labels that never occur."""
    found = np.zeros((size, size))
    for vote, probs in zip(votes, label_probs, strict=True):
        if vote >= 0:
            for label, prob in enumerate(probs):
                found[label, vote] += prob
    with np.errstate(invalid="ignore"):
        return found / found.sum(axis=1, keepdims=True)


def test_emissions_of_an_hmm(hmm: RunSummary) -> None:
    data, size = hmm.data, len(hmm.data.tags)
    found = figures.emissions(hmm)
    assert [source for source, _ in found] == list(hmm.diagnostics.sources)
    for number, (source, maps) in enumerate(found):
        assert [heat.title for heat in maps] == ["initial", "learned", "gold"]
        assert all(heat.values.shape == (size, size) for heat in maps)
        assert all(tuple(heat.rows) == data.tags.names for heat in maps)
        np.testing.assert_array_equal(maps[0].values, hmm.diagnostics.initial_emission[number])
        np.testing.assert_array_equal(maps[1].values, hmm.diagnostics.emission[number])
        column = data.votes[:, data.sources.index(source)].tolist()
        label_probs = np.eye(size)[data.gold].tolist()
        np.testing.assert_allclose(maps[2].values, count_emissions(column, label_probs, size))


def test_emissions_of_a_model_without_emissions(toy: cv.Dataset) -> None:
    """They are counted against the posterior; abstentions do not count."""
    model = cv.MajorityVote().fit(toy)
    summary = summarize_run(model, toy.without_gold())
    found = dict(figures.emissions(summary))
    assert set(found) == set(toy.sources)
    probabilities = summary.predictions.probabilities
    for source, maps in found.items():
        (heat,) = maps
        assert heat.title == "learned"
        column = toy.votes[:, toy.sources.index(source)].tolist()
        expected = count_emissions(column, probabilities.astype(np.float64).tolist(), len(toy.tags))
        np.testing.assert_allclose(heat.values, expected)


def many_types(gold: bool = True) -> cv.Dataset:
    types = [f"T{number}" for number in range(6)]
    rng = np.random.default_rng(0)
    marks = [[(0, 2, types[rng.integers(6)])] for _ in range(60)]
    noisy = [[(0, 2, types[rng.integers(6)])] if rng.random() < 0.3 else m for m in marks]
    return cv.Dataset.from_spans(types, [["a", "b", "c"]] * 60, {"s": noisy}, gold=marks if gold else None)


def test_many_labels_are_shown_by_type() -> None:
    data = many_types()
    assert len(data.tags) > MAX_LABELS
    emissions = np.random.default_rng(1).dirichlet(np.ones(13), (1, 13))
    diagnostics = Diagnostics(sources=("s",), emission=emissions, initial_emission=emissions[:, ::-1].copy())
    labels = data.gold.copy()
    summary = summarize_run(FakeModel(labels=labels, stored_diagnostics=diagnostics), data)
    ((source, maps),) = figures.emissions(summary)
    assert source == "s"
    assert [heat.title for heat in maps] == ["initial", "learned", "gold"]
    for heat in maps:
        assert tuple(heat.rows) == tuple(heat.columns) == ("O", *data.tags.types)
        np.testing.assert_allclose(heat.values.sum(axis=1), 1)
    learned = maps[1].values
    assert learned[0, 0] == pytest.approx(emissions[0, 0, 0])
    assert learned[2, 3] == pytest.approx(emissions[0, 3:5, 5:7].sum() / 2)
    # Spans are two tokens long, so half of the tokens of each type are B-: shares are exact.
    votes = data.votes[:, 0]
    for true in range(6):
        where = np.isin(data.gold, (2 * true + 1, 2 * true + 2))
        for voted in range(6):
            share = np.isin(votes[where], (2 * voted + 1, 2 * voted + 2)).mean()
            assert maps[2].values[1 + true, 1 + voted] == pytest.approx(share)


def test_rows_of_types_without_inside_labels_come_from_begin_labels() -> None:
    """Gold has no I- label, so the row of a type is its B- row."""
    types = [f"T{number}" for number in range(6)]
    marks = [[(0, 1, name)] for name in types[:5]] * 2
    votes = [*marks[:5], *[[(0, 1, "T0")]] * 5]
    data = cv.Dataset.from_spans(types, [["a", "b"]] * 10, {"s": votes}, gold=marks)
    diagnostics = Diagnostics(sources=("s",))
    summary = summarize_run(FakeModel(labels=data.gold.copy(), stored_diagnostics=diagnostics), data)
    gold = figures.emissions(summary)[0][1][-1].values
    np.testing.assert_allclose(gold[:6].sum(axis=1), 1)
    assert gold[2, [1, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(gold[6]).all()


def test_eleven_labels_are_not_merged() -> None:
    types = [f"T{number}" for number in range(5)]
    data = cv.Dataset.from_spans(types, [["a"]], {"s": [[(0, 1, "T0")]]}, gold=[[(0, 1, "T0")]])
    diagnostics = Diagnostics(sources=("s",))
    summary = summarize_run(FakeModel(labels=np.ones(1, np.int16), stored_diagnostics=diagnostics), data)
    ((_, maps),) = figures.emissions(summary)
    assert all(len(heat.rows) == MAX_LABELS for heat in maps)


def test_transitions_are_counted_between_adjacent_labels(hmm: RunSummary) -> None:
    data, size = hmm.data, len(hmm.data.tags)
    predicted, gold = figures.transitions(hmm)
    for heat, labels in ((predicted, hmm.predictions.labels), (gold, data.gold)):
        counts = np.zeros((size, size))
        for a, b in pairwise(data.offsets.tolist()):
            before = 0
            for label in labels[a:b].tolist():
                counts[before, label] += 1
                before = label
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(heat.values, counts / counts.sum(axis=1, keepdims=True))
    assert (predicted.title, gold.title) == ("Transitions (predicted)", "Transitions (gold)")


def test_transitions_without_gold(no_gold: RunSummary) -> None:
    assert [heat.title for heat in figures.transitions(no_gold)] == ["Transitions (predicted)"]


def test_training_curve_of_an_hmm(hmm: RunSummary) -> None:
    (figure,) = figures.training_curves(hmm)
    points = hmm.diagnostics.learning_curves["EM"]
    assert figure.title == "EM: loss"
    assert figure.curves == {"loss": list(enumerate(points[:, 0].tolist()))}
    assert figure.x_title == "step"
    assert f"{points[-1, 0]:.4g}" in figure.caption


def test_training_curves_of_stages(vote: RunSummary) -> None:
    """Unknown values are skipped, and curves with fewer than two points are omitted."""
    nan = np.nan
    stages = {
        "one": np.array([[3.0, nan], [2.0, 0.5], [nan, nan], [1.0, 0.7]]),
        "two": np.array([[1.0, nan]]),
        "three": np.zeros((0, 2)),
    }
    summary = replace(vote, diagnostics=Diagnostics(sources=(), learning_curves=stages))
    loss, score = figures.training_curves(summary)
    assert loss.curves == {"loss": [(0, 3.0), (1, 2.0), (3, 1.0)]}
    assert score.curves == {"held-out score": [(1, 0.5), (3, 0.7)]}
    assert (loss.x_title, score.title) == ("epoch", "one: held-out score")
    assert figures.training_curves(vote) == []


def test_calibration_shows_bins_that_are_not_empty(vote: RunSummary) -> None:
    figure = figures.calibration(vote)
    assert figure is not None
    found = evaluate(vote.predictions, vote.data).calibration
    assert list(figure.curves) == ["tokens", "spans"]
    for name, bins in figure.curves.items():
        part = found[name]
        assert sum(count for _, _, count in bins) == part.count.sum()
        assert all(count > 0 for _, _, count in bins)
        error = sum(count * abs(confidence - accuracy) for confidence, accuracy, count in bins) / part.count.sum()
        assert error == pytest.approx(part.ece)
        assert f"{part.ece:.3f} for {name}" in figure.caption


def test_confusion_is_normalised_by_row(vote: RunSummary) -> None:
    figure = figures.confusion(vote)
    assert figure is not None
    types = vote.data.tags.types
    assert tuple(figure.rows) == (*types, "(spurious)")
    assert tuple(figure.columns) == (*types, "(missed)")
    gold = vote.data.tags.spans(vote.data.gold, vote.data.offsets)
    for number in range(len(types)):
        there = (gold.type == number).sum()
        assert figure.values[number].sum() == pytest.approx(1)
        right = vote.evaluation.scores.per_type[types[number]].correct
        assert figure.values[number, number] * there >= right - 1e-9
    counts = vote.evaluation.error_types.confusion
    np.testing.assert_allclose(figure.values, counts / counts.sum(axis=1, keepdims=True))


def test_calibration_and_confusion_need_gold(no_gold: RunSummary) -> None:
    assert figures.calibration(no_gold) is None
    assert figures.confusion(no_gold) is None


def test_names_of_figures(hmm: RunSummary) -> None:
    assert set(figures.FIGURES) == {
        "reliability",
        "estimated-vs-gold",
        "source-similarity",
        "emissions",
        "transitions",
        "training-curves",
        "calibration",
        "confusion",
    }
    titles = [heat.title for heat in figures.FIGURES["emissions"](hmm)]
    assert titles[:3] == [f"{hmm.data.sources[0]}: {s}" for s in ("initial", "learned", "gold")]
