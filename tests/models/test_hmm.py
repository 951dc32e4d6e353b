"""The hidden Markov model: EM against a plain one, and what it must withstand."""

from __future__ import annotations

import logging
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.ragged import StringArray
from convener.inference.chain import P_INITIAL_O
from convener.inference.evidence import sparsify_votes
from convener.models import em, hmm
from convener.models.majority_vote import initial_labels
from tests.conftest import crowd

# Data drawn token by token is broken into spans that no span model would expect.
pytestmark = pytest.mark.filterwarnings("ignore:.*probably worse than a simple vote")

HMM = cv.get_model("hmm")


def drawn(seed: int, sentences: int = 300) -> tuple[cv.Dataset, np.ndarray]:
    """Data drawn from a known chain with three sources, and the emissions it was drawn from."""
    rng = np.random.default_rng(seed)
    moves = np.array([[0.8, 0.2, 0], [0.4, 0.1, 0.5], [0.5, 0.1, 0.4]])
    emissions = np.array(
        [
            [[0.96, 0.02, 0.02], [0.2, 0.75, 0.05], [0.2, 0.05, 0.75]],
            [[0.98, 0.01, 0.01], [0.5, 0.45, 0.05], [0.5, 0.05, 0.45]],
            [[0.90, 0.05, 0.05], [0.3, 0.60, 0.10], [0.3, 0.10, 0.60]],
        ]
    )
    truth, votes, lengths = [], [], []
    for _ in range(sentences):
        label = 0
        lengths.append(int(rng.integers(3, 12)))
        for _ in range(lengths[-1]):
            label = int(rng.choice(3, p=moves[label]))
            truth.append(label)
            votes.append([int(rng.choice(3, p=emissions[k, label])) for k in range(3)])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = cv.Dataset(
        tags=cv.TagSet(("X",)),
        tokens=StringArray.from_list("w" for _ in truth),
        offsets=offsets,
        sources=("a", "b", "c"),
        votes=np.array(votes, np.int16),
        unmarked=("outside",) * 3,
        gold=np.array(truth, np.int16),
    )
    return data, emissions


