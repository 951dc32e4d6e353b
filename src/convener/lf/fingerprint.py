"""Fingerprints of Python values: a digest of a function covers its code and everything the code refers to."""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import json
import logging
import re
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import regex

from convener.errors import ConvenerError

ByteChunks = Iterator[bytes]
Seen = dict[int, tuple[int, Any]]
BUILTIN_TYPES = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
)
FOLLOWED_TYPES = (types.ModuleType, types.FunctionType, type, list, tuple, dict, set, frozenset)
"""Values of a user's module that are followed; all others are determined by its source text."""
PLAIN_TYPES = (type(None), bool, int, float, complex, str, bytes, range, PurePath, np.generic)


class NotFingerprintable(ConvenerError):  # noqa: N818
    """The content of a value cannot be determined, so results that depend on it are not cached."""


def fingerprint(*values: Any) -> str:
    """Return a digest of values: data by content, functions by code and everything it refers to.

    Globals, closures, defaults and called functions are followed through the user's own code;
    installed packages are identified by name and version.

    >>> cities = {"Oslo"}
    >>> def known(word):
    ...     return word in cities
    >>> before = fingerprint(known)
    >>> cities.add("Lima")
    >>> fingerprint(known) == before
    False
    """
    hasher, seen = hashlib.sha256(repr(sys.version_info[:2]).encode()), Seen()
    for value in values:
        for chunk in _chunks(value, seen):
            hasher.update(len(chunk).to_bytes(8, "little") + chunk)
    return hasher.hexdigest()


def _chunks(value: Any, seen: Seen) -> ByteChunks:
    """Yield the content of a value as bytes; a value seen before is replaced by its number."""
    kind = type(value)
    yield kind.__qualname__.encode()
    if isinstance(value, enum.Enum):
        yield f"{kind.__module__}.{value.name}".encode()
    elif isinstance(value, PLAIN_TYPES):
        yield value if isinstance(value, bytes) else repr(value).encode("utf-8", "backslashreplace")
    elif id(value) in seen:
        yield str(seen[id(value)][0]).encode()
    else:
        seen[id(value)] = len(seen), value  # kept alive, so that its id is not reused
        yield from _contents(value, seen)


def _contents(value: Any, seen: Seen) -> ByteChunks:
    if isinstance(value, list | tuple | set | frozenset) and all(type(x) is str for x in value):
        yield json.dumps(value if isinstance(value, list | tuple) else sorted(value)).encode()
    elif isinstance(value, list | tuple):
        yield str(len(value)).encode()
        for item in value:
            yield from _chunks(item, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(fingerprint(item).encode() for item in value)
    elif isinstance(value, dict):
        yield from _chunks(list(value), seen)
        yield from _chunks(list(value.values()), seen)
    elif isinstance(value, re.Pattern | regex.Pattern):
        yield from _chunks((value.pattern, value.flags), seen)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, types.ModuleType):
        yield from _module(value, seen)
    elif isinstance(value, logging.Logger):
        yield value.name.encode()
    elif (inner := _unwrap(value)) is not None:
        yield from _chunks(inner, seen)
    elif isinstance(value, BUILTIN_TYPES):
        yield f"{getattr(value, '__module__', '')}.{value.__qualname__}".encode()
        owner = getattr(value, "__self__", None)
        if not isinstance(owner, types.ModuleType):
            yield from _chunks(owner, seen)
    elif isinstance(value, types.CodeType):
        yield from _code(value, seen)
    elif isinstance(value, types.FunctionType):
        yield from _function(value, seen)
    elif isinstance(value, type):
        yield from _class(value, seen)
    else:
        yield from _object(value, seen)


def _unwrap(value: Any) -> Any:
    """Return what a wrapper wraps, or None if the value is not a wrapper."""
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    if isinstance(value, property):
        return value.fget, value.fset
    if isinstance(value, functools._lru_cache_wrapper):
        return value.__wrapped__
    return None


def _code(code: types.CodeType, seen: Seen) -> ByteChunks:
    """Yield the content of a code object, without line numbers and comments."""
    yield code.co_code
    yield from _chunks((code.co_names, code.co_varnames, code.co_freevars), seen)
    yield from _chunks((code.co_argcount, code.co_kwonlyargcount, code.co_flags), seen)
    for constant in code.co_consts:
        yield from _chunks(constant, seen)


def _function(function: types.FunctionType, seen: Seen) -> ByteChunks:
    for cell in function.__closure__ or ():
        yield from _chunks(cell.cell_contents, seen)
    if _is_installed(function.__code__.co_filename):
        yield from _package_identity(function)
        return
    yield from _chunks((function.__code__, function.__defaults__, function.__kwdefaults__), seen)
    namespace = function.__globals__
    for name in sorted(_global_names(function.__code__)):
        if name in namespace:
            yield name.encode()
            yield from _chunks(namespace[name], seen)


def _global_names(code: types.CodeType) -> set[str]:
    """Return the names of the globals that code and the functions nested in it look up."""
    nested = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    instructions = dis.get_instructions(code)
    names = {item.argval for item in instructions if item.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*map(_global_names, nested))


def _module(module: types.ModuleType, seen: Seen) -> ByteChunks:
    """Yield the version of an installed package, or the text of a user's module and what it imports."""
    yield module.__name__.encode()
    if _is_package(module.__name__):
        yield _package_version(module.__name__)
    elif file := getattr(module, "__file__", None):
        yield Path(file).read_bytes()
        for name, value in sorted(vars(module).items()):
            if isinstance(value, FOLLOWED_TYPES) and not name.startswith("__"):
                yield from _chunks(value, seen)
    else:
        raise NotFingerprintable(f"cannot fingerprint module {module.__name__}; pass version=... to enable caching")


def _class(kind: type, seen: Seen) -> ByteChunks:
    if _is_package(kind.__module__):
        yield from _package_identity(kind)
        return
    yield from _chunks(kind.__bases__, seen)
    for name, item in sorted(vars(kind).items()):
        special = name.startswith("__") and not callable(item)
        if not special and not isinstance(item, types.MemberDescriptorType):
            yield name.encode()
            yield from _chunks(item, seen)


def _object(value: Any, seen: Seen) -> ByteChunks:
    """Yield the fingerprint that an object provides, or class and attributes of a user's object."""
    kind = type(value)
    get_fingerprint = getattr(value, "fingerprint", None)
    if callable(get_fingerprint) and isinstance(value_fingerprint := get_fingerprint(), str):
        yield value_fingerprint.encode()
    elif _is_package(kind.__module__) or not hasattr(value, "__dict__"):
        raise NotFingerprintable(
            f"cannot fingerprint {kind.__module__}.{kind.__qualname__}; pass version=... to enable caching"
        )
    else:
        yield from _chunks((kind, vars(value)), seen)


def _package_identity(value: Any) -> ByteChunks:
    yield f"{value.__module__}.{value.__qualname__}".encode()
    yield _package_version(value.__module__)


def _package_version(module: str) -> bytes:
    top = sys.modules.get(module.partition(".")[0])
    return str(getattr(top, "__version__", "")).encode()


def _is_package(module: str) -> bool:
    """Return whether a module is built in or installed, rather than the user's own."""
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or _is_installed(file)


@functools.lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    """Return whether a source file belongs to an installed package rather than to the user."""
    if file.startswith("<"):
        return file.startswith("<frozen")
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _installed_folders())


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    own_package = Path(__file__).parents[1]
    return (*(Path(paths[name]).resolve() for name in ("stdlib", "purelib", "platlib")), own_package)
