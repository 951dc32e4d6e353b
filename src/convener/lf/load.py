"""Load labeling functions from a Python file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from convener.errors import DataError, UnknownNameError, unknown_name_message
from convener.lf.function import LabelingFunction
from convener.lf.workers import describe_error

LIST_NAME = "FUNCTIONS"
"""Optional list in the file that selects and orders its labeling functions."""


def load_lfs(path: str | Path, only: Sequence[str] | None = None) -> list[LabelingFunction]:
    """Return the labeling functions of a file: its list `FUNCTIONS`, or all in order of definition.

    The file is imported, which runs its code: load only files that you trust. Names that start
    with an underscore are skipped. `only` selects functions by name.
    """
    path = Path(path)
    functions = _collect_functions(_import_file(path), str(path))
    if not functions:
        raise DataError(f"{path}: contains no labeling functions; `convener lf init` writes an example")
    if only is None:
        return functions
    by_name = {function.name: function for function in functions}
    for name in only:
        if name not in by_name:
            raise UnknownNameError(f"{path}: {unknown_name_message('labeling function', name, by_name)}")
    return [by_name[name] for name in only]


def _import_file(path: Path) -> dict[str, object]:
    """Import the file and return its namespace."""
    if not path.is_file():
        raise DataError(f"{path}: file not found; expected a Python file with labeling functions")
    # A unique module name that is the same in every run.
    name = "convener_lfs_" + "".join(char if char.isalnum() else "_" for char in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DataError(f"{path}: not a Python file; expected the suffix .py")
    module = importlib.util.module_from_spec(spec)
    parent = str(path.resolve().parent)
    sys.path.insert(0, parent)  # so that it can import modules beside it, like a script
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise DataError(f"{path}: import failed: {describe_error(error)}") from error
    finally:
        sys.path.remove(parent)
    return vars(module)


def _collect_functions(namespace: dict[str, object], location: str) -> list[LabelingFunction]:
    if LIST_NAME not in namespace:
        found = {
            id(value): value
            for name, value in namespace.items()
            if isinstance(value, LabelingFunction) and not name.startswith("_")
        }
        return list(found.values())
    listed = namespace[LIST_NAME]
    items = list(listed) if isinstance(listed, Iterable) else [listed]
    functions = [item for item in items if isinstance(item, LabelingFunction)]
    if len(functions) < len(items):
        invalid = next(item for item in items if not isinstance(item, LabelingFunction))
        raise DataError(f"{location}: {LIST_NAME} must contain labeling functions, got {invalid!r}")
    return functions
