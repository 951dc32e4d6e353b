"""Convener: many noisy labelers in, one measured set of labels out.

>>> import convener as cv
>>> corpus = cv.demo.corpus()
>>> model = cv.get("majority-vote")().fit(corpus.train)
>>> labels = model.predict(corpus.test)
>>> 0.5 < cv.evaluate(labels, corpus.test).f1 < 1
True
"""

from importlib.metadata import version

from convener import demo
from convener.corpus import Corpus
from convener.data import Dataset, Text
from convener.errors import (
    ConfigError,
    ConvenerError,
    ConvenerWarning,
    DataError,
    FormatError,
    MismatchError,
    MissingExtraError,
    NotFittedError,
    UnknownNameError,
)
from convener.evaluate import analyze, evaluate
from convener.io import Report, read, read_predictions, write
from convener.lf import apply
from convener.models import LabelModel, available, get, load
from convener.models.best_consensus import BestConsensus
from convener.models.majority_vote import MajorityVote
from convener.packed import Ragged, Strings
from convener.predictions import Predictions
from convener.spans import Span, Spans
from convener.tables import Table
from convener.tags import TagSet

__version__ = version("convener")

__all__ = [
    "BestConsensus",
    "ConfigError",
    "ConvenerError",
    "ConvenerWarning",
    "Corpus",
    "DataError",
    "Dataset",
    "FormatError",
    "LabelModel",
    "MajorityVote",
    "MismatchError",
    "MissingExtraError",
    "NotFittedError",
    "Predictions",
    "Ragged",
    "Report",
    "Span",
    "Spans",
    "Strings",
    "Table",
    "TagSet",
    "Text",
    "UnknownNameError",
    "analyze",
    "apply",
    "available",
    "demo",
    "evaluate",
    "get",
    "load",
    "read",
    "read_predictions",
    "write",
]
