"""Labeling functions: how they are applied."""

from convener.lf.apply import LabelingFunction, apply

__all__ = ["LabelingFunction", "apply"]
