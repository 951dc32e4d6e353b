"""Commands that read data: convert, analyze."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import io
from convener.cli import terminal
from convener.data import Dataset
from convener.errors import DataError
from convener.evaluate import analyze as analyze_sources
from convener.evaluate.sources import PairKind
from convener.io.files import whole

Data = Annotated[Path, typer.Argument(help="A file, or a folder with train, valid, test.")]


def read_data(
    path: Path,
    split: str | None,
    *,
    format: str | None = None,
    options: Mapping[str, Any],
) -> Any:
    """Read with a sign of life, and show what the reader had to decide."""
    report = io.Report()
    with terminal.working(f"reading {path}"):
        data = io.read(path, split, format=format, report=report, **options)
    terminal.show_report(report)
    return data


def read_split(path: Path, split: str | None, **options: Any) -> Dataset:
    """Read one dataset; a folder needs the name of a split."""
    files = io.split_files(path)
    if files and split is None:
        raise DataError(f"{path}: a folder of splits; choose one: --split {'|'.join(files)}")
    data: Dataset = read_data(path, split, **options)
    return data


def analyze(
    data: Data,
    split: terminal.Split = None,
    sources: terminal.Sources = None,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
    pairwise: Annotated[
        PairKind | None, typer.Option(help="Also a matrix over pairs of sources.")
    ] = None,
    as_json: terminal.Json = False,
) -> None:
    """Coverage, overlap, conflict and quality of every source."""
    dataset = read_split(data, split, format=format, options=terminal.reading(sources, read))
    with terminal.working("analysing"):
        analysis = analyze_sources(dataset)
    if as_json:
        terminal.show_json(analysis.to_json())
        return
    terminal.show(analysis)
    if pairwise is not None:
        terminal.show(analysis.pairwise_table(pairwise))


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file or a folder of splits.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A file, or a folder for splits.")],
    split: terminal.Split = None,
    format: terminal.FormatName = None,
    to: Annotated[
        str | None, typer.Option(help="Format of OUT where its suffix does not tell.")
    ] = None,
    scheme: Annotated[str, typer.Option(help="Tags to write: bio, io, iobes or biluo.")] = "bio",
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Write even where votes cannot be kept as they are.")
    ] = False,
    sources: terminal.Sources = None,
    read: terminal.Reading = None,
    cases: Annotated[
        Path | None, typer.Option(help="List every decision the reader took in this file.")
    ] = None,
    as_json: terminal.Json = False,
) -> None:
    """Turn one format into another; what cannot be kept is said."""
    options = terminal.reading(sources or ["all"], read)
    report = io.Report()
    with terminal.working(f"reading {source}"):
        if io.split_files(source):
            content = io.read(source, split, format=format, report=report, **options)
        else:
            content = io.read_content(source, format=format, report=report, **options)
    terminal.show_report(report)
    if cases is not None:
        with whole(cases) as draft:
            draft.write_text("".join(f"{case}\n" for case in report), encoding="utf-8")
    with terminal.working(f"writing {target}"):
        io.write(content, target, format=to, scheme=scheme, lossy=lossy)
    if as_json:
        terminal.show_json({"output": str(target), "cases": report.counts()})
        return
    terminal.note(f"{source} -> {target}: {content!r}")
