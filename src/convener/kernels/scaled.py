"""The scaled forward-backward pass over packed sentences, compiled.

Filtered values are kept at or above a floor, moves at or above exp(reach): both only ever add
probability.  The backward pass then measures how much posterior flows through what was raised.
Where that is nothing the result is exact; where it is not, the sentence is marked `WIDE` and left
to the log-space pass in `exact`.  -inf stays impossible: it is never raised.

Inside: moves e[t] = exp(trans[t] - shift), inv and lse the reciprocal and the logarithm of their
row sums, w the evidence over its maximum and over the scale, near the logarithm of the evidence
below its maximum, a the filtered labels, u the expected energy up to t given z(t), centred.
"""

from __future__ import annotations

import math

import numpy as np

from convener.kernels.compiled import REGROUP, Array, compiled
from convener.kernels.exponent import exp_in_place

FINE, WIDE = 0, 1
# Energies below this count as this: such labels have no posterior, but 0 * -inf would be NaN.
_DEEP = -1.0e4


def limits(dtype: np.dtype[np.generic]) -> Array:
    """Floor of filtered values, reach of moves, reach of evidence, tolerated loss.  -> (4,)"""
    if dtype == np.float32:
        return np.array([1e-18, -41.0, -87.0, 1e-9], np.float32)
    return np.array([1e-150, -345.0, -700.0, 1e-15], np.float64)


@compiled(REGROUP)
def _moves(trans, first, rows, L, fold, reach, e, flat, inv, lse):  # type: ignore[no-untyped-def]
    """Fill e, inv and lse for `rows` matrices; the least finite exponent met.

    Without `fold` the rows are taken as they are, shifted by the maximum of all, left in lse.
    """
    zero, one, inf = e.dtype.type(0), e.dtype.type(1), e.dtype.type(np.inf)
    low, ceiling = zero, -inf
    for t in range(rows):
        for i in range(L):
            top = -inf
            for j in range(L):
                top = max(top, trans[first + t, i, j])
            lse[t, i] = top if top > -inf else zero
            ceiling = max(ceiling, top)
    for t in range(rows):
        for i in range(L):
            if not fold:
                lse[t, i] = ceiling if ceiling > -inf else zero
            top = lse[t, i]
            for j in range(L):
                x = trans[first + t, i, j] - top
                low = min(low, x)
                e[t, i, j] = max(x, reach)
    exp_in_place(flat, rows * L * L)
    if low == -inf:
        low = zero
        for t in range(rows):
            for i in range(L):
                for j in range(L):
                    if trans[first + t, i, j] == -inf:
                        e[t, i, j] = zero
                    else:
                        low = min(low, trans[first + t, i, j] - lse[t, i])
    if fold:
        for t in range(rows):
            for i in range(L):
                total = zero
                for j in range(L):
                    total += e[t, i, j]
                if total > zero:
                    inv[t, i] = one / total
                    lse[t, i] += math.log(total)
                else:
                    inv[t, i] = zero
    else:
        for i in range(L):
            inv[0, i] = one
    return low


@compiled(REGROUP)
def _weights(log_like, first, rows, L, reach, near, w, flat):  # type: ignore[no-untyped-def]
    """Fill near and w; the sum of the maxima that were taken out."""
    zero, inf = w.dtype.type(0), w.dtype.type(np.inf)
    deep = w.dtype.type(_DEEP)
    total = 0.0
    for t in range(rows):
        top = -inf
        for j in range(L):
            top = max(top, log_like[first + t, j])
        if top == -inf:
            top = zero
        total += top
        for j in range(L):
            x = log_like[first + t, j] - top
            near[t, j] = max(x, deep)
            w[t, j] = max(x, reach)
    exp_in_place(flat, rows * L)
    for t in range(rows):
        for j in range(L):
            if log_like[first + t, j] == -inf:
                w[t, j] = zero
    return total


@compiled(REGROUP)
def _start(log_init, L, floor, energy, a, u):  # type: ignore[no-untyped-def]
    """Fill a[0] and u[0]; the log of the sum, the entropy of z(0) and how many were raised."""
    zero, inf = a.dtype.type(0), a.dtype.type(np.inf)
    deep = a.dtype.type(_DEEP)
    top = -inf
    for j in range(L):
        top = max(top, log_init[j])
    if top == -inf:
        return -np.inf, 0.0, 0
    total, raised = zero, 0
    for j in range(L):
        x = log_init[j] - top
        a[0, j] = math.exp(x)
        total += a[0, j]
        u[0, j] = max(x, deep)
    mean = zero
    for j in range(L):
        a[0, j] /= total
        if a[0, j] < floor and log_init[j] > -inf:
            a[0, j] = floor
            raised += 1
        mean += a[0, j] * u[0, j]
    if energy:
        for j in range(L):
            u[0, j] -= mean
    scale = math.log(total)
    return scale + top, scale - mean, raised


