"""Commands about labeling functions: apply, lf new, lf try."""

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
from convener.cli import console
from convener.cli.data import DataArgument, read_data, read_split
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.errors import DataError
from convener.lf.apply import ApplyOptions, ApplyResult, OnError, apply_with_report
from convener.lf.doc import Docs
from convener.lf.load import load_lfs
from convener.storage import atomic_write

lf_app = typer.Typer(help="Labeling functions: a file to begin with, and a look at what they mark.")
CODE_WARNING = "The file is imported, which runs the code in it: use only files that you trust."
PREVIEW_SAMPLE = 1000
COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
LFNames = Annotated[list[str] | None, typer.Option(help="The name of a function; several by repeating it.")]


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def apply(
    data: DataArgument,
    lfs: Annotated[
        Path,
        typer.Option(metavar="FILE", help=f"Python file of labeling functions. {CODE_WARNING}"),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File, or folder of splits, to write.")],
    only: LFNames = None,
    split: console.Split = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one for each core.")] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="Longest time for one text; 0 is no limit.")] = 60.0,
    on_error: Annotated[
        OnError, typer.Option(help="What a function that fails does: abstain there, or stop all.")
    ] = "report",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the sources DATA has, too.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Run every function, and keep nothing.")] = False,
    to: Annotated[str | None, typer.Option(help="Format of OUTPUT where its suffix does not tell.")] = None,
    cases: Annotated[Path | None, typer.Option(help="List every failure and mended span in this file.")] = None,
    format: console.FormatName = None,
    read: console.ReadOption = None,
    as_json: console.Json = False,
) -> None:
    """Turn labeling functions into votes on DATA, which may be raw text.

    A function that fails or hangs on a text is reported and abstains there; the others go on.
    Functions that were not edited are taken from the cache.
    """
    functions = load_lfs(lfs, only)
    content = read_data(data, split, format=format, options=console.parse_read_options(["all"], read))
    options = ApplyOptions(
        workers=workers or _available_cores(),
        seconds=seconds or None,
        on_error=on_error,
        cache=not no_cache,
        keep=keep,
    )
    parts = content.splits if isinstance(content, Corpus) else {split or "data": content}
    results = {name: apply_with_report(functions, part, options) for name, part in parts.items()}
    labeled = {name: result.data for name, result in results.items()}
    whole_corpus = isinstance(content, Corpus)
    io.write(Corpus(splits=labeled) if whole_corpus else next(iter(labeled.values())), output, format=to)
    _print_issues(results, cases)
    if as_json:
        records = {name: result.table().to_records() for name, result in results.items()}
        console.print_json({"output": str(output), "splits": records})
        return
    for name, result in results.items():
        console.print_result(f"{name}: {result}" if whole_corpus else result)
    next_arguments = f"{output} --split {next(iter(results))}" if whole_corpus else output
    console.print_note(f"written to {output}; next: convener analyze {next_arguments}")


def _print_issues(results: dict[str, ApplyResult], issues_file: Path | None) -> None:
    """Show the first cases of all reports, and list all of them in a file."""
    issues = io.Issues([case for result in results.values() for case in result.issues])
    console.print_issues(issues, list_hint="--cases FILE")
    if issues_file is not None:
        with atomic_write(issues_file) as draft:
            draft.write_text("".join(f"{case}\n" for case in issues), encoding="utf-8")


@lf_app.command("new")
def new(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("my_lfs.py"),
) -> None:
    """Write a commented file of labeling functions to begin with."""
    if path.exists():
        raise DataError(f"{path}: exists already; nothing written")
    text = resources.files("convener.lf").joinpath("starter.py").read_text(encoding="utf-8")
    with atomic_write(path) as draft:
        draft.write_text(text.replace("my_lfs.py", path.name), encoding="utf-8")
    console.print_note(f"written to {path}; next: convener lf try {path} DATA")


@lf_app.command("try", help=f"Show what labeling functions mark, highlighted. {CODE_WARNING}")
def try_functions(
    lfs: Annotated[Path, typer.Argument(metavar="FILE", help="Python file of functions.")],
    data: DataArgument,
    number: Annotated[int, typer.Option("-n", min=1, help="Sentences to show.")] = 20,
    only: LFNames = None,
    split: console.Split = None,
    seed: Annotated[int | None, typer.Option(help="Look at random sentences instead of the first.")] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="Longest time for one text.")] = 10.0,
    format: console.FormatName = None,
    read: console.ReadOption = None,
) -> None:
    """Show sentences in which functions mark something, out of the first thousand."""
    functions = load_lfs(lfs, only)
    dataset = read_split(data, split, format=format, options=console.parse_read_options(None, read))
    if seed is not None:
        sampled = np.random.default_rng(seed).permutation(len(dataset))[:PREVIEW_SAMPLE]
        dataset = dataset.take(np.sort(sampled))
    result = apply_with_report(functions, dataset[:PREVIEW_SAMPLE], ApplyOptions(seconds=seconds or None, cache=False))
    screen = Console(highlight=False, soft_wrap=True)
    marked = np.flatnonzero(_marked_sentences(result.data))[:number].tolist()
    for sentence in marked:
        sentence_data = result.data[sentence : sentence + 1]
        screen.print(_highlight(sentence_data, coloured=screen.is_terminal))
    console.print_issues(result.issues)
    console.print_result(result)


def _marked_sentences(data: Dataset) -> np.ndarray:
    marked = np.zeros(len(data), bool)
    marked[data.sentence_of_token()[(data.votes > 0).any(axis=1)]] = True
    return marked


def _highlight(data: Dataset, *, coloured: bool) -> Text:
    """One sentence, once for each function that marks something in it."""
    (doc,) = Docs.from_dataset(data, "sentence").make_docs(0, 1)
    lines, width = Text(), max(map(len, data.sources))
    for column, name in enumerate(data.sources):
        spans = list(data.tags.spans(data.votes[:, column], data.offsets))
        if not spans:
            continue
        lines.append(f"{name:<{width}}  ", style="dim")
        position = 0
        for _, start, end, kind in spans:
            label, style = data.tags.types[kind], f"bold {COLOURS[kind % len(COLOURS)]}"
            lines.append(doc.text[position : doc.token_offsets[start][0]])
            position = doc.token_offsets[end - 1][1]
            span_text = doc.span_text(start, end)
            lines.append(span_text if coloured else f"[{span_text}]", style=style)
            lines.append(f" {label}" if coloured else f"({label})", style=f"dim {style}")
        lines.append(doc.text[position:] + "\n")
    return lines
