"""Commands to look at a run: report, view, plot."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from convener import __version__, io, storage
from convener.cli import console
from convener.cli.models import read_for_model
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.errors import ConfigError, DataError
from convener.experiment import run
from convener.models import load_model
from convener.models.base import LabelModel
from convener.report.comparison import render_comparison
from convener.report.figures import FIGURES, Figure
from convener.report.html import estimate_table, recommendation_table, render_report
from convener.report.plots import write_plot
from convener.report.run_summary import RunSummary, alerts, predict_for_report, summarize_run
from convener.report.sentence_index import Query
from convener.report.viewer import Viewer, is_loopback, prepare_view, view_dir
from convener.storage import atomic_write

FigureName = Literal["reliability", "agreement", "pairs", "emissions", "moves", "curves", "calibration", "confusion"]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="What `convener fit` wrote.")]
DataPath = Annotated[
    Path | None,
    typer.Option("--data", help="What to look at; by default the data that the run was fitted on."),
]
Split = Annotated[str | None, typer.Option(help="Which split of a folder; by default train, where one mends.")]


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="What `convener fit` wrote.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")] = Path("report.html"),
    data: DataPath = None,
    split: Split = None,
    compare: Annotated[bool, typer.Option("--compare", help="Several runs side by side.")] = False,
    annotate: Annotated[
        Path | None,
        typer.Option(help="Also write the most uncertain sentences to this file, to annotate."),
    ] = None,
    number: Annotated[int, typer.Option(min=1, help="How many for --annotate.")] = 100,
    format: console.FormatName = None,
    read: console.ReadOption = None,
    as_json: console.Json = False,
) -> None:
    """One page that shows the sources, the model and the sentences; opens without a network."""
    if len(runs) > 1 and not compare:
        raise ConfigError(f"{len(runs)} runs: put --compare before them to see them side by side")
    if compare:
        if annotate is not None:
            raise ConfigError("--annotate is for one run; leave out --compare")
        _write_comparison(runs, output, data, split, format, read, as_json=as_json)
        return
    summary = _summarize(runs[0], data, split, format, read)
    with console.spinner(f"writing {output}"), atomic_write(output) as draft:
        draft.write_text(render_report(summary), encoding="utf-8")
    if annotate is not None:
        _export_uncertain(summary, annotate, number)
    if as_json:
        console.print_json(_summary_json(summary) | {"output": str(output)})
        return
    for alert in alerts(summary):
        console.print_message("warning" if alert.level == "grave" else "note", alert.text)
    console.print_result(estimate_table(summary))
    console.print_result(f"\n{recommendation_table(summary)}")
    console.print_note(f"{output}: {output.stat().st_size / 1e6:.1f} MB; open it in a browser")


def view(
    folder: RunArgument,
    data: DataPath = None,
    split: Split = None,
    host: Annotated[str, typer.Option(help="Another interface needs the token that is printed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    format: console.FormatName = None,
    read: console.ReadOption = None,
) -> None:
    """The same page, served page by page from disk: for corpora too large for one file."""
    path = _data_path(folder, data)
    key = _view_key(folder, path, split or "", format or "", console.parse_settings(read))
    prepared = prepare_view(view_dir(storage.cache_dir(), key), lambda: _summarize(folder, data, split, format, read))
    with Viewer(prepared, host=host, port=port) as server:
        console.print_note(f"{len(server.sentence_index):,} sentences; Ctrl-C ends")
        typer.echo(server.address)
        if browser and is_loopback(host):
            webbrowser.open(server.address)
        server.serve_forever()


def plot(
    folder: RunArgument,
    kind: Annotated[FigureName, typer.Argument(help="Which figure.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The suffix decides: .png, .svg or .pdf.")],
    data: DataPath = None,
    split: Split = None,
    format: console.FormatName = None,
    read: console.ReadOption = None,
) -> None:
    """A figure of the report as a file, for a paper."""
    summary = _summarize(folder, data, split, format, read)
    result = FIGURES[kind](summary)
    figures = [result] if isinstance(result, Figure) else list(result or [])
    if not figures:
        raise DataError(f"{folder}: nothing to draw for {kind}: it needs gold, or another model")
    write_plot(figures, output)
    console.print_note(f"{kind} -> {output}")


def _summarize(
    folder: Path, data: Path | None, split: str | None, format: str | None, read: list[str] | None
) -> RunSummary:
    """All there is to tell of a run."""
    model, dataset, run_info = _open_run(folder, data, split, format, read)
    with console.show_logs():
        dataset = model.encode(dataset)
    with console.spinner("looking at everything"):
        return summarize_run(model, dataset, title=folder.resolve().name, run_info=run_info)


def _open_run(
    folder: Path, data: Path | None, split: str | None, format: str | None, read: list[str] | None
) -> tuple[LabelModel, Dataset, dict[str, Any]]:
    """A run's model, the data to look at, and what was noted of the run."""
    model, path = load_model(folder), _data_path(folder, data)
    run_info = run.read_run_info(folder) if run.has_run_info(folder) else {}
    files = io.find_split_files(path)
    split = split or ("train" if "train" in files else None)
    dataset = read_for_model(model, folder, path, split, format or run_info.get("format"), read)
    timestamp = datetime.now(UTC).isoformat(" ", "minutes")
    return model, dataset, run_info | {"split": split or path.name, "reported": timestamp}


