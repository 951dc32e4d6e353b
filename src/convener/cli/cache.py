"""Commands that manage the cache: cache list, cache prune."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import storage
from convener.cli import console, options
from convener.data.tables import Table
from convener.encoders import store as features
from convener.errors import ConfigError
from convener.lf import cache as votes
from convener.report import viewer

cache_app = typer.Typer(help="Manage cached features, votes and prepared reports.")
BYTES_PER_MB, BYTES_PER_GB = 1e6, 1e9


@cache_app.command("list")
def list_cache(as_json: options.Json = False) -> None:
    """List cached features, votes and prepared reports, most recently used first."""
    folder = storage.cache_dir()
    entries = (features.entries(folder), votes.entries(folder), viewer.entries(folder))
    _show_entries(folder, "in", *entries, as_json=as_json)


@cache_app.command("prune")
def prune_cache(
    older_than: Annotated[float | None, typer.Option(metavar="DAYS", min=0, help="Unused for DAYS days.")] = None,
    keep: Annotated[
        float | None, typer.Option(metavar="GB", min=0, help="Least recently used entries beyond GB.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Features computed by this encoder.")] = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Leftovers of interrupted runs.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: options.Json = False,
) -> None:
    """Remove features, votes and prepared reports from the cache; installed encoders stay."""
    if not (everything or unfinished or any(x is not None for x in (older_than, keep, encoder))):
        raise ConfigError("nothing selected; use --older-than, --keep, --encoder, --unfinished or --all")
    folder = storage.cache_dir()
    # A negative limit also removes empty folders.
    max_bytes = -1 if everything else None if keep is None else keep * BYTES_PER_GB
    incomplete = unfinished or everything
    prune = partial(storage.entries_to_prune, older_than=older_than, max_bytes=max_bytes, incomplete=incomplete)
    feature_entries = prune(features.entries(folder), name=encoder)
    vote_entries, view_entries = prune(votes.entries(folder)), prune(viewer.entries(folder))
    if not dry_run:
        features.remove(feature_entries)
        for entry in (*vote_entries, *view_entries):
            storage.remove_path(entry.path)
    action = "would be removed from" if dry_run else "removed from"
    _show_entries(folder, action, feature_entries, vote_entries, view_entries, as_json=as_json)


def _show_entries(
    folder: Path,
    action: str,
    feature_entries: list[features.FeatureEntry],
    vote_entries: list[storage.CacheEntry],
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
                entry.name,
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
        [(entry.key, entry.name, entry.size / BYTES_PER_MB, _format_time(entry.last_used)) for entry in vote_entries],
    )
    view_table = _entry_table(
        f"Prepared reports {action} {folder}",
        ("key", "run", "sentences", "MB", "last used"),
        [
            (entry.key, entry.name, entry.sentences, entry.size / BYTES_PER_MB, _format_time(entry.last_used))
            for entry in view_entries
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
    return Table(title=f"{title}: {len(rows)}, {total:,.1f} MB", columns=columns, rows=rows, formats={"MB": ".1f"})


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "minutes")