@compiled(REGROUP)
def _filter(trans, home, T, L, step, energy, floor, e, inv, lse, near, w, a, u, pred, up):  # type: ignore[no-untyped-def]
    """Fill a[1:] and u[1:], divide w by the scales; log scales, entropy, how many were raised.

    A scale too small to trust ends the pass: the first value is then -inf.
    """
    zero, one, deep = a.dtype.type(0), a.dtype.type(1), a.dtype.type(_DEEP)
    logs, entropy, raised = 0.0, 0.0, 0
    for t in range(T):
        s = t * step
        for j in range(L):
            pred[j] = zero
            up[j] = zero
        for i in range(L):
            ai = a[t, i] * inv[s, i]
            if energy:
                bottom = lse[s, i] + deep
                ui = u[t, i] - lse[s, i]
                for j in range(L):
                    x = ai * e[s, i, j]
                    pred[j] += x
                    up[j] += x * (ui + max(trans[home + s, i, j], bottom))
            else:
                for j in range(L):
                    pred[j] += ai * e[s, i, j]
        c = zero
        for j in range(L):
            c += pred[j] * w[t, j]
        if not c > floor:
            return -np.inf, 0.0, 0
        r = one / c
        log_c = math.log(c)
        logs += log_c
        for j in range(L):
            w[t, j] *= r
            x = pred[j] * w[t, j]
            if x < floor and pred[j] > zero and w[t, j] > zero:
                x = floor
                raised += 1
            a[t + 1, j] = x
        if energy:
            mean = zero
            for j in range(L):
                x = near[t, j]
                if pred[j] > zero:
                    x += up[j] / pred[j]
                up[j] = x
                mean += a[t + 1, j] * x
            for j in range(L):
                u[t + 1, j] = up[j] - mean
            entropy += log_c - mean
    return logs, entropy, raised


@compiled(REGROUP)
def _lost(trans, home, L, limit, low, e, lse, s, a, t, scale, wb, gamma):  # type: ignore[no-untyped-def]
    """Posterior through labels that were raised at t, and through moves raised out of it."""
    total = a.dtype.type(0)
    for i in range(L):
        if a[t, i] <= limit[0]:
            total += gamma[i]
    if low < limit[1]:
        for i in range(L):
            for j in range(L):
                if trans[home + s, i, j] - lse[s, i] <= limit[1]:
                    total += scale[i] * e[s, i, j] * wb[j]
    return total


@compiled(REGROUP)
def _write(  # type: ignore[no-untyped-def]
    trans, home, s, n, L, mode, tau, weight, e, inv, lse, scale, wb, ub, f, G, out, sums
):
    """Gradients of the moves out of t, given that xi(i, j) = scale(i) e(i, j) wb(j).

    Mode 1: of the logits, the softmax undone; 2: xi itself; 3: added to sums, without e.
    """
    one, deep = scale.dtype.type(1), scale.dtype.type(_DEEP)
    for i in range(L):
        si = weight * scale[i]
        if mode == 1:
            gi = G[i] * inv[s, i]
            if tau == 0:
                for j in range(L):
                    out[n, i, j] = e[s, i, j] * (si * wb[j] - gi)
            else:
                bottom = lse[s, i] + deep
                ui = one + tau * (ub[i] - lse[s, i])
                for j in range(L):
                    x = ui + tau * (max(trans[home + s, i, j], bottom) + f[j])
                    out[n, i, j] = e[s, i, j] * (si * wb[j] * x - gi)
        elif mode == 2:
            for j in range(L):
                out[n, i, j] = si * e[s, i, j] * wb[j]
        else:
            for j in range(L):
                sums[0, i, j] += si * wb[j]
            if tau != 0:
                for j in range(L):
                    sums[1, i, j] += si * wb[j] * (ub[i] + f[j])


