"""The scaled forward-backward pass over packed sentences, compiled.

Filtered values have a floor, and so have transitions, exp(reach): both can only add probability.  The backward pass
then measures the posterior mass of everything that was raised to a floor.  If it is negligible the result is exact;
otherwise the sentence is marked `UNDERFLOW` and left to the log-space pass in `_log_pass`.  -inf stays impossible: it
is never raised.

Notation, for the tokens t of a sentence (see `_potentials`): transitions e, h = e times its exponent, inv and lse the
reciprocal and logarithm of the row sums of e; evidence w, its logarithm near; filtered labels a, scales c, expected
energy u up to t given z(t); b and v are the backward counterparts of a and u.  u and v are centred at every step: only
differences matter, and float32 represents those accurately.  In Appendix A.1 of the paper a is alpha, b is beta, and
the posteriors gamma and xi of Eq. (11) are products of them.
"""

from __future__ import annotations

import math

import numpy as np

from convener.inference._numba import REASSOCIATE, Array, jit, log_in_place
from convener.inference._potentials import MIN_ENERGY, evidence_rows, transition_rows

OK, UNDERFLOW = 0, 1
"""Flags of sentences; `_log_pass.IMPOSSIBLE` is the third."""


def numeric_limits(dtype: np.dtype[np.generic]) -> Array:
    """Floor of filtered values, log floors of transitions and of evidence, tolerated loss of posterior.  -> (4,)"""
    if dtype == np.float32:
        return np.array([1e-18, -41.0, -87.0, 1e-9], np.float32)
    return np.array([1e-150, -345.0, -700.0, 1e-15], np.float64)


@jit(REASSOCIATE)
def _initial_filter(log_init, L, floor, a0, u0):  # type: ignore[no-untyped-def]
    """Fill the filtered z(0) and its energies; return log sum, entropy, number of raised values."""
    zero, inf, deep = a0.dtype.type(0), a0.dtype.type(np.inf), a0.dtype.type(MIN_ENERGY)
    top = -inf
    for j in range(L):
        top = max(top, log_init[j])
    if top == -inf:
        return -np.inf, 0.0, 0
    total, mean, raised = zero, zero, 0
    for j in range(L):
        a0[j] = math.exp(log_init[j] - top)
        total += a0[j]
    for j in range(L):
        a0[j] /= total
        if a0[j] < floor and log_init[j] > -inf:
            a0[j] = floor
            raised += 1
        u0[j] = max(log_init[j] - top, deep)
        mean += a0[j] * u0[j]
    for j in range(L):
        u0[j] -= mean
    scale = math.log(total)
    return scale + top, scale - mean, raised


@jit(REASSOCIATE)
def _filter(hint, T, step, energy, floor, e, h, inv, lse, near, w, a0, u0, a, u, c, pred, up):  # type: ignore[no-untyped-def]
    """Fill a, u and c, divide w by c; return the total energy and the number of raised values.

    A scale that underflows ends the pass: the number is then -1.
    """
    L = len(hint) if len(hint) > 0 else a.shape[1]
    zero, one = a.dtype.type(0), a.dtype.type(1)
    energies, raised = 0.0, 0
    for j in range(L):
        pred[j] = a0[j]
        up[j] = u0[j]
    for t in range(T):
        s = t * step
        for j in range(L):
            a[t, j] = zero
            u[t, j] = zero
        for i in range(L):
            ai = pred[i] * inv[s, i]
            if energy:
                aui = ai * (up[i] - lse[s, i])
                for j in range(L):
                    a[t, j] += ai * e[s, i, j]
                    u[t, j] += aui * e[s, i, j] + ai * h[s, i, j]
            else:
                for j in range(L):
                    a[t, j] += ai * e[s, i, j]
        total = zero
        for j in range(L):
            total += a[t, j] * w[t, j]
        if not total > floor:
            return 0.0, -1
        c[t] = total
        r = one / total
        mean = zero
        for j in range(L):
            w[t, j] *= r
            x = a[t, j] * w[t, j]
            if energy and a[t, j] > zero:
                u[t, j] = u[t, j] / a[t, j] + near[t, j]
            if x < floor and a[t, j] > zero and w[t, j] > zero:
                x = floor
                raised += 1
            a[t, j] = x
            pred[j] = x
            mean += x * u[t, j]
        if energy:
            energies += mean
            for j in range(L):
                u[t, j] -= mean
                up[j] = u[t, j]
    return energies, raised


