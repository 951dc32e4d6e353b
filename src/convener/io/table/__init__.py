"""Long tables, the usual form of crowdsourced data: one row per span of a source, as CSV or Parquet.

Columns are `doc_id`, `source`, `start`, `end`, `label`, and where known `sentence`, `text`, `tokens`, `token_offsets`,
`doc_offset`, `score` and `probabilities`. A row without a source gives text and tokens of its document. A row with a
source but no span states that the source annotated the document and marked nothing. A source without a row abstains
on the document. The source `gold` contains gold labels, `predictions` predictions. Offsets count characters if there is
text, else tokens.

Predictions are written as CSV for spreadsheets, one row per span, unless the option `metadata` asks for a long table.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.io.formats import CAPABILITIES, FileContent, Format, LabeledData, ReadOptions, WriteOptions
from convener.io.table.convert import dataset_to_rows, rows_to_dataset
from convener.io.table.csv import read_csv, write_csv
from convener.io.table.parquet import read_parquet, write_parquet
from convener.io.table.spreadsheet import write_spreadsheet


def read(path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read a table; Parquet is detected by the first bytes or the suffix."""
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1" or path.suffix.lower() == ".parquet"
    rows = read_parquet(path, issues) if is_parquet else read_csv(path, issues, options.encoding)
    return FileContent(rows_to_dataset(rows, options, issues))


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write a table: Parquet if the suffix is `.parquet`, else CSV."""
    is_parquet = path.suffix.lower() == ".parquet"
    (write_parquet if is_parquet else write_csv)(dataset_to_rows(content), path)


def plain_form(content: LabeledData, path: Path, options: WriteOptions) -> Format | None:
    """Return the spreadsheet for predictions as CSV, unless the options ask for the other form."""
    if path.suffix.lower() == ".parquet" or options.metadata:
        return None
    return SPREADSHEET if isinstance(content, Predictions) or options.metadata is False else None


FORMAT = Format(
    name="table",
    summary="long table of spans (CSV or Parquet), as used for crowdsourced data",
    suffixes=(".csv", ".parquet"),
    capabilities=frozenset(CAPABILITIES) - {"abstain within a sentence", "illegal votes"},
    read=read,
    write=write,
    plain_form=plain_form,
)
SPREADSHEET = replace(FORMAT, write=write_spreadsheet, capabilities=frozenset(CAPABILITIES))
"""Contains no votes, and is documented to leave out probabilities and the model."""
