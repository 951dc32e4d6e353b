"""Hugging Face datasets: folders as `Dataset.save_to_disk` writes them, and Parquet files.

Columns `tokens`, `ner_tags` (the gold, or the aggregated labels), `votes:NAME` of each source
(-1 = abstain), and where known `soft_labels`, `scores`, `text`, `chars`, `char_start`, `doc_id`.
What the columns do not say stands in `convener.json` beside them, which `datasets` does not read.
Data of others needs `tokens` and `ner_tags` (or `tags`, `labels`), as class labels or strings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from convener.errors import DataError, FormatError
from convener.io import arrow
from convener.io.facts import Metadata, apply_read_options
from convener.io.files import decode_utf8
from convener.io.formats import CAPABILITIES, Format, LabeledData
from convener.io.huggingface.columns import HFTable
from convener.io.huggingface.folder import (
    INFO_FILE,
    METADATA_FILE,
    STATE_FILE,
    VOTES_PREFIX,
    read_features,
    read_table,
)
from convener.io.huggingface.foreign import read_external
from convener.io.huggingface.writer import write_folder
from convener.io.messages import error_location, wrap_errors
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Issues
from convener.predictions import Predictions
from convener.tags import TagSet


def from_arrow(table: Any, *, name: str = "table", issues: Issues | None = None, **options: Any) -> LabeledData:
    """A dataset from a pyarrow Table, such as `datasets.Dataset.with_format("arrow")[:]` gives.

    Options are the fields of `ReadOptions`; `name` stands for the file in messages.
    """
    collected = Issues() if issues is None else issues
    content = read_external(HFTable(table, name), ReadOptions.from_dict(options), collected)
    if issues is None:
        collected.warn()
    return content


def read(path: Path, options: ReadOptions, issues: Issues) -> LabeledData:
    """A folder of ours, exactly; a folder or a Parquet file of others."""
    where = str(path)
    if path.is_file():
        with wrap_errors(where, "Parquet file"):
            arrow_table = arrow.import_pyarrow("pyarrow.parquet").ParquetFile(path).read()
        return read_external(HFTable(arrow_table, where), options, issues)
    table = HFTable(read_table(path), where, read_features(path))
    metadata_path = path / METADATA_FILE
    if not metadata_path.is_file():
        return read_external(table, options, issues)
    metadata = Metadata.from_json(decode_utf8(metadata_path.read_bytes(), str(metadata_path)), str(metadata_path))
    with error_location(where):
        content = metadata.restore(_read_native(table, metadata))
    return apply_read_options(content, options, where)


def _read_native(table: HFTable, metadata: Metadata) -> LabeledData:
    """What a folder of ours holds, as it was."""
    contents, sources = metadata.contents, metadata.sources or ()
    has_predictions = metadata.model is not None
    labels = table.label_ids("ner_tags") if has_predictions or "gold" in contents else None
    data = table.to_dataset(
        TagSet(metadata.types or ()),
        {name: table.label_ids(VOTES_PREFIX + name) for name in sources},
        silence=metadata.silences(sources, ReadOptions()),
        gold=None if has_predictions else labels,
        text=table.text() if "text" in contents else None,
        doc_ids=table.strings("doc_id") if "documents" in contents else None,
    ).with_coarse(metadata.coarse)
    if not has_predictions or labels is None:
        return data
    return Predictions(
        data=data,
        labels=labels,
        probabilities=table.probabilities(len(data.fine_tags)) if "probabilities" in contents else None,
        span_scores=table.scores() if "scores" in contents else None,
        model=metadata.model or "",
        settings=metadata.model_settings,
    )


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """A folder that `datasets.load_from_disk` opens."""
    if path.suffix.lower() == ".parquet":
        raise FormatError(f"{path.name}: huggingface writes a folder; name it {path.stem}.hf")
    write_folder(content, path)


def recognizes(path: Path) -> bool:
    """A saved folder, or a Parquet file with a list of tokens and no column of sources."""
    if path.is_dir():
        return path.suffix.lower() == ".hf" or all((path / name).is_file() for name in (INFO_FILE, STATE_FILE))
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return False
    try:
        schema = arrow.read_parquet_schema(path)
    except DataError:
        return False
    has_tokens = "tokens" in schema.names and "source" not in schema.names
    return has_tokens and arrow.is_list(schema.field("tokens").type)


FORMAT = Format(
    name="huggingface",
    summary="folder that datasets.load_from_disk opens; also reads Parquet of token lists",
    suffixes=(".hf",),
    capabilities=frozenset(CAPABILITIES),
    read=read,
    write=write,
    recognizes=recognizes,
    splits_index=lambda splits: ("dataset_dict.json", json.dumps({"splits": list(splits)})),
    split_suffix="",
)
