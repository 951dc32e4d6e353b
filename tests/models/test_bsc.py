"""Bayesian sequence combination, compared with enumeration and on crowds of known workers."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.ragged import RaggedArray, StringArray, lengths_to_offsets
from convener.inference.chain import default_log_initial
from convener.inference.evidence import sparsify_votes
from convener.models import bsc
from convener.models.bsc import BSC, BSCCounts, history_counts, history_evidence, prior_counts, with_previous_vote
from convener.models.em import EMTrace, run_em
from tests.helpers.crowd import make_crowd, score_model

# Random labels are broken into spans that no span model would expect.
pytestmark = pytest.mark.filterwarnings("ignore:.*probably worse than a simple vote")

SIZE = 3


def counts_of(model: cv.LabelModel) -> BSCCounts:
    """The counts of a fitted model."""
    params = model.fitted.params
    return BSCCounts(params["transition"], params["emission"])


def true_worker(hit: float, false: float, overrun: float) -> np.ndarray:
    """P(vote | true label, last vote) of a worker that marks spans as units.  [true, last, vote]"""
    worker = np.zeros((SIZE, SIZE, SIZE))
    worker[0, 0] = 1 - false, false, 0  # invents a span
    worker[0, 1:] = 1 - overrun, 0, overrun  # continues after the end of the span
    worker[1, 0] = 1 - hit, hit, 0
    worker[1, 1:] = 0.1, 0.8, 0.1
    worker[2, 0] = 0.95, 0.05, 0  # starts inside a span
    worker[2, 1:] = 0.05, 0.05, 0.9
    return worker


WORKERS = np.stack(
    [
        true_worker(0.9, 0.01, 0.05),
        true_worker(0.8, 0.02, 0.2),
        true_worker(0.6, 0.01, 0.1),
        true_worker(0.7, 0.05, 0.3),
        true_worker(0.3, 0.1, 0.6),
    ]
)
TRANSITION = np.array([[0.85, 0.15, 0.0], [0.4, 0.05, 0.55], [0.6, 0.05, 0.35]])


def generated_chain(sentences: int, seed: int, length: int = 20) -> cv.Dataset:
    """Gold drawn from `TRANSITION`, votes from `WORKERS`; each worker skips a fifth of the sentences."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((sentences, length), np.int16)
    votes = np.zeros((sentences, length, len(WORKERS)), np.int16)
    for m, t in product(range(sentences), range(length)):
        truth[m, t] = rng.choice(SIZE, p=TRANSITION[truth[m, t - 1] if t else 0])
        for k, worker in enumerate(WORKERS):
            last = votes[m, t - 1, k] if t else 0
            votes[m, t, k] = rng.choice(SIZE, p=worker[truth[m, t], last])
    votes[rng.random((sentences, 1, len(WORKERS))).repeat(length, axis=1) < 0.2] = -1
    return cv.Dataset(
        tags=cv.TagSet(("PER",)),
        tokens=StringArray.from_list(["w"] * truth.size),
        offsets=lengths_to_offsets([length] * sentences),
        sources=tuple(f"worker-{k}" for k in range(len(WORKERS))),
        votes=votes.reshape(-1, len(WORKERS)),
        unmarked=("outside",) * len(WORKERS),
        gold=truth.reshape(-1),
    )


@pytest.fixture(scope="module")
def chain() -> cv.Dataset:
    return generated_chain(600, seed=1)


