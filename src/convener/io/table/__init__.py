"""Long tables, as crowd data comes: one row for each span of each source.

Columns `doc_id`, `source`, `start`, `end`, `label`, and where known `sentence`, `text`, `tokens`,
`chars`, `char_start`, `score` and `probabilities`. A row without a source gives the text and the
tokens of its document; a row with a source alone says that the source saw the document and marked
nothing; a source without any row abstains there. The source `gold` is the gold, `labels` are the
aggregated labels. Offsets count characters of the text where there is one, tokens otherwise.
"""

from __future__ import annotations

from pathlib import Path

from convener.io.formats import PARTS, Content, Format
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report
from convener.io.table import csv_rows, parquet_rows
from convener.io.table.folding import folded
from convener.io.table.unfolding import rows_of


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """A table as CSV or Parquet, known by its first bytes."""
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1" or path.suffix.lower() == ".parquet"
    rows = (parquet_rows if is_parquet else csv_rows).read_rows(path, report)
    return folded(rows, options, report)


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """A table as Parquet where the name says so, else as CSV."""
    rows = rows_of(content)
    (parquet_rows if path.suffix.lower() == ".parquet" else csv_rows).write_rows(rows, path)


FORMAT = Format(
    name="table",
    summary="long table of spans (CSV or Parquet), as crowd data comes",
    suffixes=(".csv", ".parquet"),
    carries=frozenset(PARTS) - {"abstain within a sentence", "illegal votes"},
    read=read,
    write=write,
)
