"""Commands that manage the cache: cache list, cache prune."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from convener.cache import CacheEntry, cache_dir, entries_to_prune, list_cache, remove_entries
from convener.cli import console, options
from convener.data.tables import Table
from convener.errors import ConfigError

cache_app = typer.Typer(help="Manage cached features, votes and prepared reports.")
BYTES_PER_MB, BYTES_PER_GB = 1e6, 1e9
DETAILS = ("sentences", "tokens", "dim", "dtype")
"""Columns that only some kinds of entries have."""


@cache_app.command("list")
def list_entries(as_json: options.Json = False) -> None:
    """List cached features, votes and prepared reports, most recently used first."""
    folder = cache_dir()
    _show_entries(folder, "in", list_cache(folder), as_json=as_json)


@cache_app.command("prune")
def prune(
    older_than: Annotated[float | None, typer.Option(metavar="DAYS", min=0, help="Unused for DAYS days.")] = None,
    max_size: Annotated[
        float | None, typer.Option(metavar="GB", min=0, help="Least recently used entries beyond GB.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(metavar="NAME", help="Features computed by this encoder.")] = None,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", metavar="", help="Leftovers of interrupted runs.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", metavar="", help="Everything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Only show what would be removed.")] = False,
    as_json: options.Json = False,
) -> None:
    """Remove features, votes and prepared reports from the cache; installed encoders stay."""
    if not (everything or incomplete or any(x is not None for x in (older_than, max_size, encoder))):
        raise ConfigError("nothing selected; use --older-than, --max-size, --encoder, --incomplete or --all")
    folder = cache_dir()
    # A negative limit also removes empty folders.
    max_bytes = -1 if everything else None if max_size is None else max_size * BYTES_PER_GB
    selected = entries_to_prune(
        list_cache(folder),
        encoder=encoder,
        older_than=older_than,
        max_bytes=max_bytes,
        incomplete=incomplete or everything,
    )
    if not dry_run:
        remove_entries(selected)
    _show_entries(folder, "would be removed from" if dry_run else "removed from", selected, as_json=as_json)


def _show_entries(folder: Path, action: str, entries: Sequence[CacheEntry], *, as_json: bool) -> None:
    total = sum(entry.size for entry in entries)
    table = Table(
        title=f"Cache entries {action} {folder}: {len(entries)}, {total / BYTES_PER_MB:,.1f} MB",
        columns=("kind", "key", "label", *DETAILS, "size MB", "last used", "complete"),
        rows=[
            (
                entry.kind,
                entry.key,
                entry.label,
                *(entry.details.get(name) for name in DETAILS),
                entry.size / BYTES_PER_MB,
                datetime.fromtimestamp(entry.last_used).astimezone().isoformat(" ", "minutes"),
                entry.complete,
            )
            for entry in entries
        ],
        formats={"size MB": ".1f"},
        notes=("label: the encoder of features, the labeling function of votes, the model of a report",),
    )
    if as_json:
        console.print_json({"entries": console.to_records(table)})
    else:
        console.print_result(table)
