from pathlib import Path

from convener.io.formats import Content, Format
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    raise NotImplementedError


def write(content: Content, path: Path, options: WriteOptions) -> None:
    raise NotImplementedError


FORMAT = Format(
    name="wrench", summary="", suffixes=(".wrench",), carries=frozenset(), read=read, write=write
)
