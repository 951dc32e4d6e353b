"""Long tables, as crowd data comes: one row for each span of each source.

Columns `doc_id`, `source`, `start`, `end`, `label`, and where known `sentence`, `text`, `tokens`,
`chars`, `char_start`, `score` and `probabilities`. A row without a source gives the text and the
tokens of its document; a row with a source alone says that the source saw the document and marked
nothing; a source without any row abstains there. The source `gold` is the gold, `labels` are the
aggregated labels. Offsets count characters of the text where there is one, tokens otherwise.
"""

from __future__ import annotations

from pathlib import Path

from convener.io.formats import CAPABILITIES, Format, LabeledData
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Issues
from convener.io.table.csv_rows import read_csv, write_csv
from convener.io.table.folding import rows_to_dataset
from convener.io.table.parquet_rows import read_parquet, write_parquet
from convener.io.table.unfolding import dataset_to_rows


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
