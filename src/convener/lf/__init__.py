"""Labeling functions: how they are written and applied."""

from convener.lf.apply import apply
from convener.lf.function import (
    ABSTAIN,
    LabelingFunction,
    labeling_function,
)
from convener.lf.view import View

__all__ = ["ABSTAIN", "LabelingFunction", "View", "apply", "labeling_function"]
