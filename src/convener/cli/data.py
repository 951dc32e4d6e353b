"""Commands that read data: convert, analyze."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import io
from convener.cli import console
from convener.data.dataset import Dataset
from convener.errors import DataError
from convener.evaluation.source_analysis import PairwiseMetric
from convener.evaluation.source_analysis import analyze as analyze_sources
from convener.storage import atomic_write

DataArgument = Annotated[Path, typer.Argument(help="A file, or a folder with train, valid, test.")]


def read_data(
    path: Path,
    split: str | None,
    *,
    format: str | None = None,
    options: Mapping[str, Any],
) -> Any:
    """Read with a sign of life, and show what the reader had to decide."""
    issues = io.Issues()
    with console.spinner(f"reading {path}"):
        data = io.read(path, split, format=format, issues=issues, **options)
    console.print_issues(issues)
    return data


def read_split(path: Path, split: str | None, **options: Any) -> Dataset:
    """Read one dataset; a folder needs the name of a split."""
    files = io.find_split_files(path)
    if files and split is None:
        raise DataError(f"{path}: a folder of splits; choose one: --split {'|'.join(files)}")
    data: Dataset = read_data(path, split, **options)
    return data


def analyze(
    data: DataArgument,
    split: console.Split = None,
    sources: console.Sources = None,
    format: console.FormatName = None,
    read: console.ReadOption = None,
    pairwise: Annotated[PairwiseMetric | None, typer.Option(help="Also a matrix over pairs of sources.")] = None,
    as_json: console.Json = False,
) -> None:
    """Coverage, overlap, conflict and quality of every source."""
    dataset = read_split(data, split, format=format, options=console.parse_read_options(sources, read))
    with console.spinner("analysing"):
        analysis = analyze_sources(dataset)
    if as_json:
        console.print_json(analysis.to_json())
        return
    console.print_result(analysis)
    if pairwise is not None:
        console.print_result(analysis.pairwise_table(pairwise))


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file or a folder of splits.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A file, or a folder for splits.")],
    split: console.Split = None,
    format: console.FormatName = None,
    to: Annotated[str | None, typer.Option(help="Format of OUT where its suffix does not tell.")] = None,
    scheme: Annotated[str, typer.Option(help="Tags to write: bio, io, iobes or biluo.")] = "bio",
    lossy: Annotated[bool, typer.Option("--lossy", help="Write even where votes cannot be kept as they are.")] = False,
    sources: console.Sources = None,
    read: console.ReadOption = None,
    cases: Annotated[Path | None, typer.Option(help="List every decision the reader took in this file.")] = None,
    as_json: console.Json = False,
) -> None:
    """Turn one format into another; what cannot be kept is said."""
    options = console.parse_read_options(sources or ["all"], read)
    issues = io.Issues()
    with console.spinner(f"reading {source}"):
        if io.find_split_files(source):
            content = io.read(source, split, format=format, issues=issues, **options)
        else:
            content = io.read_content(source, format=format, issues=issues, **options)
    console.print_issues(issues)
    if cases is not None:
        with atomic_write(cases) as draft:
            draft.write_text("".join(f"{case}\n" for case in issues), encoding="utf-8")
    with console.spinner(f"writing {target}"):
        io.write(content, target, format=to, scheme=scheme, lossy=lossy)
    if as_json:
        console.print_json({"output": str(target), "cases": issues.counts()})
        return
    console.print_note(f"{source} -> {target}: {content!r}")
