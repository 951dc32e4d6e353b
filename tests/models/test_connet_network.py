"""The network of ConNet, compared with enumeration of all paths."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import convener as cv
from convener.inference.chain import forward_backward
from convener.models.connet import ConNetNetwork, consensus_loss, sources_loss
from convener.neural.batch import Batch
from convener.neural.crf import build_crf
from convener.neural.transition import ContextConfig
from tests.neural.crf_oracle import WIDTH, batch_of, paths_of, randomized, score_of, short_sentences
from tests.neural.gradients import gradient_by_weights_is_right


@pytest.fixture
def short(encoded: cv.Dataset) -> cv.Dataset:
    return short_sentences(encoded)


def net_for(data: cv.Dataset, *, use_votes: bool = True) -> ConNetNetwork:
    field, context = build_crf(data), ContextConfig(context_window=1)
    net: ConNetNetwork = randomized(ConNetNetwork(WIDTH, len(data.sources), field, context, use_votes=use_votes))
    size = len(data.fine_tags)
    net.set_emission(torch.randn(len(data.sources), size, size, dtype=torch.float64))
    return net


def log_labels(net: ConNetNetwork, view: np.ndarray, batch: Batch, m: int) -> np.ndarray:
    """log p(z | features) of each path of sentence m, given a source matrix (L, L)."""
    rows = slice(*batch.offsets[m : m + 2])
    with torch.no_grad():
        scores = net.scorer(batch)[rows].numpy() @ view
        start = net.crf.start_transitions.numpy() @ view + net.crf.illegal_start_logits.numpy()
        transitions = net.crf.transitions.numpy() @ view + net.crf.illegal_logits.numpy()
    paths = paths_of(len(view), rows.stop - rows.start)
    energy = np.array([score_of(path, scores, start, transitions) for path in paths])
    return energy - np.logaddexp.reduce(energy)


def view_of(net: ConNetNetwork, batch: Batch, m: int) -> np.ndarray:
    """The mixed source matrix A* of sentence m, by its definition."""
    with torch.no_grad():
        logits = net.attention(batch.sentences[m]).numpy()
        share = np.exp(logits) / np.exp(logits).sum()
        return sum(q * view.numpy() for q, view in zip(share, net.source_matrices, strict=True))


def log_allowed(log_p: np.ndarray, votes: np.ndarray, size: int) -> float:
    """Log-probability of all paths that agree with the votes (T,), abstaining anywhere."""
    paths = paths_of(size, len(votes))
    agree = ((paths == votes) | (votes == -1)).all(axis=1)
    return float(np.logaddexp.reduce(log_p[agree]))


def test_the_decoupling_loss_is_the_likelihood_of_the_votes_of_each_source(short: cv.Dataset) -> None:
    net, batch = net_for(short), batch_of(short)
    expected = [
        log_allowed(
            log_labels(net, view, batch, m),
            short.votes[slice(*short.offsets[m : m + 2]), k],
            len(short.tags),
        )
        for k, view in enumerate(net.source_matrices.detach().numpy())
        for m in range(len(short))
    ]
    found = sources_loss(net, batch, None)
    np.testing.assert_allclose(found.item(), -np.sum(expected) / len(short), rtol=1e-9)


def test_the_loss_of_abstaining_sources_is_zero(short: cv.Dataset) -> None:
    mute = short.with_sources(short.sources, np.full_like(short.votes, -1), short.unmarked)
    loss = sources_loss(net_for(mute), batch_of(mute), None)
    np.testing.assert_allclose(loss.item(), 0, atol=1e-12)


def test_the_aggregation_loss_is_the_likelihood_of_the_last_column(short: cv.Dataset) -> None:
    net, batch = net_for(short), batch_of(short)
    expected = [
        log_allowed(
            log_labels(net, view_of(net, batch, m), batch, m),
            short.votes[slice(*short.offsets[m : m + 2]), -1],
            len(short.tags),
        )
        for m in range(len(short))
    ]
    found = consensus_loss(net, batch, None)
    np.testing.assert_allclose(found.item(), -np.mean(expected), rtol=1e-9)


@pytest.mark.parametrize("use_votes", [True, False])
def test_labels_have_the_posterior_of_all_paths(short: cv.Dataset, use_votes: bool) -> None:
    net, batch = net_for(short, use_votes=use_votes), batch_of(short)
    with torch.no_grad():
        chain = net.log_initial(), net.transition_logits(batch), net.log_evidence(batch)
    found = forward_backward(*(x.numpy() for x in chain), short.offsets).marginals
    emissions = net.mean_emission(batch.tokens).numpy()
    np.testing.assert_allclose(emissions.sum(axis=2), 1)
    for m in range(len(short)):
        rows = slice(*short.offsets[m : m + 2])
        paths = paths_of(len(short.tags), rows.stop - rows.start)
        joint = log_labels(net, view_of(net, batch, m), batch, m)
        for t in range(paths.shape[1] if use_votes else 0):
            for k, vote in enumerate(short.votes[rows][t]):
                joint = joint + (np.log(emissions[k, paths[:, t], vote]) if vote >= 0 else 0)
        p = np.exp(joint - np.logaddexp.reduce(joint))
        for t in range(paths.shape[1]):
            expected = np.bincount(paths[:, t], p, len(short.tags))
            np.testing.assert_allclose(found[rows][t], expected, atol=1e-9)


@pytest.mark.parametrize("loss", [sources_loss, consensus_loss])
def test_the_gradient_by_every_weight_is_right(short: cv.Dataset, loss: object) -> None:
    data = short.take([0, 3]).select_sources(["good", "guest"])
    net, batch = net_for(data), batch_of(data)
    assert callable(loss)
    assert gradient_by_weights_is_right(net, lambda: loss(net, batch, None), atol=1e-6)


def test_initially_all_sources_have_the_same_potentials(short: cv.Dataset) -> None:
    net = ConNetNetwork(WIDTH, len(short.sources), build_crf(short)).double()
    torch.nn.init.normal_(net.crf.transitions)
    torch.nn.init.normal_(net.scorer.linear.weight)
    batch = batch_of(short)
    with torch.no_grad():
        scores, transitions = net.crf.potentials(net.scorer(batch), batch.offsets)
        for view in net.source_matrices:
            potentials = net.potentials_through(net.scorer(batch), view, batch.offsets)
            torch.testing.assert_close(potentials[0], scores)
            torch.testing.assert_close(potentials[1], transitions)
        torch.testing.assert_close(net.consensus_potentials(batch)[0], scores)
