"""Labeling functions: how they are written and applied."""

from convener.data.tags import ABSTAIN
from convener.lf.apply import ApplyOptions, ApplyResult, apply_lfs, apply_with_report
from convener.lf.combinators import (
    as_linking,
    difference,
    document_majority,
    intersection,
    keep_labels,
    linking_function,
    map_labels,
    only_if,
    propagate,
    union,
)
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.llm.source import llm
from convener.lf.load import load_lfs
from convener.lf.pattern import pattern
from convener.lf.spacy import spacy_matcher, spacy_model
from convener.lf.transformers import transformers_model

__all__ = [
    "ABSTAIN",
    "ApplyOptions",
    "ApplyResult",
    "Doc",
    "LabelingFunction",
    "apply_lfs",
    "apply_with_report",
    "as_linking",
    "difference",
    "document_majority",
    "gazetteer",
    "intersection",
    "keep_labels",
    "labeling_function",
    "linking_function",
    "llm",
    "load_lfs",
    "map_labels",
    "only_if",
    "pattern",
    "propagate",
    "spacy_matcher",
    "spacy_model",
    "transformers_model",
    "union",
]
