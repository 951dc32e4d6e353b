"""Commands to look at a run: report, view, plot."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from convener import __version__, caching, io, run
from convener.cli import terminal
from convener.cli.runs import read_for
from convener.data import Dataset
from convener.errors import ConfigError, DataError
from convener.io.files import whole
from convener.models import LabelModel
from convener.predictions import Predictions
from convener.report import Account, account_of, drawings, page
from convener.report.account import answer_of
from convener.report.alerts import alerts
from convener.report.comparison import comparison_page
from convener.report.figures import Figure
from convener.report.plots import write_plot
from convener.report.sheet import Query
from convener.report.story import estimate_table, fix_table
from convener.report.viewer import Viewer, is_loopback, prepare
from convener.report.views import place_of

Kind = Literal[
    "reliability", "agreement", "pairs", "emissions", "moves", "curves", "calibration", "confusion"
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="What `convener fit` wrote.")]
DataPath = Annotated[
    Path | None,
    typer.Option("--data", help="What to look at; by default the data that the run was fitted on."),
]
Split = Annotated[
    str | None, typer.Option(help="Which split of a folder; by default train, where one mends.")
]


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="What `convener fit` wrote.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    data: DataPath = None,
    split: Split = None,
    compare: Annotated[bool, typer.Option("--compare", help="Several runs side by side.")] = False,
    annotate: Annotated[
        Path | None,
        typer.Option(help="Also write the most uncertain sentences to this file, to annotate."),
    ] = None,
    number: Annotated[int, typer.Option(min=1, help="How many for --annotate.")] = 100,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
    as_json: terminal.Json = False,
) -> None:
    """One page that shows the sources, the model and the sentences; opens without a network."""
    if len(runs) > 1 and not compare:
        raise ConfigError(f"{len(runs)} runs: put --compare before them to see them side by side")
    if compare:
        if annotate is not None:
            raise ConfigError("--annotate is for one run; leave out --compare")
        _compare(runs, output, data, split, format, read, as_json=as_json)
        return
    account = _account(runs[0], data, split, format, read)
    with terminal.working(f"writing {output}"), whole(output) as draft:
        draft.write_text(page(account), encoding="utf-8")
    if annotate is not None:
        _write_next(account, annotate, number)
    if as_json:
        terminal.show_json(_told(account) | {"output": str(output)})
        return
    for alert in alerts(account):
        terminal.say("warning" if alert.weight == "grave" else "note", alert.text)
    terminal.show(estimate_table(account))
    terminal.show(f"\n{fix_table(account)}")
    terminal.note(f"{output}: {output.stat().st_size / 1e6:.1f} MB; open it in a browser")


def view(
    folder: Run,
    data: DataPath = None,
    split: Split = None,
    host: Annotated[
        str, typer.Option(help="Another interface needs the token that is printed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
) -> None:
    """The same page, served page by page from disk: for corpora too large for one file."""
    path = _place(folder, data)
    key = _key(folder, path, split or "", format or "", terminal.settings(read))
    prepared = prepare(
        place_of(caching.root(), key), lambda: _account(folder, data, split, format, read)
    )
    with Viewer(prepared, host=host, port=port) as server:
        terminal.note(f"{len(server.sheet):,} sentences; Ctrl-C ends")
        typer.echo(server.address)
        if browser and is_loopback(host):
            webbrowser.open(server.address)
        server.serve_forever()


def plot(
    folder: Run,
    kind: Annotated[Kind, typer.Argument(help="Which figure.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The suffix decides: .png, .svg or .pdf.")
    ],
    data: DataPath = None,
    split: Split = None,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
) -> None:
    """A figure of the report as a file, for a paper."""
    account = _account(folder, data, split, format, read)
    found = drawings.ALL[kind](account)
    figures = [found] if isinstance(found, Figure) else list(found or [])
    if not figures:
        raise DataError(f"{folder}: nothing to draw for {kind}: it needs gold, or another model")
    write_plot(figures, output)
    terminal.note(f"{kind} -> {output}")


def _account(
    folder: Path, data: Path | None, split: str | None, format: str | None, read: list[str] | None
) -> Account:
    """All there is to tell of a run."""
    model, dataset, facts = _opened(folder, data, split, format, read)
    with terminal.remarks():
        dataset = model.encoded(dataset)
    with terminal.working("looking at everything"):
        return account_of(model, dataset, title=folder.resolve().name, facts=facts)


def _opened(
    folder: Path, data: Path | None, split: str | None, format: str | None, read: list[str] | None
) -> tuple[LabelModel, Dataset, dict[str, Any]]:
    """A run's model, the data to look at, and what was noted of the run."""
    model, path = run.load(folder), _place(folder, data)
    noted = run.facts(folder) if run.has_facts(folder) else {}
    files = io.split_files(path)
    split = split or ("train" if "train" in files else None)
    dataset = read_for(model, folder, path, split, format or noted.get("format"), read)
    when = datetime.now(UTC).isoformat(" ", "minutes")
    return model, dataset, noted | {"split": split or path.name, "reported": when}


