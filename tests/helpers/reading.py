"""Read a file with keywords, whatever it contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convener.data.issues import Issues
from convener.io import ReadOptions, load_content
from convener.io.formats import LabeledData


def read_content(path: Path, *, format: str | None = None, issues: Issues | None = None, **options: Any) -> LabeledData:
    """The dataset or predictions of a file; without `issues`, the issues of the reader are one warning."""
    collected = Issues() if issues is None else issues
    content = load_content(path, format=format, options=ReadOptions.from_dict(options), issues=collected)
    if issues is None:
        collected.warn()
    return content
