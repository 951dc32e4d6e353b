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
from convener.io.facts import Facts, as_asked
from convener.io.files import decoded
from convener.io.formats import PARTS, Content, Format
from convener.io.huggingface.columns import Columns
from convener.io.huggingface.folder import DATA_INFO, FACTS, STATE, VOTES, features_of, table_of
from convener.io.huggingface.foreign import foreign
from convener.io.huggingface.writer import write_folder
from convener.io.messages import placed, readable
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report
from convener.predictions import Predictions
from convener.tags import TagSet


def from_table(
    table: Any, *, name: str = "table", report: Report | None = None, **options: Any
) -> Content:
    """A dataset from a pyarrow Table, such as `datasets.Dataset.with_format("arrow")[:]` gives.

    Options are the fields of `ReadOptions`; `name` stands for the file in messages.
    """
    noted = Report() if report is None else report
    content = foreign(Columns(table, name), ReadOptions.of(options), noted)
    if report is None:
        noted.warn()
    return content


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """A folder of ours, exactly; a folder or a Parquet file of others."""
    where = str(path)
    if path.is_file():
        with readable(where, "Parquet file"):
            table = arrow.pyarrow("pyarrow.parquet").ParquetFile(path).read()
        return foreign(Columns(table, where), options, report)
    columns = Columns(table_of(path), where, features_of(path))
    facts = path / FACTS
    if not facts.is_file():
        return foreign(columns, options, report)
    stated = Facts.parse(decoded(facts.read_bytes(), str(facts)), str(facts))
    with placed(where):
        content = stated.restored(_own(columns, stated))
    return as_asked(content, options, where)


def _own(columns: Columns, facts: Facts) -> Content:
    """What a folder of ours holds, as it was."""
    holds, sources = facts.holds, facts.sources or ()
    predicted = facts.model is not None
    tagged = columns.ids("ner_tags") if predicted or "gold" in holds else None
    data = columns.dataset(
        TagSet(facts.types or ()),
        {name: columns.ids(VOTES + name) for name in sources},
        silence=facts.silences(sources, ReadOptions()),
        gold=None if predicted else tagged,
        text=columns.text() if "text" in holds else None,
        documents=columns.strings("doc_id") if "documents" in holds else None,
    ).with_coarse(facts.coarse)
    if not predicted or tagged is None:
        return data
    return Predictions(
        data=data,
        labels=tagged,
        probabilities=columns.probabilities(len(data.fine_tags))
        if "probabilities" in holds
        else None,
        scores=columns.scores() if "scores" in holds else None,
        model=facts.model or "",
        settings=facts.settings,
    )


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
        schema = arrow.parquet_schema(path)
    except DataError:
        return False
    named = "tokens" in schema.names and "source" not in schema.names
    return named and arrow.is_list(schema.field("tokens").type)


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
