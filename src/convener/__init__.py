"""Convener combines the votes of many noisy labeling functions into one set of labels with probabilities.

>>> import convener as cv
>>> corpus = cv.demo.load_corpus()
>>> model = cv.MajorityVote().fit(corpus.train)
>>> predictions = model.predict(corpus.test)
>>> 0.5 < cv.evaluate(predictions, corpus.test).f1 < 1
True
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convener import demo as demo
    from convener import lf as lf
    from convener.cache import cache_dir as cache_dir
    from convener.data.corpus import Corpus as Corpus
    from convener.data.dataset import Dataset as Dataset
    from convener.data.issues import Issue as Issue
    from convener.data.issues import Issues as Issues
    from convener.data.predictions import Predictions as Predictions
    from convener.data.sentences import AnnotatedSentence as AnnotatedSentence
    from convener.data.sentences import Sentence as Sentence
    from convener.data.sentences import TextSpan as TextSpan
    from convener.data.spans import Span as Span
    from convener.data.tables import Table as Table
    from convener.data.tags import ABSTAIN as ABSTAIN
    from convener.data.tags import TagSet as TagSet
    from convener.encoders import encode as encode
    from convener.encoders import get_encoder as get_encoder
    from convener.encoders import list_encoders as list_encoders
    from convener.errors import ConfigError as ConfigError
    from convener.errors import ConvenerError as ConvenerError
    from convener.errors import ConvenerWarning as ConvenerWarning
    from convener.errors import DataError as DataError
    from convener.errors import FormatError as FormatError
    from convener.errors import MismatchError as MismatchError
    from convener.errors import MissingDependencyError as MissingDependencyError
    from convener.errors import NotFittedError as NotFittedError
    from convener.errors import UnknownNameError as UnknownNameError
    from convener.evaluation.answers import suggest_answers as suggest_answers
    from convener.evaluation.evaluation import compare_predictions as compare_predictions
    from convener.evaluation.evaluation import evaluate as evaluate
    from convener.evaluation.source_analysis import analyze as analyze
    from convener.experiment.benchmark import benchmark_models as benchmark_models
    from convener.io.api import read as read
    from convener.io.api import read_corpus as read_corpus
    from convener.io.api import read_predictions as read_predictions
    from convener.io.api import write as write
    from convener.io.formats import list_formats as list_formats
    from convener.io.raw_text import tokenize as tokenize
    from convener.lf.apply import apply_lfs as apply_lfs
    from convener.lf.function import LabelingFunction as LabelingFunction
    from convener.lf.function import labeling_function as labeling_function
    from convener.models import get_model as get_model
    from convener.models import list_models as list_models
    from convener.models import load_model as load_model
    from convener.models.alt import ALT as ALT
    from convener.models.auto import Auto as Auto
    from convener.models.base import LabelModel as LabelModel
    from convener.models.bert_ner import BertNER as BertNER
    from convener.models.best_consensus import BestConsensus as BestConsensus
    from convener.models.bsc import BSC as BSC
    from convener.models.chmm import CHMM as CHMM
    from convener.models.chmm_fe import CHMMFE as CHMMFE
    from convener.models.connet import ConNet as ConNet
    from convener.models.dawid_skene import DawidSkene as DawidSkene
    from convener.models.dws import DWS as DWS
    from convener.models.hmm import HMM as HMM
    from convener.models.linked_hmm import LinkedHMM as LinkedHMM
    from convener.models.majority_vote import MajorityVote as MajorityVote
    from convener.models.neural_hidden_crf import NeuralHiddenCRF as NeuralHiddenCRF
    from convener.models.neural_segment.model import NeuralSegment as NeuralSegment
    from convener.models.segment.model import Segment as Segment
    from convener.models.snorkel import Snorkel as Snorkel
    from convener.models.sparse_chmm.model import SparseCHMM as SparseCHMM
    from convener.report import write_report as write_report
    from convener.taggers import get_tagger as get_tagger
    from convener.taggers import list_taggers as list_taggers
    from convener.taggers import load_tagger as load_tagger
    from convener.taggers.base import Tagger as Tagger
    from convener.taggers.finetuned import FinetunedTagger as FinetunedTagger
    from convener.taggers.frozen import FrozenTagger as FrozenTagger
    from convener.taggers.spacy import SpacyTagger as SpacyTagger
    from convener.taggers.targets import Targets as Targets

__version__ = version("convener")

_MODULES = {
    "ABSTAIN": "data.tags",
    "ALT": "models.alt",
    "AnnotatedSentence": "data.sentences",
    "Auto": "models.auto",
    "BSC": "models.bsc",
    "BertNER": "models.bert_ner",
    "BestConsensus": "models.best_consensus",
    "CHMM": "models.chmm",
    "CHMMFE": "models.chmm_fe",
    "ConNet": "models.connet",
    "ConfigError": "errors",
    "ConvenerError": "errors",
    "ConvenerWarning": "errors",
    "Corpus": "data.corpus",
    "DWS": "models.dws",
    "DataError": "errors",
    "Dataset": "data.dataset",
    "DawidSkene": "models.dawid_skene",
    "FinetunedTagger": "taggers.finetuned",
    "FormatError": "errors",
    "FrozenTagger": "taggers.frozen",
    "HMM": "models.hmm",
    "Issue": "data.issues",
    "Issues": "data.issues",
    "LabelModel": "models.base",
    "LabelingFunction": "lf.function",
    "LinkedHMM": "models.linked_hmm",
    "MajorityVote": "models.majority_vote",
    "MismatchError": "errors",
    "MissingDependencyError": "errors",
    "NeuralHiddenCRF": "models.neural_hidden_crf",
    "NeuralSegment": "models.neural_segment.model",
    "NotFittedError": "errors",
    "Predictions": "data.predictions",
    "Segment": "models.segment.model",
    "Sentence": "data.sentences",
    "Snorkel": "models.snorkel",
    "SpacyTagger": "taggers.spacy",
    "Span": "data.spans",
    "SparseCHMM": "models.sparse_chmm.model",
    "Table": "data.tables",
    "TagSet": "data.tags",
    "Tagger": "taggers.base",
    "Targets": "taggers.targets",
    "TextSpan": "data.sentences",
    "UnknownNameError": "errors",
    "analyze": "evaluation.source_analysis",
    "apply_lfs": "lf.apply",
    "benchmark_models": "experiment.benchmark",
    "cache_dir": "cache",
    "compare_predictions": "evaluation.evaluation",
    "demo": "demo",
    "encode": "encoders",
    "evaluate": "evaluation.evaluation",
    "get_encoder": "encoders",
    "get_model": "models",
    "get_tagger": "taggers",
    "labeling_function": "lf.function",
    "lf": "lf",
    "list_encoders": "encoders",
    "list_formats": "io.formats",
    "list_models": "models",
    "list_taggers": "taggers",
    "load_model": "models",
    "load_tagger": "taggers",
    "read": "io.api",
    "read_corpus": "io.api",
    "read_predictions": "io.api",
    "suggest_answers": "evaluation.answers",
    "tokenize": "io.raw_text",
    "write": "io.api",
    "write_report": "report",
}
"""Every public name and the module of `convener` that defines it, imported on first use; `demo` and `lf` are modules
themselves. The imports above repeat the table for type checkers."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'convener' has no attribute {name!r}")
    module = import_module(f"convener.{_MODULES[name]}")
    value = module if name == _MODULES[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
