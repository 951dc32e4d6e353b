"""Label models: one module or package each, found by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from convener import storage
from convener.errors import DataError, UnknownNameError, unknown_name_message
from convener.models.base import LabelModel
from convener.taggers.base import TAGGER_KEY as TAGGER

__all__ = ["LabelModel", "get_model", "list_models", "load_model"]
CLASSES = {
    "alt": "alt:ALT",
    "auto": "auto:Auto",
    "bert-ner": "bert_ner:BertNER",
    "best-consensus": "best_consensus:BestConsensus",
    "bsc": "bsc:BSC",
    "chmm": "chmm:CHMM",
    "chmm-fe": "chmm_fe:CHMMFE",
    "connet": "connet:ConNet",
    "dawid-skene": "dawid_skene:DawidSkene",
    "dws": "dws:DWS",
    "hmm": "hmm:HMM",
    "linked-hmm": "linked_hmm:LinkedHMM",
    "majority-vote": "majority_vote:MajorityVote",
    "neural-hidden-crf": "neural_hidden_crf:NeuralHiddenCRF",
    "neural-segment": "neural_segment:NeuralSegment",
    "segment": "segment:Segment",
    "snorkel": "snorkel:Snorkel",
    "sparse-chmm": "sparse_chmm:SparseCHMM",
}
"""Name of each label model -> module and class; imported when first used."""


def list_models() -> tuple[str, ...]:
    """Names of all label models.

    >>> "majority-vote" in list_models()
    True
    """
    return tuple(CLASSES)


def get_model(name: str) -> type[LabelModel]:
    """The model class with this name.

    >>> get_model("majority-vote").__name__
    'MajorityVote'
    """
    if name not in CLASSES:
        raise UnknownNameError(unknown_name_message("label model", name, list_models()))
    module, _, class_name = CLASSES[name].partition(":")
    model_class: type[LabelModel] = getattr(import_module(f"convener.models.{module}"), class_name)
    return model_class


def load_model(folder: str | Path) -> LabelModel:
    """Load a saved label model."""
    path = Path(folder)
    metadata = storage.read_metadata(path)
    if TAGGER in metadata:
        raise DataError(f"{path}: a tagger, not a label model: load it with convener.load_tagger")
    try:
        model = get_model(metadata["model"])(**metadata["settings"])
        return model.load_files(path, metadata)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path / storage.METADATA_FILE}: incomplete: {error}") from error
