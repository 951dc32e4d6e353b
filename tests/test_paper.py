"""docs/paper.md and the docstrings: every function exists, every equation of the paper is found by one text search."""

from __future__ import annotations

import ast
import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import convener
from convener.models.sparse_chmm import model, network, paper, prior, prior_kernel, training, wxor

SOURCE = Path(convener.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "paper.md"
EQUATIONS = range(1, 12)
"""The equations that LaTeX numbers in the paper, appendix included."""
PARTS = (model, network, paper, prior, prior_kernel, training, wxor)
SHORT_NAMES: dict[str, ModuleType] = {part.__name__.rpartition(".")[2]: part for part in PARTS}
"""Modules of `convener.models.sparse_chmm`, which the page names without their package."""


def docstrings() -> list[str]:
    """Docstrings of all modules, classes, functions and attributes."""
    statements = (
        node.value.value
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    return [statement for statement in statements if isinstance(statement, str)]


def page_names() -> list[str]:
    """Dotted names of modules, classes and functions in backquotes, such as `inference.chain.chain_objective`."""
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    code = re.findall(r"`([a-z_]+(?:\.\w+)+)`", PAGE.read_text(encoding="utf-8"))
    return [name for name in code if name.partition(".")[0] in packages | SHORT_NAMES.keys() | {"convener"}]


def resolve(name: str) -> object:
    """The module, or the attribute of a module, with this name."""
    first, *rest = name.removeprefix("convener.").split(".")
    if first in SHORT_NAMES:
        return reduce(getattr, rest, SHORT_NAMES[first])
    module = import_module(f"convener.{first}")
    for number, part in enumerate(rest):
        if not isinstance(module, ModuleType) or hasattr(module, part):
            return reduce(getattr, rest[number:], module)
        module = import_module(f"{module.__name__}.{part}")
    return module


@pytest.mark.parametrize("name", sorted(set(page_names())))
def test_every_name_on_the_page_exists(name: str) -> None:
    assert resolve(name) is not None


def test_the_page_names_modules_of_all_parts_of_the_model() -> None:
    parts = {name.rpartition(".")[0] for name in page_names()}
    assert {"prior", "wxor", "training", "inference.chain", "inference.vote_cells", "inference.dirichlet"} <= parts


@pytest.mark.parametrize("number", EQUATIONS)
def test_a_text_search_finds_every_equation_in_docstrings_and_on_the_page(number: int) -> None:
    assert any(f"Eq. ({number})" in docstring for docstring in docstrings())
    assert f"Eq. ({number})" in PAGE.read_text(encoding="utf-8")
