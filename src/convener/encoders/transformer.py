"""Transformer encoder: contextual vectors of a Hugging Face model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.config import config_from_dict
from convener.data.features import EncoderSpec
from convener.data.ragged import StringArray
from convener.encoders import hf_model
from convener.encoders.base import EncodedBatch, Encoder, sentence_means
from convener.encoders.hf_model import CONFIG, HFModel, RuntimeConfig, check_model_folder, model_file_digests, read_json
from convener.errors import ConfigError, DataError
from convener.storage import compute_digest

_DIM_KEYS = ("hidden_size", "d_model", "dim", "n_embd")
_LAYER_COUNT_KEYS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(RuntimeConfig):
    """Settings of a transformer encoder."""

    layers: Literal["middle", "last", "last-four"] | tuple[int, ...] = "middle"
    """Layers whose output is averaged: the middle third, which is most informative about entity
    types, the last, the last four, or a list of layer numbers (0 = embeddings)."""
    sentence: Literal["auto", "first", "mean"] = "auto"
    """Sentence features: the vector of the first special token, or the mean of the word vectors;
    auto: what the model was trained with according to its folder, else the first special token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers == ():
            raise ConfigError("layers must contain at least one layer, got none")


class TransformerEncoder(Encoder):
    """Encodes each word as the mean of its subword vectors, averaged over the selected layers."""

    def __init__(self, name: str, folder: Path, **settings: Any) -> None:
        self.name = name
        self.folder = folder
        self.config = config_from_dict(TransformerConfig, settings, kind=f"setting of encoder {name}")
        check_model_folder(folder)

    @cached_property
    def dim(self) -> int:  # type: ignore[override]
        """Hidden size according to config.json."""
        return self._config_value(_DIM_KEYS)

    @cached_property
    def spec(self) -> EncoderSpec:
        """Identified by the content of the model files and the settings."""
        settings = self._resolved_config.fingerprint_settings()
        return EncoderSpec(self.name, compute_digest(model_file_digests(self.folder), settings), settings)

    def encode(self, tokens: StringArray, offsets: NDArray[np.int64]) -> EncodedBatch:
        """Encode consecutive sentences."""
        word_vectors = np.zeros((len(tokens), self.dim), np.float32)
        sentence_vectors = np.zeros((len(offsets) - 1, self.dim), np.float32)
        subwords = self._model.tokenize(tokens, offsets)
        windows = self._model.make_windows(subwords, offsets, self.config.overlap)
        sentence_ids = np.searchsorted(offsets, windows.start, side="right") - 1
        is_first = windows.start == offsets[sentence_ids]
        for batch, rows, first_vectors in self._model.word_vectors(subwords, windows):
            indices = batch.windows
            word_vectors[batch.words] = rows
            sentence_vectors[sentence_ids[indices][is_first[indices]]] = first_vectors[is_first[indices]]
        if self._pooling == "mean":
            sentence_vectors = sentence_means(word_vectors, offsets)
        return EncodedBatch(word_vectors, sentence_vectors)

    @property
    def _pooling(self) -> str:
        """The pooling as set, or the one that the model was trained with."""
        if self.config.sentence != "auto":
            return self.config.sentence
        pooling_file = self.folder / hf_model.POOLING_CONFIG
        if pooling_file.is_file() and read_json(pooling_file).get("pooling_mode_mean_tokens"):
            return "mean"
        return "first"

    @cached_property
    def _model(self) -> HFModel:
        config = self._resolved_config
        return HFModel.from_folder(self.folder, config, layers=config.layers)

    @property
    def _resolved_config(self) -> TransformerConfig:
        """The settings, with "middle" replaced by layer numbers."""
        if self.config.layers != "middle":
            return self.config
        num_layers = self._config_value(_LAYER_COUNT_KEYS)
        first = -(-num_layers // 3)
        return replace(self.config, layers=tuple(range(first, max(first, 2 * num_layers // 3) + 1)))

    def _config_value(self, keys: tuple[str, ...]) -> int:
        """Return the value of the first of these keys in config.json."""
        config = read_json(self.folder / CONFIG)
        config = config.get("text_config", config)
        values = [config[key] for key in keys if isinstance(config.get(key), int)]
        if not values:
            raise DataError(f"{self.folder / CONFIG}: missing key {keys[0]}")
        return int(values[0])
