"""Coarse votes in networks: evidence and gradient are sums over the labels that a vote allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import convener as cv
from convener.models.chmm import CHMMNetwork
from convener.models.chmm_fe import FixedEmissionNetwork
from tests.models import test_chmm_network as test_chmm
from tests.models.sparse_chmm import test_network as test_sparse
from tests.neural.gradients import gradient_is_right


@pytest.fixture(scope="module")
def coarse(encoded: cv.Dataset) -> cv.Dataset:
    """Some sentences in which sources also vote "some entity" and "not PER"."""
    data = encoded[:6].with_coarse({"ENT": "any", "NOT-PER": "not PER"})
    rng = np.random.default_rng(0)
    votes = np.where(rng.random(data.votes.shape) < 0.4, rng.integers(5, 9, data.votes.shape), 0)
    votes = np.where(votes > 0, votes, data.votes).astype(np.int16)
    return data.with_sources(data.sources, votes, data.unmarked)


@pytest.mark.parametrize("kind", [CHMMNetwork, FixedEmissionNetwork])
def test_evidence_of_chmm_is_a_sum_over_the_allowed_labels(coarse: cv.Dataset, kind: Any) -> None:
    net, batch = test_chmm.net_for(coarse.without_coarse(), kind), test_chmm.batch_of(coarse)
    with torch.no_grad():
        found = net.log_evidence(batch)
        allowed = coarse.allowed_labels()
        for t, row in enumerate(coarse.votes[:20].tolist()):
            for i in range(5):
                expected = 0.0
                for k, vote in enumerate(row):
                    members = np.flatnonzero(allowed[vote]) if vote >= 0 else []
                    each = [test_chmm.emission_of(net, batch.tokens[t], k, i, j) for j in members]
                    expected += np.log(sum(each)) if each else 0
                assert float(found[t, i]) == pytest.approx(expected, abs=1e-8)


def test_evidence_of_sparse_chmm_is_a_sum_over_the_allowed_labels(coarse: cv.Dataset) -> None:
    net, batch = test_sparse.net_for(coarse.without_coarse()), test_sparse.batch_of(coarse)
    with torch.no_grad():
        net.wxor.uniform_(0, 0.2)
        found, emissions = net.log_evidence(batch), net.emission(batch.sentences)
    sentence, allowed = coarse.sentence_of_token(), coarse.allowed_labels()
    for t, row in enumerate(coarse.votes.tolist()):
        expected = torch.zeros(5, dtype=torch.float64)
        for k, vote in enumerate(row):
            if vote >= 0:
                expected += emissions[sentence[t], k][:, allowed[vote]].sum(1).log()
        torch.testing.assert_close(found[t], expected)


@pytest.mark.parametrize("sample", [False, True])
def test_gradients_pass_through_coarse_votes(coarse: cv.Dataset, sample: bool) -> None:
    data = coarse.take([0, 1])
    for test in (test_chmm, test_sparse):
        net, batch = test.net_for(data.without_coarse()), test.batch_of(data)  # type: ignore[attr-defined]
        if sample:
            net.log_evidence(batch, torch.Generator().manual_seed(0)).sum().backward()
            grads = [p.grad for p in net.parameters() if p.grad is not None]
            assert grads
            assert all(torch.isfinite(grad).all() for grad in grads)
        else:
            assert gradient_is_right(net, batch, 1.0, fast_mode=True)


def test_a_batch_of_some_sentences_is_a_view(coarse: cv.Dataset) -> None:
    from convener.neural.batch import PackedDataset

    net = test_sparse.net_for(coarse.without_coarse()).float()
    packed = PackedDataset.from_dataset(coarse)
    with torch.no_grad():
        complete = net.log_evidence(packed.batch())
        parts = [net.log_evidence(packed.batch(at, min(at + 2, len(coarse)))) for at in (0, 2, 4)]
    torch.testing.assert_close(torch.cat(parts), complete)
    abstaining = packed.replace_votes(np.full_like(packed.votes, -1))
    with torch.no_grad():
        assert not net.log_evidence(abstaining.batch()).any()
    assert replace(packed, coarse_cells=None).batch().coarse_cells is None