def _data_path(folder: Path, data: Path | None) -> Path:
    """Where the data lies."""
    if data is not None:
        return data
    recorded = run.read_run_info(folder).get("data") if run.has_run_info(folder) else None
    if recorded is None:
        raise ConfigError(f"{folder}: does not say where its data lies; give --data DATA")
    if not Path(recorded).exists():
        raise DataError(f"{recorded}: the data of {folder} is no longer there; give --data DATA")
    return Path(recorded)


def _view_key(folder: Path, path: Path, *options: str | Mapping[str, str]) -> str:
    """A digest of all that decides what a view shows."""
    files = sorted(file for file in [path, *path.rglob("*")] if file.is_file())
    stats = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    model = [storage.file_digest(file) for file in sorted(folder.glob("*")) if file.is_file()]
    return storage.compute_digest(*model, *stats, *options, __version__)


def _write_comparison(
    runs: Sequence[Path],
    output: Path,
    data: Path | None,
    split: str | None,
    format: str | None,
    read: list[str] | None,
    *,
    as_json: bool,
) -> None:
    """A page with several runs on the same sentences."""
    predictions: dict[str, Predictions] = {}
    datasets: list[Dataset] = []
    for name, folder in _unique_names(runs).items():
        model, dataset, _ = _open_run(folder, data or _data_path(runs[0], None), split, format, read)
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
    """Runs by the names of their folders; by their whole paths where those are not enough."""
    for names in ([folder.resolve().name for folder in runs], [str(folder) for folder in runs]):
        if len(set(names)) == len(runs):
            return dict(zip(names, runs, strict=True))
    raise ConfigError(f"a run is named twice: {' '.join(map(str, runs))}")


def _export_uncertain(summary: RunSummary, path: Path, number: int) -> None:
    """The most uncertain sentences with the model's labels, in any format."""
    selected = summary.sentence_index.find(Query(order="entropy"))[:number]
    data, predictions = summary.data.take(selected).without_gold(), summary.predictions
    tokens = np.concatenate([np.arange(*summary.data.offsets[n : n + 2].tolist()) for n in selected.tolist()])
    uncertain = Predictions(data=data, labels=predictions.labels[tokens], model=predictions.model)
    io.write(uncertain, path, lossy=True)
    console.print_note(f"{len(selected):,} sentences to annotate -> {path}")


def _summary_json(summary: RunSummary) -> dict[str, Any]:
    """The account in a few figures, fit for JSON."""
    return {
        "sentences": len(summary.data),
        "warnings": [alert.text for alert in alerts(summary)],
        "sources": estimate_table(summary).to_records(),
        "fix_next": recommendation_table(summary).to_records(),
    }
