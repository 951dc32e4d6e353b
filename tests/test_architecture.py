"""The doors between the rooms: who may import whom, read off the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import convener

SOURCE = Path(convener.__file__).parent
GROUND = {"errors"}
VALUES = GROUND | {"packed", "spans", "schemes", "tags", "coarse", "data", "predictions", "corpus"}
VALUES |= {"tables", "insides"}
DOORS = {
    "errors": set(),
    "kernels": set(),
    "insides": set(),
    "toml": GROUND,
    "caching": set(),
    "settings": GROUND,
    "tables": GROUND,
    "expect": GROUND,
    "packed": GROUND,
    "text": GROUND | {"packed"},
    "spans": GROUND,
    "schemes": GROUND,
    "tags": GROUND | {"packed", "schemes", "spans"},
    "features": GROUND | {"expect"},
    "listed": GROUND | {"expect", "spans", "tags"},
    "coarse": GROUND,
    "sentences": GROUND | {"packed"},
    "sources": GROUND | {"expect"},
    "data": GROUND | {"coarse", "expect", "features", "listed", "packed", "sentences", "sources", "tags", "text"},
    "corpus": GROUND | {"data"},
    "predictions": GROUND | {"expect", "packed", "spans", "schemes", "tags", "data"},
    "io": VALUES | {"settings", "kernels"},
    "lf": VALUES | {"caching", "encode", "io", "kernels", "progress", "settings"},
    "encode": VALUES | {"caching", "features", "expect", "settings", "progress"},
    "evaluate": VALUES | {"kernels"},
    "progress": set(),
    "nets": {"kernels"},
    "train": VALUES | {"features", "kernels", "nets", "evaluate", "progress", "sentences"},
    "tagger": VALUES
    | {"caching", "encode", "evaluate", "expect", "features", "io", "nets", "sentences"}
    | {"progress", "settings", "train"},
    "models": VALUES | {"settings", "kernels", "features", "nets", "train", "tagger", "evaluate", "io.checkpoint"},
    "report": VALUES | {"evaluate", "kernels", "io.files", "caching"},
    "demo": VALUES | {"io", "lf"},
    "contest": VALUES | {"evaluate", "io", "models", "progress", "run"},
    "run": VALUES | {"settings", "toml", "io", "models"},
}


def imports() -> list[tuple[str, str, str]]:
    """(file, room, module imported) for every import of ours."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        owner = name.parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                continue
            found += [
                (str(name), owner, module.removeprefix("convener."))
                for module in modules
                if module.startswith("convener.")
            ]
    return found


@pytest.mark.parametrize("owner", sorted(DOORS))
def test_a_room_imports_only_what_its_doors_allow(owner: str) -> None:
    allowed = DOORS[owner] | {owner}
    trespasses = [
        f"{file} imports {module}"
        for file, importer, module in imports()
        if importer == owner
        and module.split(".")[0] not in allowed
        and ".".join(module.split(".")[:2]) not in allowed
        and not (file == "models/base.py" and module.startswith("encode."))
    ]
    assert trespasses == []


def test_only_the_contract_of_models_encodes() -> None:
    users = {file for file, room, name in imports() if (room, name[:7]) == ("models", "encode.")}
    assert users == {"models/base.py"}


def test_every_room_has_a_door() -> None:
    rooms = {owner for _, owner, _ in imports()} - {"__init__", "__main__", "cli"}
    assert rooms <= set(DOORS)


def test_the_import_stays_light() -> None:
    """Optional and heavy libraries are imported where they are used, not at the door."""
    import subprocess
    import sys

    heavy = ["torch", "spacy", "pyarrow", "datasets", "transformers", "pandas", "numba", "openai"]
    code = f"import sys, convener; print([m for m in {heavy} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_the_public_names() -> None:
    assert all(hasattr(convener, name) for name in convener.__all__)
    assert len(convener.__all__) == len(set(convener.__all__))
