"""Any encoder of the Hugging Face kind: from a folder, a hub, or a package."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.encode.base import Encoded, Encoder, digest_of, digest_of_file, sentence_means
from convener.encode.loaded import Loaded, read_json
from convener.encode.windows import windows_of
from convener.errors import ConfigError, DataError
from convener.features import Encoding
from convener.packed import Strings, ranges
from convener.settings import at_least, from_mapping, to_mapping

CONFIG, WEIGHTS = "config.json", "*.safetensors"
TOKENIZERS = ("tokenizer.json", "vocab*", "*.model")
POOLING = Path("1_Pooling") / CONFIG
DECISIVE = (
    *(CONFIG, str(POOLING), WEIGHTS),
    *("tokenizer*", "vocab*", "merges*", "*.model", "special_tokens*", "added_tokens*"),
)
"""Files that decide the numbers."""
_WIDTHS = ("hidden_size", "d_model", "dim", "n_embd")
_DEPTHS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Settings of a transformer."""

    layers: Literal["middle", "last", "last-four"] | tuple[int, ...] = "middle"
    """Whose output: the mean of the middle third, which tells most of what a word is; of the last
    layer, of the last four, or of a list (0 = embeddings)."""
    sentence: Literal["auto", "first", "mean"] = "auto"
    """Feature of a sentence: of its first special piece, or the mean of its words. By default
    what the model was trained for, as its folder says; else the first piece."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the computation. By default bfloat16 where the processor has it, else float32."""
    window: int | None = None
    """Pieces read at once, special ones included; by default the model's limit, at most 512."""
    overlap: float = 0.5
    """The share of a window that the next one reads again, in sentences longer than a window."""
    device: str = "auto"
    """A device of torch's; by default a GPU where there is one."""
    budget: int | None = None
    """Pieces in a batch, padding included; by default by device."""

    def __post_init__(self) -> None:
        at_least(self, 16, "window", "budget")
        if not 0 <= self.overlap <= 0.75:
            raise ConfigError(f"overlap must be in [0, 0.75], got {self.overlap}")
        if self.layers == ():
            raise ConfigError("layers must name at least one layer, got none")

    def identity(self) -> dict[str, Any]:
        """Settings that decide the numbers; the others only where and how fast."""
        settings = to_mapping(self)
        return {name: settings[name] for name in settings if name not in ("device", "budget")}


class Transformer(Encoder):
    """Contextual vectors: each word is the mean of its pieces' vectors in one layer or several."""

    def __init__(self, name: str, folder: Path, **settings: Any) -> None:
        self.name = name
        self.folder = folder
        self.config = from_mapping(TransformerConfig, settings, what=f"setting of encoder {name}")
        self._check_folder()

    @cached_property
    def width(self) -> int:  # type: ignore[override]
        """D, as the model's folder tells."""
        return self._fact(_WIDTHS, "the model's width")

    @cached_property
    def encoding(self) -> Encoding:
        """By the content of the model's files: a model that is exchanged is another one."""
        digests = {
            file.relative_to(self.folder).as_posix(): digest_of_file(file)
            for pattern in DECISIVE
            for file in self.folder.glob(pattern)
            if file.is_file()
        }
        settings = self._exactly.identity()
        return Encoding(self.name, digest_of(digests, settings), settings)

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
        for chosen, rows, first in self._model.vectors(pieces, windows):
            words[ranges(windows.first[chosen], (windows.last - windows.first)[chosen])] = rows
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
        return Loaded.of(self.folder, self._exactly)

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

    def _check_folder(self) -> None:
        """Say what is missing for a model, before anything heavy is loaded."""
        if not (self.folder / CONFIG).is_file():
            raise DataError(f"{self.folder}: no model in this folder ({CONFIG} expected)")
        self._facts()
        if not any(self.folder.glob(WEIGHTS)):
            pickled = [file.name for file in sorted(self.folder.glob("*.bin"))]
            hint = (
                f"; {pickled[0]} is a pickle, which could run code: convert it" if pickled else ""
            )
            raise DataError(f"{self.folder}: no weights ({WEIGHTS} expected){hint}")
        if not any(file for pattern in TOKENIZERS for file in self.folder.glob(pattern)):
            raise DataError(f"{self.folder}: no tokenizer ({TOKENIZERS[0]} expected)")
