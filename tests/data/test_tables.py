"""Tables: text, HTML, records and validation."""

import importlib
import json

import numpy as np
import pytest

from convener.data.tables import PERCENT, Table
from convener.errors import DataError, MissingDependencyError

TABLE = Table(
    title="Scores",
    columns=["source", "spans", "F1"],
    rows=[["names", 1200, 0.5], ["東京", None, float("nan")], ["é<b>", 3, 1.0]],
    formats={"F1": PERCENT},
    notes=["by <hand>"],
)


def test_numbers_are_right_aligned():
    assert str(TABLE).split("\n") == [
        "Scores",
        "source  spans       F1",
        "------  -----  -------",
        "names   1,200   50.00%",
        "東京        -        -",  # two wide characters take four cells
        "é<b>        3  100.00%",
        "by <hand>",
    ]


def test_combining_marks_have_no_width_and_line_breaks_become_spaces():
    table = Table(title="", columns=["a", "b"], rows=[["e\u0301", "x\ny"], ["ab", "z"]])
    assert str(table) == "a   b\n--  ---\ne\u0301   x y\nab  z"


def test_html_is_escaped():
    text = TABLE._repr_html_()
    assert "<b>" not in text
    assert "é&lt;b&gt;" in text
    assert "<p>by &lt;hand&gt;</p>" in text
    assert text.count("<tr>") == 4


def test_records_are_unformatted_and_valid_json():
    table = Table(title="", columns=["x", "y"], rows=[[np.int64(3), np.float32(0.5)], [None, ("a",)]])
    assert table.to_records() == [{"x": 3, "y": 0.5}, {"x": None, "y": ["a"]}]
    assert TABLE.to_records()[1]["F1"] is None
    json.dumps([table.to_records(), TABLE.to_records()], allow_nan=False)


def test_pandas():
    frame = TABLE.to_pandas()
    assert list(frame.columns) == ["source", "spans", "F1"]
    assert frame["F1"][0] == 0.5


def test_without_pandas(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingDependencyError, match=r"pip install 'convener\[pandas\]'"):
        TABLE.to_pandas()


def test_lists_become_tuples():
    assert TABLE.columns == ("source", "spans", "F1")
    assert isinstance(TABLE.rows[0], tuple)


def test_tables_with_few_rows_or_unusual_values():
    assert str(Table(title="", columns=["a"], rows=[])) == "a\n-"
    mixed = Table(title="", columns=["a"], rows=[[True], [0.123456]])
    assert str(mixed).split("\n")[2:] == ["   yes", "0.1235"]


def test_invalid_tables_are_rejected():
    with pytest.raises(DataError, match="row 1: expected 2 values, got 1"):
        Table(title="", columns=["a", "b"], rows=[[1, 2], [3]])
    with pytest.raises(DataError, match="columns of a table must have different names, got a, a"):
        Table(title="", columns=["a", "a"], rows=[])
