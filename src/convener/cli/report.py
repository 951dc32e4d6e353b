"""Commands that inspect a fitted label model: report, view, plot."""

from __future__ import annotations

import webbrowser
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import typer

from convener import __version__, io, storage
from convener.cache import cache_dir
from convener.cli import console, options
from convener.cli.options import ReadArgs, ReadingOptions, with_reading_options
from convener.cli.reading import TRAIN_FIRST, choose_split, read_dataset
from convener.data.predictions import Predictions
from convener.errors import DataError
from convener.experiment.run import Run
from convener.report.figures import FIGURES, Figure
from convener.report.html import estimate_table, recommendation_table, render_report
from convener.report.plots import write_plot
from convener.report.run_summary import RunSummary, alerts, summarize_run
from convener.report.sentence_index import Query
from convener.report.viewer import Viewer, is_loopback, prepare_view, view_dir
from convener.storage import atomic_write

FigureName = Literal[
    "reliability",
    "estimated-vs-gold",
    "source-similarity",
    "emissions",
    "transitions",
    "training-curves",
    "calibration",
    "confusion",
]
NEEDS_GOLD = ("estimated-vs-gold", "calibration", "confusion")
"""Figures that compare with gold labels."""


@with_reading_options
def report(
    model_dir: options.ModelDir,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="HTML file to write.")] = Path(
        "report.html"
    ),
    data: options.DataPath = None,
    split: options.TrainFirstSplit = None,
    export_uncertain: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the most uncertain sentences to FILE, for annotation."),
    ] = None,
    number: Annotated[
        int, typer.Option("-n", "--number", metavar="N", min=1, help="Number of sentences for --export-uncertain.")
    ] = 100,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Write a self-contained HTML report of a fitted model.

    `convener compare` shows several models side by side.
    """
    run = Run.open(model_dir)
    summary = _summarize(run, args_for_report(run, reading.args(data or run.data_path, split)))
    with console.spinner(f"writing {output}"), atomic_write(output) as draft:
        draft.write_text(render_report(summary), encoding="utf-8")
    if export_uncertain is not None:
        _export_uncertain(summary, export_uncertain, number)
    if as_json:
        console.print_json(_summary_json(summary) | {"output": str(output)})
        return
    for alert in alerts(summary):
        console.print_message(alert.level, alert.text)
    console.print_result(estimate_table(summary))
    console.print_result(f"\n{recommendation_table(summary) if summary.answers is None else summary.answers}")
    console.print_note(f"{output}: {output.stat().st_size / 1e6:.1f} MB; open it in a browser")


@with_reading_options
def view(
    model_dir: options.ModelDir,
    *,
    data: options.DataPath = None,
    split: options.TrainFirstSplit = None,
    host: Annotated[
        str, typer.Option(help="Interface to listen on; other than loopback the URL carries a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port (0 = any free port).")] = 0,
    browser: Annotated[bool, typer.Option(metavar="", help="Open the page in a browser.")] = True,
    reading: ReadingOptions,
) -> None:
    """Serve the report from disk, for corpora too large for one HTML file."""
    run = Run.open(model_dir)
    args = args_for_report(run, reading.args(data or run.data_path, split))
    prepared = prepare_view(view_dir(cache_dir(), _view_key(run, args)), lambda: _summarize(run, args))
    with Viewer(prepared, host=host, port=port) as server:
        console.print_note(f"{len(server.sentence_index):,} sentences; press Ctrl-C to stop")
        typer.echo(server.address)
        if browser and is_loopback(host):
            webbrowser.open(server.address)
        server.serve_forever()


@with_reading_options
def plot(
    model_dir: options.ModelDir,
    figure: Annotated[FigureName, typer.Argument(metavar="FIGURE", help=f"One of {', '.join(get_args(FigureName))}.")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File to write: .png, .svg or .pdf.")],
    data: options.DataPath = None,
    split: options.TrainFirstSplit = None,
    reading: ReadingOptions,
) -> None:
    """Write a figure of the report to a file, for a paper."""
    run = Run.open(model_dir)
    summary = _summarize(run, args_for_report(run, reading.args(data or run.data_path, split)))
    result = FIGURES[figure](summary)
    figures = [result] if isinstance(result, Figure) else list(result or [])
    if not figures:
        raise DataError(f"{model_dir}: {_missing_figure(figure, summary)}")
    write_plot(figures, output)
    console.print_note(f"{figure} -> {output}")


def _missing_figure(figure: str, summary: RunSummary) -> str:
    """Why a figure is empty."""
    if figure in NEEDS_GOLD and summary.data.gold is None:
        return f"{figure!r} needs gold labels; this data has none"
    if figure == "source-similarity":
        return f"{figure!r} needs two sources; this data has {len(summary.data.sources)}"
    return f"{summary.predictions.model} provides nothing to plot for {figure!r}"


def args_for_report(run: Run, args: ReadArgs) -> ReadArgs:
    """The arguments with the default split and the recorded format filled in."""
    return choose_split(replace(args, format=args.format or run.info.get("format")), TRAIN_FIRST)


def _summarize(run: Run, args: ReadArgs) -> RunSummary:
    """The content of a report."""
    model, dataset = run.label_model, read_dataset(args, run=run)
    timestamp = datetime.now(UTC).isoformat(" ", "minutes")
    run_info = run.info | {"split": args.split or args.path.name, "reported": timestamp}
    with console.show_logs():
        dataset = model.encode(dataset)
    with console.spinner("analysing"):
        return summarize_run(model, dataset, title=run.folder.resolve().name, run_info=run_info)


def _view_key(run: Run, args: ReadArgs) -> str:
    """Digest of everything that determines the content of a view."""
    files = sorted(file for file in [args.path, *args.path.rglob("*")] if file.is_file())
    stats = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    model = [storage.file_digest(file) for file in sorted(run.folder.glob("*")) if file.is_file()]
    return storage.compute_digest(*model, *stats, args.split or "", args.format or "", args.options, __version__)


def _export_uncertain(summary: RunSummary, path: Path, number: int) -> None:
    """Write the most uncertain sentences with the model's labels, in any format."""
    selected = summary.sentence_index.find(Query(order="entropy"))[:number]
    data, predictions = summary.data.take(selected).without_gold(), summary.predictions
    tokens = np.concatenate([np.arange(*summary.data.offsets[n : n + 2].tolist()) for n in selected.tolist()])
    uncertain = Predictions(data=data, labels=predictions.labels[tokens], model=predictions.model)
    io.write(uncertain, path, allow_lossy=True, metadata=True)
    console.print_note(f"{len(selected):,} sentences to annotate -> {path}")


def _summary_json(summary: RunSummary) -> dict[str, Any]:
    """The main content of a report for --json."""
    return {
        "sentences": len(summary.data),
        "warnings": [alert.text for alert in alerts(summary)],
        "sources": console.to_records(estimate_table(summary)),
        "recommendations": console.to_records(recommendation_table(summary)),
        **({} if summary.answers is None else {"answers": summary.answers.to_json()}),
    }
