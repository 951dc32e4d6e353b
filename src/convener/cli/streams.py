"""Standard input and output in place of files: the path "-"."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from convener.errors import ConfigError, FormatError

STANDARD_STREAM = Path("-")


@contextmanager
def standard_input(path: Path) -> Iterator[Path]:
    """Yield the path itself, or for "-" a file with what standard input contains.

    It is JSON Lines if it starts with a brace, else text; --input-format names another format.
    """
    if path != STANDARD_STREAM:
        yield path
        return
    content = sys.stdin.buffer.read()
    suffix = ".jsonl" if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ".txt"
    with TemporaryDirectory(prefix="convener-") as folder:
        file = Path(folder) / f"stdin{suffix}"
        file.write_bytes(content)
        yield file


@contextmanager
def standard_output(path: Path, output_format: str | None, *, as_json: bool) -> Iterator[Path]:
    """Yield the path itself, or for "-" a file that is then copied to standard output; without a format JSON Lines."""
    if path != STANDARD_STREAM:
        yield path
        return
    if as_json:
        raise ConfigError("--json and the output - both write to standard output; choose one")
    with TemporaryDirectory(prefix="convener-") as folder:
        suffix = "" if output_format else ".jsonl"
        file = Path(folder) / f"stdout{suffix}"
        yield file
        if file.is_dir():
            raise FormatError("-: a folder cannot be written to standard output; choose --split, or another format")
        sys.stdout.flush()
        with file.open("rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer)
        sys.stdout.buffer.flush()
