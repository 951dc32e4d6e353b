"""The tags of a token classifier of the Hugging Face kind as votes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.schemes import ChunkPosition, parse_tag, to_bio
from convener.data.tags import TagSet
from convener.encoders.download import fetch_hub_folder
from convener.encoders.hf_model import CONFIG, HFModel, RuntimeConfig, check_model_folder, model_file_digests, read_json
from convener.encoders.subwords import make_windows
from convener.errors import ConfigError, DataError, check_known
from convener.lf.doc import Doc
from convener.lf.function import BatchedSource, LabelingFunction, LabelMapping, RawOutput, absolute_path, to_label_map
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
    **settings: Any,
) -> LabelingFunction:
    """A source that gives the spans of a token classification model.

    model: a folder, or a name on the Hugging Face hub. labels: the types to use, or a mapping
    from the model's types to yours; others are left out. dtype: of the computation; "auto" is
    bfloat16 where the processor has it, faster there, and other votes than elsewhere. window,
    overlap, device and budget are those of an encoder. Other settings are those of
    `LabelingFunction`.

    The model is given our words; a word has the tag of its first piece, and a tag that goes on
    where nothing began begins a span. It is loaded when the first text comes, once in a process,
    and runs in the calling process: it uses all of the machine by itself.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}")
    config = RuntimeConfig(
        compute_dtype=dtype,
        max_length=max_length,
        overlap=overlap,
        device=device,
        batch_tokens=batch_tokens,
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
    """Spans that a token classifier's tags spell, renamed."""

    model: str
    label_map: dict[str, str]
    config: RuntimeConfig

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """The spans of each text."""
        hf_model = _load_model(self.model, self.config)
        offsets = lengths_to_offsets(map(len, docs))
        tags = hf_model.model.config.id2label
        parsed_tags = [_parse_tag(tags[number]) for number in range(len(tags))]
        types = _entity_types(parsed_tags)
        check_known(f"entity type of {self.model}", self.label_map, types)
        position = np.array([place for place, _ in parsed_tags], np.int8)
        kind = np.array([types.index(kind) if kind else 0 for _, kind in parsed_tags], np.int16)
        best_tags = self._predict_tags(hf_model, StringArray.from_list(chain.from_iterable(docs)), offsets)
        # A span ends with its sentence, also where a document is read at once.
        sentences = lengths_to_offsets(end - start for doc in docs for start, end in doc.sentences)
        labels, _ = to_bio(position[best_tags], kind[best_tags], sentences)
        spans = TagSet(tuple(types)).spans(labels, offsets).by_sentence(len(docs))
        return [
            [
                (start, end, self.label_map[types[number]])
                for start, end, number in row
                if types[number] in self.label_map
            ]
            for row in spans
        ]

    def _predict_tags(self, hf_model: HFModel, tokens: StringArray, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of each word's tag: the best of its first piece.  -> (N,)"""
        best_tags = np.zeros(len(tokens), np.int64)
        subwords = hf_model.tokenize(tokens, offsets)
        windows = make_windows(
            subwords.counts,
            offsets,
            max_subwords=hf_model.max_subwords,
            overlap=self.config.overlap,
        )
        for batch in hf_model.batches(subwords, windows):
            logits = hf_model.infer(batch).logits
            words, first = batch.first_subwords()
            rows = logits.reshape(-1, logits.shape[2])[hf_model.torch.from_numpy(first)]
            best_tags[words] = rows.argmax(-1).cpu().numpy()
        return best_tags

    def fingerprint(self) -> str:
        """By the content of the model's files, and what decides how they are used."""
        return compute_digest(
            model_file_digests(_model_folder(self.model)),
            self.config.fingerprint_settings(),
            self.label_map,
        )


@cache
def _load_model(model: str, config: RuntimeConfig) -> HFModel:
    """A model in memory, loaded once in a process."""
    folder = _model_folder(model)
    check_model_folder(folder)
    return HFModel.from_folder(folder, config, model_class=MODEL_CLASS)


def _model_folder(model: str) -> Path:
    return Path(model) if Path(model).is_dir() else fetch_hub_folder(model, kind="token classifier")


def _entity_types(parsed_tags: Iterable[tuple[ChunkPosition, str]]) -> list[str]:
    return list(dict.fromkeys(kind for _, kind in parsed_tags if kind))


def _parse_tag(tag: str) -> tuple[ChunkPosition, str]:
    """What a tag says of a word; one without a prefix is that of a type, wherever in a span."""
    try:
        return parse_tag(tag)
    except DataError:
        return ChunkPosition.INSIDE, tag
