"""Convener: weakly supervised named entity recognition from many noisy sources.

>>> import convener as cv
>>> corpus = cv.demo.load_corpus()
>>> model = cv.get_model("majority-vote")().fit(corpus.train)
>>> labels = model.predict(corpus.test)
>>> 0.5 < cv.evaluate(labels, corpus.test).f1 < 1
True
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from convener import demo, lf, taggers
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset, Text
from convener.data.features import Features
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import RaggedArray, StringArray
from convener.data.spans import Span, Spans
from convener.data.tables import Table
from convener.data.tags import ABSTAIN, TagSet
from convener.encoders import encode
from convener.errors import (
    ConfigError,
    ConvenerError,
    ConvenerWarning,
    DataError,
    FormatError,
    MismatchError,
    MissingDependencyError,
    NotFittedError,
    UnknownNameError,
)
from convener.evaluation.evaluation import evaluate
from convener.evaluation.source_analysis import analyze
from convener.io.api import read, read_predictions, write
from convener.io.raw_text import tokenize
from convener.lf.apply import apply_lfs
from convener.lf.function import LabelingFunction, labeling_function
from convener.models import get_model, list_models, load_model
from convener.models.base import LabelModel
from convener.models.best_consensus import BestConsensus
from convener.models.majority_vote import MajorityVote
from convener.report import write_report
from convener.taggers import load_tagger
from convener.taggers.base import Tagger
from convener.taggers.targets import Targets

if TYPE_CHECKING:
    from convener.models.alt import Alt
    from convener.models.auto import Auto
    from convener.models.bert_ner import BertNER
    from convener.models.bsc import BSC
    from convener.models.chmm import CHMM
    from convener.models.chmm_fe import CHMMFE
    from convener.models.connet import ConNet
    from convener.models.dawid_skene import DawidSkene
    from convener.models.dws import DWS
    from convener.models.hmm import HMM
    from convener.models.linked_hmm import LinkedHMM
    from convener.models.snorkel import Snorkel
    from convener.models.sparse_chmm.model import SparseCHMM
    from convener.taggers.finetuned import FinetunedTagger
    from convener.taggers.frozen import FrozenTagger

__version__ = version("convener")

# Models that bring a compiler or torch are imported when they are first asked for.
_LAZY_MODELS = {
    "Alt": "alt",
    "Auto": "auto",
    "BSC": "bsc",
    "BertNER": "bert-ner",
    "CHMM": "chmm",
    "CHMMFE": "chmm-fe",
    "ConNet": "connet",
    "DWS": "dws",
    "DawidSkene": "dawid-skene",
    "HMM": "hmm",
    "LinkedHMM": "linked-hmm",
    "Snorkel": "snorkel",
    "SparseCHMM": "sparse-chmm",
}


_LAZY_TAGGERS = {name: kind for kind, name in taggers.TAGGER_CLASSES.items()}


def __getattr__(name: str) -> Any:
    if name in _LAZY_TAGGERS:
        return taggers.get_tagger(_LAZY_TAGGERS[name])
    if name in _LAZY_MODELS:
        return get_model(_LAZY_MODELS[name])
    raise AttributeError(f"module 'convener' has no attribute {name!r}")


__all__ = [
    "ABSTAIN",
    "BSC",
    "CHMM",
    "CHMMFE",
    "DWS",
    "HMM",
    "Alt",
    "Auto",
    "BertNER",
    "BestConsensus",
    "ConNet",
    "ConfigError",
    "ConvenerError",
    "ConvenerWarning",
    "Corpus",
    "DataError",
    "Dataset",
    "DawidSkene",
    "Features",
    "FinetunedTagger",
    "FormatError",
    "FrozenTagger",
    "Issues",
    "LabelModel",
    "LabelingFunction",
    "LinkedHMM",
    "MajorityVote",
    "MismatchError",
    "MissingDependencyError",
    "NotFittedError",
    "Predictions",
    "RaggedArray",
    "Snorkel",
    "SpacyTagger",
    "Span",
    "Spans",
    "SparseCHMM",
    "StringArray",
    "Table",
    "TagSet",
    "Tagger",
    "Targets",
    "Text",
    "UnknownNameError",
    "analyze",
    "apply_lfs",
    "demo",
    "encode",
    "evaluate",
    "get_model",
    "labeling_function",
    "lf",
    "list_models",
    "load_model",
    "load_tagger",
    "read",
    "read_predictions",
    "taggers",
    "tokenize",
    "write",
    "write_report",
]
