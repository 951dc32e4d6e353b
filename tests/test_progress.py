"""Progress bars: shown on a terminal only."""

from __future__ import annotations

import io
import time
from itertools import pairwise

import pytest
from rich.console import Console

from convener import progress


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Output of a terminal with 200 columns."""
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    return shown


def test_a_bar_shows_progress_speed_and_message(screen: io.StringIO) -> None:
    with progress.progress_bar("encoding", 4000, unit="tokens", completed=1000) as advance:
        for _ in range(3):
            time.sleep(0.01)
            advance("shard", by=500)
    output = screen.getvalue()
    assert "encoding" in output
    assert "2500/4000" in output
    assert "tokens/s" in output
    assert "shard" in output


def test_speed_does_not_count_steps_completed_before(screen: io.StringIO) -> None:
    with progress.progress_bar("encoding", 2_000_000, unit="tokens", completed=1_000_000) as advance:
        for _ in range(3):
            time.sleep(0.02)
            advance(by=10)
    speeds = [
        float(word.replace(",", ""))
        for word, unit in pairwise(screen.getvalue().split())
        if unit.startswith("tokens/s")
    ]
    assert speeds
    assert all(0 < speed <= 1000 for speed in speeds)  # ten per 20 ms


def test_without_a_unit_no_speed_is_shown(screen: io.StringIO) -> None:
    with progress.progress_bar("fitting", 3) as advance:
        advance()
    assert "1/3" in screen.getvalue()
    assert "/s" not in screen.getvalue()


def test_without_a_terminal_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_bar("encoding", 3, unit="tokens") as advance:
        advance("message")
    assert capsys.readouterr() == ("", "")