def brute_force_step(
    data: cv.Dataset, moves: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Expected moves and emissions and the log-likelihood, by listing every path."""
    size = len(moves)
    begin = np.full(size, (1 - P_INITIAL_O) / (size - 1))
    begin[0] = P_INITIAL_O
    xi, seen, total = np.zeros((size, size)), np.zeros_like(emissions), 0.0
    for sentence in data:
        weights = {}
        for path in product(range(size), repeat=len(sentence.tokens) + 1):
            weight = begin[path[0]]
            for t, vote in enumerate(sentence.votes):
                weight *= moves[path[t], path[t + 1]]
                for k, said in enumerate(vote):
                    weight *= emissions[k, path[t + 1], said] if said >= 0 else 1
            weights[path] = weight
        norm = sum(weights.values())
        total += np.log(norm)
        for path, weight in weights.items():
            for t, vote in enumerate(sentence.votes):
                xi[path[t], path[t + 1]] += weight / norm
                for k, said in enumerate(vote):
                    if said >= 0:
                        seen[k, path[t + 1], said] += weight / norm
    return xi, seen, total


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_one_step_equals_a_step_over_all_paths() -> None:
    data = crowd(seed=1, sentences=12).select_sources(["good", "poor", "guest"])
    data = data.take(np.flatnonzero(data.lengths < 5))
    model = HMM(max_iter=1, tol=0, init_labels="majority", prior_strength=2, unmarked_weight=1)
    start = model._initial_counts(data, sparsify_votes(data.votes), [(1.0, initial_labels(data))])
    begin = start.normalize(data.tags.legal_transitions)
    xi, seen, _ = brute_force_step(data, begin.transition, begin.emission)
    params = model.fit(data).fitted.params
    prior = model._prior_counts(data, start)
    moves = np.where(data.tags.legal_transitions, xi + prior.transition + 1, 0)
    emissions = seen + prior.emission
    np.testing.assert_allclose(params["transition"], moves / moves.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(params["emission"], emissions / emissions.sum(axis=2, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("unmarked", ["abstain", "outside"])
def test_the_objective_never_falls(monkeypatch: pytest.MonkeyPatch, unmarked: str) -> None:
    data, _ = drawn(2, sentences=100)
    data = data.with_sources(data.sources, data.votes, (unmarked,) * 3)
    traces, loop = [], em.run_em
    monkeypatch.setattr(hmm, "run_em", lambda *given, **how: traces.append(loop(*given, **how)) or traces[-1])
    HMM(max_iter=30, tol=0).fit(data)
    objective = traces[0][1].objective
    assert len(objective) > 3
    assert (np.diff(objective) > -1e-7).all()


def test_it_recovers_the_emissions_it_was_drawn_from() -> None:
    data, truth = drawn(4, sentences=1500)
    params = HMM(init_labels="majority", max_iter=200).fit(data).fitted.params
    np.testing.assert_allclose(params["emission"], truth, atol=0.06)


def test_it_beats_majority_vote_on_data_of_its_own_kind() -> None:
    data, _ = drawn(5)
    score = cv.evaluate(HMM().fit(data).predict(data), data)
    assert score.f1 > score.majority_vote.micro.f1 + 0.02


def test_span_scores_are_probabilities_of_whole_spans() -> None:
    data, _ = drawn(6)
    labels = HMM().fit(data).predict(data)
    least = cv.Predictions(data=labels.data, labels=labels.labels, probabilities=labels.probabilities).spans.score
    assert (labels.spans.score <= least + 1e-5).all()


def test_fit_goes_on_where_it_was() -> None:
    data, _ = drawn(7)
    once = HMM(max_iter=6, tol=0).fit(data)
    twice = HMM(max_iter=3, tol=0).fit(data).fit(data)
    np.testing.assert_allclose(once.fitted.params["emission"], twice.fitted.params["emission"], atol=1e-6)


def test_fit_goes_on_with_new_data() -> None:
    data, _ = drawn(8)
    model = HMM().fit(data[:50])
    before = model.fitted.params["emission"].copy()
    after = model.fit(data[50:]).fitted.params["emission"]
    assert not np.allclose(before, after)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_a_byte(threads: int) -> None:
    data, _ = drawn(10)
    one, more = (HMM(num_threads=n).fit(data).predict(data) for n in (1, threads))
    assert one.labels.tobytes() == more.labels.tobytes()
    assert one.probabilities.tobytes() == more.probabilities.tobytes()


def test_order_of_sentences_and_sources_does_not_change_labels() -> None:
    data, _ = drawn(11)
    order = np.random.default_rng(0).permutation(len(data))
    straight = HMM().fit(data).predict(data).tags()
    mixed = HMM().fit(data.take(order)).predict(data).tags()
    turned = HMM().fit(data.select_sources(["c", "a", "b"])).predict(data).tags()
    assert straight == mixed == turned


def test_illegal_transitions_are_impossible() -> None:
    data, _ = drawn(12)
    transition = HMM().fit(data).fitted.params["transition"]
    assert (transition[~data.tags.legal_transitions] == 0).all()


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_hundreds_of_sources_that_mostly_abstain() -> None:
    data, _ = drawn(13, sentences=200)
    rng = np.random.default_rng(0)
    votes = np.full((len(data.tokens), 300), -1, np.int16)
    for source in range(300):
        seen = rng.choice(len(data), size=3, replace=False)
        rows = np.isin(data.sentence_of_token(), seen)
        votes[rows, source] = data.votes[rows, source % 3]
    many = data.with_sources([f"worker-{n}" for n in range(300)], votes, ("outside",) * 300)
    labels = HMM().fit(many).predict(many)
    assert np.isfinite(labels.probabilities).all()
    assert cv.evaluate(labels, data).f1 > 0.5


def test_a_source_that_never_speaks_is_named(toy: cv.Dataset) -> None:
    with pytest.warns(cv.ConvenerWarning, match="sources without votes: silent"):
        HMM().fit(toy)


def test_the_reason_for_stopping_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    data, _ = drawn(14, sentences=30)
    with caplog.at_level(logging.INFO, logger="convener"):
        HMM(max_iter=3, tol=0).fit(data)
        HMM(tol=1).fit(data)
    assert "hmm: all 3 steps done" in caplog.text
    assert "hmm: objective rose by less than 1 " in caplog.text


@pytest.mark.parametrize(
    ("setting", "value"),
    [("max_iter", 0), ("num_threads", 0), ("prior_strength", -1.0), ("tol", -1.0), ("unmarked_weight", 2.0)],
)
def test_settings_out_of_range_are_refused(setting: str, value: float) -> None:
    with pytest.raises(cv.ConfigError, match=setting):
        HMM(**{setting: value})


@pytest.mark.parametrize(("name", "least"), [("LaptopReview", 73.6), ("NCBI-Disease", 78.5), ("BC5CDR", 83.5)])
def test_unmarked_tokens_do_not_outvote_the_rest(real_data: Path, name: str, least: float) -> None:
    corpus = cv.read_corpus(real_data / name)
    score = cv.evaluate(HMM().fit(corpus.train).predict(corpus.test), corpus.test)
    assert 100 * score.f1 > least


def test_unmarked_tokens_become_entities_only_without_a_prior() -> None:
    """Dense single tokens: maximum likelihood takes unmarked tokens for missed entities."""
    rng = np.random.default_rng(0)
    truth = rng.random((6000, 1)) < 0.3
    votes = np.where(truth, rng.random((6000, 3)) < 0.7, rng.random((6000, 3)) < 0.05)
    data = cv.Dataset(
        tags=cv.TagSet(("PER",)),
        tokens=StringArray.from_list("w" for _ in range(6000)),
        offsets=np.arange(0, 6001, 20),
        sources=("a", "b", "c"),
        votes=votes.astype(np.int16),
        unmarked=("abstain",) * 3,
    )
    num_marked = np.count_nonzero(votes.any(axis=1))
    assert np.count_nonzero(HMM().fit(data).predict(data).labels) <= num_marked
    model = HMM(prior_strength=0, unmarked_weight=0.1)
    with pytest.warns(cv.ConvenerWarning, match="probably worse than a simple vote.*use segment or majority-vote"):
        model.fit(data)
    assert np.count_nonzero(model.predict(data).labels) > 2 * num_marked