@compiled(REGROUP)
def _smooth(  # type: ignore[no-untyped-def]
    trans, home, first, T, L, step, mode, tau, weight, limit, low, raised,
    e, inv, lse, near, w, a, u, row, out, sums, grad_like, grad_init, m,
):  # fmt: skip
    """Backward pass of one sentence, writing its gradients; the posterior that was lost."""
    zero, one, deep = a.dtype.type(0), a.dtype.type(1), a.dtype.type(_DEEP)
    b, v, wb, f, scale, G, gamma, ub = row
    lost, watch = zero, raised > 0 or low < limit[1]
    mean = zero
    for j in range(L):
        b[j] = one
        v[j] = zero
        gamma[j] = a[T, j]
        mean += gamma[j] * u[T, j]
    for t in range(T, 0, -1):
        s = (t - 1) * step
        for j in range(L):
            # The label at t is settled: its gradient, and what it passes back.
            x = one + tau * (u[t, j] + v[j] - mean)
            grad_like[first + t - 1, j] = weight * gamma[j] * x
            wb[j] = w[t - 1, j] * b[j]
            f[j] = near[t - 1, j] + v[j]
        total, mean, centre = zero, zero, zero
        for i in range(L):
            x, y = zero, zero
            if tau == 0:
                for j in range(L):
                    x += e[s, i, j] * wb[j]
            else:
                bottom = lse[s, i] + deep
                for j in range(L):
                    z = e[s, i, j] * wb[j]
                    x += z
                    y += z * (max(trans[home + s, i, j], bottom) + f[j])
                if x > zero:
                    y = y / x - lse[s, i]
            v[i] = y
            b[i] = x * inv[s, i] if a[t - 1, i] > zero else zero
            gamma[i] = a[t - 1, i] * b[i]
            total += gamma[i]
        if not total > zero:
            return one / zero
        r = one / total
        for i in range(L):
            b[i] *= r
            gamma[i] *= r
            mean += gamma[i] * (u[t - 1, i] + v[i])
            centre += gamma[i] * v[i]
        for i in range(L):
            ub[i] = u[t - 1, i] - mean
            G[i] = weight * gamma[i] * (one + tau * (ub[i] + v[i]))
            scale[i] = a[t - 1, i] * inv[s, i] * r
        if watch:
            lost += _lost(trans, home, L, limit, low, e, lse, s, a, t - 1, scale, wb, gamma)
        if mode > 0:
            _write(
                trans, home, s, first + t - 1, L, mode, tau, weight,
                e, inv, lse, scale, wb, ub, f, G, out, sums,
            )  # fmt: skip
        for i in range(L):
            v[i] -= centre
        mean -= centre
    for j in range(L):
        grad_init[m, j] = weight * gamma[j] * (one + tau * (u[0, j] + v[j] - mean))
    return lost


@compiled(REGROUP)
def _collect(trans, L, tau, e, lse, sums, total):  # type: ignore[no-untyped-def]
    """Add one sentence's gradient of the one matrix to the float64 total."""
    one, deep = e.dtype.type(1), e.dtype.type(_DEEP)
    for i in range(L):
        for j in range(L):
            energy = max(trans[0, i, j] - lse[0, i], deep)
            x = sums[0, i, j] * (one + tau * energy) + tau * sums[1, i, j]
            total[i, j] += e[0, i, j] * x
            sums[0, i, j] = sums[1, i, j] = 0


@compiled(REGROUP)
def scaled_block(  # type: ignore[no-untyped-def]
    hint, log_init, trans, log_like, offsets, begin, end, constant, mode, tau, energy, weights,
    limit, log_likelihood, entropy, grad_init, grad_like, out, total, flags,
):  # fmt: skip
    """Sentences begin..end; gradients of their weighted objectives into the last arrays.

    `hint` is a tuple of L zeros, by which the compiler knows L, or empty.  trans (N, L, L) logits,
    or (1, L, L) log-probabilities if constant; total (L, L) float64 is added to (mode 3).
    """
    L = len(hint) if len(hint) > 0 else log_init.shape[0]
    dtype = log_like.dtype
    zero = dtype.type(0)
    longest = 0
    for m in range(begin, end):
        longest = max(longest, offsets[m + 1] - offsets[m])
    step, rows = (0, 1) if constant else (1, longest)
    e = np.empty((rows, L, L), dtype)
    inv, lse = np.empty((rows, L), dtype), np.empty((rows, L), dtype)
    near, w = np.empty((longest, L), dtype), np.empty((longest, L), dtype)
    a, u = np.empty((longest + 1, L), dtype), np.zeros((longest + 1, L), dtype)
    sums = np.zeros((2, L, L), dtype)
    pred, up = np.empty(L, dtype), np.empty(L, dtype)
    row = (
        np.empty(L, dtype), np.empty(L, dtype), np.empty(L, dtype), np.empty(L, dtype),
        np.empty(L, dtype), np.empty(L, dtype), np.empty(L, dtype), np.empty(L, dtype),
    )  # fmt: skip
    flat_e, flat_w = e.reshape(-1), w.reshape(-1)
    low, ceiling = zero, zero
    if constant:
        low = _moves(trans, 0, 1, L, False, limit[1], e, flat_e, inv, lse)
        ceiling = lse[0, 0]
    for m in range(begin, end):
        first, T = offsets[m], offsets[m + 1] - offsets[m]
        home = 0 if constant else first
        if not constant:
            low = _moves(trans, first, T, L, True, limit[1], e, flat_e, inv, lse)
        top = _weights(log_like, first, T, L, limit[2], near, w, flat_w)
        start, rest, raised = _start(log_init, L, limit[0], energy, a, u)
        logs, more, again = _filter(
            trans, home, T, L, step, energy, limit[0], e, inv, lse, near, w, a, u, pred, up
        )
        flags[m] = WIDE
        if not start + logs > -np.inf:
            continue
        lost = _smooth(
            trans, home, first, T, L, step, mode, tau, weights[m], limit, low, raised + again,
            e, inv, lse, near, w, a, u, row, out, sums, grad_like, grad_init, m,
        )  # fmt: skip
        if lost <= limit[3]:
            flags[m] = FINE
            log_likelihood[m] = start + logs + top + T * ceiling
            entropy[m] = rest + more
            if mode == 3:
                _collect(trans, L, tau, e, lse, sums, total)
        else:
            sums[:] = zero
