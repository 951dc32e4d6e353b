"""What is said of sources: their names, what their silence means, how precise they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from convener import expect

Silence = Literal["O", "abstain"]
SILENCES: tuple[Silence, ...] = get_args(Silence)


def check(
    names: tuple[str, ...], silence: Sequence[str], precision: Sequence[float | None]
) -> None:
    """Different names, and for each of them what its silence means and its precision, if known."""
    count = len(names)
    expect.distinct("sources", names)
    expect.that(all(names), "a source needs a name, got ''")
    expect.that(
        len(silence) == count and set(silence) <= set(SILENCES),
        f"silence must be 'O' or 'abstain' for each of the {count} sources, got {silence}",
    )
    expect.that(
        len(precision) == count and all(share is None or 0 < share < 1 for share in precision),
        f"precision must be in (0, 1), or None where it is not known, for each of the "
        f"{count} sources, got {precision}",
    )
