"""The network of Sparse-CHMM against the equations of the paper, written out."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import convener as cv
from convener.models.sparse_chmm import network
from convener.models.sparse_chmm.network import SparseCHMMNetwork
from convener.models.sparse_chmm.prior import SparsePrior
from convener.neural.batch import PackedDataset
from tests.neural.gradients import assert_loss_equals_the_reference, gradient_is_right

PRIOR = SparsePrior(h_n=1.2, h_s=1.5, g_n=4, g_r=0.05, nu_base=2, nu_expan=100)


def net_for(data: cv.Dataset, columns: int | None = None, **changes: object) -> SparseCHMMNetwork:
    torch.manual_seed(1)
    labels = len(data.tags)
    prior = replace(PRIOR, **changes)  # type: ignore[arg-type]
    net = SparseCHMMNetwork(24, len(data.sources), labels, columns or labels, prior)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return net.double()


def batch_of(data: cv.Dataset):  # type: ignore[no-untyped-def]
    batch = PackedDataset.from_dataset(data).batch()
    return replace(
        batch,
        tokens=batch.tokens.double(),
        sentences=batch.sentences.double(),
        log_evidence_offset=batch.log_evidence_offset.double(),
    )


def emission(net: SparseCHMMNetwork, row: torch.Tensor, k: int, i: int, j: int) -> float:
    """One entry of Omega / sum(Omega), computed with scalars from the equations of the paper."""
    size, prior = net.num_labels, net.prior
    count = net.num_sources
    logits = net.reliability_layer(row).view(count, net.num_scores)
    column = i if net.num_scores == size else (i + 1) // 2

    def score(k: int) -> float:
        if column == 0:
            return float(logits[k, 0].sigmoid())
        share = float(logits[:, column].softmax(0)[k])
        u = min(max(share ** (1 / prior.h_s), 1e-6), 1 - 1e-6)
        r, n = 1 / count, prior.h_n
        return u**n / r ** (n - 1) if u < r else 1 - (1 - u) ** n / (1 - r) ** (n - 1)

    def g(a: float) -> float:
        n, r = prior.g_n, float(net.g_r)
        c = (2 - size) / ((n - 1) * r**n - n * r ** (n - 1))
        low = lambda x: c * x**n + (1 - size) * x + 1  # noqa: E731
        return low(a) if a <= r else low(r) * (a - 1) / (r - 1)

    def base(i: int, j: int, a: float) -> float:
        if i == j:
            return a
        if i == 0:
            return (1 - a) / (size - 1)
        return g(a) if j == 0 else (1 - a - g(a)) / (size - 2)

    scales = net.addon_layer(row).sigmoid().view(count, size)
    omega = [
        prior.nu_expan * (base(i, q, score(k)) + float(scales[k, q] * net.wxor[k, q, i])) + float(net.nu_base)
        for q in range(size)
    ]
    return omega[j] / sum(omega)


def test_emissions_are_those_of_the_definition(encoded: cv.Dataset) -> None:
    for columns in (5, 3):
        net = net_for(encoded, columns)
        net.wxor.copy_(torch.rand(net.wxor.shape))
        net.wxor[:, 0] = net.wxor[:, :, 0] = 0
        row = batch_of(encoded).sentences[4]
        with torch.no_grad():
            found = net.emission(row[None])[0]
            for k, i, j in product(range(net.num_sources), range(5), range(5)):
                assert abs(float(found[k, i, j]) - emission(net, row, k, i, j)) < 1e-6


def test_evidence_is_the_product_over_sources_that_do_not_abstain(encoded: cv.Dataset) -> None:
    net, batch = net_for(encoded), batch_of(encoded)
    net.wxor.uniform_()
    net.wxor[:, 0] = net.wxor[:, :, 0] = 0
    with torch.no_grad():
        found = net.log_evidence(batch)
        emissions = net.emission(batch.sentences).log().numpy()
    expected = np.zeros_like(found.numpy())
    for m in range(len(encoded)):
        for t in range(encoded.offsets[m], encoded.offsets[m + 1]):
            for k, vote in enumerate(encoded.votes[t]):
                if vote >= 0:
                    expected[t] += emissions[m, k, :, vote]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_gradient_with_respect_to_all_weights_is_right(encoded: cv.Dataset) -> None:
    data = encoded[3:9]
    net, batch = net_for(data), batch_of(data)
    net.wxor.uniform_()
    for tau in (0.0, 1.0):
        assert gradient_is_right(net, batch, tau, atol=1e-4, fast_mode=True)


def test_the_loss_equals_the_reference(encoded: cv.Dataset) -> None:
    assert_loss_equals_the_reference(net_for(encoded), batch_of(encoded))


def test_mean_emissions_are_averaged_over_sentences(encoded: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "CHUNK_SENTENCES", 7)
    net, rows = net_for(encoded), batch_of(encoded).sentences
    with torch.no_grad():
        torch.testing.assert_close(net.mean_emission(rows), net.emission(rows).mean(0))
    assert not net.mean_emission(rows[:0]).any()


def test_samples_depend_on_the_generator_and_have_the_right_mean(encoded: cv.Dataset) -> None:
    net, batch = net_for(encoded, nu_expan=2000), batch_of(encoded)
    with torch.no_grad():
        samples = [net.log_evidence(batch, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
        mean = torch.stack([net.log_evidence(batch, torch.Generator().manual_seed(seed)) for seed in range(200)]).mean(
            0
        )
        exact = net.log_evidence(batch)
    assert torch.equal(samples[0], samples[1])
    assert not torch.equal(samples[0], samples[2])
    assert float((mean - exact).abs().mean()) < 0.1 * float((samples[0] - exact).abs().mean()) + 0.2


def test_the_prior_without_expansion_is_uniform_off_the_diagonal(encoded: cv.Dataset) -> None:
    net, batch = net_for(encoded, expansion=False, nu_base=1e-6), batch_of(encoded)
    with torch.no_grad():
        found, scores = net.emission(batch.sentences), net.reliability_scores(batch.sentences)
    wrong = found[2, 1, 3].clone()
    assert abs(float(wrong[3] - scores[2, 1, 3])) < 1e-6
    others = wrong[[0, 1, 2, 4]]
    torch.testing.assert_close(others, others.mean().expand(4), atol=1e-6, rtol=0)
