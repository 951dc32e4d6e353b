"""Interrupt a fit at a given step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch


@contextmanager
def killed_at(number: int) -> Iterator[None]:
    """Interrupt the fit in this block at the optimizer step of this number, counted from 1."""
    real, steps = torch.optim.Adam.step, 0

    def step(self: torch.optim.Adam, *args: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == number:
            raise KeyboardInterrupt
        return real(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        for kind in (torch.optim.Adam, torch.optim.AdamW):
            patch.setattr(kind, "step", step)
        with pytest.raises(KeyboardInterrupt):
            yield
