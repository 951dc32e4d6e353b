"""Potentials of a chain: scores of one sentence turned into weights, compiled.

These parts of the scaled pass do not depend on neighbouring tokens: they are vectorized over all cells of a sentence.
"""

from __future__ import annotations

import numpy as np

from convener.inference._numba import REASSOCIATE, exp_in_place, jit, log_in_place

# Lower bound of energies: such labels have posterior 0, but 0 * -inf would be NaN.
MIN_ENERGY = -1.0e4
# Maxima vectorize only if the order of NaNs does not matter.  NaNs are not lost: they stay in their cells.
_FASTMATH_MAX = REASSOCIATE | {"nnan"}


@jit(_FASTMATH_MAX, inline=True)
def _min_max(values, count):  # type: ignore[no-untyped-def]
    """Minimum and maximum of the first `count` values."""
    low, top = values[0], values[0]
    for k in range(count):
        x = values[k]
        low = x if x < low else low
        top = x if x > top else top
    return low, top


@jit(_FASTMATH_MAX, inline=True)
def _row_max(hint, values, count, out):  # type: ignore[no-untyped-def]
    """Maximum of each row, 0 for a row of -inf.  values (., L) -> out (count,)"""
    L = len(hint) if len(hint) > 0 else values.shape[1]
    inf = values.dtype.type(np.inf)
    for r in range(count):
        top = values[r, 0]
        for j in range(1, L):
            x = values[r, j]
            top = x if x > top else top
        out[r] = top if top > -inf else values.dtype.type(0)


@jit(REASSOCIATE, inline=True)
def _row_sums(hint, values, count, out):  # type: ignore[no-untyped-def]
    L = len(hint) if len(hint) > 0 else values.shape[1]
    for r in range(count):
        total = values[r, 0]
        for j in range(1, L):
            total += values[r, j]
        out[r] = total


@jit(REASSOCIATE, inline=True)
def _subtract(values, count, top, out, copy):  # type: ignore[no-untyped-def]
    for k in range(count):
        x = values[k] - top
        out[k] = x
        copy[k] = x


@jit(REASSOCIATE)
def _subtract_row_max(hint, scores, count, L, fold, reach, rows_h, rows_e, tops):  # type: ignore[no-untyped-def]
    """Fill h with rows minus their maximum (without `fold`: the overall maximum), and e with the same, clipped."""
    dtype = scores.dtype
    low, deep, inf = dtype.type(0), dtype.type(MIN_ENERGY), dtype.type(np.inf)
    _row_max(hint, scores, count, tops)
    if not fold:
        tops[:count] = tops[:count].max()
    for r in range(count):
        for j in range(L):
            x = scores[r, j] - tops[r]
            if x > -inf:
                low = min(low, x)
            rows_h[r, j] = deep if x < deep else x
            rows_e[r, j] = reach if x < reach else x
    return low


@jit(REASSOCIATE)
def transition_rows(hint, trans, home, count, fold, energy, reach, e, h, inv, lse, shift):  # type: ignore[no-untyped-def]
    """Fill `count` matrices of e, inv, lse, shift, and of h if `energy`; return the smallest finite exponent.

    trans (., L, L) is read from index `home` on.  e = exp(trans - shift), h = e times its exponent, inv and lse are the
    reciprocal and the logarithm of the row sums of e (1 and 0 without `fold`).  All rows of a sentence share one shift
    unless their ranges differ too much; then each row has its own.
    """
    L = len(hint) if len(hint) > 0 else trans.shape[1]
    zero, one, inf = e.dtype.type(0), e.dtype.type(1), e.dtype.type(np.inf)
    rows, cells = count * L, count * L * L
    # Indices start at 0, so that the compiler can prove that none is negative.
    flat = trans[home : home + count].reshape(-1)
    scores = flat.reshape(-1, L)
    rows_e, rows_h, flat_e, flat_h = (
        e.reshape(-1, L),
        h.reshape(-1, L),
        e.reshape(-1),
        h.reshape(-1),
    )
    sums, logs, tops = inv.reshape(-1), lse.reshape(-1), shift.reshape(-1)
    if count == 0:
        return zero
    low, top = _min_max(flat, cells)
    plain = low - top > reach
    if plain:
        low -= top
        _subtract(flat, cells, top, flat_h, flat_e)
        tops[:rows] = top
    else:
        low = _subtract_row_max(hint, scores, rows, L, fold, reach, rows_h, rows_e, tops)
    exp_in_place(flat_e, cells)
    if not plain:
        for k in range(cells):
            if flat[k] == -inf:
                flat_e[k] = zero
    if energy:
        for k in range(cells):
            flat_h[k] *= flat_e[k]
    if not fold:
        sums[:rows] = one
        logs[:rows] = zero
        return low
    _row_sums(hint, rows_e, rows, sums)
    if energy:
        for r in range(rows):
            logs[r] = sums[r] if sums[r] > zero else one
        log_in_place(logs, rows)
    for r in range(rows):
        sums[r] = one / sums[r] if sums[r] > zero else zero
    return low


@jit(REASSOCIATE)
def evidence_rows(hint, log_like, count, reach, near, w, top):  # type: ignore[no-untyped-def]
    """Fill top with the maximum of each token, near with the evidence minus top, and w = exp(near)."""
    L = len(hint) if len(hint) > 0 else log_like.shape[1]
    zero, inf, deep = w.dtype.type(0), w.dtype.type(np.inf), w.dtype.type(MIN_ENERGY)
    flat_w = w.reshape(-1)
    _row_max(hint, log_like, count, top)
    for r in range(count):
        for j in range(L):
            x = log_like[r, j] - top[r]
            near[r, j] = deep if x < deep else x
            w[r, j] = reach if x < reach else x
    exp_in_place(flat_w, count * L)
    for r in range(count):
        for j in range(L):
            w[r, j] = zero if log_like[r, j] == -inf else w[r, j]
