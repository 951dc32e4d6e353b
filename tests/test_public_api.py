"""The public names: one table, seen alike by users, editors and type checkers."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import convener as cv
from convener import models, taggers
from convener.io import ReadOptions, WriteOptions
from convener.lf.function import LFSettings
from convener.lf.llm.client import ClientConfig
from convener.lf.llm.prompt import Prompt
from convener.lf.llm.source import LLMSettings

SOURCE = Path(cv.__file__)


def type_checking_imports() -> dict[str, str]:
    """The imports for type checkers: name -> module, "" for modules of the package itself."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    found = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        assert statement.module is not None
        for alias in statement.names:
            assert alias.asname == alias.name, "a type checker exports only `name as name`"
            found[alias.name] = statement.module.removeprefix("convener").removeprefix(".") or alias.name
    return found


def test_type_checkers_see_the_names_that_exist() -> None:
    assert type_checking_imports() == cv._MODULES


def test_all_and_dir_list_the_names() -> None:
    assert cv.__all__ == sorted(cv._MODULES)
    assert set(cv.__all__) <= set(dir(cv))


@pytest.mark.parametrize("name", cv.__all__)
def test_every_name_is_defined_where_the_table_says(name: str) -> None:
    value = getattr(cv, name)
    assert inspect.ismodule(value) == (cv._MODULES[name] == name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__module__ == f"convener.{cv._MODULES[name]}"


def test_no_function_has_the_name_of_a_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules([str(SOURCE.parent)])}
    assert [name for name in cv.__all__ if name in modules] == ["demo", "lf"]


def test_all_models_and_taggers_are_public() -> None:
    classes = [getattr(cv, entry.partition(":")[2]) for entry in models.CLASSES.values()]
    assert classes == [cv.get_model(name) for name in cv.list_models()]
    classes = [getattr(cv, name) for name in taggers.TAGGER_CLASSES.values()]
    assert classes == [cv.get_tagger(name) for name in cv.list_taggers()]


@pytest.mark.parametrize(
    ("function", "options", "others"),
    [
        (cv.read, ReadOptions, {"path", "split", "format", "issues"}),
        (cv.read_corpus, ReadOptions, {"path", "format", "issues"}),
        (cv.read_predictions, ReadOptions, {"path", "format", "issues"}),
        (cv.write, WriteOptions, {"content", "path", "format"}),
    ],
)
def test_keywords_are_the_fields_of_the_options(function: Callable[..., Any], options: Any, others: set[str]) -> None:
    parameters = inspect.signature(function).parameters
    expected = {item.name: item.default for item in fields(options)}
    assert {name: item.default for name, item in parameters.items() if name not in others} == expected
    assert set(parameters) == {*expected, *others}
    documented = inspect.getdoc(cv.read if options is ReadOptions else cv.write) or ""
    assert all(f"{name} " in documented for name in expected)


OPEN_KEYWORDS = {"get_encoder", "encode"}
"""Functions whose settings depend on the encoder that is named."""


@pytest.mark.parametrize("module", [cv, cv.lf])
def test_keywords_of_functions_are_spelled_out(module: ModuleType) -> None:
    """As parameters, or as the keys of a typed dictionary."""
    for name in module.__all__:
        value = getattr(module, name)
        if not inspect.isfunction(value) or name in OPEN_KEYWORDS:
            continue
        for parameter in inspect.signature(value).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                assert str(parameter.annotation).startswith("Unpack["), name


def test_settings_of_labeling_functions_are_their_fields() -> None:
    own = {item.name for item in fields(cv.LabelingFunction)}
    assert set(LFSettings.__annotations__) == own - {"name", "labels", "func", "batch_func", "offsets"}
    parameters = inspect.signature(cv.labeling_function).parameters
    assert set(parameters) == own - {"func"}
    defaults = {item.name: item.default for item in fields(cv.LabelingFunction) if item.default is not MISSING}
    assert {name: parameters[name].default for name in defaults if name != "func"} == {
        name: default for name, default in defaults.items() if name != "func"
    }
    llm_fields = {item.name for cls in (Prompt, ClientConfig) for item in fields(cls)}
    assert set(LLMSettings.__annotations__) == {*LFSettings.__annotations__, *llm_fields} - {"model", "types"}


@pytest.mark.parametrize("name", cv.__all__)
def test_every_function_and_class_is_documented_and_typed(name: str) -> None:
    value = getattr(cv, name)
    assert inspect.getdoc(value) or not callable(value)
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(item.annotation is not inspect.Parameter.empty for item in signature.parameters.values())
