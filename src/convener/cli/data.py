"""Commands about data: convert, analyze, format list."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from convener import io
from convener.cli import console, options
from convener.cli.field_docs import field_docs
from convener.cli.options import ReadingOptions, with_reading_options
from convener.cli.reading import TRAIN_FIRST, choose_split, read_content, read_dataset
from convener.cli.streams import standard_input, standard_output
from convener.data.issues import Issues
from convener.data.tables import Table
from convener.evaluation.source_analysis import PairwiseMetric
from convener.evaluation.source_analysis import analyze as analyze_sources
from convener.io.formats import CAPABILITIES, ReadOptions

format_app = typer.Typer(help="List data formats.")


@with_reading_options
def analyze(
    data: options.DataArgument,
    *,
    split: options.TrainFirstSplit = None,
    source: options.Sources = None,
    pairwise: Annotated[
        PairwiseMetric | None, typer.Option(help="Also print this metric for pairs of sources.")
    ] = None,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Coverage, overlap, conflict and quality of every source."""
    dataset = read_dataset(choose_split(reading.args(data, split, source), TRAIN_FIRST))
    with console.spinner("analysing"):
        analysis = analyze_sources(dataset)
    if as_json:
        console.print_json(analysis.to_json())
        return
    console.print_result(analysis)
    if pairwise is not None:
        console.print_result(analysis.pairwise_table(pairwise))


@with_reading_options
def convert(
    source_path: Annotated[Path, typer.Argument(metavar="INPUT", help="A file or a folder of splits.")],
    target_path: Annotated[Path, typer.Argument(metavar="OUTPUT", help="A file, or a folder for splits.")],
    *,
    split: options.Split = None,
    output_format: options.OutputFormat = None,
    scheme: options.Scheme = "bio",
    allow_lossy: options.AllowLossy = False,
    metadata: options.Metadata = None,
    scores: options.Scores = False,
    probabilities: options.Probabilities = True,
    source: options.Sources = None,
    issues: options.Issues = None,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Convert between formats; warns about information the target drops.

    Formats: wrench, jsonl, conll, huggingface, table, npz, spacy, doccano and prodigy (JSON Lines), and raw text as
    input; see `convener format list`. INPUT or OUTPUT may be - for standard input or output.
    As in every command, the recommended sources of a Wrench folder are kept, so that a model fitted on OUTPUT uses the
    same sources as one fitted on INPUT; --source all keeps all of them.
    """
    found = Issues()
    with standard_input(source_path) as path, console.show_logs():
        content = read_content(reading.args(path, split, source), found)
    console.print_issues(found)
    if issues is not None:
        console.write_issues(found, issues)
    with (
        standard_output(target_path, output_format, as_json=as_json) as path,
        console.spinner(f"writing {target_path}"),
    ):
        io.write(
            content,
            path,
            format=output_format,
            scheme=scheme,
            allow_lossy=allow_lossy,
            metadata=metadata,
            scores=scores,
            probabilities=probabilities,
        )
    if as_json:
        console.print_json({"output": str(target_path), "issues": found.counts()})
        return
    console.print_note(f"{source_path} -> {target_path}: {content!r}")


@format_app.command("list")
def list_formats(as_json: options.Json = False) -> None:
    """List data formats, what each cannot store, and the reader options."""
    docs = field_docs(ReadOptions)
    table = Table(
        title="Data formats",
        columns=("format", "suffixes", "description", "cannot store"),
        rows=[(item.name, item.suffixes, item.summary, _cannot_store(item)) for item in io.list_formats()],
    )
    if as_json:
        console.print_json({"formats": console.to_records(table), "read_options": docs})
        return
    console.print_result(f"{table}\n")
    console.print_result(
        Table(
            title="Reader options, for --read-option KEY=VALUE",
            columns=("option", "default", "meaning"),
            rows=[
                (item.name, "none" if item.default is None else item.default, docs[item.name])
                for item in fields(ReadOptions)
            ],
        )
    )


def _cannot_store(file_format: io.Format) -> list[str]:
    """What is lost, or refused, when a dataset or predictions are written in a format."""
    if not file_format.capabilities:
        return ["anything: it is only read"]
    return [text for name, text in CAPABILITIES.items() if name not in file_format.capabilities]
