"""Compiled form of the base prior, Eq. (1) to (4): from logits to the votes that occur, with an analytic gradient.

`prior` is the reference in torch: about sixty small operations, and as many for their gradients, which take several
times as long. A test compares both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from convener.inference._numba import MIN_EXPONENT, REASSOCIATE, exp_in_place, jit, log_in_place
from convener.inference.vote_cells import VoteCells
from convener.models.sparse_chmm.prior import (
    SCORE_EPS,
    PriorRows,
    SparsePrior,
    base_prior_rows,
    check_num_scores,
    expand_to_labels,
    g_coefficients,
    reliability_scores,
    uniform_prior_rows,
)


def base_prior_at(logits: Tensor, num_labels: int, cells: VoteCells, prior: SparsePrior, g_r: float) -> Tensor:
    """Base prior of the votes that occur, Eq. (1) to (4), with gradient.  -> (C, L) [cell, latent]

    logits (M, K, Q) on CPU: Q = L by label, 1 + E by entity type.  g_r: split point of the stage, divided by L.
    """
    columns: Tensor = _BasePriorAt.apply(logits, num_labels, cells, prior, g_r)  # type: ignore[no-untyped-call]
    return columns


def prior_rows(logits: Tensor, num_labels: int, prior: SparsePrior, g_r: float) -> PriorRows:
    """Base prior by rows, Eq. (1) to (4), or without expansion; the reference in torch.  logits (M, K, Q)"""
    scores = reliability_scores(logits, h_n=prior.h_n, h_s=prior.h_s, softmax=prior.softmax)
    scores = expand_to_labels(scores, num_labels)
    if not prior.expansion:
        return uniform_prior_rows(scores)
    return base_prior_rows(scores, g_n=prior.g_n, g_r=g_r)


class _BasePriorAt(torch.autograd.Function):
    """Computes the derivatives together with the values; each has the shape of the logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, num_labels: int, cells: VoteCells, prior: SparsePrior, g_r: float) -> Tensor:
        logits_array = logits.detach().contiguous().numpy()
        scalar_type, num_sources = logits_array.dtype.type, logits_array.shape[1]
        check_num_scores(logits_array.shape[2], num_labels)
        use_softmax = prior.softmax and num_sources > 1
        use_scaling = num_sources > 1 and (prior.h_n, prior.h_s) != (1, 1)
        # Scalars in the precision of the network: with doubles, everything would be computed in double precision.
        probs, scores, slopes = (np.empty_like(logits_array) for _ in range(3))
        _softmax_over_sources(logits_array, use_softmax, probs, slopes)
        _scale_scores(probs, scalar_type(prior.h_n), scalar_type(prior.h_s), use_scaling, scores, slopes)
        to_o, to_other, slope_to_o, slope_to_other = (np.empty_like(logits_array) for _ in range(4))
        if prior.expansion:
            d, linear_slope = g_coefficients(num_labels, prior.g_n, g_r)
            g_params = (scalar_type(x) for x in (prior.g_n, g_r, d, linear_slope))
            _expand_rows(scores, num_labels, *g_params, to_o, to_other, slope_to_o, slope_to_other)
        else:
            _uniform_rows(scores, num_labels, to_o, to_other, slope_to_o, slope_to_other)
        columns = np.empty((len(cells.label), num_labels), logits_array.dtype)
        _gather_cells(cells.cell_offsets, cells.label, scores, to_o, to_other, columns)
        ctx.kept = cells, use_softmax, probs, slopes, slope_to_o, slope_to_other
        return torch.from_numpy(columns)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        cells, use_softmax, probs, slopes, slope_to_o, slope_to_other = ctx.kept
        grad_logits = np.empty_like(probs)
        _scatter_grad(
            cells.cell_offsets,
            cells.label,
            grad.contiguous().numpy(),
            slope_to_o,
            slope_to_other,
            grad_logits,
        )
        _softmax_backward(use_softmax, probs, slopes, grad_logits)
        return torch.from_numpy(grad_logits), None, None, None, None