@jit(REASSOCIATE, inline=True)
def _lost_posterior(hint, trans, s, limit, low, shift, e, a_t, scale, wb, gamma, home):  # type: ignore[no-untyped-def]
    """Posterior mass of labels raised at t, and of raised transitions out of t."""
    L = len(hint) if len(hint) > 0 else e.shape[1]
    total = scale.dtype.type(0)
    for i in range(L):
        if a_t[i] <= limit[0]:
            total += gamma[i]
    if low < limit[1]:
        for i in range(L):
            for j in range(L):
                if trans[home, i, j] - shift[s, i] <= limit[1]:
                    total += scale[i] * e[s, i, j] * wb[j]
    return total


@jit(REASSOCIATE, inline=True)
def _write_transition_grad(hint, s, n, mode, tau, weight, e, h, inv, lse, scale, wb, ub, f, G, out, sums):  # type: ignore[no-untyped-def]
    """Gradients of the transitions out of t, where xi(i, j) = scale(i) e(i, j) wb(j).

    Mode 1: with respect to logits, through the softmax; 2: xi itself; 3: added to sums, without the factor e.
    """
    L = len(hint) if len(hint) > 0 else e.shape[1]
    one = scale.dtype.type(1)
    for i in range(L):
        si = weight * scale[i]
        if mode == 1:
            gi = G[i] * inv[s, i]
            if tau == 0:
                for j in range(L):
                    out[n, i, j] = e[s, i, j] * (si * wb[j] - gi)
            else:
                sh = si * tau
                su = si * (one + tau * (ub[i] - lse[s, i]))
                for j in range(L):
                    x = su * wb[j] + sh * f[j] - gi
                    out[n, i, j] = e[s, i, j] * x + h[s, i, j] * (sh * wb[j])
        elif mode == 2:
            for j in range(L):
                out[n, i, j] = si * e[s, i, j] * wb[j]
        else:
            for j in range(L):
                sums[0, i, j] += si * wb[j]
            if tau != 0:
                for j in range(L):
                    sums[1, i, j] += si * (ub[i] * wb[j] + f[j])


@jit(REASSOCIATE)
def _smooth(  # type: ignore[no-untyped-def]
    hint, trans, home, n0, T, step, mode, tau, weight, limit, low, raised,
    e, h, inv, lse, shift, near, w, a0, u0, a, u, row, out, sums, grad_like, grad_init, m,
):  # fmt: skip
    """Backward pass of one sentence: write its gradients, return the posterior mass of raised values."""
    L = len(hint) if len(hint) > 0 else a.shape[1]
    zero, one = a.dtype.type(0), a.dtype.type(1)
    b, v, wb, f, scale, G, gamma, ub, at = row
    lost, watch = zero, raised > 0 or low < limit[1]
    for j in range(L):
        b[j] = one
        v[j] = zero
        at[j] = a[T - 1, j] if T > 0 else a0[j]
        ub[j] = u[T - 1, j] if T > 0 else u0[j]
    # A sum next to stores would be grouped by the alignment of the arrays, which varies between runs.
    mean = zero
    for j in range(L):
        mean += at[j] * ub[j]
    for j in range(L):
        G[j] = at[j] * weight * (one + tau * (ub[j] - mean))
    for t in range(T - 1, -1, -1):
        s = t * step
        for j in range(L):
            grad_like[n0 + t, j] = G[j]
            wb[j] = w[t, j] * b[j]
            f[j] = wb[j] * (near[t, j] + v[j])
            at[j] = a[t - 1, j] if t > 0 else a0[j]
            ub[j] = u[t - 1, j] if t > 0 else u0[j]
        total, mean, centre = zero, zero, zero
        for i in range(L):
            x, y = zero, zero
            if tau == 0:
                for j in range(L):
                    x += e[s, i, j] * wb[j]
            else:
                for j in range(L):
                    x += e[s, i, j] * wb[j]
                    y += e[s, i, j] * f[j] + h[s, i, j] * wb[j]
                if x > zero:
                    y = y / x - lse[s, i]
            v[i] = y
            # Unreachable labels are skipped: no posterior passes through them.
            b[i] = x * inv[s, i] if at[i] > zero else zero
            gamma[i] = at[i] * b[i]
            total += gamma[i]
        if not total > zero:
            return one / zero
        r = one / total
        for i in range(L):
            b[i] *= r
            gamma[i] *= r
            mean += gamma[i] * (ub[i] + v[i])
            centre += gamma[i] * v[i]
        for i in range(L):
            ub[i] -= mean
            G[i] = weight * gamma[i] * (one + tau * (ub[i] + v[i]))
            scale[i] = at[i] * inv[s, i] * r
            v[i] -= centre
        if watch:
            lost += _lost_posterior(hint, trans, s, limit, low, shift, e, at, scale, wb, gamma, home + s)
        if mode > 0:
            _write_transition_grad(hint, s, n0 + t, mode, tau, weight, e, h, inv, lse, scale, wb, ub, f, G, out, sums)
    for j in range(L):
        grad_init[m, j] = G[j]
    return lost


