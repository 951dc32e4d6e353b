"""Dawid-Skene, compared with a plain loop and with crowd-kit, and on crowds of known workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.ragged import StringArray
from convener.models import dawid_skene
from convener.models.dawid_skene import DawidSkene
from convener.models.em import EMTrace, run_em
from tests.helpers.crowd import make_crowd, score_model

# [source, true class, vote]: careful, fair, one that confuses the types, one that votes at random.
TRUE = np.array(
    [
        [[0.97, 0.02, 0.01], [0.05, 0.90, 0.05], [0.05, 0.05, 0.90]],
        [[0.90, 0.05, 0.05], [0.25, 0.70, 0.05], [0.10, 0.10, 0.80]],
        [[0.90, 0.05, 0.05], [0.20, 0.30, 0.50], [0.20, 0.60, 0.20]],
        [[0.40, 0.30, 0.30], [0.40, 0.30, 0.30], [0.40, 0.30, 0.30]],
    ]
)
BALANCE = np.array([0.6, 0.25, 0.15])


def independent_tokens(tokens: int, seed: int, abstains: float = 0.2) -> cv.Dataset:
    """Sentences of one token, whose votes are drawn from `TRUE`; gold is the true type."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, size=tokens, p=BALANCE)
    drawn = rng.random((tokens, len(TRUE), 1)) > TRUE[:, truth].swapaxes(0, 1).cumsum(axis=2)
    classes = drawn.sum(axis=2)
    votes = np.where(rng.random(classes.shape) < abstains, -1, np.maximum(2 * classes - 1, 0))
    return cv.Dataset(
        tags=cv.TagSet(("PER", "LOC")),
        tokens=StringArray.from_list(["w"] * tokens),
        offsets=np.arange(tokens + 1),
        sources=("careful", "fair", "muddled", "spammer"),
        votes=votes.astype(np.int16),
        unmarked=("outside",) * 4,
        gold=np.maximum(2 * truth - 1, 0).astype(np.int16),
    )


def confusion(model: cv.LabelModel) -> np.ndarray:
    counts = model.fitted.params["confusion"]
    return counts / counts.sum(axis=2, keepdims=True)