@jit(REASSOCIATE)
def _softmax_over_sources(logits, shared, shares, logs):  # type: ignore[no-untyped-def]
    """Softmax over the sources, Eq. (1), or sigmoid (always for O), and its logarithm."""
    M, K, Q = logits.shape
    one, zero, deep = logits.dtype.type(1), logits.dtype.type(0), logits.dtype.type(MIN_EXPONENT)
    begin = 1 if shared else Q
    top, total = np.empty(Q, logits.dtype), np.empty((M, Q), logits.dtype)
    for m in range(M):
        top[:] = logits[m, 0]
        for k in range(1, K):
            for q in range(begin, Q):
                top[q] = max(top[q], logits[m, k, q])
        for k in range(K):
            for q in range(begin):
                shares[m, k, q] = max(-abs(logits[m, k, q]), deep)
            for q in range(begin, Q):
                logs[m, k, q] = logits[m, k, q] - top[q]
                shares[m, k, q] = max(logs[m, k, q], deep)
    exp_in_place(shares.reshape(-1), M * K * Q)
    total[:] = one
    for m in range(M):
        total[m, begin:] = zero
        for k in range(K):
            for q in range(begin, Q):
                total[m, q] += shares[m, k, q]
    log_total = total.copy()
    log_in_place(log_total.reshape(-1), M * Q)
    for m in range(M):
        for k in range(K):
            for q in range(begin):
                x = shares[m, k, q]
                shares[m, k, q] = (one if logits[m, k, q] > zero else x) / (one + x)
                logs[m, k, q] = min(logits[m, k, q], zero) - math.log1p(x)
            for q in range(begin, Q):
                shares[m, k, q] /= total[m, q]
                logs[m, k, q] -= log_total[m, q]


@jit(REASSOCIATE)
def _scale_scores(shares, n, root, scaled, scores, slopes):  # type: ignore[no-untyped-def]
    """Scores A~ = h(a), Eq. (2), with O unchanged; `slopes` holds log a and receives dA~ / dlog a."""
    M, K, Q = shares.shape
    flat, logs, out = shares.reshape(-1), slopes.reshape(-1), scores.reshape(-1)
    number, count = shares.dtype.type, shares.size
    one, deep, turn = number(1), number(MIN_EXPONENT), number(1 / K)
    least, most = number(math.log(SCORE_EPS)), number(math.log1p(-SCORE_EPS))
    low, high = turn ** (one - n), (one - turn) ** (one - n) if K > 1 else one
    if scaled:
        u, left = np.empty_like(flat), np.empty_like(flat)
        for k in range(count):
            u[k] = min(max(logs[k] / root, least), most)
            out[k] = u[k]
        exp_in_place(u, count)
        for k in range(count):
            left[k] = one - u[k]
        log_in_place(left, count)
        for k in range(count):
            out[k] = max(n * (out[k] if u[k] < turn else left[k]), deep)
        exp_in_place(out, count)
        for k in range(count):
            slope = n * out[k] / root
            x = logs[k] / root
            rising = one if x >= least and x <= most else one - one
            below = u[k] < turn
            logs[k] = rising * (slope * low if below else slope * high * u[k] / (one - u[k]))
            out[k] = out[k] * low if below else one - out[k] * high
    for m in range(M):
        for k in range(K):
            for q in range(1 if scaled else Q):
                scores[m, k, q] = slopes[m, k, q] = shares[m, k, q]


@jit(REASSOCIATE)
def _uniform_rows(scores, L, outside, others, by_outside, by_others):  # type: ignore[no-untyped-def]
    """Rows of the ablation "naive emission", and their derivatives with respect to the scores."""
    one = scores.dtype.type(1)
    share = one / scores.dtype.type(L - 1)
    outside[:] = (one - scores) * share
    others[:] = outside
    by_outside[:] = by_others[:] = -share


