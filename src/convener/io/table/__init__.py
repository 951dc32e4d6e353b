"""Long tables, as crowd data comes: one row for each span of each source.

Columns `doc_id`, `source`, `start`, `end`, `label`, and where known `sentence`, `text`, `tokens`,
`chars`, `char_start`, `score` and `probabilities`. A row without a source gives the text and the
tokens of its document; a row with a source alone says that the source saw the document and marked
nothing; a source without any row abstains there. The source `gold` is the gold, `labels` are the
aggregated labels. Offsets count characters of the text where there is one, tokens otherwise.
"""

from __future__ import annotations

from pathlib import Path

from convener.data.issues import Issues
from convener.io.formats import CAPABILITIES, Format, LabeledData, ReadOptions, WriteOptions
from convener.io.table.convert import dataset_to_rows, rows_to_dataset
from convener.io.table.csv import read_csv, write_csv
from convener.io.table.parquet import read_parquet, write_parquet


def read(path: Path, options: ReadOptions, issues: Issues) -> LabeledData:
    """A table as CSV or Parquet, known by its first bytes."""
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1" or path.suffix.lower() == ".parquet"
    rows = (read_parquet if is_parquet else read_csv)(path, issues)
    return rows_to_dataset(rows, options, issues)


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """A table as Parquet where the name says so, else as CSV."""
    is_parquet = path.suffix.lower() == ".parquet"
    (write_parquet if is_parquet else write_csv)(dataset_to_rows(content), path)


FORMAT = Format(
    name="table",
    summary="long table of spans (CSV or Parquet), as crowd data comes",
    suffixes=(".csv", ".parquet"),
    capabilities=frozenset(CAPABILITIES) - {"abstain within a sentence", "illegal votes"},
    read=read,
    write=write,
)
