"""Convener: many noisy labelers in, one measured set of labels out.

>>> import convener as cv
>>> corpus = cv.demo.load_corpus()
>>> model = cv.get_model("majority-vote")().fit(corpus.train)
>>> labels = model.predict(corpus.test)
>>> 0.5 < cv.evaluate(labels, corpus.test).f1 < 1
True
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from convener import demo, lf, tagger
from convener.corpus import Corpus
from convener.data import ABSTAIN, Dataset, Text
from convener.encode import encode
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
from convener.evaluate import analyze, evaluate
from convener.features import Features
from convener.io import Issues, read, read_predictions, write
from convener.io.splitting import tokenize
from convener.lf import LabelingFunction, apply_lfs, labeling_function
from convener.models import LabelModel, get_model, list_models, load_model
from convener.models.best_consensus import BestConsensus
from convener.models.majority_vote import MajorityVote
from convener.packed import RaggedArray, StringArray
from convener.predictions import Predictions
from convener.report import write_report
from convener.spans import Span, Spans
from convener.tables import Table
from convener.tagger import Tagger, Targets
from convener.tagger import load_tagger as load_tagger
from convener.tags import TagSet

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
    from convener.models.sparse_chmm import SparseCHMM
    from convener.tagger.finetuned import FinetunedTagger
    from convener.tagger.frozen import FrozenTagger

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


_LAZY_TAGGERS = {name: kind for kind, name in tagger.TAGGER_CLASSES.items()}


def __getattr__(name: str) -> Any:
    if name in _LAZY_TAGGERS:
        return tagger.get_tagger(_LAZY_TAGGERS[name])
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
    "tagger",
    "tokenize",
    "write",
    "write_report",
]
