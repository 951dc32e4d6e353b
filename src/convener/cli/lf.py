"""Commands about labeling functions: lf init, lf preview, lf apply."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from convener import io
from convener.cli import console, options
from convener.cli.highlight import highlight
from convener.cli.options import ReadingOptions, split_names, with_reading_options
from convener.cli.reading import read_dataset, read_splits
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.errors import DataError
from convener.lf.apply import ApplyOptions, OnError, apply_with_report
from convener.lf.doc import Docs
from convener.lf.load import load_lfs
from convener.storage import atomic_write

lf_app = typer.Typer(help="Create, preview and apply labeling functions.")
CODE_WARNING = "The file is imported, which runs its code: use only files that you trust."
PREVIEW_SAMPLE = 1000
"""Sentences that `lf preview` runs the functions on."""
DEFAULT_TIMEOUT = 60.0
"""Seconds per text, by default."""
LFFile = Annotated[Path, typer.Argument(metavar="FILE", help=f"Python file with labeling functions. {CODE_WARNING}")]
LFNames = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Labeling functions to run (default: all). Repeatable, or with commas."),
]
TimeLimit = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.0, help="Time limit per text in seconds (0 = none).")
]


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lf_app.command("init")
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("my_lfs.py"),
) -> None:
    """Write a commented template with example labeling functions."""
    if path.exists():
        raise DataError(f"{path}: already exists; choose another file")
    text = resources.files("convener.lf").joinpath("starter_template.py").read_text(encoding="utf-8")
    with atomic_write(path) as draft:
        draft.write_text(text.replace("my_lfs.py", path.name), encoding="utf-8")
    console.print_note(f"written to {path}; next: convener lf preview {path} DATA")


@lf_app.command("preview")
@with_reading_options
def preview(
    lfs: LFFile,
    data: options.DataArgument,
    *,
    lf: LFNames = None,
    split: options.Split = None,
    number: Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="Sentences to show.")] = 20,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Show a random sample with this seed (default: the first sentences)."),
    ] = None,
    timeout: TimeLimit = DEFAULT_TIMEOUT,
    reading: ReadingOptions,
) -> None:
    """Show sentences with marked spans, out of the first thousand."""
    functions = load_lfs(lfs, split_names(lf) or None)
    dataset = read_dataset(reading.args(data, split))
    if seed is not None:
        sampled = np.random.default_rng(seed).permutation(len(dataset))[:PREVIEW_SAMPLE]
        dataset = dataset.take(np.sort(sampled))
    apply_options = ApplyOptions(timeout=timeout or None, cache=False)
    result = apply_with_report(functions, dataset[:PREVIEW_SAMPLE], apply_options)
    screen = Console(highlight=False, soft_wrap=True)
    marked = np.flatnonzero(_marked_sentences(result.data))[:number].tolist()
    for sentence in marked:
        sentence_data = result.data[sentence : sentence + 1]
        screen.print(_highlight(sentence_data, coloured=screen.is_terminal))
    console.print_issues(result.issues)
    console.print_result(result)


@lf_app.command("apply")
@with_reading_options
def apply(
    lfs: LFFile,
    data: options.DataArgument,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUTPUT", help="File or folder of splits to write.")
    ],
    lf: LFNames = None,
    split: options.Split = None,
    num_workers: Annotated[
        int | None,
        typer.Option("-j", "--num-workers", metavar="N", min=1, help="Processes (default: number of cores)."),
    ] = None,
    timeout: TimeLimit = DEFAULT_TIMEOUT,
    on_error: Annotated[OnError, typer.Option(help="On an exception: abstain on that text, or raise.")] = "abstain",
    keep_sources: Annotated[
        bool, typer.Option("--keep-sources", metavar="", help="Also keep the sources of DATA.")
    ] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", metavar="", help="Neither read nor write the vote cache.")
    ] = False,
    output_format: options.OutputFormat = None,
    issues: options.Issues = None,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Apply labeling functions to DATA, which may be raw text, and write their votes.

    A function that fails or exceeds the time limit on a text abstains there, and the issue is reported.
    Votes of unchanged functions come from the cache.
    """
    functions = load_lfs(lfs, split_names(lf) or None)
    content = read_splits(reading.args(data, split, ["all"]))
    apply_options = ApplyOptions(
        num_workers=num_workers or _available_cores(),
        timeout=timeout or None,
        on_error=on_error,
        cache=not no_cache,
        keep_sources=keep_sources,
    )
    datasets = content.splits if isinstance(content, Corpus) else {split or "data": content}
    results = {name: apply_with_report(functions, dataset, apply_options) for name, dataset in datasets.items()}
    labeled = {name: result.data for name, result in results.items()}
    is_corpus = isinstance(content, Corpus)
    io.write(Corpus(splits=labeled) if is_corpus else next(iter(labeled.values())), output, format=output_format)
    found = Issues([issue for result in results.values() for issue in result.issues])
    console.print_issues(found, list_hint="--issues FILE")
    if issues is not None:
        console.write_issues(found, issues)
    if as_json:
        records = {name: console.to_records(result.table()) for name, result in results.items()}
        console.print_json({"output": str(output), "splits": records})
        return
    for name, result in results.items():
        console.print_result(f"{name}: {result}" if is_corpus else result)
    next_arguments = f"{output} --split {next(iter(results))}" if is_corpus else output
    console.print_note(f"written to {output}; next: convener analyze {next_arguments}")


def _marked_sentences(data: Dataset) -> np.ndarray:
    """Whether each sentence has a marked span.  -> (M,)"""
    marked = np.zeros(len(data), bool)
    marked[data.sentence_of_token()[(data.votes > 0).any(axis=1)]] = True
    return marked


def _highlight(data: Dataset, *, coloured: bool) -> Text:
    """One line per function that marks a span in the sentence."""
    (doc,) = Docs.from_dataset(data, "sentence").make_docs(0, 1)
    lines, width = Text(), max(map(len, data.sources))
    for column, name in enumerate(data.sources):
        spans = list(data.tags.spans(data.votes[:, column], data.offsets))
        if not spans:
            continue
        lines.append(f"{name:<{width}}  ", style="dim")
        lines.append(highlight(doc, spans, data.tags.types, coloured=coloured)).append("\n")
    return lines
