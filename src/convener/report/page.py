"""Pages: an account, or a comparison, as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.errors import require
from convener.report.figures import Axis
from convener.report.sheet import FILTERS, Query, SentenceIndex
from convener.tables import Table

_HERE = Path(__file__).parent
MAX_SENTENCES = 20_000
"""Sentences in one file; of more the most uncertain are shown, and the viewer has them all."""
GOLDEN_ANGLE = 137.508
"""Degrees between the hues of two types: no two are alike."""


@cache
def template_environment() -> Any:
    """Templates that escape whatever is put into them."""
    jinja2 = require("jinja2", extra="report", purpose="a report")
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals |= {
        "Axis": Axis,
        "cells": table_cells,
        "heads": lambda table: zip(table.columns, table.numeric_columns(), strict=True),
        "axis_of": fit_axis,
        "longest": lambda names: max([len(name) for name in names], default=1),
        "share": lambda value: "1" if value > 0.995 else f"{value:.2f}".removeprefix("0"),
        "size": lambda count: round(2.5 + min(6.0, float(count) ** 0.25 / 2), 2),
    }
    return env


def render_page(
    template: str,
    *,
    title: str,
    sentence_index: SentenceIndex,
    remote: bool,
    context: Mapping[str, Any],
) -> str:
    """A page with its sentences in it or, for the viewer, without.

    facts: what the template shows, besides.
    """
    env = template_environment()
    script = (_HERE / "static" / "report.js").read_text(encoding="utf-8")
    style = (_HERE / "static" / "report.css").read_text(encoding="utf-8")
    hues = {name: type_hue(number) for number, name in enumerate(sentence_index.types)}
    setup = {
        "types": sentence_index.types,
        "hues": list(hues.values()),
        "lanes": sentence_index.tracks,
        "odd": FILTERS,
        "size": len(sentence_index),
        "remote": remote,
    }
    sentence_ids = embedded_sentences(sentence_index)
    records = None if remote else to_script_json([sentence_index.record(number) for number in sentence_ids.tolist()])
    markup = importlib.import_module("markupsafe").Markup
    html: str = env.get_template(template).render(
        title=title,
        sheet=sentence_index,
        counts=sentence_index.counts(),
        policy=content_security_policy(script),
        style=markup(style),
        script=markup(script),
        setup=markup(to_script_json(setup)),
        records=None if records is None else markup(records),
        held=len(sentence_index) if remote else len(sentence_ids),
        hue=lambda name: hues.get(name, 0),
        version=version("convener"),
        **context,
    )
    # Half a character, which no file can hold, is shown as the sign for what cannot be shown.
    return html.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def embedded_sentences(sentence_index: SentenceIndex) -> NDArray[np.int64]:
    """The sentences that one file holds, in the order of the text."""
    selected: NDArray[np.int64] = np.sort(sentence_index.find(Query(order="entropy"))[:MAX_SENTENCES])
    return selected


def content_security_policy(script: str) -> str:
    """What a browser may do with the page: run this script, and nothing that came with the data."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def to_script_json(value: Any) -> str:
    r"""JSON that may stand in a script element: nothing in it ends the element.

    >>> to_script_json({"t": "</script><!--"})
    '{"t":"\\u003c/script>\\u003c!--"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a character, which only escapes can hold
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def type_hue(number: int) -> int:
    """The hue of a type, in degrees."""
    return round(212 + number * GOLDEN_ANGLE) % 360


def table_cells(table: Table) -> list[list[tuple[str, bool]]]:
    """The texts of a table, and whether each is a number."""
    numeric = table.numeric_columns()
    return [list(zip(row, numeric, strict=True)) for row in table.formatted_rows()]


def fit_axis(curves: Mapping[str, Sequence[tuple[float, float]]], column: int, first: float, last: float) -> Axis:
    """An axis that holds a column of all curves."""
    values = [point[column] for points in curves.values() for point in points]
    low, high = min(values), max(values)
    return Axis(low, high, first, last) if high > low else Axis(low - 0.5, high + 0.5, first, last)
