"""Commands that inspect a fitted label model: report, view, plot."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from convener import __version__, io, storage
from convener.cli import console, options
from convener.cli.models import read_for_run
from convener.cli.options import ReadArgs, parse_settings
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.errors import ConfigError, DataError
from convener.experiment.run import Run
from convener.report.comparison import render_comparison
from convener.report.figures import FIGURES, Figure
from convener.report.html import estimate_table, recommendation_table, render_report
from convener.report.plots import write_plot
from convener.report.run_summary import RunSummary, alerts, predict_for_report, summarize_run
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
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder written by `convener fit`.")]
DataPath = Annotated[
    Path | None,
    typer.Option("--data", help="Data to report on (default: the training data of the run)."),
]
Split = Annotated[str | None, typer.Option(help="Split to report on (default: train).")]


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders written by `convener fit`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="HTML file to write.")] = Path("report.html"),
    data: DataPath = None,
    split: Split = None,
    compare: Annotated[bool, typer.Option("--compare", help="Compare several runs.")] = False,
    annotate: Annotated[
        Path | None,
        typer.Option(help="Also write the most uncertain sentences to this file, for annotation."),
    ] = None,
    number: Annotated[int, typer.Option(min=1, help="Number of sentences for --annotate.")] = 100,
    format: options.InputFormat = None,
    read: options.ReadOptions = None,
    as_json: options.Json = False,
) -> None:
    """Write a self-contained HTML report of a fitted model."""
    if len(runs) > 1 and not compare:
        raise ConfigError(f"expected one run, got {len(runs)}; compare them with convener report --compare A B")
    if compare:
        if annotate is not None:
            raise ConfigError("--annotate is for one run; omit --compare")
        _write_comparison(runs, output, _read_args(data or Run.open(runs[0]).data_path, split, format, read), as_json)
        return
    run = Run.open(runs[0])
    summary = _summarize(run, _read_args(data or run.data_path, split, format, read))
    with console.spinner(f"writing {output}"), atomic_write(output) as draft:
        draft.write_text(render_report(summary), encoding="utf-8")
    if annotate is not None:
        _export_uncertain(summary, annotate, number)
    if as_json:
        console.print_json(_summary_json(summary) | {"output": str(output)})
        return
    for alert in alerts(summary):
        console.print_message(alert.level, alert.text)
    console.print_result(estimate_table(summary))
    console.print_result(f"\n{recommendation_table(summary)}")
    console.print_note(f"{output}: {output.stat().st_size / 1e6:.1f} MB; open it in a browser")


def view(
    folder: RunArgument,
    data: DataPath = None,
    split: Split = None,
    host: Annotated[
        str, typer.Option(help="Interface to listen on; other than loopback the URL carries a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port (0 = any free port).")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    format: options.InputFormat = None,
    read: options.ReadOptions = None,
) -> None:
    """Serve the report from disk, for corpora too large for one HTML file."""
    run = Run.open(folder)
    read_args = _read_args(data or run.data_path, split, format, read)
    key = _view_key(run, read_args)
    prepared = prepare_view(view_dir(storage.cache_dir(), key), lambda: _summarize(run, read_args))
    with Viewer(prepared, host=host, port=port) as server:
        console.print_note(f"{len(server.sentence_index):,} sentences; press Ctrl-C to stop")
        typer.echo(server.address)
        if browser and is_loopback(host):
            webbrowser.open(server.address)
        server.serve_forever()


def plot(
    folder: RunArgument,
    kind: Annotated[FigureName, typer.Argument(metavar="FIGURE", help="Name of the figure.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write: .png, .svg or .pdf.")],
    data: DataPath = None,
    split: Split = None,
    format: options.InputFormat = None,
    read: options.ReadOptions = None,
) -> None:
    """Write a figure of the report to a file, for a paper."""
    run = Run.open(folder)
    summary = _summarize(run, _read_args(data or run.data_path, split, format, read))
    result = FIGURES[kind](summary)
    figures = [result] if isinstance(result, Figure) else list(result or [])
    if not figures:
        raise DataError(f"{folder}: {_missing_figure(kind, summary)}")
    write_plot(figures, output)
    console.print_note(f"{kind} -> {output}")


def _missing_figure(kind: str, summary: RunSummary) -> str:
    """Why a figure is empty."""
    if kind in NEEDS_GOLD and summary.data.gold is None:
        return f"{kind!r} needs gold labels; this data has none"
    if kind == "source-similarity":
        return f"{kind!r} needs two sources; this data has {len(summary.data.sources)}"
    return f"{summary.predictions.model} provides nothing to plot for {kind!r}"


def _read_args(path: Path, split: str | None, format: str | None, read: list[str] | None) -> ReadArgs:
    return ReadArgs(path=path, split=split, format=format, options=parse_settings(read))


def _summarize(run: Run, args: ReadArgs) -> RunSummary:
    """The content of a report."""
    model, dataset, args = run.label_model, *_read_for_report(run, args)
    timestamp = datetime.now(UTC).isoformat(" ", "minutes")
    run_info = run.info | {"split": args.split or args.path.name, "reported": timestamp}
    with console.show_logs():
        dataset = model.encode(dataset)
    with console.spinner("analysing"):
        return summarize_run(model, dataset, title=run.folder.resolve().name, run_info=run_info)


def _read_for_report(run: Run, args: ReadArgs) -> tuple[Dataset, ReadArgs]:
    """The data to report on, and the arguments with the default split and the recorded format filled in."""
    split = args.split or ("train" if "train" in io.find_split_files(args.path) else None)
    args = replace(args, split=split, format=args.format or run.info.get("format"))
    return read_for_run(run, args), args


def _view_key(run: Run, args: ReadArgs) -> str:
    """Digest of everything that determines the content of a view."""
    files = sorted(file for file in [args.path, *args.path.rglob("*")] if file.is_file())
    stats = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    model = [storage.file_digest(file) for file in sorted(run.folder.glob("*")) if file.is_file()]
    read_options: Mapping[str, Any] = args.options
    return storage.compute_digest(*model, *stats, args.split or "", args.format or "", read_options, __version__)


def _write_comparison(runs: Sequence[Path], output: Path, args: ReadArgs, as_json: bool) -> None:
    """Write a page that compares several runs on the same sentences."""
    predictions: dict[str, Predictions] = {}
    datasets: list[Dataset] = []
    for name, folder in _unique_names(runs).items():
        run = Run.open(folder)
        model, (dataset, _) = run.label_model, _read_for_report(run, args)
        with console.show_logs():
            predictions[name] = predict_for_report(model, model.encode(dataset))
        datasets.append(dataset)
    reference = max(datasets, key=lambda dataset: len(dataset.sources))
    html = render_comparison(reference, predictions)
    with atomic_write(output) as draft:
        draft.write_text(html, encoding="utf-8")
    if as_json:
        console.print_json({"output": str(output), "models": list(predictions)})
    console.print_note(f"{len(predictions)} models -> {output}")


def _unique_names(runs: Sequence[Path]) -> dict[str, Path]:
    """Runs by folder name, or by path if folder names are not unique."""
    for names in ([folder.resolve().name for folder in runs], [str(folder) for folder in runs]):
        if len(set(names)) == len(runs):
            return dict(zip(names, runs, strict=True))
    raise ConfigError(f"the same run is given twice: {' '.join(map(str, runs))}")


def _export_uncertain(summary: RunSummary, path: Path, number: int) -> None:
    """Write the most uncertain sentences with the model's labels, in any format."""
    selected = summary.sentence_index.find(Query(order="entropy"))[:number]
    data, predictions = summary.data.take(selected).without_gold(), summary.predictions
    tokens = np.concatenate([np.arange(*summary.data.offsets[n : n + 2].tolist()) for n in selected.tolist()])
    uncertain = Predictions(data=data, labels=predictions.labels[tokens], model=predictions.model)
    io.write(uncertain, path, allow_lossy=True)
    console.print_note(f"{len(selected):,} sentences to annotate -> {path}")


def _summary_json(summary: RunSummary) -> dict[str, Any]:
    """The main content of a report for --json."""
    return {
        "sentences": len(summary.data),
        "warnings": [alert.text for alert in alerts(summary)],
        "sources": estimate_table(summary).to_records(),
        "fix_next": recommendation_table(summary).to_records(),
    }
