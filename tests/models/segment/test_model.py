"""The segment model: estimates, quality, refits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.models.segment.observations import LONG, SHORT
from tests.conftest import crowd
from tests.helpers.crowd import CrowdConfig, make_crowd


def f1(model: cv.LabelModel, data: cv.Dataset) -> float:
    return cv.evaluate(model.fit(data).predict(data), data).f1


def objective(model: cv.Segment) -> np.ndarray:
    return -model.diagnostics().learning_curves["EM"][:, 0]


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
@pytest.mark.parametrize("unmarked", ["abstain", "outside"])
@pytest.mark.parametrize("prior_strength", [0.0, 5.0])
def test_em_never_decreases_the_objective(unmarked: str, prior_strength: float) -> None:
    for seed in range(4):
        data = crowd(seed, 60)
        data = data.with_sources(data.sources, data.votes, (unmarked,) * len(data.sources))
        for weight in (None, 0.0, 1.0):
            model = cv.Segment(tol=0, prior_strength=prior_strength, miss_weight=weight).fit(data)
            assert len(objective(model)) > 3
            assert (np.diff(objective(model)) > -1e-10).all()


def worlds(seed: int, *, precision: float = 0.9, sources: int = 6) -> cv.Dataset:
    """Sources that find half of the true spans each; one of them marks places at random, as often as the others."""
    rng = np.random.default_rng(seed)
    tokens, gold = [["w"] * 20] * 150, []
    votes: dict[str, list[list[tuple[int, int, str]]]] = {f"s{number}": [] for number in range(sources)}
    for _ in tokens:
        true = [(at, at + 2, "X") for at in (1, 6, 11, 16) if rng.random() < 0.5]
        gold.append(true)
        for number, name in enumerate(votes):
            correct = [span for span in true if rng.random() < 0.5] if number else []
            used = {token for start, end, _ in correct for token in range(start, end)}
            false = [(at, at + 1, "X") for at in range(20) if at not in used and rng.random() < 0.05 * (1 - precision)]
            random = [(at, at + 1, "X") for at in range(0, 20, 2) if rng.random() < 0.1]
            votes[name].append(sorted(correct + false) if number else random)
    return cv.Dataset.from_spans(["X"], tokens, votes, gold=gold)


def test_single_source_marks_of_a_bad_source_are_dropped() -> None:
    data = worlds(0)
    model = cv.Segment()
    assert f1(model, data) > f1(cv.MajorityVote(scheme="span"), data) + 0.1
    by_source = {row["source"]: row for row in model.reliability().to_records()}
    assert by_source["s0"]["precision"] < 0.3
    assert min(by_source[f"s{number}"]["precision"] for number in range(1, 6)) > 0.8


def test_reliability_is_by_span_and_near_the_truth() -> None:
    data = worlds(1)
    records = cv.Segment().fit(data).reliability().to_records()
    gold = set(data.tags.spans(data.gold, data.offsets))
    for number, row in enumerate(records):
        marks = set(data.tags.spans(data.votes[:, number], data.offsets))
        assert row["recall"] == pytest.approx(len(marks & gold) / len(gold), abs=0.12)
        # Scores are careful: here, unlike in real data, the sources are independent.
        precision = len(marks & gold) / len(marks)
        assert precision - 0.2 < row["precision"] < precision + 0.06 or not number


def test_a_near_duplicate_does_not_count_twice() -> None:
    data = worlds(2)
    rng = np.random.default_rng(0)
    copies = [np.where(np.repeat(rng.random(len(data)) < 0.95, data.lengths), data.votes[:, 0], 0) for _ in range(4)]
    names = (*data.sources, *(f"copy-{number}" for number in range(4)))
    votes = np.concatenate([data.votes, np.stack(copies, axis=1)], axis=1).astype(np.int16)
    copied = data.with_sources(names, votes, ("abstain",) * len(names))
    with pytest.warns(cv.ConvenerWarning, match="duplicate"):
        assert f1(cv.Segment(), copied) == pytest.approx(f1(cv.Segment(), data), abs=0.01)


def test_explain_states_presumed_precision_and_near_duplicates() -> None:
    data = worlds(2)
    votes = np.where(np.repeat(np.arange(len(data)) % 8 > 0, data.lengths)[:, None], data.votes[:, :1], np.int16(0))
    data = data.with_sources((*data.sources, "copy"), np.concatenate([data.votes, votes], 1), ("abstain",) * 7)
    first, second = cv.Segment().fit(data).explain()
    assert first.endswith("of the marks without a second source are presumed false")
    assert second == "near duplicates count as one source: copy of s0"


def test_probabilities_of_tokens_are_sums_over_spans() -> None:
    data = worlds(3)
    # Scores of workers are probabilities of the model.
    data = data.with_sources(data.sources, data.votes, ("outside",) * len(data.sources))
    predictions = cv.Segment().fit(data).predict(data)
    spans, probabilities = predictions.spans, predictions.probabilities
    assert probabilities is not None
    assert spans.score is not None
    for (sentence, start, end, kind), score in zip(spans, spans.score, strict=True):
        rows = probabilities[data.offsets[sentence] + start : data.offsets[sentence] + end]
        assert rows[0, 2 * kind + 1] >= score - 1e-6
        assert (rows[1:, 2 * kind + 2] >= score - 1e-6).all()


def test_it_beats_majority_vote_on_a_crowd() -> None:
    data = make_crowd(0, CrowdConfig(documents=150)).data
    assert f1(cv.Segment(), data) > f1(cv.MajorityVote(), data) + 0.03


def test_unknown_types_do_not_lower_the_reliability_of_workers() -> None:
    """Half of the workers mark only one type, the others only the other; each text has a worker of each kind."""
    rng = np.random.default_rng(0)
    gold = [[(1, 2, "A"), (4, 5, "B")] for _ in range(200)]
    votes: dict[str, list[list[tuple[int, int, str]] | None]] = {f"w{number}": [] for number in range(10)}
    for _ in gold:
        chosen = rng.integers(5), 5 + rng.integers(5)
        for number, name in enumerate(votes):
            kind, at = ("A", 1) if number < 5 else ("B", 4)
            votes[name].append([(at, at + 1, kind)] if number in chosen and rng.random() < 0.9 else [])
            if number not in chosen:
                votes[name][-1] = None
    data = cv.Dataset.from_spans(["A", "B"], [["w"] * 6] * 200, votes, gold=gold, unmarked="outside")
    assert f1(cv.Segment(), data) > 0.9


def test_a_refit_continues_from_the_counts(tmp_path: Path) -> None:
    data = worlds(4)
    model = cv.Segment().fit(data)
    tokens = model.fitted.params["counts.tokens"]
    model.fit(worlds(5))
    assert model.fitted.params["counts.tokens"] == pytest.approx(tokens + len(data.tokens))
    model.save(tmp_path / "model")
    loaded = cv.load_model(tmp_path / "model").fit(worlds(6))
    model.fit(worlds(6))
    assert loaded.predict(data).labels.tobytes() == model.predict(data).labels.tobytes()


def test_sources_without_votes_are_named(toy: cv.Dataset) -> None:
    with pytest.warns(cv.ConvenerWarning, match="segment: sources without votes: silent"):
        cv.Segment().fit(toy)


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_data_without_marks_has_no_spans() -> None:
    data = cv.Dataset.from_spans(["X"], [["a", "b"], []], {"s": [[], []], "t": [None, []]})
    predictions = cv.Segment().fit(data).predict(data)
    assert not len(predictions.spans)
    np.testing.assert_allclose(predictions.probabilities, [[1, 0, 0], [1, 0, 0]])


def test_coarse_votes_are_abstentions() -> None:
    data = cv.Dataset.from_spans(
        ["PER", "ENT"],
        [["Ada", "ran"]] * 4,
        {"s": [[(0, 1, "PER")]] * 4, "any": [[(0, 1, "ENT")]] * 4, "t": [[(0, 1, "PER")]] * 4},
    ).with_coarse({"ENT": "any"})
    model = cv.Segment()
    with pytest.warns(cv.ConvenerWarning):
        model.fit(data)
    assert model.predict(data).tags() == [["B-PER", "O"]] * 4


@pytest.mark.filterwarnings("ignore:segment. on this data it is probably worse than a simple vote")
def test_the_threshold_decides_which_spans_are_kept() -> None:
    data = worlds(7)
    counts = [len(cv.Segment(threshold=value).fit(data).predict(data).spans) for value in (0.0, 0.4, 0.9)]
    assert counts[0] > counts[1] > counts[2]
    with pytest.raises(cv.ConfigError, match="threshold must be in"):
        cv.Segment(threshold=1.5)


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_a_worker_is_presumed_too_long_as_often_as_too_short() -> None:
    """Marks whose bounds all agree tell nothing of wrong bounds: what is left is the prior."""
    marks: list[list[tuple[int, int, str]]] = [[(0, 2, "X")], []] * 10
    for unmarked in ("outside", "abstain"):
        votes = {"ann": [*marks, [(0, 2, "X")]], "bob": [*marks, []]}
        data = cv.Dataset.from_spans(["X"], [["a", "b", "c"]] * 21, votes, unmarked=unmarked)
        boundary = cv.Segment().fit(data).fitted.params["counts.boundary"]
        if unmarked == "outside":
            assert boundary[:, SHORT] == pytest.approx(boundary[:, LONG])
        else:
            assert (boundary[:, SHORT] > boundary[:, LONG]).all()
