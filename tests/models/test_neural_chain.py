from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

import convener as cv
from convener.inference.chain import forward_backward
from convener.models import neural_chain
from convener.models.neural_chain import ValidationScore, chain_loss, predict_all
from convener.models.sparse_chmm.network import SparseCHMMNetwork
from convener.models.sparse_chmm.prior import SparsePrior
from convener.models.vote_evidence import (
    VoteEvidence,
    boundary_tokens,
    explicit_votes,
    negated_types,
    unsupported_types,
)
from convener.neural.batch import Batch, PackedDataset
from tests import generators

PRIOR = SparsePrior(h_n=1.2, h_s=1.5, g_n=4, g_r=0.05, nu_base=2, nu_expan=100)


@pytest.fixture
def net(encoded: cv.Dataset) -> SparseCHMMNetwork:
    torch.manual_seed(1)
    net = SparseCHMMNetwork(24, len(encoded.sources), 5, 5, PRIOR)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        net.reliability_layer.bias.view(-1, 5)[:, 0] = 4.0  # sources seldom mark a token whose label is O
    return net


@given(generators.datasets())
def test_boundary_tokens_match_their_definition(data: cv.Dataset) -> None:
    found = boundary_tokens(data)
    vague = [name for name, allowed in data.coarse.items() if "O" in allowed]
    entity = [tag != "O" and tag[2:] not in vague for tag in data.tags.names] + [False]
    for m in range(len(data)):
        start, end = data.offsets[m], data.offsets[m + 1]
        marked = [any(entity[vote] for vote in data.votes[t]) for t in range(start, end)]
        for place, is_marked in enumerate(marked):
            beside = any(marked[max(0, place - 1) : place + 2])
            assert found[start + place] == (beside and not is_marked)


