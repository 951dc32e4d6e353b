"""The README and the docs run: Python blocks as they stand, shell lines that call convener."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import convener as cv
from convener.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```console\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+?)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `convener demo` was run, as the pages assume."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.raises(SystemExit):
        main(["demo", "-o", str(folder / "convener-demo")])
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run(page: Path, desk: Path) -> None:
    for block in PYTHON.findall(page.read_text(encoding="utf-8")):
        done = subprocess.run(
            [sys.executable, "-W", "error::convener.ConvenerWarning", "-c", block],
            cwd=desk,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{page.name}:\n{block}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_shell_lines_run(page: Path, desk: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setattr(sys, "argv", ["convener"])
    for block in SHELL.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if not line.startswith("$ convener "):
                continue
            words = shlex.split(line.removeprefix("$ convener "), comments=True)
            with pytest.raises(SystemExit) as stop:
                main([word.replace("my-", f"{tmp_path}/my-") for word in words])
            assert stop.value.code == 0, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_list_of_models_is_complete() -> None:
    listed = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    missing = [name for name in cv.list_models() if f"`{name}`" not in listed]
    assert missing == []


def said_defaults() -> list[tuple[str, str, str]]:
    """(model, setting, default) of all rows of settings in models.md that tell plain values."""
    found, known = [], set(cv.list_models())
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for section in page.split("\n## ")[1:]:
        title, models = section.partition("\n")[0], []
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if cells[:1] == ["setting"]:
                named = [cell.split(", ") for cell in cells]
                models = [some for some in named if set(some) <= known] or [[title]]
            elif models and cells and cells[0].startswith("`"):
                names = re.findall("`(.+?)`", cells[0])
                for some, cell in zip(models, cells[-len(models) :], strict=True):
                    values = [value.strip("`") for value in cell.split(", ")]
                    if len(values) == len(names) and not any(" " in value for value in values):
                        told = zip(names, values, strict=True)
                        found += [(model, *row) for row in told for model in some]
    return found


def test_defaults_in_the_docs_are_those_of_the_code() -> None:
    told = said_defaults()
    networks = {"chmm", "chmm-fe", "sparse-chmm", "dws", "connet"}
    assert {"hmm", *networks} <= {model for model, _, _ in told}
    wrong = []
    for model, name, value in told:
        default = getattr(cv.get_model(model).Config(), name)
        same = value == {None: "none", True: "true", False: "false"}.get(default, default)
        if not same and re.fullmatch(r"[\d.e-]+", value):
            same = float(value) == default
        if not same and not (default is None and value == "estimated"):
            wrong.append(f"{model} {name}: {value}, but {default!r}")
    assert wrong == []


def test_every_format_has_its_place_in_the_docs() -> None:
    from convener.io import formats

    listed = (ROOT / "docs" / "data-formats.md").read_text(encoding="utf-8")
    for form in formats.list_formats():
        assert f"`{form.name}`" in listed
        assert all(f"`{suffix}`" in listed for suffix in form.suffixes)
