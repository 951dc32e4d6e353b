from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convener.inference import chain
from convener.inference._numba import block_bounds
from convener.inference._scaled_pass import UNDERFLOW
from tests.inference.chain_oracle import Chain, chains, random_chain

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
TAUS = st.sampled_from([0.0, 0.4, 1.0])


def close(got: Any, wanted: Any, exact: bool, size: float = 1.0) -> None:
    tolerance = (1e-9 if exact else 3e-5) * size
    np.testing.assert_allclose(got, wanted, rtol=1e-9 if exact else 3e-5, atol=tolerance)


def check_objective(batch: Chain, tau: float) -> None:
    exact = batch.log_like.dtype == np.float64
    done = chain.chain_objective(*batch.arrays, tau=tau)
    summed = np.zeros((batch.labels, batch.labels))
    for m in range(len(batch.offsets) - 1):
        truth = batch.truth(m)
        rows = slice(batch.offsets[m], batch.offsets[m + 1])
        # Gradients grow with the energies' differences, and rounding with them.
        size = 1 + np.ptp(truth.energy[truth.p > 0])
        close(done.log_likelihood[m], truth.log_likelihood, exact)
        close(done.value[m], truth.log_likelihood - tau * truth.entropy, exact, size)
        init, transitions, like = truth.gradients(tau, batch.labels)
        close(done.grad_initial[m], init, exact, size)
        close(done.grad_evidence[rows], like, exact, size)
        if batch.trans.ndim == 3:
            back = np.exp(truth.log_transition) * transitions.sum(-1, keepdims=True)
            close(done.grad_transition[rows], transitions - back, exact, size)
        summed += transitions.sum(0)
    if batch.trans.ndim == 2:
        close(done.grad_transition, summed, exact, 1 + len(batch.log_like) * 300)
    assert done.grad_transition.shape == batch.trans.shape


@quick
@given(chains(np.float64, 300.0), TAUS)
def test_objective_in_float64_sums_over_all_paths(batch: Chain, tau: float) -> None:
    check_objective(batch, tau)


@quick
@given(chains(np.float32, 60.0), TAUS)
def test_objective_in_float32_sums_over_all_paths(batch: Chain, tau: float) -> None:
    check_objective(batch, tau)


@quick
@given(chains(np.float32, 3000.0), TAUS)
def test_float32_is_finite_for_any_range_of_scores(batch: Chain, tau: float) -> None:
    done = chain.chain_objective(*batch.arrays, tau=tau)
    for array in (done.value, done.grad_initial, done.grad_transition, done.grad_evidence):
        assert np.isfinite(array).all()
    for m in range(len(batch.offsets) - 1):
        close(done.log_likelihood[m], batch.truth(m).log_likelihood, exact=False)