@given(generators.datasets())
def test_unsupported_types_match_their_definition(data: cv.Dataset) -> None:
    found = unsupported_types(data)
    for token, votes in enumerate(data.votes):
        named = {(int(vote) + 1) // 2 for vote in votes if 0 < vote < len(data.fine_tags)}
        for label in range(len(data.fine_tags)):
            unsupported = bool(named) and label > 0 and (label + 1) // 2 not in named
            assert found[token, label] == unsupported


@given(generators.datasets())
def test_negated_types_match_their_definition(data: cv.Dataset) -> None:
    found, fine = negated_types(data), len(data.fine_tags)
    for token, votes in enumerate(data.votes):
        names = {data.tags.types[(int(vote) - 1) // 2] for vote in votes if vote >= fine}
        allowed_by_votes = [data.coarse[name] for name in names if "O" in data.coarse[name]]
        for number, name in enumerate(data.fine_tags.types):
            negated = any(name not in allowed for allowed in allowed_by_votes)
            assert found[token, 2 * number + 1] == found[token, 2 * number + 2] == negated
        assert not found[token, 0]


def test_explicit_votes_keep_votes_for_o_and_drop_unmarked_tokens(toy: cv.Dataset) -> None:
    mixed = toy.with_sources(toy.sources, toy.votes, ("outside", *["abstain"] * (len(toy.sources) - 1)))
    votes = explicit_votes(mixed)
    np.testing.assert_array_equal(votes[:, 0], toy.votes[:, 0])
    assert not (votes[:, 1:] == 0).any()
    marked = toy.votes > 0
    np.testing.assert_array_equal(votes[marked], toy.votes[marked])


def test_without_adjustments_the_result_is_that_of_the_chain(encoded: cv.Dataset, net: SparseCHMMNetwork) -> None:
    plain = predict_all(net, encoded, VoteEvidence())
    batch = PackedDataset.from_dataset(encoded).batch()
    with torch.no_grad():
        expected = forward_backward(
            net.log_initial().numpy(),
            net.transition_logits(batch).numpy(),
            net.log_evidence(batch).numpy(),
            encoded.offsets,
        ).marginals
    np.testing.assert_allclose(plain.probabilities, expected, atol=1e-5)


def test_unmarked_weight_raises_the_probability_of_o(encoded: cv.Dataset, net: SparseCHMMNetwork) -> None:
    mute = predict_all(net, encoded, VoteEvidence(unmarked_weight=0.0)).probabilities
    half = predict_all(net, encoded, VoteEvidence(unmarked_weight=0.5)).probabilities
    full = predict_all(net, encoded, VoteEvidence(unmarked_weight=1.0)).probabilities
    outside = [float(marginals[:, 0].mean()) for marginals in (mute, half, full)]
    assert outside[0] < outside[1] < outside[2]


def test_the_boundary_penalty_raises_the_probability_of_o(encoded: cv.Dataset, net: SparseCHMMNetwork) -> None:
    before = predict_all(net, encoded, VoteEvidence()).probabilities[:, 0]
    after = predict_all(net, encoded, VoteEvidence(boundary_penalty=12.0)).probabilities[:, 0]
    assert before[boundary_tokens(encoded)].min() < 0.5
    assert after[boundary_tokens(encoded)].min() > 0.9


def test_penalized_splits_match_their_definition(encoded: cv.Dataset, net: SparseCHMMNetwork) -> None:
    evidence = VoteEvidence(boundary_penalty=9.0)
    logits = np.zeros((len(encoded.tokens), 5, 5), np.float32)
    found = evidence.penalize_splits(logits, encoded)
    for token, votes in enumerate(encoded.votes):
        for before in range(5):
            for label in range(5):
                cut = label % 2 == 1 and before in (label, label + 1) and label + 1 in votes
                assert found[token, before, label] == (-9 if cut else 0)
    assert not logits.any()
    assert (found < 0).any()


def test_the_type_penalty_suppresses_unsupported_types(encoded: cv.Dataset, net: SparseCHMMNetwork) -> None:
    unsupported = unsupported_types(encoded)
    before = predict_all(net, encoded, VoteEvidence()).probabilities[unsupported]
    after = predict_all(net, encoded, VoteEvidence(type_penalty=30.0)).probabilities[unsupported]
    assert before.max() > 0.01
    assert after.max() < 1e-6


def test_the_new_span_penalty_suppresses_entities_without_marks(encoded: cv.Dataset, net: SparseCHMMNetwork) -> None:
    unmarked = ~(encoded.votes > 0).any(axis=1)
    before = predict_all(net, encoded, VoteEvidence(unmarked_weight=0.0)).labels
    after = predict_all(net, encoded, VoteEvidence(unmarked_weight=0.0, new_span_penalty=50.0)).labels
    begins = [(labels[unmarked] % 2 == 1).sum() for labels in (before, after)]
    assert begins[0] > 0
    assert begins[1] == 0
    assert (after[~unmarked] > 0).any()


def test_results_do_not_depend_on_the_block_size(
    encoded: cv.Dataset, net: SparseCHMMNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = predict_all(
        net, encoded, VoteEvidence(unmarked_weight=0.3, boundary_penalty=2.0, type_penalty=1.0, new_span_penalty=0.5)
    )
    monkeypatch.setattr(neural_chain, "BLOCK_TOKENS", 11)
    parts = predict_all(
        net, encoded, VoteEvidence(unmarked_weight=0.3, boundary_penalty=2.0, type_penalty=1.0, new_span_penalty=0.5)
    )
    np.testing.assert_array_equal(whole.labels, parts.labels)
    np.testing.assert_allclose(whole.probabilities, parts.probabilities, atol=1e-6)
    np.testing.assert_allclose(whole.span_scores, parts.span_scores, atol=1e-6)
    assert len(predict_all(net, encoded[:0], VoteEvidence()).labels) == 0


def test_the_validation_score_is_f1_or_without_gold_likelihood(encoded: cv.Dataset, net: SparseCHMMNetwork) -> None:

    def loss(batch: Batch) -> torch.Tensor:
        return chain_loss(net, 0.0, sample=False)(batch, torch.Generator())

    labels = predict_all(net, encoded, VoteEvidence()).labels
    expected = cv.evaluate(
        cv.Predictions(data=encoded.without_gold(), labels=labels, model="x", settings={}), encoded
    ).f1
    scores = [ValidationScore(net, data, VoteEvidence(), loss) for data in (encoded, encoded.without_gold())]
    assert scores[0]() == pytest.approx(expected)
    batch = PackedDataset.from_dataset(encoded).batch()
    with torch.no_grad():
        likelihood = forward_backward(
            net.log_initial().numpy(),
            net.transition_logits(batch).numpy(),
            net.log_evidence(batch).numpy(),
            encoded.offsets,
        ).log_likelihood.sum()
    assert scores[1]() == pytest.approx(likelihood / len(encoded.tokens), rel=1e-4)
