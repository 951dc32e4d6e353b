"""The help of every command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from convener.cli import app

from .conftest import Command


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, by its path."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, child in command.commands.items():
        yield from commands(child, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_the_commands() -> None:
    assert {" ".join(path) for path in COMMANDS} == {
        "analyze",
        "benchmark",
        "cache list",
        "cache prune",
        "compare",
        "convert",
        "demo",
        "doctor",
        "encode",
        "encoder install",
        "encoder list",
        "encoder remove",
        "evaluate",
        "fit",
        "format list",
        "lf apply",
        "lf init",
        "lf preview",
        "model info",
        "model list",
        "plot",
        "predict",
        "report",
        "suggest-answers",
        "train-tagger",
        "view",
    }


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_every_option_has_help(convener: Command, path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    for parameter in command.params:
        text = parameter.help
        assert text, f"{parameter.name} has no help text"
        assert text[0].isupper() or text.split()[0] in (*parameter.opts, "auto,", "frozen"), text
        assert text.endswith((".", ")")), text
    shown = convener(*path, "--help")
    assert shown.code == 0
    assert "Usage" in shown.out


def test_commands_that_read_data_share_the_reading_options() -> None:
    reading = {"input_format", "types", "unmarked", "read_option"}
    readers = [" ".join(path) for path, command in COMMANDS.items() if reading & {item.name for item in command.params}]
    assert readers == [
        *("convert", "analyze", "encode", "fit", "predict", "train-tagger", "evaluate", "compare", "benchmark"),
        *("report", "view", "plot", "suggest-answers", "lf preview", "lf apply"),
    ]
    for path, command in COMMANDS.items():
        names = {item.name for item in command.params}
        assert reading <= names or not reading & names, path


@pytest.mark.parametrize("command", ["fit", "predict", "convert", "evaluate", "train-tagger", "view"])
def test_flags_are_not_shown_with_a_value(convener: Command, command: str) -> None:
    lines = convener(command, "--help").out.splitlines()
    assert not [line for line in lines if "<bool>" in line.lower() and "--help" not in line]
