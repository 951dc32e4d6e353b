"""The registry of label models."""

from __future__ import annotations

import pytest

import convener as cv
from convener import models
from convener.models.base import LabelModel


@pytest.mark.parametrize("name", models.list_models())
def test_a_model_is_found_by_its_name(name: str) -> None:
    model_class = cv.get_model(name)
    assert issubclass(model_class, LabelModel)
    assert model_class.name == name
    assert model_class.summary
    assert getattr(cv, model_class.__name__) is model_class


def test_a_misspelled_name_is_corrected() -> None:
    with pytest.raises(cv.UnknownNameError, match="did you mean 'sparse-chmm'"):
        cv.get_model("sparse-chm")
