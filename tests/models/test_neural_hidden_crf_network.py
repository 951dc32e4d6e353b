"""The network of Neural-Hidden-CRF against all labels and all votes, written out."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import convener as cv
from convener.inference.chain import forward_backward
from convener.models.dws import votes_loss
from convener.models.neural_hidden_crf import NeuralHiddenCRFNetwork
from convener.neural.batch import Batch
from convener.neural.crf import build_crf
from convener.neural.transition import ContextConfig
from tests.neural.crf_oracle import WIDTH, batch_of, paths_of, randomized, score_of, short_sentences
from tests.neural.gradients import gradient_by_weights_is_right


@pytest.fixture
def tiny() -> cv.Dataset:
    """One type, two sources and short sentences: few enough votes to enumerate; one source may abstain."""
    data = cv.Dataset.from_spans(
        ["PER"],
        [["Ada", "wrote"], ["Ada"], [], ["he", "met"]],
        {"names": [[(0, 2, "PER")], [], [], [(0, 1, "PER")]], "first": [[(0, 1, "PER")], None, [], None]},
    )
    return cv.encode(data, "hashing", width=8, cache=False)


def net_for(data: cv.Dataset, *, use_votes: bool = True) -> NeuralHiddenCRFNetwork:
    context = ContextConfig(context_window=1)
    net: NeuralHiddenCRFNetwork = randomized(
        NeuralHiddenCRFNetwork(WIDTH, len(data.sources), build_crf(data), context, use_votes=use_votes)
    )
    return net


def text_scores(net: NeuralHiddenCRFNetwork, batch: Batch, m: int) -> tuple[np.ndarray, np.ndarray]:
    """All label sequences of sentence m (P, T), and their scores by the text potentials (P,)."""
    rows = slice(*batch.offsets[m : m + 2])
    with torch.no_grad():
        scores = net.scorer(batch)[rows].numpy()
        start = (net.crf.start_transitions + net.crf.illegal_start_logits).numpy()
        transitions = (net.crf.transitions + net.crf.illegal_logits).numpy()
    paths = paths_of(len(start), rows.stop - rows.start)
    return paths, np.array([score_of(path, scores, start, transitions) for path in paths])


def joint_scores(net: NeuralHiddenCRFNetwork, batch: Batch, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All label sequences of sentence m (P, T), all votes (Q, T, K), and the score of every combination (P, Q)."""
    paths, text = text_scores(net, batch, m)
    num_sources, num_labels, _ = net.emission_logits.shape
    cells = paths.shape[1] * num_sources
    votes = np.array(list(product(range(num_labels), repeat=cells)), int)
    votes = votes.reshape(num_labels**cells, paths.shape[1], num_sources)
    potentials = net.emission_logits.detach().numpy()
    given_votes = np.zeros((len(paths), len(votes)))
    for p, path in enumerate(paths):
        for t, label in enumerate(path):
            for k in range(num_sources):
                given_votes[p] += potentials[k, label, votes[:, t, k]]
    return paths, votes, text[:, None] + given_votes


def agreeing(votes: np.ndarray, observed: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Which of all votes (Q, T, K) agree with the observed ones (T, K), where an abstention agrees with every vote."""
    result = np.ones(len(votes), bool)
    for t, k in zip(*np.nonzero(observed >= 0), strict=True):
        result &= allowed[observed[t, k]][votes[:, t, k]]
    return result


def log_likelihood(net: NeuralHiddenCRFNetwork, data: cv.Dataset, batch: Batch, m: int) -> float:
    """log p(votes | features) of sentence m, from the definition: two sums over labels and votes."""
    _, votes, scores = joint_scores(net, batch, m)
    observed = data.votes[slice(*data.offsets[m : m + 2])]
    kept = agreeing(votes, observed, data.allowed_labels())
    return float(np.logaddexp.reduce(scores[:, kept], axis=None) - np.logaddexp.reduce(scores, axis=None))


def test_the_loss_is_the_global_likelihood_of_the_votes(tiny: cv.Dataset) -> None:
    assert (tiny.votes == -1).any()
    net, batch = net_for(tiny), batch_of(tiny)
    expected = [log_likelihood(net, tiny, batch, m) for m in range(len(tiny))]
    assert expected[2] == 0
    np.testing.assert_allclose(votes_loss(net, batch, None).item(), -np.mean(expected), rtol=1e-9)


def test_a_coarse_vote_is_any_of_the_votes_it_allows(tiny: cv.Dataset) -> None:
    votes = tiny.votes.copy()
    votes[votes == 1] = 3  # B-ANY
    coarse = replace(tiny, tags=cv.TagSet(("PER", "ANY")), votes=votes).with_coarse({"ANY": "any"})
    assert (coarse.votes == 3).any()
    net, batch = net_for(coarse), batch_of(coarse)
    expected = [log_likelihood(net, coarse, batch, m) for m in range(len(coarse))]
    np.testing.assert_allclose(votes_loss(net, batch, None).item(), -np.mean(expected), rtol=1e-9)


def test_the_gradient_by_every_weight_is_right(tiny: cv.Dataset) -> None:
    net, batch = net_for(tiny), batch_of(tiny)
    assert gradient_by_weights_is_right(net, lambda: votes_loss(net, batch, None), atol=1e-6)


def test_the_chain_has_the_posterior_of_all_labels_given_the_votes(tiny: cv.Dataset) -> None:
    net, batch = net_for(tiny), batch_of(tiny)
    with torch.no_grad():
        chain = net.log_initial(), net.transition_logits(batch), net.log_evidence(batch)
    found = forward_backward(*(x.numpy() for x in chain), tiny.offsets).marginals
    for m in range(len(tiny)):
        rows = slice(*tiny.offsets[m : m + 2])
        paths, votes, scores = joint_scores(net, batch, m)
        kept = agreeing(votes, tiny.votes[rows], tiny.allowed_labels())
        posterior = np.exp(np.logaddexp.reduce(scores[:, kept], axis=1))
        for t in range(paths.shape[1]):
            expected = np.bincount(paths[:, t], posterior / posterior.sum(), len(tiny.tags))
            np.testing.assert_allclose(found[rows][t], expected, atol=1e-9)


def test_without_votes_the_chain_is_that_of_the_text_potentials(encoded: cv.Dataset) -> None:
    data = short_sentences(encoded)
    net, batch = net_for(data, use_votes=False), batch_of(data)
    with torch.no_grad():
        chain = net.log_initial(), net.transition_logits(batch), net.log_evidence(batch)
    found = forward_backward(*(x.numpy() for x in chain), data.offsets).marginals
    for m in range(len(data)):
        paths, scores = text_scores(net, batch, m)
        probabilities = np.exp(scores - np.logaddexp.reduce(scores))
        for t in range(paths.shape[1]):
            expected = np.bincount(paths[:, t], probabilities, len(data.tags))
            np.testing.assert_allclose(found[slice(*data.offsets[m : m + 2])][t], expected, atol=1e-9)
