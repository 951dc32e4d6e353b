"""Links as part of the transitions, compared with enumeration of all paths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from convener.inference.chain import forward_backward
from convener.inference.coarse import extend_over_links
from convener.models.linked_hmm import continues_span, link_evidence, linked_transition_logits


def test_linked_tokens_are_in_one_span_or_both_outside() -> None:
    same = continues_span(5)
    assert set(zip(*np.nonzero(same), strict=True)) == {(0, 0), (1, 2), (2, 2), (3, 4), (4, 4)}


@pytest.mark.parametrize("seed", range(6))
def test_the_chain_equals_an_enumeration_of_all_paths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, lengths = 5, [3, 1, 0, 4]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    count = int(offsets[-1])
    transitions = rng.dirichlet(np.ones(size), size)
    init = rng.dirichlet(np.ones(size))
    log_like = rng.normal(size=(count, size)).astype(np.float32)
    links = rng.random((count, 2)) < 0.6
    accuracy = np.array([0.9, 0.7])
    logits, like = linked_transition_logits(transitions, link_evidence(links, accuracy), log_like, offsets)
    found = forward_backward(np.log(init), logits.astype(float), like.astype(float), offsets)
    same = continues_span(size)
    for number, length in enumerate(lengths):
        first = int(offsets[number])
        marginals, total = np.zeros((length, size)), 0.0
        for path in product(range(size), repeat=length + 1):
            weight = init[path[0]]
            for t in range(length):
                weight *= transitions[path[t], path[t + 1]] * np.exp(log_like[first + t, path[t + 1]])
                for source in np.flatnonzero(links[first + t]) if t else ():
                    probability = accuracy[source]
                    weight *= probability if same[path[t], path[t + 1]] else 1 - probability
            total += weight
            for t in range(length):
                marginals[t, path[t + 1]] += weight
        rows = found.marginals[first : first + length]
        np.testing.assert_allclose(rows, marginals / total, atol=1e-5)
        assert found.log_likelihood[number] == pytest.approx(np.log(total), abs=1e-4)


def test_spans_extend_over_links_in_both_directions_within_a_sentence() -> None:
    labels = np.array([0, 1, 0, 0, 0, 0, 3, 0], np.int16)
    linked = np.array([1, 1, 1, 0, 1, 1, 0, 1], bool)
    extended = extend_over_links(labels, linked, np.array([0, 4, 8]))
    assert extended.tolist() == [1, 2, 2, 0, 0, 0, 3, 4]