def by_enumeration(counts: BSCCounts, votes: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Marginals (T, L), expected transitions (L, L) and log p(x) of one sentence, all paths summed."""
    transition, worker = (np.exp(logs) for logs in counts.log_probs())
    init, length = np.exp(default_log_initial(SIZE)), len(votes)
    marginals, expected, total = np.zeros((length, SIZE)), np.zeros((SIZE, SIZE)), 0.0
    for path in product(range(SIZE), repeat=length + 1):
        weight = init[path[0]]
        for t in range(length):
            weight *= transition[path[t], path[t + 1]]
            for k in range(votes.shape[1]):
                if votes[t, k] >= 0:
                    last = max(votes[t - 1, k], 0) if t else 0
                    weight *= worker[k, path[t + 1], last, votes[t, k]]
        total += weight
        for t in range(length):
            marginals[t, path[t + 1]] += weight
            expected[path[t], path[t + 1]] += weight
    return marginals / total, expected / total, float(np.log(total))


def test_pairs_begin_with_o_and_skip_abstentions() -> None:
    votes = np.array([[1, -1], [2, 1], [1, -1], [0, 2]], np.int16)
    pairs = with_previous_vote(votes, np.array([0, 0, 2, 4, 4]), 3)
    assert pairs.tolist() == [[1, -1], [5, 1], [1, -1], [3, 2]]


def test_evidence_and_counts_equal_plain_loops() -> None:
    rng = np.random.default_rng(2)
    votes = rng.integers(-1, 5, size=(40, 3)).astype(np.int16)
    votes[:, 1] = np.where(rng.random(40) < 0.8, 0, votes[:, 1])
    pairs = with_previous_vote(votes, np.array([0, 15, 40]), 5)
    log_votes = rng.normal(size=(3, 5, 5, 5))
    marginals = rng.dirichlet(np.ones(5), size=40)
    evidence, counts = np.zeros((40, 5)), np.zeros((3, 5, 5, 5))
    for n, k in zip(*np.nonzero(pairs >= 0), strict=True):
        last, vote = divmod(int(pairs[n, k]), 5)
        evidence[n] += log_votes[k, :, last, vote]
        counts[k, :, last, vote] += marginals[n]
    sparse = sparsify_votes(pairs)
    np.testing.assert_allclose(history_evidence(sparse, log_votes), evidence, atol=1e-12)
    np.testing.assert_allclose(history_counts(sparse, marginals), counts, atol=1e-12)


def test_prior_counts_are_positive_in_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.zeros((2, 5, 5, 5))
    counts[0, 0, 0, 0] = 100
    monkeypatch.setattr(bsc, "POOLED_VOTES", 0.0)
    monkeypatch.setattr(bsc, "DIAGONAL_VOTES", 0.0)
    prior = prior_counts(counts, np.array([3.0, 0.0]), false_votes=np.full(2, 10.0))
    assert (prior > 0).all()
    assert prior[0, 0, 0, 0] > 300
    np.testing.assert_allclose(prior[1, 0, 0, 1:].sum(), 10, atol=0.5)


def test_the_posterior_equals_an_enumeration() -> None:
    data = generated_chain(12, seed=3, length=5)
    model = BSC(max_iter=3).fit(data)
    counts = counts_of(model)
    found = model.predict_proba(data)
    for number, votes in enumerate(RaggedArray(data.votes, data.offsets)):
        expected, _, _ = by_enumeration(counts, votes)
        np.testing.assert_allclose(found[number], expected, atol=1e-5)


def test_an_em_step_equals_an_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = generated_chain(12, seed=4, length=4), BSC(max_iter=1)
    pairs = model._vote_pairs(data)
    first = model._initial_counts(data, pairs)
    prior = model._prior_counts(data, first)
    each = [by_enumeration(prior.add(first), votes) for votes in RaggedArray(data.votes, data.offsets)]
    transition = prior.transition + sum(expected for _, expected, _ in each)
    votes = prior.emission + history_counts(pairs, np.concatenate([m for m, _, _ in each]))
    traces = record_traces(monkeypatch)
    params = model.fit(data).fitted.params
    np.testing.assert_allclose(params["transition"], np.where(data.tags.legal_transitions, transition, 0), atol=1e-9)
    np.testing.assert_allclose(params["emission"], votes, atol=1e-9)
    logs = prior.add(first).log_probs()
    legal = data.tags.legal_transitions
    log_prior = (prior.emission * logs.emission).sum() + (prior.transition[legal] * logs.transition[legal]).sum()
    value = (sum(score for *_, score in each) + log_prior) / len(data.tokens)
    np.testing.assert_allclose(traces[0].objective[0], value, atol=1e-12)


def record_traces(monkeypatch: pytest.MonkeyPatch) -> list[EMTrace]:
    """Record the EM traces of all later fits in the returned list."""
    traces: list[EMTrace] = []

    def recorded(*args: object, **settings: object) -> object:
        found, trace = run_em(*args, **settings)
        traces.append(trace)
        return found, trace

    monkeypatch.setattr(bsc, "run_em", recorded)
    return traces


def worker_errors(model: cv.LabelModel) -> np.ndarray:
    """Absolute errors of the emissions, for last votes O and B."""
    found = np.exp(counts_of(model).log_probs().emission)
    return np.abs(found - WORKERS)[:, [0, 0, 1, 2], [0, 1, 0, 1]]


def test_known_workers_are_recovered(chain: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POOLED_VOTES", "DIAGONAL_VOTES", "FALSE_SPANS"):
        monkeypatch.setattr(bsc, name, 0.1)
    model = BSC(max_iter=200, tol=1e-8).fit(chain)
    errors = worker_errors(model)
    assert errors.mean() < 0.03
    assert errors.max() < 0.15
    transition = np.exp(counts_of(model).log_probs().transition)
    np.testing.assert_allclose(transition, TRANSITION, atol=0.07)


def test_it_beats_majority_vote_and_dawid_skene_on_generated_data(chain: cv.Dataset) -> None:
    f1 = {
        name: cv.evaluate(cv.get_model(name)().fit(chain).predict(chain), chain).f1
        for name in ("bsc", "dawid-skene", "majority-vote")
    }
    assert f1["bsc"] > f1["dawid-skene"] + 0.02
    assert f1["bsc"] > f1["majority-vote"] + 0.02


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_the_objective_never_decreases(toy: cv.Dataset, chain: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = record_traces(monkeypatch)
    model = BSC(tol=0.0).fit(toy)
    model.fit(toy)
    BSC(tol=0.0).fit(chain[:100])
    assert len(traces) == 3
    for trace in traces:
        assert np.diff(trace.objective).min(initial=0.0) > -1e-9


def test_order_and_threads_do_not_matter() -> None:
    people = make_crowd(7).data[:100]
    expected = BSC().fit(people).predict(people)
    turned = people.select_sources(people.sources[::-1])
    mixed = people.take(np.random.default_rng(0).permutation(len(people)))
    assert (BSC().fit(turned).predict(turned).labels == expected.labels).all()
    assert (BSC().fit(mixed).predict(people).labels == expected.labels).all()
    two = BSC(num_threads=2).fit(people).predict(people)
    assert expected.probabilities is not None
    assert two.probabilities is not None
    assert two.probabilities.tobytes() == expected.probabilities.tobytes()


def test_a_second_fit_continues_from_the_counts(chain: cv.Dataset) -> None:
    model = BSC().fit(chain[:60])
    before = worker_errors(model).mean()
    model.fit(chain[60:])
    assert worker_errors(model).mean() < before
    known = counts_of(model).log_probs().emission[2]
    votes = chain[:60].votes.copy()
    votes[:, 2] = -1
    with pytest.warns(cv.ConvenerWarning, match="worker-2"):
        model.fit(chain[:60].with_sources(chain.sources, votes, chain.unmarked))
    np.testing.assert_allclose(counts_of(model).log_probs().emission[2], known, atol=1e-12)


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
@pytest.mark.parametrize("unmarked", ["abstain", "outside"])
def test_hundreds_of_sources_with_few_votes(unmarked: str) -> None:
    rng = np.random.default_rng(8)
    gold = generated_chain(30, seed=8)
    sees = (rng.random((30, 1, 300)) < 0.05).repeat(20, axis=1).reshape(600, 300)
    votes = np.where(sees, gold.gold[:, None], 0 if unmarked == "abstain" else -1).astype(np.int16)
    names = tuple(f"s{k}" for k in range(300))
    many = gold.with_sources(names, votes, (unmarked,) * 300)
    labels = BSC().fit(many).predict(many)
    assert labels.probabilities is not None
    assert np.isfinite(labels.probabilities).all()
    assert cv.evaluate(labels, many).f1 > 0.95


def test_too_many_types_are_refused() -> None:
    types = [f"T{n}" for n in range(91)]
    data = cv.Dataset.from_spans(types, [["a"]], {"x": [[(0, 1, "T3")]]})
    with pytest.raises(cv.DataError, match="at most 90 entity types, got 91"):
        BSC().fit(data)


def test_spammers_are_found_and_majority_vote_is_beaten() -> None:
    people = make_crowd(11)
    f1, rank, _ = score_model(people, "bsc")
    assert rank > 0.9
    assert f1 > score_model(people, "majority-vote")[0] + 0.02


@pytest.mark.parametrize(("name", "least"), [("LaptopReview", 73.4), ("NCBI-Disease", 78.1), ("BC5CDR", 83.5)])
def test_unmarked_tokens_do_not_outvote_on_real_data(real_data: Path, name: str, least: float) -> None:
    corpus = cv.read_corpus(real_data / name)
    found = cv.evaluate(BSC().fit(corpus.train).predict(corpus.test), corpus.test).f1
    assert 100 * found >= least


@pytest.mark.parametrize("settings", [{"max_iter": 0}, {"num_threads": 0}, {"prior_strength": -1}, {"tol": -1}])
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(settings))):
        BSC(**settings)
