"""The forward-backward pass in log space and float64: slow, but exact for any range of scores.

It processes the sentences that `_scaled_pass` marks as `UNDERFLOW`.  -inf is replaced by `LOG_ZERO`, far below any
score that occurs: if some path is possible, impossible paths get exactly zero; if none is, the posterior is that of the
paths with the fewest impossible steps, all results are finite, and the sentence is marked `IMPOSSIBLE`.

a and b are the logarithms of alpha and beta of Appendix A.1 of the paper, from which gamma and xi of Eq. (11) follow.
"""

from __future__ import annotations

import math

import numpy as np

from convener.inference._numba import Array, jit

IMPOSSIBLE = 2
LOG_ZERO = -1.0e9


@jit()
def log_transition(trans: Array, home: int, rows: int, fold: bool, out: Array) -> None:
    """Fill out (rows, L, L) with log transitions; with `fold`, trans (., L, L) are logits and normalized."""
    L = trans.shape[1]
    for t in range(rows):
        for i in range(L):
            top, total = -np.inf, 0.0
            for j in range(L):
                top = max(top, trans[home + t, i, j])
            if fold and top > -np.inf:
                for j in range(L):
                    total += math.exp(trans[home + t, i, j] - top)
                top += math.log(total)
            for j in range(L):
                x = trans[home + t, i, j]
                if x > -np.inf and fold:
                    x -= top
                out[t, i, j] = max(x, LOG_ZERO)


@jit()
def logsumexp(values: Array) -> float:
    """Log of the sum of exp over a row; -inf for a row of -inf."""
    top = -np.inf
    for j in range(values.shape[0]):
        top = max(top, values[j])
    if top == -np.inf:
        return top
    total = 0.0
    for j in range(values.shape[0]):
        total += math.exp(values[j] - top)
    return top + math.log(total)


@jit()
def log_forward(log_init, moves, step, log_like, first, T, energy, a, u):  # type: ignore[no-untyped-def]
    """Fill a (T+1, L), joint log-probabilities up to t, and u, the expected energy up to t given z(t)."""
    L = log_init.shape[0]
    row = np.empty(L)
    for j in range(L):
        a[0, j] = u[0, j] = max(log_init[j], LOG_ZERO)
    for t in range(T):
        for j in range(L):
            for i in range(L):
                row[i] = a[t, i] + moves[t * step, i, j]
            total = logsumexp(row)
            like = max(log_like[first + t, j], LOG_ZERO)
            a[t + 1, j] = total + like
            if energy:
                mean = 0.0
                for i in range(L):
                    p = math.exp(row[i] - total)
                    mean += p * (u[t, i] + moves[t * step, i, j])
                u[t + 1, j] = mean + like


@jit()
def log_backward(moves, step, log_like, first, T, energy, b, v):  # type: ignore[no-untyped-def]
    """Fill b (T+1, L), log-probabilities of the evidence after t given z(t), and v, its expected energy."""
    L = b.shape[1]
    row = np.empty(L)
    b[T] = 0.0
    v[T] = 0.0
    for t in range(T - 1, -1, -1):
        for i in range(L):
            for j in range(L):
                like = max(log_like[first + t, j], LOG_ZERO)
                row[j] = moves[t * step, i, j] + like + b[t + 1, j]
            b[t, i] = logsumexp(row)
            if energy:
                mean = 0.0
                for j in range(L):
                    like = max(log_like[first + t, j], LOG_ZERO)
                    p = math.exp(row[j] - b[t, i])
                    mean += p * (moves[t * step, i, j] + like + v[t + 1, j])
                v[t, i] = mean


@jit()
def log_space_block(  # type: ignore[no-untyped-def]
    log_init, trans, log_like, offsets, begin, end, constant, mode, tau, energy, weights,
    log_likelihood, entropy, grad_init, grad_like, out, total, flags,
):  # fmt: skip
    """As `_scaled_pass.scaled_block`, for the sentences whose flag is not 0."""
    L = log_init.shape[0]
    step = 0 if constant else 1
    for m in range(begin, end):
        if flags[m] == 0:
            continue
        first, T = offsets[m], offsets[m + 1] - offsets[m]
        rows = min(1, T) if constant else T
        moves = np.empty((rows, L, L))
        log_transition(trans, 0 if constant else first, rows, not constant, moves)
        a, u = np.empty((T + 1, L)), np.empty((T + 1, L))
        b, v = np.empty((T + 1, L)), np.empty((T + 1, L))
        log_forward(log_init, moves, step, log_like, first, T, True, a, u)
        log_backward(moves, step, log_like, first, T, True, b, v)
        value = logsumexp(a[T])
        # Half of LOG_ZERO separates long possible sentences from those with an impossible step.
        if value < 0.5 * LOG_ZERO:
            flags[m] = IMPOSSIBLE
        energies = np.zeros(T + 1)
        G = np.empty((T + 1, L))
        for t in range(T + 1):
            norm = logsumexp(a[t] + b[t])
            for j in range(L):
                G[t, j] = math.exp(a[t, j] + b[t, j] - norm)
                energies[t] += G[t, j] * (u[t, j] + v[t, j])
            for j in range(L):
                G[t, j] *= 1.0 + tau * (u[t, j] + v[t, j] - energies[t])
                if t > 0:
                    grad_like[first + t - 1, j] = weights[m] * G[t, j]
                else:
                    grad_init[m, j] = weights[m] * G[t, j]
        log_likelihood[m] = value
        entropy[m] = max(value - energies[T], 0.0)
        if mode > 0:
            _write_transition_grad(moves, step, log_like, first, T, mode, tau, weights[m], a, u, b, v, G,
                         energies, out, total)  # fmt: skip


@jit()
def _write_transition_grad(  # type: ignore[no-untyped-def]
    moves, step, log_like, first, T, mode, tau, weight, a, u, b, v, G, energies, out, total
):
    """Gradients of the transitions: of logits (mode 1), xi (2), or summed for a constant matrix (3)."""
    L = a.shape[1]
    row, gain = np.empty(L * L), np.empty(L * L)
    for t in range(T):
        k = 0
        for i in range(L):
            for j in range(L):
                here = moves[t * step, i, j] + max(log_like[first + t, j], LOG_ZERO)
                row[k] = a[t, i] + here + b[t + 1, j]
                gain[k] = 1.0 + tau * (u[t, i] + here + v[t + 1, j] - energies[t])
                k += 1
        norm = logsumexp(row)
        k = 0
        for i in range(L):
            for j in range(L):
                x = math.exp(row[k] - norm) * gain[k]
                if mode == 1:
                    x -= math.exp(moves[t * step, i, j]) * G[t, i]
                if mode == 3:
                    total[i, j] += weight * x
                else:
                    out[first + t, i, j] = weight * x
                k += 1