@pytest.mark.parametrize(("dtype", "nats"), [(np.float32, 60.0), (np.float64, 300.0)])
def test_underflow_is_flagged_and_recomputed_exactly(dtype: Any, nats: float) -> None:
    # Two paths tie, but half way one of them is behind by more than the format can hold.
    like = np.zeros((8, 2), dtype)
    like[:4, 1] = like[4:, 0] = -nats
    trans = np.array([[0, -np.inf], [-np.inf, 0]], dtype)
    batch = Chain(np.log(np.array([0.5, 0.5], dtype)), trans, like, np.array([0, 8, 8]))
    done = chain.forward_backward(*batch.arrays)
    assert done.flags.tolist() == [UNDERFLOW, 0]
    np.testing.assert_allclose(done.log_likelihood[0], -4 * nats)
    np.testing.assert_allclose(done.marginals, 0.5)
    np.testing.assert_allclose(chain.chain_objective(*batch.arrays, tau=1.0).entropy, np.log(2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("where", ["start", "move", "evidence"])
def test_impossible_sentences_are_finite_and_flagged(dtype: Any, constant: bool, where: str) -> None:
    batch = random_chain(3, 3, [2, 4, 0], constant=constant, dtype=dtype)
    log_init, trans, like = batch.log_init.copy(), batch.trans.copy(), batch.log_like.copy()
    if where == "start":
        log_init[:] = -np.inf
    elif where == "move":
        trans[..., :] = -np.inf
    else:
        like[3] = -np.inf
    done = chain.chain_objective(log_init, trans, like, batch.offsets, tau=1.0)
    hit = {"start": [2, 2, 2], "move": [2, 2, 0], "evidence": [0, 2, 0]}[where]
    assert done.flags.tolist() == hit
    for array in done:
        assert np.isfinite(array).all()
    after = chain.forward_backward(log_init, trans, like, batch.offsets, return_transitions=True)
    np.testing.assert_allclose(after.marginals.sum(1), 1, rtol=1e-5)
    assert after.transition_posteriors is not None
    assert np.isfinite(after.transition_posteriors).all()


@quick
@given(chains(np.float64, 300.0), st.booleans())
def test_posterior_sums_over_all_paths(batch: Chain, pairs: bool) -> None:
    done = chain.forward_backward(*batch.arrays, return_transitions=pairs)
    for m in range(len(batch.offsets) - 1):
        truth = batch.truth(m)
        rows = slice(batch.offsets[m], batch.offsets[m + 1])
        _, transitions, like = truth.gradients(0.0, batch.labels)
        close(done.marginals[rows], like, exact=True)
        close(done.log_likelihood[m], truth.log_likelihood, exact=True)
        if done.transition_posteriors is not None:
            close(done.transition_posteriors[rows], transitions, exact=True)
    assert (done.transition_posteriors is not None) == pairs


@quick
@given(chains(np.float32, 20.0))
def test_expected_counts_are_sums_of_the_posterior(batch: Chain) -> None:
    if batch.trans.ndim == 3:
        with pytest.raises(ValueError, match="one"):
            chain.expected_counts(*batch.arrays)
        return
    counts = chain.expected_counts(*batch.arrays)
    full = chain.forward_backward(*batch.arrays, return_transitions=True)
    assert full.transition_posteriors is not None
    close(counts.transition_counts, full.transition_posteriors.sum(0), exact=False)
    close(counts.log_likelihood, full.log_likelihood, exact=False)
    np.testing.assert_array_equal(counts.marginals, full.marginals)


def test_weights_scale_gradients() -> None:
    batch = random_chain(1, 4, [3, 0, 5])
    once = chain.chain_objective(*batch.arrays, tau=0.4)
    weights = np.array([2.0, 3.0, -0.5])
    twice = chain.chain_objective(*batch.arrays, tau=0.4, weights=weights)
    by_token = np.repeat(weights, np.diff(batch.offsets))
    np.testing.assert_allclose(twice.grad_evidence, once.grad_evidence * by_token[:, None])
    np.testing.assert_allclose(twice.grad_transition, once.grad_transition * by_token[:, None, None])
    np.testing.assert_allclose(twice.grad_initial, once.grad_initial * weights[:, None])
    np.testing.assert_array_equal(twice.value, once.value)


@pytest.mark.parametrize("constant", [True, False])
def test_results_do_not_depend_on_the_number_of_threads(constant: bool) -> None:
    lengths = np.random.default_rng(0).integers(0, 400, 120).tolist()
    batch = random_chain(0, 9, lengths, constant=constant, dtype=np.float32)
    assert len(block_bounds(batch.offsets, 81)) > 4
    one, two = (chain.chain_objective(*batch.arrays, tau=1.0, num_threads=n) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("labels", [3, 4])
def test_a_sentence_does_not_depend_on_its_batch(constant: bool, labels: int) -> None:
    batch = random_chain(5, labels, [4, 0, 1, 7, 300], constant=constant, spread=30, dtype=np.float32)
    together = chain.chain_objective(*batch.arrays, tau=1.0)
    for m in range(5):
        rows = slice(batch.offsets[m], batch.offsets[m + 1])
        single = chain.chain_objective(*batch.alone(m).arrays, tau=1.0)
        np.testing.assert_array_equal(single.value[0], together.value[m])
        np.testing.assert_array_equal(single.grad_evidence, together.grad_evidence[rows])
        np.testing.assert_array_equal(single.grad_initial[0], together.grad_initial[m])
        if not constant:
            np.testing.assert_array_equal(single.grad_transition, together.grad_transition[rows])


def test_order_of_sentences_does_not_matter() -> None:
    batch = random_chain(7, 5, [4, 9, 2, 0, 30], constant=True, dtype=np.float32)
    order = [3, 1, 4, 0, 2]
    parts = [batch.log_like[batch.offsets[m] : batch.offsets[m + 1]] for m in order]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    here = chain.expected_counts(*batch.arrays)
    there = chain.expected_counts(batch.log_init, batch.trans, np.concatenate(parts), offsets)
    np.testing.assert_array_equal(there.log_likelihood, here.log_likelihood[order])
    np.testing.assert_allclose(there.transition_counts, here.transition_counts, rtol=1e-12)


@pytest.mark.parametrize("constant", [True, False])
def test_a_long_sentence_keeps_its_precision(constant: bool) -> None:
    wide = random_chain(11, 5, [5000], constant=constant, spread=8)
    narrow = Chain(*(x.astype(np.float32) for x in wide.arrays[:3]), wide.offsets)
    exact = Chain(*(x.astype(np.float64) for x in narrow.arrays[:3]), wide.offsets)
    a, b = (chain.chain_objective(*c.arrays, tau=1.0) for c in (narrow, exact))
    np.testing.assert_allclose(a.value, b.value, rtol=1e-6)
    np.testing.assert_allclose(a.grad_evidence, b.grad_evidence, atol=1e-5)
    np.testing.assert_allclose(a.grad_transition, b.grad_transition, atol=1e-5, rtol=1e-5)
    marginals = chain.forward_backward(*narrow.arrays).marginals
    np.testing.assert_allclose(marginals.sum(1), 1, atol=1e-6)
    assert not a.flags.any()


@pytest.mark.parametrize("labels", [9, 17, 37])
def test_many_labels(labels: int) -> None:
    batch = random_chain(13, labels, [30, 1, 0, 12], dtype=np.float32)
    precise = Chain(*(x.astype(np.float64) for x in batch.arrays[:3]), batch.offsets)
    a, b = (chain.chain_objective(*c.arrays, tau=0.4) for c in (batch, precise))
    np.testing.assert_allclose(a.value, b.value, rtol=1e-5)
    np.testing.assert_allclose(a.grad_transition, b.grad_transition, atol=1e-5)


def test_a_batch_without_sentences() -> None:
    batch = random_chain(0, 3, [])
    assert chain.chain_objective(*batch.arrays).value.shape == (0,)
    assert chain.forward_backward(*batch.arrays).marginals.shape == (0, 3)


def test_nan_is_not_hidden() -> None:
    batch = random_chain(0, 3, [4, 4], dtype=np.float32)
    batch.trans[2, 1, 1] = np.nan
    value = chain.chain_objective(*batch.arrays).value
    assert np.isnan(value[0])
    assert np.isfinite(value[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_evidence": np.zeros((4, 3), np.int64)}, "float32 or float64"),
        ({"log_initial": np.zeros(2)}, "log_init"),
        ({"transition": np.zeros((3, 3, 3))}, "trans"),
        ({"offsets": np.array([0, 3])}, "offsets"),
        ({"offsets": np.array([0, 5, 4])}, "offsets"),
    ],
)
def test_wrong_shapes_are_reported(change: dict[str, Any], message: str) -> None:
    arrays = {
        "log_initial": np.zeros(3),
        "transition": np.zeros((4, 3, 3)),
        "log_evidence": np.zeros((4, 3)),
        "offsets": np.array([0, 4]),
    }
    with pytest.raises(ValueError, match=message):
        chain.chain_objective(**(arrays | change))
