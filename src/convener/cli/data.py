"""Commands that read data: convert, analyze."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from convener import io
from convener.cli import console, options
from convener.cli.options import ReadArgs, parse_read_options
from convener.data.dataset import Dataset
from convener.errors import DataError
from convener.evaluation.source_analysis import PairwiseMetric
from convener.evaluation.source_analysis import analyze as analyze_sources


def read_data(args: ReadArgs) -> Any:
    """Read a Dataset, or a Corpus from a folder without a split, and print the issues of the reader."""
    issues = io.Issues()
    with console.spinner(f"reading {args.path}"):
        data = io.read(args.path, args.split, format=args.format, issues=issues, **args.options)
    console.print_issues(issues)
    return data


def read_split(args: ReadArgs) -> Dataset:
    """Read one Dataset; a folder needs the name of a split."""
    files = io.find_split_files(args.path)
    if files and args.split is None:
        raise DataError(f"{args.path}: is a folder of splits; choose one with --split {{{','.join(files)}}}")
    data: Dataset = read_data(args)
    return data


def analyze(
    data: options.DataArgument,
    split: options.Split = None,
    sources: options.Sources = None,
    format: options.InputFormat = None,
    read: options.ReadOptions = None,
    pairwise: Annotated[
        PairwiseMetric | None, typer.Option(help="Also print this metric for pairs of sources.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Coverage, overlap, conflict and quality of every source."""
    read_args = ReadArgs(path=data, split=split, format=format, options=parse_read_options(sources, read))
    dataset = read_split(read_args)
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
    split: options.Split = None,
    format: options.InputFormat = None,
    to: options.OutputFormat = None,
    scheme: options.Scheme = "bio",
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Allow changes to votes that the output format cannot represent.")
    ] = False,
    sources: options.Sources = None,
    read: options.ReadOptions = None,
    cases: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every issue (overlaps, misaligned spans, repaired tags) to FILE."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Convert between formats; warns about information the target drops."""
    read_options = parse_read_options(sources or ["all"], read)
    issues = io.Issues()
    with console.spinner(f"reading {source}"):
        if io.find_split_files(source):
            content = io.read(source, split, format=format, issues=issues, **read_options)
        else:
            content = io.read_content(source, format=format, issues=issues, **read_options)
    console.print_issues(issues)
    if cases is not None:
        console.write_issues(issues, cases)
    with console.spinner(f"writing {target}"):
        io.write(content, target, format=to, scheme=scheme, lossy=lossy)
    if as_json:
        console.print_json({"output": str(target), "cases": issues.counts()})
        return
    console.print_note(f"{source} -> {target}: {content!r}")
