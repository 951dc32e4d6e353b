"""Labeling functions from a Python file of the user's."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from convener.errors import DataError, UnknownNameError, unknown_name_message
from convener.lf.function import LabelingFunction
from convener.lf.workers import describe_error

LIST_NAME = "FUNCTIONS"
"""A list of this name in the file says which functions are meant."""


def load_lfs(path: str | Path, only: Sequence[str] | None = None) -> list[LabelingFunction]:
    """The labeling functions in a file: its list `FUNCTIONS`, or all of them in their order.

    The file is imported, which runs the code in it: use only files that you trust. Names that
    begin with an underscore are left out. `only` chooses some functions by name.
    """
    path = Path(path)
    functions = _collect_functions(_import_file(path), str(path))
    if not functions:
        raise DataError(f"{path}: no labeling functions; see `convener lf new`")
    if only is None:
        return functions
    by_name = {function.name: function for function in functions}
    for name in only:
        if name not in by_name:
            raise UnknownNameError(f"{path}: {unknown_name_message('labeling function', name, by_name)}")
    return [by_name[name] for name in only]


def _import_file(path: Path) -> dict[str, object]:
    """What the file defines."""
    if not path.is_file():
        raise DataError(f"{path}: no such file of labeling functions")
    # A name that no other module has, the same in every run.
    name = "convener_lfs_" + "".join(char if char.isalnum() else "_" for char in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DataError(f"{path}: not a Python file; expected the suffix .py")
    module = importlib.util.module_from_spec(spec)
    parent = str(path.resolve().parent)
    sys.path.insert(0, parent)  # so that it can import its neighbours, as a script can
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise DataError(f"{path}: cannot be imported: {describe_error(error)}") from error
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
        raise DataError(f"{location}: {LIST_NAME} must list labeling functions, got {invalid!r}")
    return functions
