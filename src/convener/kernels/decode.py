"""Labels out of a chain: the best path, the k best, samples, and how sure a span is.

Arguments are those of `chain`; moves are read in float64 log space, so any range of scores is
right.  z(0) is summed out: a path is the labels of the tokens, and its score is the logarithm of
its joint probability with the evidence.  Where `legal` (L, L) or `legal_start` (L,) forbid a move
or a first label, it costs `ILLEGAL` nats: finite, so that a path always comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.kernels.blocks import map_blocks
from convener.kernels.chain import forward_backward, validate_inputs
from convener.kernels.compiled import Array
from convener.kernels.paths import (
    ILLEGAL_COST,
    k_best_block,
    sample_block,
    span_block,
    viterbi_block,
)

__all__ = ["ILLEGAL_COST", "ViterbiPaths", "k_best", "samples", "span_posteriors", "viterbi"]


class ViterbiPaths(NamedTuple):
    """Best paths, best first; fewer than k labellings leave label -1 and score -inf."""

    labels: NDArray[np.int16]
    """(k, N), or (N,) from `viterbi`."""
    scores: NDArray[np.float64]
    """(M, k), or (M,) from `viterbi`."""


def viterbi(
    log_initial: Array,
    transition: Array,
    log_evidence: Array,
    offsets: NDArray[np.int64],
    *,
    legal_transitions: NDArray[np.bool_] | None = None,
    legal_first: NDArray[np.bool_] | None = None,
    num_threads: int = 1,
) -> ViterbiPaths:
    """The most probable labels.  Of equal paths: the lower last label, then the lower one before.

    -> labels (N,), scores (M,)
    """
    inputs = _prepare_inputs(log_initial, transition, log_evidence, offsets)
    costs = _illegal_costs(inputs[2].shape[1], legal_transitions, legal_first)
    labels = np.empty(len(log_evidence), np.int16)
    scores = np.empty(len(inputs[3]) - 1)

    def run_block(start: int, end: int) -> None:
        viterbi_block(*inputs, transition.ndim == 2, start, end, *costs, labels, scores)

    _run_blocks(run_block, inputs, num_threads)
    return ViterbiPaths(labels, scores)


def k_best(
    log_init: Array,
    trans: Array,
    log_like: Array,
    offsets: NDArray[np.int64],
    *,
    k: int,
    legal: NDArray[np.bool_] | None = None,
    legal_start: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> ViterbiPaths:
    """The k most probable labellings of every sentence.  -> labels (k, N), scores (M, k)"""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    inputs = _prepare_inputs(log_init, trans, log_like, offsets)
    costs = _illegal_costs(inputs[2].shape[1], legal, legal_start)
    labels = np.empty((k, len(log_like)), np.int16)
    scores = np.empty((len(inputs[3]) - 1, k))

    def work(begin: int, end: int) -> None:
        k_best_block(*inputs, trans.ndim == 2, begin, end, *costs, labels, scores)

    _run_blocks(work, inputs, threads)
    return ViterbiPaths(labels, scores)


def samples(
    log_init: Array,
    trans: Array,
    log_like: Array,
    offsets: NDArray[np.int64],
    *,
    count: int,
    seed: int,
    keys: NDArray[np.int64] | None = None,
    threads: int = 1,
) -> NDArray[np.int16]:
    """Label paths drawn from the posterior.  -> (count, N)

    What sentence m gets depends on seed and keys[m] (its number, unless given), not on its
    neighbours or the threads.
    """
    inputs = _prepare_inputs(log_init, trans, log_like, offsets)
    sentences = len(inputs[3]) - 1
    streams = np.arange(sentences) if keys is None else np.ascontiguousarray(keys, np.int64)
    if streams.shape != (sentences,):
        raise ValueError(f"keys must be ({sentences},), got {streams.shape}")
    labels = np.empty((count, len(log_like)), np.int16)

    def work(begin: int, end: int) -> None:
        sample_block(*inputs, trans.ndim == 2, begin, end, np.uint64(seed), streams, labels)

    _run_blocks(work, inputs, threads)
    return labels


def span_posteriors(
    log_initial: Array,
    transition: Array,
    log_evidence: Array,
    offsets: NDArray[np.int64],
    *,
    sentence: NDArray[np.int64],
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    type: NDArray[np.int16],
    marginals: Array | None = None,
    num_threads: int = 1,
) -> NDArray[np.float64]:
    """Probability that the hidden path has exactly this span, for each of S spans.  -> (S,)

    marginals (N, L) where `chain.posterior` has given them already.

    Span s covers the tokens start to end (exclusive) of its sentence: B-type first, then I-type,
    then anything but I-type, or the end.  Labels are 0 = O, B-x = 2x + 1, I-x = 2x + 2.
    """
    inputs = _prepare_inputs(log_initial, transition, log_evidence, offsets)
    order = np.argsort(sentence, kind="stable")
    lengths = np.diff(inputs[3])[sentence]
    if ((start < 0) | (start >= end) | (end > lengths)).any():
        raise ValueError("every span must be 0 <= start < end <= length of its sentence")
    span_offsets = np.searchsorted(sentence[order], np.arange(len(inputs[3])))
    columns = [np.ascontiguousarray(column[order], np.int64) for column in (start, end, type)]
    sorted_out, out = np.empty(len(order)), np.empty(len(order))
    if marginals is None:
        marginals = forward_backward(log_initial, transition, log_evidence, offsets, num_threads=num_threads).marginals
    token_marginals = np.ascontiguousarray(marginals)

    def run_block(first: int, stop: int) -> None:
        span_block(
            *inputs,
            transition.ndim == 2,
            first,
            stop,
            token_marginals,
            span_offsets,
            *columns,
            sorted_out,
        )

    _run_blocks(run_block, inputs, num_threads)
    out[order] = sorted_out
    return out


ChainInputs = tuple[Array, Array, Array, NDArray[np.int64]]


def _prepare_inputs(
    log_initial: Array, transition: Array, log_evidence: Array, offsets: NDArray[np.int64]
) -> ChainInputs:
    log_initial, transition, log_evidence, offsets = validate_inputs(log_initial, transition, log_evidence, offsets)
    return (
        log_initial,
        transition[None] if transition.ndim == 2 else transition,
        log_evidence,
        offsets,
    )


def _illegal_costs(
    num_labels: int,
    legal_transitions: NDArray[np.bool_] | None,
    legal_first: NDArray[np.bool_] | None,
) -> tuple[Array, Array]:
    """What illegal moves (L, L) and first labels (L,) cost, in nats."""
    transition_cost, start_cost = np.zeros((num_labels, num_labels)), np.zeros(num_labels)
    if legal_transitions is not None:
        transition_cost[~np.asarray(legal_transitions, bool)] = ILLEGAL_COST
    if legal_first is not None:
        start_cost[~np.asarray(legal_first, bool)] = ILLEGAL_COST
    return transition_cost, start_cost


def _run_blocks(function: Callable[[int, int], None], inputs: ChainInputs, num_threads: int) -> None:
    num_labels = inputs[2].shape[1]
    for _ in map_blocks(function, inputs[3], num_labels * num_labels, num_threads):
        pass