@jit(REASSOCIATE)
def _collect_transition_grad(L, tau, e, h, sums, total):  # type: ignore[no-untyped-def]
    """Add one sentence's gradient of the constant matrix to the float64 total."""
    for i in range(L):
        for j in range(L):
            x = e[0, i, j] * (sums[0, i, j] + tau * sums[1, i, j])
            total[i, j] += x + h[0, i, j] * tau * sums[0, i, j]
            sums[0, i, j] = sums[1, i, j] = 0


@jit(REASSOCIATE)
def scaled_block(  # type: ignore[no-untyped-def]
    hint, log_init, trans, log_like, offsets, begin, end, constant, mode, tau, energy, weights,
    limit, log_likelihood, entropy, grad_init, grad_like, out, total, flags,
):  # fmt: skip
    """Process the sentences begin..end; write gradients of their weighted objectives to the last arrays.

    `hint` is a tuple of L zeros, which makes L static, or empty.  trans (N, L, L) logits, or (1, L, L)
    log-probabilities if constant; in mode 3 gradients are added to total (L, L) float64.
    """
    L = len(hint) if len(hint) > 0 else log_init.shape[0]
    dtype, zero = log_like.dtype, log_like.dtype.type(0)
    longest = 0
    for m in range(begin, end):
        longest = max(longest, offsets[m + 1] - offsets[m])
    step, rows = (0, 1) if constant else (1, longest)
    e, h = np.empty((rows, L, L), dtype), np.empty((rows, L, L), dtype)
    inv, lse, shift = (
        np.empty((rows, L), dtype),
        np.zeros((rows, L), dtype),
        np.zeros((rows, L), dtype),
    )
    near, w = np.empty((longest, L), dtype), np.empty((longest, L), dtype)
    a, u = np.empty((longest, L), dtype), np.empty((longest, L), dtype)
    c, top = np.empty(longest, dtype), np.empty(longest, dtype)
    a0, u0 = np.empty(L, dtype), np.empty(L, dtype)
    sums = np.zeros((2, L, L))  # float64: sums over thousands of tokens
    row = (
        np.empty(L, dtype), np.empty(L, dtype), np.empty(L, dtype), np.empty(L, dtype),
        np.empty(L, dtype), np.empty(L, dtype), np.empty(L, dtype), np.empty(L, dtype),
        np.empty(L, dtype),
    )  # fmt: skip
    start, entropy_start, raised_start = _initial_filter(log_init, L, limit[0], a0, u0)
    low, ceiling = zero, zero
    if constant:
        low = transition_rows(hint, trans, 0, 1, False, energy, limit[1], e, h, inv, lse, shift)
        ceiling = shift[0, 0]
    for m in range(begin, end):
        n0, T = offsets[m], offsets[m + 1] - offsets[m]
        if not constant:
            low = transition_rows(hint, trans, n0, T, True, energy, limit[1], e, h, inv, lse, shift)
        evidence_rows(hint, log_like[n0 : n0 + T], T, limit[2], near, w, top)
        flags[m] = UNDERFLOW
        energies, raised = _filter(
            hint, T, step, energy, limit[0], e, h, inv, lse, near, w, a0, u0, a, u, c,
            row[0], row[1],
        )  # fmt: skip
        if raised < 0 or not start > -np.inf:
            continue
        lost = _smooth(
            hint, trans, 0 if constant else n0, n0, T, step, mode, tau, weights[m],
            limit, low, raised + raised_start, e, h, inv, lse, shift, near, w, a0, u0, a, u, row,
            out, sums, grad_like, grad_init, m,
        )  # fmt: skip
        if not lost <= limit[3]:
            sums[:] = 0
            continue
        flags[m] = OK
        if mode == 3:
            _collect_transition_grad(L, tau, e, h, sums, total)
        log_in_place(c, T)
        scales, tops = 0.0, 0.0
        for t in range(T):
            scales += c[t]
            tops += top[t]
        log_likelihood[m] = start + scales + tops + T * ceiling
        entropy[m] = entropy_start + scales - energies
