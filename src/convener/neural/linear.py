"""A linear layer for many rows and few outputs, as the transition network needs it.

BLAS libraries are optimized for matrices that are large in both dimensions. With 9 or 25 outputs the kernels here take
two thirds of the time, and this layer takes most of a training step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from convener.inference._numba import REASSOCIATE, jit, map_blocks

# Rows per chunk: they stay in cache while all weights are read.
_CHUNK_ROWS = 16
# With more outputs BLAS is as fast.
_MAX_OUTPUTS = 64


def linear(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Rows (N, D) times weight (J, D) transposed, plus bias (J,), with gradient.  -> (N, J)

    Uses torch's own layer for many outputs, and for less than one tile of rows or outputs.
    """
    if len(rows) < 4 or not 3 <= len(weight) <= _MAX_OUTPUTS:
        return functional.linear(rows, weight, bias)
    result: Tensor = _Linear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return result


class _Linear(torch.autograd.Function):
    """Processes blocks of rows that do not depend on the number of threads."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        arrays = [x.detach().contiguous().numpy() for x in (rows, weight, bias)]
        out = np.empty((len(rows), len(weight)), arrays[0].dtype)
        _map_row_blocks(lambda begin, end: _forward_kernel(*arrays, begin, end, out), *out.shape)
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        arrays = [x.detach().contiguous().numpy() for x in (rows, grad)]
        block_grads = _map_row_blocks(lambda begin, end: _weight_grad_kernel(*arrays, begin, end), *grad.shape)
        grad_rows = grad @ weight if ctx.needs_input_grad[0] else None
        return grad_rows, torch.from_numpy(sum(block_grads[1:], start=block_grads[0])), grad.sum(0)


def _map_row_blocks(function: Callable[[int, int], Any], num_rows: int, num_outputs: int) -> list[Any]:
    """Results of function(start, end) over blocks of complete chunks."""
    chunk_offsets = np.minimum(np.arange(0, num_rows + _CHUNK_ROWS, _CHUNK_ROWS), num_rows)
    num_threads = torch.get_num_threads()
    return list(
        map_blocks(
            lambda b, e: function(chunk_offsets[b], chunk_offsets[e]),
            chunk_offsets,
            num_outputs,
            num_threads,
        )
    )


@jit(REASSOCIATE)
def _forward_kernel(rows, weight, bias, begin, end, out):  # type: ignore[no-untyped-def]
    """Fill the rows begin..end of out."""
    (N, D), J = rows.shape, len(weight)
    zero = rows.dtype.type(0)
    for first in range(begin, end, _CHUNK_ROWS):
        for o in range(0, J, 3):
            j = min(o, J - 3)
            for n in range(first, min(first + _CHUNK_ROWS, end), 4):
                i = min(n, N - 4)
                a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = d0 = d1 = d2 = zero
                for k in range(D):
                    x, y, z = weight[j, k], weight[j + 1, k], weight[j + 2, k]
                    a, b, c, d = rows[i, k], rows[i + 1, k], rows[i + 2, k], rows[i + 3, k]
                    a0, a1, a2 = a0 + a * x, a1 + a * y, a2 + a * z
                    b0, b1, b2 = b0 + b * x, b1 + b * y, b2 + b * z
                    c0, c1, c2 = c0 + c * x, c1 + c * y, c2 + c * z
                    d0, d1, d2 = d0 + d * x, d1 + d * y, d2 + d * z
                x, y, z = bias[j], bias[j + 1], bias[j + 2]
                out[i, j], out[i, j + 1], out[i, j + 2] = a0 + x, a1 + y, a2 + z
                out[i + 1, j], out[i + 1, j + 1], out[i + 1, j + 2] = b0 + x, b1 + y, b2 + z
                out[i + 2, j], out[i + 2, j + 1], out[i + 2, j + 2] = c0 + x, c1 + y, c2 + z
                out[i + 3, j], out[i + 3, j + 1], out[i + 3, j + 2] = d0 + x, d1 + y, d2 + z


@jit(REASSOCIATE)
def _weight_grad_kernel(rows, grad, begin, end):  # type: ignore[no-untyped-def]
    """Gradient of the weights from the rows begin..end.  -> (J, D)"""
    (N, D), J = rows.shape, grad.shape[1]
    zero = rows.dtype.type(0)
    out, g = np.zeros((J, D), rows.dtype), np.empty((3, 4), rows.dtype)
    for first in range(begin, end, _CHUNK_ROWS):
        for o in range(0, J, 3):
            j = min(o, J - 3)
            for n in range(first, min(first + _CHUNK_ROWS, end), 4):
                i = min(n, N - 4)
                for q in range(3):
                    for r in range(4):
                        # Overlapping tiles must not count a row or output twice.
                        g[q, r] = grad[i + r, j + q] if i + r >= n and j + q >= o else zero
                a0, b0, c0, d0 = g[0, 0], g[0, 1], g[0, 2], g[0, 3]
                a1, b1, c1, d1 = g[1, 0], g[1, 1], g[1, 2], g[1, 3]
                a2, b2, c2, d2 = g[2, 0], g[2, 1], g[2, 2], g[2, 3]
                for k in range(D):
                    a, b, c, d = rows[i, k], rows[i + 1, k], rows[i + 2, k], rows[i + 3, k]
                    out[j, k] += a0 * a + b0 * b + c0 * c + d0 * d
                    out[j + 1, k] += a1 * a + b1 * b + c1 * c + d1 * d
                    out[j + 2, k] += a2 * a + b2 * b + c2 * c + d2 * d
    return out
