"""Labeling functions: how they are written and applied."""

from convener.lf.apply import Settings, applied, apply
from convener.lf.combine import intersection, minus, only_if, rename, restrict, union
from convener.lf.documents import document_majority, everywhere
from convener.lf.function import ABSTAIN, LabelingFunction, labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.linking import linking, linking_function
from convener.lf.llm import llm
from convener.lf.load import load_functions
from convener.lf.pattern import pattern
from convener.lf.report import Applied
from convener.lf.spacy_matcher import spacy_matcher
from convener.lf.spacy_model import spacy_model
from convener.lf.transformers_model import transformers_model
from convener.lf.view import View

__all__ = [
    "ABSTAIN",
    "Applied",
    "LabelingFunction",
    "Settings",
    "View",
    "applied",
    "apply",
    "document_majority",
    "everywhere",
    "gazetteer",
    "intersection",
    "labeling_function",
    "linking",
    "linking_function",
    "llm",
    "load_functions",
    "minus",
    "only_if",
    "pattern",
    "rename",
    "restrict",
    "spacy_matcher",
    "spacy_model",
    "transformers_model",
    "union",
]
