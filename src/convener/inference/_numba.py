"""How kernels are compiled and run: the `jit` decorator, blocks of work, vectorized exp and log.

`exp_in_place` and `log_in_place` are written such that LLVM vectorizes them. Numba calls the scalar libm unless SVML is
installed; in float32 that would take more time than the rest of the chain kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
# Sums may be reassociated, so that they vectorize; infinities keep their meaning.
REASSOCIATE = frozenset({"contract", "reassoc", "arcp", "nsz"})


def jit(fastmath: frozenset[str] = frozenset(), *, inline: bool = False) -> Callable[[Function], Function]:
    """`numba.njit` with division as in NumPy: a check for zero would prevent vectorization.

    `inline` is for functions called once per token, for which passing a dozen arrays costs more than the work.
    Compiled code is cached in `__pycache__` beside the module, in the user's cache directory if that is read-only,
    or in NUMBA_CACHE_DIR.
    """
    options: Any = set(fastmath) if fastmath else False

    def decorate(function: Function) -> Function:
        result: Function = njit(cache=True, nogil=True, error_model="numpy", fastmath=options, forceinline=inline)(
            function
        )
        return result

    return decorate


# Cells per block: many compared with the cost of a call, few compared with a batch of many labels.
_BLOCK_CELLS = 1 << 17
T = TypeVar("T")


def block_bounds(offsets: NDArray[np.int64], cells_per_token: int) -> list[int]:
    """First sentence of each block, and the end; a block has about `_BLOCK_CELLS / cells_per_token` tokens.

    >>> block_bounds(np.array([0, 60_000, 80_000, 150_000, 150_001]), 1)
    [0, 2, 4]
    """
    num_sentences = len(offsets) - 1
    size = max(64, _BLOCK_CELLS // cells_per_token)
    block_index = np.maximum(offsets[1:] - 1, 0) // size
    starts = np.flatnonzero(np.diff(block_index)) + 1 if num_sentences else np.zeros(0, np.int64)
    return [0, *starts.tolist(), num_sentences]


def map_blocks(
    function: Callable[[int, int], T],
    offsets: NDArray[np.int64],
    cells_per_token: int,
    num_threads: int,
) -> Iterator[T]:
    """Yield the results of function(start, end) for every block, in order."""
    blocks = list(pairwise(block_bounds(offsets, cells_per_token)))
    if num_threads <= 1 or len(blocks) == 1:
        yield from (function(start, end) for start, end in blocks)
        return
    with ThreadPoolExecutor(min(num_threads, len(blocks))) as pool:
        yield from pool.map(lambda block: function(*block), blocks)


MIN_EXPONENT = -80.0
"""Lower bound of exponents passed to exp in single precision."""
# Adding 1.5 * 2**23 leaves the nearest integer in the last bits of a float32.
_ROUND = np.float32(12582912.0)
_LOG2E = np.float32(1.4426950408889634)
# log 2 in two parts: the first has few bits, so its product with a small integer is exact.
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(math.log(2) - 0.693359375)
_ONE = np.float32(1.0)
_C2 = np.float32(1 / 2)
_C3 = np.float32(1 / 6)
_C4 = np.float32(1 / 24)
_C5 = np.float32(1 / 120)
_C6 = np.float32(1 / 720)
_C7 = np.float32(1 / 5040)
_SQRT2 = np.float32(math.sqrt(2))
_D1 = np.float32(2)
_D3 = np.float32(2 / 3)
_D5 = np.float32(2 / 5)
_D7 = np.float32(2 / 7)
_D9 = np.float32(2 / 9)


def _power_of_two_code(typing_context: Any, rounded: Any) -> Any:
    """2**n as float32, where n is the integer that `_ROUND` left in the bits of `rounded`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        bits = builder.shl(builder.bitcast(arguments[0], word), word(23))
        return builder.bitcast(builder.add(bits, word(127 << 23)), ir.FloatType())

    return types.float32(types.float32), generate


def _exponent_code(typing_context: Any, x: Any) -> Any:
    """The binary exponent of a positive normal float32, as float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        bits = builder.lshr(builder.bitcast(arguments[0], word), word(23))
        return builder.sitofp(builder.sub(bits, word(127)), ir.FloatType())

    return types.float32(types.float32), generate


def _mantissa_code(typing_context: Any, x: Any) -> Any:
    """The mantissa of a positive normal float32, in [1, 2)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        bits = builder.and_(builder.bitcast(arguments[0], word), word(0x7FFFFF))
        return builder.bitcast(builder.or_(bits, word(0x3F800000)), ir.FloatType())

    return types.float32(types.float32), generate


# Assigned, not decorated: the types of Numba's decorators differ between its versions.
_power_of_two: Any = intrinsic(_power_of_two_code)
_exponent: Any = intrinsic(_exponent_code)
_mantissa: Any = intrinsic(_mantissa_code)


# No reassociation here: it would cancel (x + _ROUND) - _ROUND.
@jit(frozenset({"contract"}), inline=True)
def _exp_single(values: Array, count: int) -> None:
    for k in range(count):
        x = values[k]
        rounded = x * _LOG2E + _ROUND
        n = rounded - _ROUND
        r = (x - n * _LN2_HIGH) - n * _LN2_LOW
        p = _C6 + r * _C7
        p = _C5 + r * p
        p = _C4 + r * p
        p = _C3 + r * p
        p = _C2 + r * p
        p = _ONE + r * p
        p = _ONE + r * p
        values[k] = p * _power_of_two(rounded)


@jit()
def _exp_double(values: Array, count: int) -> None:
    for k in range(count):
        values[k] = math.exp(values[k])


@jit(frozenset({"contract"}), inline=True)
def _log_single(values: Array, count: int) -> None:
    for k in range(count):
        x = values[k]
        m, n = _mantissa(x), _exponent(x)
        m, n = (m * _C2, n + _ONE) if m > _SQRT2 else (m, n)
        s = (m - _ONE) / (m + _ONE)
        q = s * s
        p = _D7 + q * _D9
        p = _D5 + q * p
        p = _D3 + q * p
        p = _D1 + q * p
        values[k] = n * _LN2_HIGH + (n * _LN2_LOW + s * p)


@jit()
def _log_double(values: Array, count: int) -> None:
    for k in range(count):
        values[k] = math.log(values[k])


def exp_in_place(values: Array, count: int) -> None:
    """Replace the first `count` values x <= 0 by exp(x); float32 must not be below -87."""
    raise NotImplementedError("called from compiled code only")


def _exp_in_place(values: Any, count: Any) -> Any:
    if values.dtype == types.float32:
        return lambda values, count: _exp_single(values, count)
    return lambda values, count: _exp_double(values, count)


def log_in_place(values: Array, count: int) -> None:
    """Replace the first `count` values x > 0 by log x; float32 must not be denormal."""
    raise NotImplementedError("called from compiled code only")


def _log_in_place(values: Any, count: Any) -> Any:
    if values.dtype == types.float32:
        return lambda values, count: _log_single(values, count)
    return lambda values, count: _log_double(values, count)


_register: Any = overload
_register(exp_in_place, strict=False)(_exp_in_place)
_register(log_in_place, strict=False)(_log_in_place)
