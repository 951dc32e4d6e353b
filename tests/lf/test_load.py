"""Labeling functions from a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from convener.errors import DataError, UnknownNameError
from convener.lf.load import load_lfs

FILE = """
import beside
from convener.lf import gazetteer, labeling_function, union

cities = gazetteer(["Oslo"], "LOC", name="cities")
same = cities
_hidden = gazetteer(["Rome"], "LOC", name="hidden")

@labeling_function(["LOC"])
def lakes(words):
    return [(0, 1, "LOC")] if words[0] in beside.LAKES else None

places = union(cities, lakes, name="places")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text('LAKES = {"Como"}', encoding="utf-8")
    path = tmp_path / "my-lfs.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_functions_are_loaded_in_order_of_definition(file: Path) -> None:
    before = list(sys.path)
    functions = load_lfs(file)
    assert [function.name for function in functions] == ["cities", "lakes", "places"]
    assert functions[1]("Como") == [(0, 1, "LOC")]
    assert sys.path == before


def test_the_list_selects_functions(file: Path) -> None:
    file.write_text(FILE + "\nFUNCTIONS = [places, _hidden]\n", encoding="utf-8")
    assert [function.name for function in load_lfs(file)] == ["places", "hidden"]


def test_functions_can_be_selected_by_name(file: Path) -> None:
    assert [f.name for f in load_lfs(file, ["places", "cities"])] == ["places", "cities"]
    with pytest.raises(UnknownNameError, match="no labeling function 'citys'; did you mean"):
        load_lfs(file, ["citys"])


def test_a_changed_import_changes_the_fingerprint(file: Path) -> None:
    before = load_lfs(file, ["lakes"])[0].fingerprint()
    assert load_lfs(file, ["lakes"])[0].fingerprint() == before
    (file.parent / "beside.py").write_text('LAKES = {"Garda"}', encoding="utf-8")
    sys.modules.pop("beside")
    assert load_lfs(file, ["lakes"])[0].fingerprint() != before


@pytest.mark.parametrize("way", ["import further", "from further import LAKES"])
def test_a_changed_indirect_import_changes_the_fingerprint(file: Path, way: str) -> None:
    beside, further = file.parent / "beside.py", file.parent / "further.py"
    lakes = "LAKES = further.LAKES" if way == "import further" else ""
    beside.write_text(f"import logging\nlog = logging.getLogger('x')\n{way}\n{lakes}")
    digests = []
    for name in ("Como", "Como", "Garda"):
        further.write_text(f"LAKES = {{'{name}'}}\n#{len(digests)}")
        for module in ("beside", "further"):
            sys.modules.pop(module, None)
        digests.append(load_lfs(file, ["lakes"])[0].fingerprint())
    sys.modules.pop("further")
    assert digests[1] != digests[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "contains no labeling functions; `convener lf init`"),
        ("1 / 0", r"import failed: ZeroDivisionError: division by zero \(my-lfs.py:1\)"),
        ("def", "import failed: SyntaxError"),
        ("import nowhere_at_all", "import failed: ModuleNotFoundError"),
        ("FUNCTIONS = [len]", "FUNCTIONS must contain labeling functions, got <built-in"),
        ("FUNCTIONS = 5", "FUNCTIONS must contain labeling functions, got 5"),
    ],
)
def test_an_invalid_file_is_named(file: Path, text: str, message: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=f"my-lfs.py: {message}"):
        load_lfs(file)


def test_missing_files_and_other_suffixes_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="file not found; expected a Python file"):
        load_lfs(tmp_path / "none.py")
    (tmp_path / "notes.md").write_text("# notes", encoding="utf-8")
    with pytest.raises(DataError, match=r"expected the suffix \.py"):
        load_lfs(tmp_path / "notes.md")
