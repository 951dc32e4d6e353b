"""Division that allows zeros; transition counts are tested with the initial labels that use them."""

from __future__ import annotations

import numpy as np

from convener.inference.counts import safe_divide


def test_a_quotient_by_zero_is_nan() -> None:
    np.testing.assert_array_equal(safe_divide(np.array([1.0, 0.0, 3.0]), np.array([2, 0, 0])), [0.5, np.nan, np.nan])
