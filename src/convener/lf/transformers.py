"""Hugging Face source: the spans of a token classification model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.schemes import ChunkPosition, parse_tag, to_bio
from convener.data.tags import TagSet
from convener.encoders.download import fetch_hub_folder
from convener.encoders.hf_model import CONFIG, HFModel, RuntimeConfig, check_model_folder, model_file_digests, read_json
from convener.errors import ConfigError, DataError, check_known
from convener.lf.doc import Doc
from convener.lf.function import (
    BatchedSource,
    LabelingFunction,
    LabelMapping,
    LFSettings,
    RawOutput,
    absolute_path,
    to_label_map,
)
from convener.storage import compute_digest

MODEL_CLASS = "AutoModelForTokenClassification"
DTYPES = ("auto", "float32", "bfloat16")


def transformers_model(
    model: str | Path,
    labels: LabelMapping,
    *,
    name: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16"] = "float32",
    max_length: int | None = None,
    overlap: float = 0.5,
    device: str = "auto",
    batch_tokens: int | None = None,
    **settings: Unpack[LFSettings],
) -> LabelingFunction:
    """Return a labeling function that marks the spans of a token classification model.

    model         a folder, or a name on the Hugging Face hub
    labels        the entity types to use, or a mapping from them to labels; others are dropped
    dtype         of the computation; "auto" is bfloat16 where the processor supports it, which is
                  faster, but votes may then differ between machines
    max_length    subwords per window, special tokens included; default: the limit of the model
    overlap       share of a window that the next one repeats, for texts longer than a window
    device        a torch device; "auto" prefers a GPU
    batch_tokens  subwords per batch, padding included
    settings      other fields of `LabelingFunction`

    The model receives our tokens; a token gets the tag of its first subword, and an I- tag that
    continues nothing starts a span. The model is loaded on first use, once per process, and runs
    in the calling process because it already uses all cores.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}")
    config = RuntimeConfig(
        compute_dtype=dtype, max_length=max_length, overlap=overlap, device=device, batch_tokens=batch_tokens
    )
    model_path, label_map = absolute_path(model), to_label_map(labels)
    if Path(model_path).is_dir():
        check_model_folder(Path(model_path))
        tags = read_json(Path(model_path) / CONFIG).get("id2label")
        if isinstance(tags, dict):
            types = _entity_types(map(_parse_tag, map(str, tags.values())))
            check_known(f"entity type of {model_path}", label_map, types)
    source = TokenClassifier(model_path, label_map, config)
    return source.as_function(name or Path(model_path).name, label_map.values(), {"in_main_process": True, **settings})


@dataclass(frozen=True)
class TokenClassifier(BatchedSource):
    """Spans predicted by a token classifier, with labels mapped."""

    model: str
    label_map: dict[str, str]
    config: RuntimeConfig

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """Return the spans of each text."""
        hf_model = _load_model(self.model, self.config)
        offsets = lengths_to_offsets(map(len, docs))
        tags = hf_model.model.config.id2label
        parsed_tags = [_parse_tag(tags[number]) for number in range(len(tags))]
        types = _entity_types(parsed_tags)
        check_known(f"entity type of {self.model}", self.label_map, types)
        position = np.array([chunk_position for chunk_position, _ in parsed_tags], np.int8)
        kind = np.array([types.index(kind) if kind else 0 for _, kind in parsed_tags], np.int16)
        best_tags = self._predict_tags(hf_model, StringArray.from_list(chain.from_iterable(docs)), offsets)
        # Spans end at sentence boundaries, even if the scope is the document.
        sentences = lengths_to_offsets(end - start for doc in docs for start, end in doc.sentences)
        labels, _ = to_bio(position[best_tags], kind[best_tags], sentences)
        spans = TagSet(tuple(types)).spans(labels, offsets).by_sentence(len(docs))
        labels_by_type = [self.label_map.get(name) for name in types]
        return [[(start, end, label) for start, end, kind in row if (label := labels_by_type[kind])] for row in spans]

    def _predict_tags(self, hf_model: HFModel, tokens: StringArray, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the best tag of the first subword of each token.  -> (N,)"""
        best_tags = np.zeros(len(tokens), np.int64)
        subwords = hf_model.tokenize(tokens, offsets)
        windows = hf_model.make_windows(subwords, offsets, self.config.overlap)
        for batch in hf_model.batches(subwords, windows):
            logits = hf_model.infer(batch).logits
            words, first = batch.first_subwords()
            rows = logits.reshape(-1, logits.shape[2])[hf_model.torch.from_numpy(first)]
            best_tags[words] = rows.argmax(-1).cpu().numpy()
        return best_tags

    def fingerprint(self) -> str:
        """Return a digest of the model files and of the settings that affect the output."""
        digests = model_file_digests(_model_folder(self.model))
        return compute_digest(digests, self.config.fingerprint_settings(), self.label_map)


@cache
def _load_model(model: str, config: RuntimeConfig) -> HFModel:
    """Load a model, once per process."""
    folder = _model_folder(model)
    check_model_folder(folder)
    return HFModel.from_folder(folder, config, model_class=MODEL_CLASS)


def _model_folder(model: str) -> Path:
    return Path(model) if Path(model).is_dir() else fetch_hub_folder(model, kind="token classifier")


def _entity_types(parsed_tags: Iterable[tuple[ChunkPosition, str]]) -> list[str]:
    return list(dict.fromkeys(kind for _, kind in parsed_tags if kind))


def _parse_tag(tag: str) -> tuple[ChunkPosition, str]:
    """Parse a tag into chunk position and type; a tag without prefix counts as I-."""
    try:
        return parse_tag(tag)
    except DataError:
        return ChunkPosition.INSIDE, tag
