"""Every malformed file gives one line with file and position, exit code 2 and no output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.malformed import FILES, SHAPES, build

from .conftest import Command


@pytest.fixture(scope="module")
def malformed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("malformed")
    assert len(build(folder)) >= 40
    return folder


@pytest.mark.parametrize("name", [*FILES, *SHAPES])
def test_one_line_exit_code_2_no_output(convener: Command, malformed: Path, tmp_path: Path, name: str) -> None:
    refused = convener("convert", malformed / name, tmp_path / "out.jsonl")
    assert refused.code == 2, refused.err
    assert refused.out == ""
    assert refused.err.startswith("error: "), refused.err
    assert refused.err.count("\n") == 1, refused.err
    assert name in refused.err
    assert FILES.get(name, (b"", ""))[1] in refused.err
    assert len(refused.err) < 500, refused.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["analyze", "fit"])
def test_other_commands_refuse_the_same_way(convener: Command, malformed: Path, tmp_path: Path, command: str) -> None:
    arguments = ["-o", tmp_path / "run"] if command == "fit" else []
    refused = convener(command, malformed / "outside.json", *arguments)
    assert refused.code == 2
    assert "item '0'" in refused.err
    assert list(tmp_path.iterdir()) == []
