"""Labeling functions from a Python file of the user's."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from convener.errors import DataError, UnknownNameError, unknown_name
from convener.lf.function import LabelingFunction
from convener.lf.work import described

CHOSEN = "FUNCTIONS"
"""A list of this name in the file says which functions are meant."""


def load_functions(path: str | Path, only: Sequence[str] | None = None) -> list[LabelingFunction]:
    """The labeling functions in a file: its list `FUNCTIONS`, or all of them in their order.

    The file is imported, which runs the code in it: use only files that you trust. Names that
    begin with an underscore are left out. `only` chooses some functions by name.
    """
    path = Path(path)
    functions = _functions(_namespace(path), str(path))
    if not functions:
        raise DataError(f"{path}: no labeling functions; see `convener lf new`")
    if only is None:
        return functions
    known = {function.name: function for function in functions}
    for name in only:
        if name not in known:
            raise UnknownNameError(f"{path}: {unknown_name('labeling function', name, known)}")
    return [known[name] for name in only]


def _namespace(path: Path) -> dict[str, object]:
    """What the file defines."""
    if not path.is_file():
        raise DataError(f"{path}: no such file of labeling functions")
    # A name that no other module has, the same in every run.
    name = "convener_lfs_" + "".join(char if char.isalnum() else "_" for char in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DataError(f"{path}: not a Python file; expected the suffix .py")
    module = importlib.util.module_from_spec(spec)
    beside = str(path.resolve().parent)
    sys.path.insert(0, beside)  # so that it can import its neighbours, as a script can
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise DataError(f"{path}: cannot be imported: {described(error)}") from error
    finally:
        sys.path.remove(beside)
    return vars(module)


def _functions(names: dict[str, object], where: str) -> list[LabelingFunction]:
    if CHOSEN not in names:
        found = {
            id(value): value
            for name, value in names.items()
            if isinstance(value, LabelingFunction) and not name.startswith("_")
        }
        return list(found.values())
    chosen = names[CHOSEN]
    items = list(chosen) if isinstance(chosen, Iterable) else [chosen]
    functions = [item for item in items if isinstance(item, LabelingFunction)]
    if len(functions) < len(items):
        strange = next(item for item in items if not isinstance(item, LabelingFunction))
        raise DataError(f"{where}: {CHOSEN} must list labeling functions, got {strange!r}")
    return functions
