"""The network of DWS, compared with enumeration of all paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import convener as cv
from convener.inference.chain import forward_backward
from convener.models.dws import DWSNetwork, votes_loss
from convener.neural.batch import Batch
from convener.neural.crf import CRF, build_crf, set_transitions
from convener.neural.transition import ContextConfig
from tests.neural.crf_oracle import WIDTH, batch_of, paths_of, randomized, score_of, short_sentences
from tests.neural.gradients import gradient_by_weights_is_right


@pytest.fixture
def short(encoded: cv.Dataset) -> cv.Dataset:
    return short_sentences(encoded)


def net_for(data: cv.Dataset) -> DWSNetwork:
    context = ContextConfig(context_window=1)
    net: DWSNetwork = randomized(DWSNetwork(WIDTH, len(data.sources), build_crf(data), context))
    return net


def log_votes(net: DWSNetwork, data: cv.Dataset, batch: Batch, m: int) -> tuple[np.ndarray, np.ndarray]:
    """log p(z | features) and log p(votes | z) of each path of sentence m."""
    size, rows = len(data.fine_tags), slice(*data.offsets[m : m + 2])
    paths = paths_of(size, rows.stop - rows.start)
    with torch.no_grad():
        scores = net.scorer(batch)[rows].numpy()
        start = (net.crf.start_transitions + net.crf.illegal_start_logits).numpy()
        transitions = (net.crf.transitions + net.crf.illegal_logits).numpy()
        emissions = net.emission_logits.softmax(2).numpy()
    prior = np.array([score_of(path, scores, start, transitions) for path in paths])
    allowed = data.allowed_labels()
    like = np.zeros(len(paths))
    for number, path in enumerate(paths):
        for t, label in enumerate(path):
            for k, vote in enumerate(data.votes[rows][t]):
                if vote >= 0:
                    like[number] += np.log(emissions[k, label, allowed[vote]].sum())
    return prior - np.logaddexp.reduce(prior), like


def test_the_loss_is_minus_the_marginal_likelihood_of_the_votes(short: cv.Dataset) -> None:
    net, batch = net_for(short), batch_of(short)
    both = [log_votes(net, short, batch, m) for m in range(len(short))]
    expected = [np.logaddexp.reduce(prior + like) for prior, like in both]
    found = votes_loss(net, batch, None)
    np.testing.assert_allclose(found.item(), -np.mean(expected), rtol=1e-9)


def test_a_coarse_vote_has_the_probability_of_all_labels_it_allows(short: cv.Dataset) -> None:
    votes = short.votes.copy()
    votes[votes == 3] = 5  # B-ANY
    tags = cv.TagSet((*short.tags.types, "ANY"))
    coarse = replace(short, tags=tags, votes=votes).with_coarse({"ANY": "any"})
    assert (votes == 5).any()
    net, batch = net_for(coarse), batch_of(coarse)
    both = [log_votes(net, coarse, batch, m) for m in range(len(coarse))]
    expected = [np.logaddexp.reduce(prior + like) for prior, like in both]
    np.testing.assert_allclose(votes_loss(net, batch, None).item(), -np.mean(expected))


def test_the_chain_has_the_posterior_of_all_paths(short: cv.Dataset) -> None:
    net, batch = net_for(short), batch_of(short)
    with torch.no_grad():
        chain = net.log_initial(), net.transition_logits(batch), net.log_evidence(batch)
    found = forward_backward(*(x.numpy() for x in chain), short.offsets).marginals
    for m in range(len(short)):
        joint = np.add(*log_votes(net, short, batch, m))
        p, rows = np.exp(joint - np.logaddexp.reduce(joint)), slice(*short.offsets[m : m + 2])
        paths = paths_of(len(short.tags), rows.stop - rows.start)
        for t in range(paths.shape[1]):
            expected = np.bincount(paths[:, t], p, len(short.tags))
            np.testing.assert_allclose(found[rows][t], expected, atol=1e-9)


def test_the_gradient_by_every_weight_is_right(short: cv.Dataset) -> None:
    data = short.take([0, 3]).select_sources(["good", "guest"])
    net, batch = net_for(data), batch_of(data)
    assert gradient_by_weights_is_right(net, lambda: votes_loss(net, batch, None), atol=1e-6)


def test_the_initial_prior_is_the_markov_chain_of_its_transitions(encoded: cv.Dataset) -> None:
    data = encoded.select_sources(["good"])
    transitions = np.random.default_rng(0).dirichlet(np.ones(5), 5)
    net = DWSNetwork(WIDTH, 1, CRF(5)).double()
    set_transitions(net.crf, transitions)
    batch = batch_of(data)
    with torch.no_grad():
        prior = net.log_evidence(batch) - net.vote_log_evidence(batch)
        chain = net.log_initial(), net.transition_logits(batch), prior
    found = forward_backward(*(x.numpy() for x in chain), data.offsets, return_transitions=True)
    np.testing.assert_allclose(found.log_likelihood, 0, atol=1e-9)  # normalised: Z is 1
    expected = np.array([1.0, 0, 0, 0, 0])
    longest = int(data.lengths.argmax())
    for row in found.marginals[slice(*data.offsets[longest : longest + 2])]:
        expected = expected @ transitions
        np.testing.assert_allclose(row, expected, atol=1e-9)
