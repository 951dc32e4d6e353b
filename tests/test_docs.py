"""README and docs: Python blocks and `convener` commands run, links resolve, parameter tables match the code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import convener as cv
from convener.cli import main
from convener.io import formats

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
MODEL_PAGES = ROOT / "docs" / "models"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
CONSOLE_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
PARAMETER_COLUMNS = ["setting", "default", "range", "meaning", "neutral value"]


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the output of `convener demo`, and the text and labeling functions of the quick start."""
    folder = tmp_path_factory.mktemp("docs")
    with pytest.raises(SystemExit):
        main(["demo", "-o", str(folder / "convener-demo")])
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    (folder / "notes.txt").write_text(re.findall(r"```text\n(.*?)```", page, re.DOTALL)[0], encoding="utf-8")
    functions = next(block for block in PYTHON_BLOCK.findall(page) if "def after_title" in block)
    (folder / "lfs.py").write_text(functions, encoding="utf-8")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_blocks_run(page: Path, demo_folder: Path) -> None:
    for block in PYTHON_BLOCK.findall(page.read_text(encoding="utf-8")):
        done = subprocess.run(
            [sys.executable, "-W", "error::convener.ConvenerWarning", "-c", block],
            cwd=demo_folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{page.name}:\n{block}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_console_commands_run(page: Path, demo_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(demo_folder)
    monkeypatch.setattr(sys, "argv", ["convener"])
    for block in CONSOLE_BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if not line.startswith("$ convener "):
                continue
            arguments = shlex.split(line.removeprefix("$ convener "), comments=True)
            with pytest.raises(SystemExit) as stop:
                main([argument.replace("my-", f"{tmp_path}/my-") for argument in arguments])
            assert stop.value.code == 0, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_resolve(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in path:
            continue
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {path}"
        if anchor:
            assert anchor in heading_anchors(target), f"{page.name}: {path}#{anchor}"


def heading_anchors(page: Path) -> set[str]:
    """Anchors of the headings of a Markdown page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_model_has_a_page_and_is_in_the_index() -> None:
    index = (MODEL_PAGES / "README.md").read_text(encoding="utf-8")
    for name in cv.list_models():
        assert f"[`{name}`]({name}.md)" in index
        assert (MODEL_PAGES / f"{name}.md").is_file()


def documented_parameters(name: str) -> dict[str, list[str]]:
    """Rows of the parameter table of a model by setting: default, range, meaning, neutral value."""
    lines = (MODEL_PAGES / f"{name}.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    start = cells.index(PARAMETER_COLUMNS)
    return {row[0].strip("`"): row[1:] for row in cells[start + 2 :] if len(row) == len(PARAMETER_COLUMNS)}


@pytest.mark.parametrize("name", cv.list_models())
def test_parameter_tables_list_all_settings_with_their_defaults(name: str) -> None:
    documented = documented_parameters(name)
    defaults = {item.name: item.default for item in fields(cv.get_model(name).Config)}
    assert documented.keys() == defaults.keys()
    for setting, (default, allowed, meaning, _) in documented.items():
        assert matches_default(default, defaults[setting]), f"{setting}: {default}, but {defaults[setting]!r}"
        assert allowed, setting
        assert meaning, setting


def matches_default(text: str, default: object) -> bool:
    if isinstance(default, (int, float)) and not isinstance(default, bool):
        return float(text) == default
    return text == ("`None`" if default is None else str(default).lower() if isinstance(default, bool) else default)


def test_every_format_is_documented() -> None:
    page = (ROOT / "docs" / "data-formats.md").read_text(encoding="utf-8")
    for item in formats.list_formats():
        assert f"`{item.name}`" in page
        assert all(f"`{suffix}`" in page for suffix in item.suffixes)
