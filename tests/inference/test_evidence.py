from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convener.inference.evidence import expected_emission_counts, log_evidence, sparsify_votes


def random_votes(seed: int, tokens: int, sources: int, labels: int) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
    """Votes of sources of every kind: mostly O, mostly abstaining, and with many entity votes."""
    rng = np.random.default_rng(seed)
    votes = rng.integers(-1, labels, (tokens, sources))
    usual, rest = rng.integers(-1, 1, sources), rng.random((tokens, sources))
    votes = np.where(rest < rng.choice([0.0, 0.5, 0.97, 1.0], sources), usual, votes)
    return votes.astype(np.int16)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 40),
    st.integers(0, 6),
    st.integers(2, 5),
    st.booleans(),
)
def test_evidence_and_its_adjoint_are_the_dense_sums(
    seed: int, tokens: int, sources: int, labels: int, holes: bool
) -> None:
    rng = np.random.default_rng(seed)
    votes = random_votes(seed, tokens, sources, labels)
    emissions = np.log(rng.dirichlet(np.ones(labels), (sources, labels)))
    if holes:
        emissions[rng.random(emissions.shape) < 0.2] = -np.inf
    evidence = np.zeros((tokens, labels))
    counts = np.zeros((sources, labels, labels))
    marginals = rng.dirichlet(np.ones(labels), tokens).reshape(tokens, labels)
    for n, k in zip(*np.nonzero(votes >= 0), strict=True):
        evidence[n] += emissions[k, :, votes[n, k]]
        counts[k, :, votes[n, k]] += marginals[n]
    sparse = sparsify_votes(votes)
    np.testing.assert_allclose(log_evidence(sparse, emissions, dtype=np.float64), evidence, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(expected_emission_counts(sparse, marginals), counts, atol=1e-10)


def test_default_votes_take_no_entries() -> None:
    votes = np.full((50_000, 40), -1, np.int16)
    votes[:, :3] = 0
    votes[7, 5] = 1
    sparse = sparsify_votes(votes)
    assert len(sparse.source) == 1
    assert sparse.default_vote.tolist() == [0] * 3 + [-1] * 37


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_do_not_depend_on_the_number_of_threads(dtype: type) -> None:
    votes = random_votes(1, 60_000, 5, 5)
    rng = np.random.default_rng(0)
    emissions = np.log(rng.dirichlet(np.ones(5), (5, 5)))
    marginals = rng.dirichlet(np.ones(5), 60_000).astype(dtype)
    sparse = sparsify_votes(votes)
    for n in (2, 3):
        np.testing.assert_array_equal(
            log_evidence(sparse, emissions, dtype=dtype),
            log_evidence(sparse, emissions, dtype=dtype, num_threads=n),
        )
        np.testing.assert_array_equal(
            expected_emission_counts(sparse, marginals),
            expected_emission_counts(sparse, marginals, num_threads=n),
        )
