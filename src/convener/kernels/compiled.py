"""How kernels are compiled: cached on disk, without the interpreter lock, with types kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

# Sums may be regrouped into vectors; infinities keep their meaning.
REASSOCIATE = frozenset({"contract", "reassoc", "arcp", "nsz"})


def jit(fastmath: frozenset[str] = frozenset(), *, inline: bool = False) -> Callable[[Function], Function]:
    """`numba.njit` that divides as NumPy does: a check for zero would keep loops from vectors.

    `inline` is for what runs once a token: passing a dozen arrays costs more than the work.
    The cache lies in `__pycache__` beside the module, or, where that is read-only, in the user's
    cache folder; NUMBA_CACHE_DIR moves it.
    """
    options: Any = set(fastmath) if fastmath else False

    def decorate(function: Function) -> Function:
        result: Function = njit(cache=True, nogil=True, error_model="numpy", fastmath=options, forceinline=inline)(
            function
        )
        return result

    return decorate
