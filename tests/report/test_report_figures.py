"""The figures of an account: shapes, and values against direct counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import convener as cv
from convener.data.diagnostics import Diagnostics
from convener.evaluation.evaluation import evaluate
from convener.evaluation.metrics import score_spans
from convener.evaluation.source_analysis import source_f1
from convener.report import figures
from convener.report.figures import MAX_LABELS
from convener.report.run_summary import RunSummary, summarize_run
from tests.report.fake_model import Told


def test_reliability_is_the_estimates(hmm: RunSummary) -> None:
    figure = figures.reliability(hmm)
    assert len(figure.rows) == len(hmm.estimates) > 0
    for row, item in zip(figure.rows, hmm.estimates, strict=True):
        assert (row.name, row.series) == (item.source, item.type)
        assert (row.value, row.low, row.high) == item.f1
        assert row.gold == item.gold_score.f1
        assert row.low <= row.value <= row.high
    assert "true F1" in figure.caption


def test_reliability_without_gold(no_gold: RunSummary) -> None:
    figure = figures.reliability(no_gold)
    assert {row.gold for row in figure.rows} == {None}
    assert "true" not in figure.caption


def test_agreement_is_estimated_against_true(hmm: RunSummary) -> None:
    figure = figures.estimated_vs_gold(hmm)
    assert figure is not None
    true = source_f1(hmm.data, hmm.data.gold)
    seen = source_f1(hmm.data, hmm.predictions.labels)
    for point, item in zip(figure.points, hmm.estimates, strict=True):
        at = hmm.data.sources.index(item.source), hmm.data.tags.types.index(item.type)
        assert (point.x, point.y) == pytest.approx((true[at], seen[at]))
        assert point.series == item.type
    pairs = np.array([[point.x, point.y] for point in figure.points])
    found = float(np.corrcoef(pairs.T)[0, 1])
    assert figures.f1_correlation(hmm) == pytest.approx(found)
    assert f"Pearson correlation {found:.3f} over {len(pairs)} pairs" in figure.caption


def test_agreement_needs_gold(no_gold: RunSummary) -> None:
    assert figures.estimated_vs_gold(no_gold) is None
    assert figures.f1_correlation(no_gold) is None


def test_two_points_have_no_correlation() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {"s": [[(0, 1, "X")]], "t": [[(0, 1, "X")]]}, gold=[[(0, 1, "X")]])
    account = summarize_run(Told(labels=np.ones(1, np.int16)), data)
    assert figures.f1_correlation(account) is None
    figure = figures.estimated_vs_gold(account)
    assert figure is not None
    assert figure.caption.startswith("Every dot")


def test_pairs_are_f1_of_one_against_another(vote: RunSummary) -> None:
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
    assert not np.isnan(np.diag(vote.analysis.pairwise["span_f1"])).all()  # left as it was


def test_pairs_need_two() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {"s": [[(0, 1, "X")]]})
    account = summarize_run(Told(labels=np.ones(1, np.int16)), data)
    assert figures.source_similarity(account) is None


def counted(votes: list[int], truth: list[list[float]], size: int) -> np.ndarray:
    """What is said where the truth is so, in a loop; NaN where the truth never is."""
    found = np.zeros((size, size))
    for said, shares in zip(votes, truth, strict=True):
        if said >= 0:
            for label, share in enumerate(shares):
                found[label, said] += share
    with np.errstate(invalid="ignore"):
        return found / found.sum(axis=1, keepdims=True)


def test_emissions_of_a_chain(hmm: RunSummary) -> None:
    data, size = hmm.data, len(hmm.data.tags)
    found = figures.emissions(hmm)
    assert [source for source, _ in found] == list(hmm.diagnostics.sources)
    for number, (source, maps) in enumerate(found):
        assert [heat.title for heat in maps] == ["start", "final", "truth"]
        assert all(heat.values.shape == (size, size) for heat in maps)
        assert all(tuple(heat.rows) == data.tags.names for heat in maps)
        np.testing.assert_array_equal(maps[0].values, hmm.diagnostics.initial_emission[number])
        np.testing.assert_array_equal(maps[1].values, hmm.diagnostics.emission[number])
        column = data.votes[:, data.sources.index(source)].tolist()
        truth = np.eye(size)[data.gold].tolist()
        np.testing.assert_allclose(maps[2].values, counted(column, truth, size))


def test_emissions_of_a_model_without_any(toy: cv.Dataset) -> None:
    """Counted against its posterior; where a source abstains, nothing is said."""
    model = cv.MajorityVote().fit(toy)
    account = summarize_run(model, toy.without_gold())
    found = dict(figures.emissions(account))
    assert set(found) == set(toy.sources)
    shares = account.predictions.probabilities
    for source, maps in found.items():
        (heat,) = maps
        assert heat.title == "final"
        column = toy.votes[:, toy.sources.index(source)].tolist()
        expected = counted(column, shares.astype(np.float64).tolist(), len(toy.tags))
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
    seen = Diagnostics(sources=("s",), emission=emissions, initial_emission=emissions[:, ::-1].copy())
    labels = data.gold.copy()
    account = summarize_run(Told(labels=labels, seen=seen), data)
    ((source, maps),) = figures.emissions(account)
    assert source == "s"
    assert [heat.title for heat in maps] == ["start", "final", "truth"]
    for heat in maps:
        assert tuple(heat.rows) == tuple(heat.columns) == ("O", *data.tags.types)
        np.testing.assert_allclose(heat.values.sum(axis=1), 1)
    final = maps[1].values
    assert final[0, 0] == pytest.approx(emissions[0, 0, 0])
    assert final[2, 3] == pytest.approx(emissions[0, 3:5, 5:7].sum() / 2)
    # Spans are two words long, so half of the tokens of each type begin one: shares are exact.
    votes = data.votes[:, 0]
    for true in range(6):
        where = np.isin(data.gold, (2 * true + 1, 2 * true + 2))
        for said in range(6):
            share = np.isin(votes[where], (2 * said + 1, 2 * said + 2)).mean()
            assert maps[2].values[1 + true, 1 + said] == pytest.approx(share)


def test_types_of_one_word_are_shown_by_what_is_known_of_them() -> None:
    """No gold is ever I-, so rows of B- alone are what a type's row shows."""
    types = [f"T{number}" for number in range(6)]
    marks = [[(0, 1, name)] for name in types[:5]] * 2
    said = [*marks[:5], *[[(0, 1, "T0")]] * 5]
    data = cv.Dataset.from_spans(types, [["a", "b"]] * 10, {"s": said}, gold=marks)
    seen = Diagnostics(sources=("s",))
    account = summarize_run(Told(labels=data.gold.copy(), seen=seen), data)
    truth = figures.emissions(account)[0][1][-1].values
    np.testing.assert_allclose(truth[:6].sum(axis=1), 1)
    assert truth[2, [1, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(truth[6]).all()


def test_eleven_labels_are_shown_as_they_are() -> None:
    types = [f"T{number}" for number in range(5)]
    data = cv.Dataset.from_spans(types, [["a"]], {"s": [[(0, 1, "T0")]]}, gold=[[(0, 1, "T0")]])
    seen = Diagnostics(sources=("s",))
    account = summarize_run(Told(labels=np.ones(1, np.int16), seen=seen), data)
    ((_, maps),) = figures.emissions(account)
    assert all(len(heat.rows) == MAX_LABELS for heat in maps)


def test_moves_are_counted_from_one_label_to_the_next(hmm: RunSummary) -> None:
    data, size = hmm.data, len(hmm.data.tags)
    final, truth = figures.transitions(hmm)
    for heat, labels in ((final, hmm.predictions.labels), (truth, data.gold)):
        counts = np.zeros((size, size))
        for a, b in pairwise(data.offsets.tolist()):
            before = 0
            for label in labels[a:b].tolist():
                counts[before, label] += 1
                before = label
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(heat.values, counts / counts.sum(axis=1, keepdims=True))
    assert (final.title, truth.title) == ("Moves: final", "Moves: truth")


def test_moves_without_gold(no_gold: RunSummary) -> None:
    assert [heat.title for heat in figures.transitions(no_gold)] == ["Moves: final"]


def test_curves_of_a_chain(hmm: RunSummary) -> None:
    (figure,) = figures.training_curves(hmm)
    points = hmm.diagnostics.learning_curves["EM"]
    assert figure.title == "EM: loss"
    assert figure.curves == {"loss": list(enumerate(points[:, 0].tolist()))}
    assert figure.x_title == "step"
    assert f"{points[-1, 0]:.4g}" in figure.caption


def test_curves_of_stages(vote: RunSummary) -> None:
    """Only what is known is drawn, and only where it is a line."""
    nan = np.nan
    stages = {
        "one": np.array([[3.0, nan], [2.0, 0.5], [nan, nan], [1.0, 0.7]]),
        "two": np.array([[1.0, nan]]),
        "three": np.zeros((0, 2)),
    }
    account = replace(vote, diagnostics=Diagnostics(sources=(), learning_curves=stages))
    loss, score = figures.training_curves(account)
    assert loss.curves == {"loss": [(0, 3.0), (1, 2.0), (3, 1.0)]}
    assert score.curves == {"held-out score": [(1, 0.5), (3, 0.7)]}
    assert (loss.x_title, score.title) == ("epoch", "one: held-out score")
    assert figures.training_curves(vote) == []


def test_calibration_holds_the_bins_with_something_in_them(vote: RunSummary) -> None:
    figure = figures.calibration(vote)
    assert figure is not None
    found = evaluate(vote.predictions, vote.data).calibration
    assert list(figure.curves) == ["tokens", "spans"]
    for name, bins in figure.curves.items():
        part = found[name]
        assert sum(count for _, _, count in bins) == part.count.sum()
        assert all(count > 0 for _, _, count in bins)
        error = sum(count * abs(sure - right) for sure, right, count in bins) / part.count.sum()
        assert error == pytest.approx(part.ece)
        assert f"{part.ece:.3f} for {name}" in figure.caption


def test_confusion_is_by_row(vote: RunSummary) -> None:
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


def test_without_gold_nothing_is_calibrated_or_confused(no_gold: RunSummary) -> None:
    assert figures.calibration(no_gold) is None
    assert figures.confusion(no_gold) is None


def test_all_of_them_have_names(hmm: RunSummary) -> None:
    assert set(figures.FIGURES) == {
        "reliability",
        "agreement",
        "pairs",
        "emissions",
        "moves",
        "curves",
        "calibration",
        "confusion",
    }
    titles = [heat.title for heat in figures.FIGURES["emissions"](hmm)]
    assert titles[:3] == [f"{hmm.data.sources[0]}: {s}" for s in ("start", "final", "truth")]
