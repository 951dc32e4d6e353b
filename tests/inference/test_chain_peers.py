"""The chain with constant transitions, compared with other libraries."""

from __future__ import annotations

import numpy as np
import pytest

from convener.inference import chain, decoding
from tests.inference.chain_oracle import Chain

LENGTHS = [12, 1, 30, 7]


@pytest.fixture
def peer_case() -> tuple[Chain, np.ndarray, np.ndarray, np.ndarray]:
    """A chain over 4 labels and 6 symbols, with its initial, transition and emission probabilities."""
    rng = np.random.default_rng(5)
    start, transitions = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4)
    emission, symbols = rng.dirichlet(np.ones(6), 4), rng.integers(0, 6, sum(LENGTHS))
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    batch = Chain(np.log(start), np.log(transitions), np.log(emission[:, symbols].T), offsets)
    return batch, start @ transitions, emission, symbols


def test_hmmlearn_agrees(peer_case: tuple[Chain, np.ndarray, np.ndarray, np.ndarray]) -> None:
    hmm = pytest.importorskip("hmmlearn.hmm")
    batch, first, emission, symbols = peer_case
    peer = hmm.CategoricalHMM(n_components=4)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = first, np.exp(batch.trans), emission
    peer.n_features = 6
    ours = chain.forward_backward(*batch.arrays)
    score, posteriors = peer.score_samples(symbols[:, None], LENGTHS)
    np.testing.assert_allclose(ours.log_likelihood.sum(), score)
    np.testing.assert_allclose(ours.marginals, posteriors, atol=1e-10)
    best, path = peer.decode(symbols[:, None], LENGTHS)
    found = decoding.viterbi(*batch.arrays)
    np.testing.assert_allclose(found.scores.sum(), best)
    np.testing.assert_array_equal(found.labels, path)


def test_dynamax_agrees(peer_case: tuple[Chain, np.ndarray, np.ndarray, np.ndarray]) -> None:
    peer = pytest.importorskip("dynamax.hidden_markov_model")
    batch, first, _, _ = peer_case
    ours = chain.forward_backward(*batch.arrays)
    counts = chain.expected_counts(*batch.arrays)
    total = np.zeros((4, 4))
    for m in range(len(LENGTHS)):
        _, _, like = batch.sentence(m)
        rows = slice(batch.offsets[m], batch.offsets[m + 1])
        after = peer.hmm_two_filter_smoother(first, np.exp(batch.trans), like)
        np.testing.assert_allclose(ours.log_likelihood[m], after.marginal_loglik, rtol=1e-4)
        np.testing.assert_allclose(ours.marginals[rows], after.smoothed_probs, atol=1e-4)
        total += np.asarray(after.trans_probs) if after.trans_probs is not None else 0
    # The first transition of each sentence starts at z(0), which the peer does not have.
    full = chain.forward_backward(*batch.arrays, return_transitions=True)
    assert full.transition_posteriors is not None
    inner = counts.transition_counts - full.transition_posteriors[batch.offsets[:-1]].sum(0)
    np.testing.assert_allclose(inner, total, atol=1e-3)
