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
from convener.io.facts import Facts, as_asked, placed, readable
from convener.io.formats import PARTS, Content, Format
from convener.io.huggingface_columns import Columns
from convener.io.huggingface_folder import DATA_INFO, FACTS, STATE, write_folder
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report
from convener.io.table_parquet import schema_of


def from_table(
    table: Any, *, name: str = "table", report: Report | None = None, **options: Any
) -> Content:
    """A dataset from a pyarrow Table, such as `datasets.Dataset.with_format("arrow")[:]` gives.

    Options are the fields of `ReadOptions`; `name` stands for the file in messages.
    """
    noted = Report() if report is None else report
    content = Columns(table, name, {}, ReadOptions.of(options), noted).foreign()
    if report is None:
        noted.warn()
    return content


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """A folder of ours, exactly; a folder or a Parquet file of others."""
    where = str(path)
    if path.is_file():
        with readable(where, "Parquet file"):
            table = arrow.pyarrow("pyarrow.parquet").ParquetFile(path).read()
        return Columns(table, where, {}, options, report).foreign()
    info = _json(path / DATA_INFO)
    features = info.get("features") or {}
    if not isinstance(features, dict):
        raise DataError(f"{path / DATA_INFO}: features must be an object")
    reader = Columns(_folder_table(path), where, features, options, report)
    if not (path / FACTS).is_file():
        return reader.foreign()
    facts = Facts.parse((path / FACTS).read_bytes(), str(path / FACTS))
    with placed(where):
        content = reader.own(facts)
    return as_asked(content, options, where)


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """A folder that `datasets.load_from_disk` opens."""
    if path.suffix.lower() == ".parquet":
        raise FormatError(f"{path.name}: huggingface writes a folder; name it {path.stem}.hf")
    write_folder(content, path)


def recognises(path: Path) -> bool:
    """A saved folder, or a Parquet file with a list of tokens and no column of sources."""
    if path.is_dir():
        return path.suffix.lower() == ".hf" or all(
            (path / name).is_file() for name in (DATA_INFO, STATE)
        )
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return False
    try:
        schema = schema_of(path)
    except DataError:
        return False
    named = "tokens" in schema.names and "source" not in schema.names
    return named and arrow.is_list(schema.field("tokens").type)


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected a folder of Dataset.save_to_disk")
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path}: expected an object, got {values!r:.40}")
    return values


def _folder_table(path: Path) -> Any:
    """All rows of the Arrow files that a folder lists."""
    pa, ipc = arrow.pyarrow(), arrow.pyarrow("pyarrow.ipc")
    listed = _json(path / STATE).get("_data_files")
    items = listed if isinstance(listed, list) else []
    names = [str(item.get("filename", "")) if isinstance(item, dict) else "" for item in items]
    if not names or not all(name and Path(name).name == name for name in names):
        raise DataError(f"{path / STATE}: _data_files must list file names, got {listed!r:.60}")
    tables = []
    for name in names:
        with readable(str(path / name), "Arrow stream"), pa.memory_map(str(path / name)) as file:
            tables.append(ipc.open_stream(file).read_all())
    with readable(str(path), "Arrow stream"):
        return pa.concat_tables(tables)


FORMAT = Format(
    name="huggingface",
    summary="folder that datasets.load_from_disk opens; also reads Parquet of token lists",
    suffixes=(".hf",),
    carries=frozenset(PARTS),
    read=read,
    write=write,
    recognises=recognises,
    corpus_index=lambda splits: ("dataset_dict.json", json.dumps({"splits": list(splits)})),
    split_suffix="",
)
