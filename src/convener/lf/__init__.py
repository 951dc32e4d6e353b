"""Labeling functions: how they are written and applied."""

from convener.lf.apply import ApplyOptions, apply_lfs, apply_with_report
from convener.lf.combine import difference, intersection, keep_labels, map_labels, only_if, union
from convener.lf.documents import document_majority, propagate
from convener.lf.function import ABSTAIN, LabelingFunction, labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.linking import as_linking, linking_function
from convener.lf.llm import llm
from convener.lf.load import load_lfs
from convener.lf.pattern import pattern
from convener.lf.report import ApplyResult
from convener.lf.spacy_matcher import spacy_matcher
from convener.lf.spacy_model import spacy_model
from convener.lf.transformers_model import transformers_model
from convener.lf.view import Doc

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
