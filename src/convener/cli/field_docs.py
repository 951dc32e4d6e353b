"""Descriptions of the fields of settings classes, read from the source code."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Any


def field_docs(cls: type[Any]) -> dict[str, str]:
    """The docstring below each field of a dataclass and of its base classes, by field name; "" if there is none.

    >>> from dataclasses import dataclass
    >>> from convener.io.formats import WriteOptions
    >>> field_docs(WriteOptions)["scheme"]
    'Tag scheme, for formats that write tags.'
    """
    docs = dict.fromkeys(cls.__dataclass_fields__, "")
    for base in reversed(cls.__mro__[:-1]):
        (definition,) = ast.parse(inspect.cleandoc(inspect.getsource(base))).body
        statements = definition.body if isinstance(definition, ast.ClassDef) else []
        for statement, following in pairwise(statements):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name, text = statement.target.id, _string(following)
                if name in docs and text is not None:
                    docs[name] = " ".join(text.split())
    return docs


def _string(statement: ast.stmt) -> str | None:
    """The value of a statement that is only a string."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
