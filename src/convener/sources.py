"""What is said of sources: their names, what their silence means, how precise they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from convener import expect

Silence = Literal["O", "abstain"]
SILENCES: tuple[Silence, ...] = get_args(Silence)


def check_sources(names: tuple[str, ...], silence: Sequence[str], prior_precision: Sequence[float | None]) -> None:
    """Different names, and for each of them what its silence means and its precision, if known."""
    count = len(names)
    expect.check_unique("sources", names)
    expect.check(all(names), "a source needs a name, got ''")
    expect.check(
        len(silence) == count and set(silence) <= set(SILENCES),
        f"silence must be 'O' or 'abstain' for each of the {count} sources, got {silence}",
    )
    expect.check(
        len(prior_precision) == count and all(value is None or 0 < value < 1 for value in prior_precision),
        f"precision must be in (0, 1), or None where it is not known, for each of the "
        f"{count} sources, got {prior_precision}",
    )
