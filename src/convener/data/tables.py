"""Table: rows and columns that are printed as text in a terminal and as HTML in a notebook."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

from convener.errors import DataError, require

PERCENT = ".2%"
MISSING = "-"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A titled table of plain values; None and NaN are printed as "-".

    `formats` maps columns to formats of floats ("F1": ".2%"); other floats are printed with four significant digits.
    `notes` are lines printed below the table.

    >>> print(Table(title="Sources", columns=["name", "F1"], rows=[["lexicon", 0.73271]],
    ...             formats={"F1": PERCENT}, notes=["conlleval mode"]))
    Sources
    name         F1
    -------  ------
    lexicon  73.27%
    conlleval mode
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()
    formats: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(map(_to_python, row)) for row in self.rows))
        object.__setattr__(self, "notes", tuple(self.notes))
        if len(set(self.columns)) != len(self.columns):
            raise DataError(f"columns of a table must have different names, got {', '.join(self.columns)}")
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise DataError(f"row {number}: expected {len(self.columns)} values, got {len(row)}")

    def __str__(self) -> str:
        header = [single_line(name) for name in self.columns]
        body = self.formatted_rows()
        right_aligned = self.numeric_columns()
        widths = [max(map(cell_len, cells)) for cells in zip(header, *body, strict=True)]
        lines = [header, ["-" * width for width in widths], *body]
        padded = ["  ".join(map(_pad, line, widths, right_aligned)).rstrip() for line in lines]
        return "\n".join([*([self.title] if self.title else []), *padded, *self.notes])

    def _repr_html_(self) -> str:
        right_aligned = self.numeric_columns()
        parts = ["<table>", f"<caption>{html.escape(self.title)}</caption>"]
        parts.append(f"<thead>{_html_row('th', self.columns, right_aligned)}</thead>")
        parts.append("<tbody>")
        parts += [_html_row("td", row, right_aligned) for row in self.formatted_rows()]
        parts += ["</tbody>", "</table>"]
        parts += [f"<p>{html.escape(note)}</p>" for note in self.notes]
        return "\n".join(parts)

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per row with unformatted values that JSON can hold."""
        return [{name: _json_safe(value) for name, value in zip(self.columns, row, strict=True)} for row in self.rows]

    def to_pandas(self) -> Any:
        """A pandas DataFrame of the unformatted values; needs pandas."""
        pandas = require("pandas", extra="pandas", purpose="to_pandas()")
        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def formatted_rows(self) -> list[list[str]]:
        """The values as printed, row by row."""
        formats = [self.formats.get(name, ".4g") for name in self.columns]
        return [list(map(_format_value, row, formats)) for row in self.rows]

    def numeric_columns(self) -> list[bool]:
        """Which columns contain only numbers."""
        return [self._is_numeric(column) for column in range(len(self.columns))]

    def _is_numeric(self, column: int) -> bool:
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(isinstance(value, (int, float)) for value in values)


def _to_python(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value; other values are returned unchanged."""
    return value.item() if hasattr(value, "item") and not getattr(value, "ndim", 1) else value


def _json_safe(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return [_json_safe(item) for item in value] if isinstance(value, (list, tuple)) else value


def _format_value(value: Any, float_format: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format(value, float_format)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return single_line(", ".join(map(str, value)))
    return single_line(str(value))


def single_line(text: str) -> str:
    """The text without line breaks, tabs and other characters that move the cursor."""
    return "".join(" " if unicodedata.category(char) in ("Cc", "Zl", "Zp") else char for char in text)


def _pad(text: str, width: int, right_aligned: bool) -> str:
    padding = " " * (width - cell_len(text))
    return padding + text if right_aligned else text + padding


def _html_row(cell: str, texts: Iterable[str], right_aligned: Iterable[bool]) -> str:
    cells = (
        f'<{cell} style="text-align:{"right" if is_right else "left"}">{html.escape(text)}</{cell}>'
        for text, is_right in zip(texts, right_aligned, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"