def plain_loop(data: cv.Dataset, steps: int, diagonal: float, rest: float) -> np.ndarray:
    """Posterior of the classes after some EM steps, as in textbooks."""
    votes = [[(int(v) + 1) // 2 if v >= 0 else None for v in row] for row in data.votes]
    tokens, sources, size = len(votes), len(data.sources), 1 + len(data.tags.types)
    posterior = np.zeros((tokens, size))
    for t, row in enumerate(votes):
        for vote in row:
            if vote is not None:
                posterior[t, vote] += 1
        if not posterior[t].any():
            posterior[t, 0] = 1
        posterior[t] /= posterior[t].sum()
    for _ in range(steps):
        balance = np.ones(size) + posterior.sum(axis=0)
        balance /= balance.sum()
        table = np.full((sources, size, size), rest / size)
        for k in range(sources):
            for i in range(size):
                table[k, i, i] += diagonal
            for t, row in enumerate(votes):
                if row[k] is not None:
                    table[k, :, row[k]] += posterior[t]
            table[k] /= table[k].sum(axis=1, keepdims=True)
        for t, row in enumerate(votes):
            for i in range(size):
                posterior[t, i] = balance[i]
                for k, vote in enumerate(row):
                    if vote is not None:
                        posterior[t, i] *= table[k, i, vote]
            posterior[t] /= posterior[t].sum()
    return posterior


def by_type(labels: cv.Predictions) -> np.ndarray:
    """Probabilities of O and the types."""
    p = labels.probabilities
    assert p is not None
    return np.concatenate([p[:, :1], p[:, 1::2] + p[:, 2::2]], axis=1)


@pytest.fixture
def record_traces(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], list[EMTrace]]:
    """A function that records the EM traces of all later fits of a module in the returned list."""

    def record(module: object) -> list[EMTrace]:
        traces: list[EMTrace] = []

        def recorded(*args: object, **settings: object) -> object:
            found, trace = run_em(*args, **settings)
            traces.append(trace)
            return found, trace

        monkeypatch.setattr(module, "run_em", recorded)
        return traces

    return record


@pytest.mark.parametrize("steps", [1, 7])
def test_the_posterior_equals_a_plain_loop(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = independent_tokens(120, seed=1)
    monkeypatch.setattr(dawid_skene, "DIAGONAL_VOTES", 1.5)
    monkeypatch.setattr(dawid_skene, "UNIFORM_VOTES", 0.3)
    model = DawidSkene(max_iter=steps, tol=0.0).fit(data)
    # The parameters after n steps give the posterior of the next one.
    expected = plain_loop(data, steps + 1, 1.5, 0.3)
    np.testing.assert_allclose(by_type(model.predict(data)), expected, atol=1e-6)


def test_the_posterior_equals_that_of_crowd_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    crowdkit = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    import pandas as pd

    data = independent_tokens(1500, seed=2)
    token, source = np.nonzero(data.votes >= 0)
    label = (data.votes[token, source] + 1) // 2
    frame = pd.DataFrame({"task": token, "worker": source, "label": label})
    theirs = crowdkit.DawidSkene(n_iter=16, tol=-1.0).fit(frame).probas_
    monkeypatch.setattr(dawid_skene, "DIAGONAL_VOTES", 0.0)
    monkeypatch.setattr(dawid_skene, "UNIFORM_VOTES", 1e-6)
    ours = DawidSkene(max_iter=15, tol=0.0).fit(data).predict(data)
    # crowd-kit has no prior for the classes, ours is one token for each, and no tokens without votes.
    np.testing.assert_allclose(by_type(ours)[theirs.index], theirs.to_numpy(), atol=1e-2)


def test_known_confusion_matrices_are_recovered() -> None:
    model = DawidSkene().fit(independent_tokens(20_000, seed=3))
    np.testing.assert_allclose(confusion(model), TRUE, atol=0.03)
    classes = model.fitted.params["classes"]
    np.testing.assert_allclose(classes / classes.sum(), BALANCE, atol=0.02)


def test_it_beats_majority_vote_if_a_source_confuses_types() -> None:
    data = independent_tokens(5000, seed=4)
    right = [(model.fit(data).predict(data).labels == data.gold).mean() for model in (DawidSkene(), cv.MajorityVote())]
    assert right[0] > right[1] + 0.03


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
@pytest.mark.parametrize("scheme", ["io", "bio"])
def test_the_objective_never_decreases(
    toy: cv.Dataset, record_traces: Callable[[object], list[EMTrace]], scheme: str
) -> None:
    traces = record_traces(dawid_skene)
    DawidSkene(scheme=scheme, tol=0.0).fit(toy)
    DawidSkene(scheme=scheme, tol=0.0).fit(independent_tokens(300, seed=5))
    assert len(traces) == 2
    for each in traces:
        assert np.diff(each.objective).min() > -1e-9


def test_the_order_of_sources_and_sentences_does_not_matter() -> None:
    people = make_crowd(7).data[:120]
    model = DawidSkene().fit(people)
    expected = model.predict(people).labels
    turned = people.select_sources(people.sources[::-1])
    assert (DawidSkene().fit(turned).predict(turned).labels == expected).all()
    mixed = people.take(np.random.default_rng(0).permutation(len(people)))
    assert (DawidSkene().fit(mixed).predict(people).labels == expected).all()


def test_a_second_fit_continues_from_the_counts() -> None:
    data = independent_tokens(20_000, seed=6)
    model = DawidSkene().fit(data[:3000])
    half = confusion(model)
    whole = confusion(model.fit(data[3000:]))
    assert abs(whole - TRUE).mean() < abs(half - TRUE).mean()
    np.testing.assert_allclose(whole, TRUE, atol=0.06)
    # A source without votes in the new data keeps its estimates.
    votes = data.votes[:100].copy()
    votes[:, 2] = -1
    absent = data[:100].with_sources(data.sources, votes, data.unmarked)
    model = DawidSkene().fit(data[:3000])
    with pytest.warns(cv.ConvenerWarning, match="muddled"):
        model.fit(absent)
    np.testing.assert_allclose(confusion(model)[2], half[2], atol=1e-9)


def test_a_source_without_votes_is_named() -> None:
    data = cv.Dataset.from_spans(["PER"], [["a", "b"]], {"x": [[(0, 1, "PER")]], "mute": [[]]})
    with pytest.warns(cv.ConvenerWarning, match="mute"):
        model = DawidSkene().fit(data)
    assert model.predict(data).tags() == [["B-PER", "O"]]


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_hundreds_of_sources_with_few_votes() -> None:
    rng = np.random.default_rng(8)
    data = independent_tokens(400, seed=8)
    votes = np.where(rng.random((400, 300)) < 0.01, data.gold[:, None], np.int16(0))
    names = tuple(f"s{k}" for k in range(300))
    for unmarked in ("abstain", "outside"):
        many = data.with_sources(names, votes.astype(np.int16), (unmarked,) * 300)
        labels = DawidSkene().fit(many).predict(many)
        assert labels.probabilities is not None
        assert np.isfinite(labels.probabilities).all()
        marked_twice = (votes > 0).sum(axis=1) > 1
        assert unmarked == "outside" or (labels.labels == data.gold)[marked_twice].all()


def test_spammers_are_found_and_majority_vote_is_beaten() -> None:
    people = make_crowd(11)
    f1, rank, _ = score_model(people, "dawid-skene")
    assert rank > 0.9
    assert f1 > score_model(people, "majority-vote")[0] + 0.02


@pytest.mark.parametrize(("name", "least"), [("LaptopReview", 73.27), ("NCBI-Disease", 78.44), ("BC5CDR", 83.4)])
def test_unmarked_tokens_do_not_outvote_on_real_data(real_data: Path, name: str, least: float) -> None:
    corpus = cv.read_corpus(real_data / name)
    found = cv.evaluate(DawidSkene().fit(corpus.train).predict(corpus.test), corpus.test).f1
    assert round(100 * found, 2) >= least


@pytest.mark.parametrize(
    "settings", [{"unmarked_weight": 0}, {"unmarked_weight": 2}, {"max_iter": 0}, {"prior_strength": -1}]
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(settings))):
        DawidSkene(**settings)
