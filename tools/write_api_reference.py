"""Write docs/api.md, the reference of all public names, from signatures and docstrings.

    python tools/write_api_reference.py            write the page
    python tools/write_api_reference.py --check    exit with status 1 if the page is not up to date

Public are the names in `convener.__all__` and in `__all__` of its modules `lf` and `demo`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import convener
from convener.cli.field_docs import field_docs

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
HEAD = """# API reference
Every public name of `convener`, in the order of the steps of a workflow. The signatures and descriptions are those of
`help()` in Python. The [quick start](quickstart.md) shows how the names work together; the [glossary](glossary.md)
explains the terms.

`tools/write_api_reference.py` writes this page; do not edit it.
"""
SECTIONS = {
    "Reading and writing": ("io",),
    "Data": ("data",),
    "Labeling functions": ("lf",),
    "Encoders": ("encoders",),
    "Label models": ("models",),
    "Taggers": ("taggers",),
    "Evaluation": ("evaluation", "experiment"),
    "Reports": ("report",),
    "Demo corpus": ("demo",),
    "Cache": ("cache",),
    "Errors and warnings": ("errors",),
}
"""Headings, and the packages whose names stand below them."""
MAX_WIDTH = 100
"""Characters of a signature on one line."""
ENTRY = re.compile(r"(\w+(?:, \w+)*)  +((?!->)\S.*)")
"""A line of an aligned list: a name, at least two spaces, its description."""


def render() -> str:
    """The text of the page."""
    parts = [HEAD]
    for heading, packages in SECTIONS.items():
        entries = list(_section(packages))
        parts.append(f"## {heading}\n" + " · ".join(f"[`{name}`](#{_anchor(name)})" for name, _ in entries) + "\n")
        parts += [_entry(name, value) for name, value in entries]
    return "\n".join(parts)


def _section(packages: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Names and values of a section; those of a public module follow with its name as prefix."""
    for name in convener.__all__:
        value = getattr(convener, name)
        if convener._MODULES[name].split(".")[0] in packages and not isinstance(value, ModuleType):
            yield name, value
    for package in packages:
        module = getattr(convener, package) if package in convener.__all__ else None
        for name in getattr(module, "__all__", ()):
            if name not in convener.__all__:
                yield f"{package}.{name}", getattr(module, name)


def _anchor(name: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")


def _entry(name: str, value: Any) -> str:
    """Heading, signature, description and members of one name."""
    parts = [f"### `{name}`"]
    short_name = name.rpartition(".")[2]
    if inspect.isclass(value) or inspect.isfunction(value):
        parts.append(_code(_class_signature(short_name, value) if inspect.isclass(value) else _def(short_name, value)))
        parts.append(_markdown(inspect.cleandoc(value.__doc__ or "")))
    else:
        parts.append(_constant(value))
    if inspect.isclass(value):
        parts += _page_of_settings(value)
        parts += _fields(value)
        parts += [f"**`{short_name}.{member}`**\n\n{text}" for member, text in _members(value)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _constant(value: Any) -> str:
    if isinstance(value, (list, tuple)) and len(value) > 3:
        return f"A {type(value).__name__} of {len(value)} values."
    return f"The constant `{value!r}`."


def _page_of_settings(cls: type[Any]) -> list[str]:
    """A link to the page that explains the settings of a label model or tagger."""
    if cls in (convener.LabelModel, convener.Tagger):
        return []
    if issubclass(cls, convener.LabelModel):
        return [f"Settings: [{cls.name}](models/{cls.name}.md)."]
    return ["Settings: [taggers](taggers.md)."] if issubclass(cls, convener.Tagger) else []


def _class_signature(name: str, cls: type[Any]) -> str:
    if issubclass(cls, Exception):
        return f"class {name}({', '.join(base.__name__ for base in cls.__bases__)})"
    return "class " + _signature(name, inspect.signature(cls).replace(return_annotation=inspect.Signature.empty))


def _def(name: str, function: Any) -> str:
    return "def " + _signature(name, inspect.signature(function))


def _signature(name: str, signature: inspect.Signature) -> str:
    """A signature with annotations as in the source, one parameter per line if it is long."""
    parameters: list[str] = []
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parameters.append("*")
        keyword_only |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = prefix + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {_annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {_default(parameter.default)}"
        parameters.append(text)
    returns = signature.return_annotation
    suffix = "" if returns is signature.empty else f" -> {_annotation(returns)}"
    line = f"{name}({', '.join(parameters)}){suffix}"
    if len(line) <= MAX_WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in parameters) + f"){suffix}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    text = repr(value)
    return "..." if text.startswith("<") or len(text) > MAX_WIDTH // 2 else text


def _fields(cls: type[Any]) -> list[str]:
    """The fields of a dataclass that are explained one by one."""
    docs = {name: text for name, text in (field_docs(cls) if is_dataclass(cls) else {}).items() if text}
    return ["\n".join(f"- `{name}`: {_escape(text)}" for name, text in docs.items())] if docs else []


def _members(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Signature and description of the public methods and properties; those of a public base class are not repeated."""
    public_bases = [getattr(convener, name) for name in convener.__all__ if inspect.isclass(getattr(convener, name))]
    inherited = {name for base in cls.__mro__[1:] if base in public_bases for name in dir(base)}
    own_bases = [base for base in cls.__mro__ if base.__module__.startswith("convener.")]
    names = dict.fromkeys(name for base in reversed(own_bases) for name in vars(base))
    for name in names:
        value = next(vars(base)[name] for base in own_bases if name in vars(base))
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(value, (property, cached_property)):
            function = value.fget if isinstance(value, property) else value.func
        text = inspect.cleandoc(getattr(function, "__doc__", None) or "")
        is_special = name.startswith("__") and name in ("__call__", "__iter__")
        if not inspect.isfunction(function) or not text or name in inherited or (name[0] == "_" and not is_special):
            continue
        if isinstance(value, (property, cached_property)):
            returns = inspect.signature(function).return_annotation
            yield f"{name}", f"{_code(f'{name}: {_annotation(returns)}')}\n\n{_markdown(text)}"
        else:
            decorator = "@classmethod\n" if isinstance(value, classmethod) else ""
            yield name, f"{_code(decorator + _def(name, function))}\n\n{_markdown(text)}"


def _code(text: str) -> str:
    return f"```py\n{text}\n```"


def _markdown(docstring: str) -> str:
    """A docstring as Markdown: aligned lists become bullets, examples and trees become code."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", docstring):
        if block.startswith(">>>"):
            blocks.append(f"```pycon\n{block}\n```")
        elif blocks and blocks[-1].startswith("```pycon") and block.startswith(" "):
            blocks[-1] = blocks[-1].removesuffix("\n```") + f"\n\n{block}\n```"
        elif ENTRY.fullmatch(block.partition("\n")[0]):
            blocks.append(_bullets(block))
        else:
            blocks.append(_escape(" ".join(block.split())))
    return "\n\n".join(blocks)


def _bullets(block: str) -> str:
    """An aligned list as bullets; indented lines continue an entry, other lines end the list."""
    lines: list[str] = []
    for line in block.split("\n"):
        if match := ENTRY.fullmatch(line):
            lines.append(f"- `{match[1]}`: {_escape(match[2])}")
        elif line.startswith(" "):
            lines[-1] += f" {_escape(line.strip())}"
        else:
            lines += ["", _escape(line)]
    return "\n".join(lines)


def _escape(text: str) -> str:
    """Text whose signs are not markup, except code in backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*<\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def main(arguments: list[str]) -> int:
    """Write or check the page; returns the exit status."""
    text = render()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} is not up to date; run python tools/write_api_reference.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
