"""Values: datasets, predictions, tag sets, spans, features, tables and issues."""

from convener.data.corpus import Corpus
from convener.data.dataset import Dataset, Text
from convener.data.diagnostics import Diagnostics
from convener.data.features import Features
from convener.data.issues import Issue, Issues
from convener.data.predictions import LabelOutput, Predictions
from convener.data.ragged import RaggedArray, StringArray
from convener.data.sentences import AnnotatedSentence, Sentence, TextSpan, TokenizedText
from convener.data.spans import Span, Spans
from convener.data.tables import Table
from convener.data.tags import ABSTAIN, TagSet

__all__ = [
    "ABSTAIN",
    "AnnotatedSentence",
    "Corpus",
    "Dataset",
    "Diagnostics",
    "Features",
    "Issue",
    "Issues",
    "LabelOutput",
    "Predictions",
    "RaggedArray",
    "Sentence",
    "Span",
    "Spans",
    "StringArray",
    "Table",
    "TagSet",
    "Text",
    "TextSpan",
    "TokenizedText",
]
