"""The networks of CHMM, compared with loops over their definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import convener as cv
from convener.models import chmm
from convener.models.chmm import CHMMNetwork
from convener.models.chmm_fe import FixedEmissionNetwork
from convener.neural.batch import Batch, PackedDataset
from tests.neural.gradients import assert_loss_equals_the_reference, gradient_is_right

KINDS = [CHMMNetwork, FixedEmissionNetwork]


def net_for(data: cv.Dataset, kind: Any = CHMMNetwork, width: int = 24) -> Any:
    """A network with random weights and emissions, in float64."""
    torch.manual_seed(1)
    net = kind(width, len(data.sources), len(data.tags))
    shape = len(data.sources), len(data.tags), len(data.tags)
    with torch.no_grad():
        net.set_emission(torch.randn(shape).log_softmax(2))
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return net.double()


def batch_of(data: cv.Dataset, width: int = 24) -> Batch:
    batch = PackedDataset.from_dataset(data).batch()
    return replace(
        batch,
        tokens=batch.tokens[:, :width].double(),
        log_evidence_offset=batch.log_evidence_offset.double(),
    )


def emission_of(net: Any, token: torch.Tensor, k: int, i: int, j: int) -> float:
    """Phi[t, k, i, j] by its definition, computed with scalars."""
    if isinstance(net, FixedEmissionNetwork):
        return float(net.log_emission[k, j + 1, i].exp())
    size, layer = net.num_labels, net.emission_layer
    first = (k * size + i) * size
    logits = [float(layer.weight[first + q] @ token + layer.bias[first + q]) for q in range(net.num_labels)]
    return float(np.exp(logits[j]) / np.sum(np.exp(logits)))


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_is_the_product_over_sources_that_do_not_abstain(
    encoded: cv.Dataset,
    kind: Any,
) -> None:
    data = encoded[:6]
    assert (data.votes == -1).any()
    assert (data.votes > 0).any()
    net, batch = net_for(data, kind), batch_of(data)
    with torch.no_grad():
        found = net.log_evidence(batch)
        assert found.shape == (len(data.tokens), len(data.tags))
        for t, row in enumerate(data.votes):
            for label in range(len(data.tags)):
                expected = sum(
                    np.log(emission_of(net, batch.tokens[t], k, label, vote)) for k, vote in enumerate(row) if vote >= 0
                )
                assert abs(float(found[t, label]) - expected) < 1e-6  # sums of float32 logs


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_on_which_all_abstain_has_no_evidence(
    encoded: cv.Dataset,
    kind: Any,
) -> None:
    mute = encoded.with_sources(encoded.sources, np.full_like(encoded.votes, -1), encoded.unmarked)
    found = net_for(mute, kind).log_evidence(batch_of(mute))
    assert not found.any()


@pytest.mark.parametrize("kind", KINDS)
def test_no_tokens_give_no_rows(encoded: cv.Dataset, kind: Any) -> None:
    net = net_for(encoded, kind)
    assert net.log_evidence(batch_of(encoded[:0])).shape == (0, 5)
    assert torch.isfinite(net.mean_emission(torch.zeros(0, 24).double())).all()


def test_results_do_not_depend_on_the_chunk_size(encoded: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    net, batch = net_for(encoded), batch_of(encoded)
    whole, mean = net.log_evidence(batch), net.mean_emission(batch.tokens)
    monkeypatch.setattr(chmm, "CHUNK_PARAMETERS", 7 * net.emission_layer.out_features)
    assert net.chunk_size == 7
    torch.testing.assert_close(net.log_evidence(batch), whole)
    torch.testing.assert_close(net.mean_emission(batch.tokens), mean)
    dense = net.emission_logits(batch.tokens).softmax(3).mean(0)
    torch.testing.assert_close(mean, dense)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_the_whole_gradient_is_right(encoded: cv.Dataset, kind: Any, tau: float) -> None:
    data = encoded.take([3, 6]).select_sources(["good", "guest"])
    net, batch = net_for(data, kind, width=3), batch_of(data, width=3)
    assert gradient_is_right(net, batch, tau, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_equals_the_reference(encoded: cv.Dataset, kind: Any) -> None:
    assert_loss_equals_the_reference(net_for(encoded, kind), batch_of(encoded))


def test_mean_emission_returns_the_emission_that_was_set(encoded: cv.Dataset) -> None:
    known = torch.rand(5, 5, 5).double().log_softmax(2)
    for kind in KINDS:
        net = kind(24, 5, 5).double()
        with torch.no_grad():
            net.set_emission(known)
        torch.testing.assert_close(net.mean_emission(torch.randn(9, 24).double()), known.exp())


def test_fixed_emissions_are_not_trained() -> None:
    assert {name for name, _ in FixedEmissionNetwork(3, 2, 3).named_parameters()} == {
        "initial_logits",
        "context_weight",
        "transition_layer.weight",
        "transition_layer.bias",
    }
