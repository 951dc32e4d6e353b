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
from convener.cli import terminal
from convener.cli.data import Data, read_data, read_split
from convener.corpus import Corpus
from convener.data import Dataset
from convener.errors import DataError
from convener.io.files import whole
from convener.lf.apply import OnError, Settings, applied
from convener.lf.load import load_functions
from convener.lf.report import Applied
from convener.lf.texts import Texts

lf_app = typer.Typer(help="Labeling functions: a file to begin with, and a look at what they mark.")
TRUST = "The file is imported, which runs the code in it: use only files that you trust."
SAMPLE = 1000
COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
Only = Annotated[
    list[str] | None, typer.Option(help="The name of a function; several by repeating it.")
]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def apply(
    data: Data,
    lfs: Annotated[
        Path, typer.Option(metavar="FILE", help=f"Python file of labeling functions. {TRUST}")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File, or folder of splits, to write.")
    ],
    only: Only = None,
    split: terminal.Split = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one for each core.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Longest time for one text; 0 is no limit.")
    ] = 60.0,
    on_error: Annotated[
        OnError, typer.Option(help="What a function that fails does: abstain there, or stop all.")
    ] = "report",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the sources DATA has, too.")] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run every function, and keep nothing.")
    ] = False,
    to: Annotated[
        str | None, typer.Option(help="Format of OUTPUT where its suffix does not tell.")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="List every failure and mended span in this file.")
    ] = None,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
    as_json: terminal.Json = False,
) -> None:
    """Turn labeling functions into votes on DATA, which may be raw text.

    A function that fails or hangs on a text is reported and abstains there; the others go on.
    Functions that were not edited are taken from the cache.
    """
    functions = load_functions(lfs, only)
    content = read_data(data, split, format=format, options=terminal.reading(["all"], read))
    settings = Settings(
        workers=workers or _cores(),
        seconds=seconds or None,
        on_error=on_error,
        cache=not no_cache,
        keep=keep,
    )
    parts = content.splits if isinstance(content, Corpus) else {split or "data": content}
    found = {name: applied(functions, part, settings) for name, part in parts.items()}
    voted = {name: result.data for name, result in found.items()}
    whole_corpus = isinstance(content, Corpus)
    io.write(
        Corpus(splits=voted) if whole_corpus else next(iter(voted.values())), output, format=to
    )
    _tell(found, cases)
    if as_json:
        runs = {name: result.table().to_records() for name, result in found.items()}
        terminal.show_json({"output": str(output), "splits": runs})
        return
    for name, result in found.items():
        terminal.show(f"{name}: {result}" if whole_corpus else result)
    how = f"{output} --split {next(iter(found))}" if whole_corpus else output
    terminal.note(f"written to {output}; next: convener analyze {how}")


def _tell(found: dict[str, Applied], cases: Path | None) -> None:
    """Show the first cases of all reports, and list all of them in a file."""
    report = io.Report([case for result in found.values() for case in result.report])
    terminal.show_report(report, all_in="--cases FILE")
    if cases is not None:
        with whole(cases) as draft:
            draft.write_text("".join(f"{case}\n" for case in report), encoding="utf-8")


@lf_app.command("new")
def new(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path(
        "my_lfs.py"
    ),
) -> None:
    """Write a commented file of labeling functions to begin with."""
    if path.exists():
        raise DataError(f"{path}: exists already; nothing written")
    text = resources.files("convener.lf").joinpath("starter.py").read_text(encoding="utf-8")
    with whole(path) as draft:
        draft.write_text(text.replace("my_lfs.py", path.name), encoding="utf-8")
    terminal.note(f"written to {path}; next: convener lf try {path} DATA")


@lf_app.command("try", help=f"Show what labeling functions mark, highlighted. {TRUST}")
def try_functions(
    lfs: Annotated[Path, typer.Argument(metavar="FILE", help="Python file of functions.")],
    data: Data,
    number: Annotated[int, typer.Option("-n", min=1, help="Sentences to show.")] = 20,
    only: Only = None,
    split: terminal.Split = None,
    seed: Annotated[
        int | None, typer.Option(help="Look at random sentences instead of the first.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="Longest time for one text.")] = 10.0,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
) -> None:
    """Show sentences in which functions mark something, out of the first thousand."""
    functions = load_functions(lfs, only)
    dataset = read_split(data, split, format=format, options=terminal.reading(None, read))
    if seed is not None:
        drawn = np.random.default_rng(seed).permutation(len(dataset))[:SAMPLE]
        dataset = dataset.take(np.sort(drawn))
    result = applied(functions, dataset[:SAMPLE], Settings(seconds=seconds or None, cache=False))
    console = Console(highlight=False, soft_wrap=True)
    marked = np.flatnonzero(_sentences_marked(result.data))[:number].tolist()
    for sentence in marked:
        one = result.data[sentence : sentence + 1]
        console.print(_shown(one, coloured=console.is_terminal))
    terminal.show_report(result.report)
    terminal.show(result)


def _sentences_marked(data: Dataset) -> np.ndarray:
    marked = np.zeros(len(data), bool)
    marked[data.sentence_of_token()[(data.votes > 0).any(axis=1)]] = True
    return marked


def _shown(data: Dataset, *, coloured: bool) -> Text:
    """One sentence, once for each function that marks something in it."""
    (view,) = Texts.of(data, "sentence").views(0, 1)
    lines, width = Text(), max(map(len, data.sources))
    for column, name in enumerate(data.sources):
        spans = list(data.tags.spans(data.votes[:, column], data.offsets))
        if not spans:
            continue
        lines.append(f"{name:<{width}}  ", style="dim")
        at = 0
        for _, start, end, kind in spans:
            label, style = data.tags.types[kind], f"bold {COLOURS[kind % len(COLOURS)]}"
            lines.append(view.text[at : view.chars[start][0]])
            at = view.chars[end - 1][1]
            said = view.said(start, end)
            lines.append(said if coloured else f"[{said}]", style=style)
            lines.append(f" {label}" if coloured else f"({label})", style=f"dim {style}")
        lines.append(view.text[at:] + "\n")
    return lines