@jit(REASSOCIATE)
def _expand_rows(scores, L, n, turn, d, fall, outside, others, by_outside, by_others):  # type: ignore[no-untyped-def]
    """Rows of the base prior, Eq. (3) and (4), as in `prior`, and their derivatives with respect to the scores."""
    number = scores.dtype.type
    one, first, size = number(1), number(1 / (L - 1)), number(L - 2)
    M, K, Q = scores.shape
    for m in range(M):
        for k in range(K):
            others[m, k, 0] = (one - scores[m, k, 0]) * first
            by_others[m, k, 0] = -first
            outside[m, k, 0] = by_outside[m, k, 0] = 0
            for q in range(1, Q):
                a = scores[m, k, q]
                if a <= turn:
                    x = a / turn
                    power = x ** (n - one) / d
                    each, slope = turn * x * (one - power), one - n * power
                    outside[m, k, q] = one - a - size * each
                else:
                    each, slope = (one - a) * fall / size, -fall / size
                    outside[m, k, q] = (one - a) * (one - fall)
                others[m, k, q], by_others[m, k, q] = each, slope
                by_outside[m, k, q] = -one - size * slope


@jit(REASSOCIATE)
def _gather_cells(bounds, label, scores, outside, others, columns):  # type: ignore[no-untyped-def]
    """Base prior of the votes that occur, Eq. (3), from the rows of `_expand_rows`."""
    K, Q, L = scores.shape[1], scores.shape[2], columns.shape[1]
    for p in range(len(bounds) - 1):
        m, k = p // K, p % K
        for c in range(bounds[p] - bounds[0], bounds[p + 1] - bounds[0]):
            j = label[c]
            rows = others if j > 0 else outside
            if Q == L:
                for i in range(L):
                    columns[c, i] = rows[m, k, i]
                columns[c, j] = scores[m, k, j]
            else:
                columns[c, 0] = rows[m, k, 0]
                for q in range(1, Q):
                    columns[c, 2 * q - 1] = columns[c, 2 * q] = rows[m, k, q]
                columns[c, j] = scores[m, k, (j + 1) // 2]


@jit(REASSOCIATE)
def _scatter_grad(bounds, label, grad, by_outside, by_others, out):  # type: ignore[no-untyped-def]
    """Gradient with respect to the scores; on the diagonal the prior is the score itself."""
    K, Q, L = out.shape[1], out.shape[2], grad.shape[1]
    out[:] = 0
    for p in range(len(bounds) - 1):
        m, k = p // K, p % K
        for c in range(bounds[p] - bounds[0], bounds[p + 1] - bounds[0]):
            j = label[c]
            slopes = by_others if j > 0 else by_outside
            own = j if Q == L else (j + 1) // 2
            out[m, k, own] += grad[c, j] * (1 - slopes[m, k, own])
            if Q == L:
                for i in range(L):
                    out[m, k, i] += grad[c, i] * slopes[m, k, i]
            else:
                out[m, k, 0] += grad[c, 0] * slopes[m, k, 0]
                for q in range(1, Q):
                    out[m, k, q] += (grad[c, 2 * q - 1] + grad[c, 2 * q]) * slopes[m, k, q]


@jit(REASSOCIATE)
def _softmax_backward(shared, shares, slopes, out):  # type: ignore[no-untyped-def]
    """Turn the gradient with respect to the scores into that with respect to the logits, in place."""
    M, K, Q = out.shape
    begin = 1 if shared else Q
    total = np.empty(Q, out.dtype)
    for m in range(M):
        total[:] = 0
        for k in range(K):
            for q in range(Q):
                out[m, k, q] *= slopes[m, k, q]
                total[q] += out[m, k, q]
        for k in range(K):
            for q in range(begin):
                out[m, k, q] *= 1 - shares[m, k, q]
            for q in range(begin, Q):
                out[m, k, q] -= shares[m, k, q] * total[q]
