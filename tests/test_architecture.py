"""Which package may import which; read off the imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import convener

pytestmark = pytest.mark.slow

SOURCE = Path(convener.__file__).parent
FOUNDATIONS = {"errors", "config", "encodings", "storage", "cache", "progress"}
NUMPY_ONLY = {"inference.voting", "inference.counts"}
"""Modules of inference that evaluation and report may use: they need neither numba nor torch."""
ALLOWED = {
    "errors": set(),
    "config": {"errors"},
    "encodings": {"errors"},
    "storage": {"errors", "encodings"},
    "cache": {"errors"},
    "progress": {"errors"},
    "data": FOUNDATIONS,
    "io": FOUNDATIONS | {"data"},
    "encoders": FOUNDATIONS | {"data"},
    "lf": FOUNDATIONS | {"data", "encoders"},
    "inference": {"errors", "data"},
    "evaluation": FOUNDATIONS | {"data"} | NUMPY_ONLY,
    "neural": FOUNDATIONS | {"data", "inference"},
    "taggers": FOUNDATIONS | {"data", "inference", "neural", "encoders", "evaluation", "io"},
    "models": FOUNDATIONS | {"data", "inference", "neural", "encoders", "evaluation", "io", "taggers"},
    "demo": FOUNDATIONS | {"data", "io", "lf"},
    "report": FOUNDATIONS | {"data", "evaluation"} | NUMPY_ONLY,
    "experiment": FOUNDATIONS | {"data", "io", "evaluation", "models", "taggers"},
}
HEAVY = ["torch", "spacy", "pyarrow", "datasets", "transformers", "pandas", "numba", "openai"]


def imports() -> list[tuple[str, str, str]]:
    """(file, package, imported module) for every import of the project's own modules."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        package = name.parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                continue
            ours = [module.removeprefix("convener.") for module in modules if module.startswith("convener.")]
            found += [(name.as_posix(), package, module) for module in ours]
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_what_it_may(package: str) -> None:
    allowed = ALLOWED[package] | {package}
    violations = [
        f"{file} imports {module}"
        for file, importer, module in imports()
        if importer == package
        and module.split(".")[0] not in allowed
        and ".".join(module.split(".")[:2]) not in allowed
    ]
    assert violations == []


def test_only_the_contract_of_models_encodes() -> None:
    users = {file for file, package, name in imports() if package == "models" and name.startswith("encoders.")}
    assert users == {"models/base.py"}


def test_every_package_has_a_rule() -> None:
    packages = {package for _, package, _ in imports()} - {"__init__", "__main__", "cli"}
    assert packages <= set(ALLOWED)


def test_the_import_loads_no_heavy_library() -> None:
    code = f"import sys, convener; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_public_names_exist() -> None:
    assert all(hasattr(convener, name) for name in convener.__all__)
    assert len(convener.__all__) == len(set(convener.__all__))