def _place(folder: Path, data: Path | None) -> Path:
    """Where the data lies."""
    if data is not None:
        return data
    noted = run.facts(folder).get("data") if run.has_facts(folder) else None
    if noted is None:
        raise ConfigError(f"{folder}: does not say where its data lies; give --data DATA")
    if not Path(noted).exists():
        raise DataError(f"{noted}: the data of {folder} is no longer there; give --data DATA")
    return Path(noted)


def _key(folder: Path, path: Path, *asked: str | Mapping[str, str]) -> str:
    """A digest of all that decides what a view shows."""
    files = sorted(file for file in [path, *path.rglob("*")] if file.is_file())
    stats = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    model = [caching.digest_of_file(file) for file in sorted(folder.glob("*")) if file.is_file()]
    return caching.digest_of(*model, *stats, *asked, __version__)


def _compare(
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
    answers: dict[str, Predictions] = {}
    looked_at: list[Dataset] = []
    for name, folder in _named(runs).items():
        model, dataset, _ = _opened(folder, data or _place(runs[0], None), split, format, read)
        with terminal.remarks():
            answers[name] = answer_of(model, model.encoded(dataset))
        looked_at.append(dataset)
    most = max(looked_at, key=lambda dataset: len(dataset.sources))
    text = comparison_page(most, answers)
    with whole(output) as draft:
        draft.write_text(text, encoding="utf-8")
    if as_json:
        terminal.show_json({"output": str(output), "models": list(answers)})
    terminal.note(f"{len(answers)} models -> {output}")


def _named(runs: Sequence[Path]) -> dict[str, Path]:
    """Runs by the names of their folders; by their whole paths where those are not enough."""
    for names in ([folder.resolve().name for folder in runs], [str(folder) for folder in runs]):
        if len(set(names)) == len(runs):
            return dict(zip(names, runs, strict=True))
    raise ConfigError(f"a run is named twice: {' '.join(map(str, runs))}")


def _write_next(account: Account, path: Path, number: int) -> None:
    """The most uncertain sentences with the model's labels, in any format."""
    chosen = account.sheet.find(Query(order="entropy"))[:number]
    data, answer = account.data.take(chosen).without_gold(), account.answer
    tokens = np.concatenate(
        [np.arange(*account.data.offsets[n : n + 2].tolist()) for n in chosen.tolist()]
    )
    labels = Predictions(data=data, labels=answer.labels[tokens], model=answer.model)
    io.write(labels, path, lossy=True)
    terminal.note(f"{len(chosen):,} sentences to annotate -> {path}")


def _told(account: Account) -> dict[str, Any]:
    """The account in a few figures, fit for JSON."""
    return {
        "sentences": len(account.data),
        "warnings": [alert.text for alert in alerts(account)],
        "sources": estimate_table(account).to_records(),
        "fix_next": fix_table(account).to_records(),
    }
