"""Any encoder of the Hugging Face kind: from a folder, a hub, or a package."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.caching import digest_of
from convener.encode.base import Encoded, Encoder, sentence_means
from convener.encode.folder import CONFIG, POOLING, check_folder, digests_of, read_json
from convener.encode.loaded import Loaded, Reading
from convener.encode.windows import windows_of
from convener.errors import ConfigError, DataError
from convener.features import Encoding
from convener.packed import Strings
from convener.settings import from_mapping

_WIDTHS = ("hidden_size", "d_model", "dim", "n_embd")
_DEPTHS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Reading):
    """Settings of a transformer."""

    layers: Literal["middle", "last", "last-four"] | tuple[int, ...] = "middle"
    """Whose output: the mean of the middle third, which tells most of what a word is; of the last
    layer, of the last four, or of a list (0 = embeddings)."""
    sentence: Literal["auto", "first", "mean"] = "auto"
    """Feature of a sentence: of its first special piece, or the mean of its words. By default
    what the model was trained for, as its folder says; else the first piece."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers == ():
            raise ConfigError("layers must name at least one layer, got none")


class Transformer(Encoder):
    """Contextual vectors: each word is the mean of its pieces' vectors in one layer or several."""

    def __init__(self, name: str, folder: Path, **settings: Any) -> None:
        self.name = name
        self.folder = folder
        self.config = from_mapping(TransformerConfig, settings, what=f"setting of encoder {name}")
        check_folder(folder)

    @cached_property
    def width(self) -> int:  # type: ignore[override]
        """D, as the model's folder tells."""
        return self._fact(_WIDTHS, "the model's width")

    @cached_property
    def encoding(self) -> Encoding:
        """By the content of the model's files: a model that is exchanged is another one."""
        settings = self._exactly.identity()
        return Encoding(self.name, digest_of(digests_of(self.folder), settings), settings)

    def encode(self, tokens: Strings, offsets: NDArray[np.int64]) -> Encoded:
        """Features of every word and sentence."""
        words = np.zeros((len(tokens), self.width), np.float32)
        sentences = np.zeros((len(offsets) - 1, self.width), np.float32)
        pieces = self._model.pieces(tokens, offsets)
        windows = windows_of(
            pieces.counts,
            offsets,
            capacity=self._model.capacity,
            overlap=self.config.overlap,
        )
        heads = np.searchsorted(offsets, windows.start, side="right") - 1
        begins = windows.start == offsets[heads]
        for batch, rows, first in self._model.vectors(pieces, windows):
            chosen = batch.windows
            words[batch.words] = rows
            sentences[heads[chosen][begins[chosen]]] = first[begins[chosen]]
        if self._sentence == "mean":
            sentences = sentence_means(words, offsets)
        return Encoded(words, sentences)

    @property
    def _sentence(self) -> str:
        """Which sentence feature the model was trained for, unless set."""
        if self.config.sentence != "auto":
            return self.config.sentence
        pooling = self.folder / POOLING
        if pooling.is_file() and read_json(pooling).get("pooling_mode_mean_tokens"):
            return "mean"
        return "first"

    @cached_property
    def _model(self) -> Loaded:
        exactly = self._exactly
        return Loaded.of(self.folder, exactly, layers=exactly.layers)

    @property
    def _exactly(self) -> TransformerConfig:
        """The settings, with the middle layers by their numbers."""
        if self.config.layers != "middle":
            return self.config
        count = self._fact(_DEPTHS, "how many layers the model has")
        first = -(-count // 3)
        return replace(self.config, layers=tuple(range(first, max(first, 2 * count // 3) + 1)))

    def _fact(self, names: tuple[str, ...], what: str) -> int:
        """What the model's folder tells under one of these names."""
        facts = self._facts()
        facts = facts.get("text_config", facts)
        found = [facts[name] for name in names if isinstance(facts.get(name), int)]
        if not found:
            raise DataError(f"{self.folder / CONFIG}: does not tell {what}")
        return int(found[0])

    def _facts(self) -> dict[str, Any]:
        return read_json(self.folder / CONFIG)
