"""Run commands in this process and capture their output."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import convener as cv
from convener.cli import main


@dataclass(frozen=True)
class Outcome:
    """Exit code and both outputs of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture
def convener(capsys: pytest.CaptureFixture[str]) -> Command:
    """Call a command as the shell would."""

    def run(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), output.out, output.err)

    return run


@pytest.fixture(scope="session")
def news(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo corpus as a folder."""
    folder = tmp_path_factory.mktemp("data") / "news"
    cv.write(cv.demo.load_corpus(), folder, format="wrench")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for the test."""
    monkeypatch.setenv("CONVENER_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"
