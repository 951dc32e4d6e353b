"""A Hugging Face model: checks of its folder, safe loading, and batched inference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.config import check_min, config_to_dict
from convener.data.ragged import StringArray, concat_ranges, lengths_to_offsets
from convener.encoders.subwords import (
    SpecialTokens,
    Subwords,
    Windows,
    batch_by_length,
    get_special_tokens,
    make_windows,
    tokenize_words,
)
from convener.errors import ConfigError, DataError, first_line, require
from convener.storage import file_digest

if TYPE_CHECKING:
    import torch

CONFIG, WEIGHTS = "config.json", "*.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "vocab*", "*.model")
POOLING_CONFIG = Path("1_Pooling") / CONFIG
FINGERPRINT_FILES = (
    *(CONFIG, str(POOLING_CONFIG), WEIGHTS),
    *("tokenizer*", "vocab*", "merges*", "*.model", "special_tokens*", "added_tokens*"),
)
"""Files that determine the output of a model."""
DEFAULT_MAX_LENGTH = 512
"""Default limit of subwords per window; longer windows are slow."""
LAST_FOUR = (-4, -3, -2, -1)
DEFAULT_BATCH_TOKENS = {"cpu": 1024, "cuda": 32768}
"""Subwords per batch: fits the caches of a CPU, keeps a GPU busy."""


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """Settings of inference with a model."""

    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Data type of the computation; auto: bfloat16 where the processor supports it, else float32."""
    max_length: int | None = None
    """Subwords per window, special tokens included; default: the model's limit, at most 512."""
    overlap: float = 0.5
    """Share of a window that the next one repeats, for sentences longer than a window; in [0, 0.75]."""
    device: str = "auto"
    """A torch device; auto: a GPU if there is one."""
    batch_tokens: int | None = None
    """Subwords per batch, padding included; default: by device."""

    def __post_init__(self) -> None:
        check_min(self, 16, "max_length", "batch_tokens")
        if not 0 <= self.overlap <= 0.75:
            raise ConfigError(f"overlap must be in [0, 0.75], got {self.overlap}")

    def fingerprint_settings(self) -> dict[str, Any]:
        """Return the settings that affect the output; device and batch size do not."""
        settings = config_to_dict(self)
        return {name: settings[name] for name in settings if name not in ("device", "batch_tokens")}


class Batch(NamedTuple):
    """A batch of windows.

    windows (B,)            indices of the windows
    words (W,)              indices of the words whose vectors they provide
    input_ids (B, T)        subwords, padded
    attention_mask (B, T)   which of them are not padding
    subword_positions (S,)  positions of the subwords of `words` in the flattened batch
    subword_counts (W,)     number of subwords of each of `words`
    """

    windows: NDArray[np.int64]
    words: NDArray[np.int64]
    input_ids: NDArray[np.int64]
    attention_mask: NDArray[np.bool_]
    subword_positions: NDArray[np.int64]
    subword_counts: NDArray[np.int64]

    def first_subwords(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the words with at least one subword, and the position of the first in the flattened batch."""
        starts, nonempty = lengths_to_offsets(self.subword_counts)[:-1], self.subword_counts > 0
        return self.words[nonempty], self.subword_positions[starts[nonempty]]


class HFModel(NamedTuple):
    """A loaded model with its tokenizer and runtime settings."""

    torch: Any
    tokenizer: Any
    model: Any
    device: Any
    dtype: Any
    special_tokens: SpecialTokens
    max_subwords: int
    layers: tuple[int, ...]
    batch_tokens: int

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        config: RuntimeConfig,
        *,
        layers: str | tuple[int, ...] = "last",
        model_class: str = "AutoModel",
        tags: Sequence[str] | None = None,
    ) -> HFModel:
        """Load tokenizer and weights, from safetensors only and without running code of the model.

        layers       layers whose output `word_vectors` averages
        model_class  name of the class of transformers
        tags         labels of a new classification head
        """
        purpose = f"the model in {folder.name}"
        torch = require("torch", extra="encoders", purpose=purpose)
        transformers = require("transformers", extra="encoders", purpose=purpose)
        device = torch.device(_resolve_device(torch, config.device))
        tokenizer, model = load_pretrained(transformers, folder, model_class, tags=tags)
        special_tokens = get_special_tokens(tokenizer)
        num_special = len(special_tokens.prefix) + len(special_tokens.suffix)
        max_length = _resolve_max_length(tokenizer, model.config, config.max_length, folder)
        dtype = torch.bfloat16 if use_bfloat16(torch, config.compute_dtype, device) else torch.float32
        layer_ids = _resolve_layers(layers, model.config, folder)
        _drop_unused_layers(model, layer_ids)
        return cls(
            torch,
            tokenizer,
            model.eval().to(device=device, dtype=dtype),
            device,
            dtype,
            special_tokens,
            max_length - num_special,
            layer_ids,
            config.batch_tokens or DEFAULT_BATCH_TOKENS.get(device.type, DEFAULT_BATCH_TOKENS["cuda"]),
        )

    def tokenize(self, tokens: StringArray, offsets: NDArray[np.int64], *, allow_empty: bool = False) -> Subwords:
        """Split words into subwords, at most a quarter of a window per word.

        allow_empty: leave words without subwords empty instead of using the unknown token.
        """
        unknown = None if allow_empty else self.special_tokens.unknown_id
        max_per_word = max(1, self.max_subwords // 4)
        subwords = tokenize_words(self.tokenizer, tokens, offsets, unknown_id=unknown, max_per_word=max_per_word)
        vocab_size = len(self.model.get_input_embeddings().weight)
        if subwords.ids.max(initial=0) >= vocab_size:
            tokenizer_name, max_id = self.tokenizer.name_or_path, subwords.ids.max()
            raise DataError(
                f"{tokenizer_name}: the tokenizer returns id {max_id}, but the model has {vocab_size} embeddings"
            )
        return subwords

    def make_windows(self, subwords: Subwords, offsets: NDArray[np.int64], overlap: float) -> Windows:
        """Cover the sentences by windows that fit the model: see `subwords.make_windows`."""
        return make_windows(subwords.counts, offsets, max_subwords=self.max_subwords, overlap=overlap)

    def word_vectors(
        self, subwords: Subwords, windows: Windows
    ) -> Iterator[tuple[Batch, NDArray[np.float32], NDArray[np.float32]]]:
        """Yield each batch with the vectors of its words (W, D) and of the first subword of its windows (B, D)."""
        for batch in self.batches(subwords, windows):
            hidden = self._hidden_states(batch)
            rows = hidden.reshape(-1, hidden.shape[2])[self.torch.from_numpy(batch.subword_positions)].float()
            vectors = self.torch.segment_reduce(
                rows, "mean", lengths=self.torch.from_numpy(batch.subword_counts).to(rows.device)
            )
            yield batch, vectors.cpu().numpy(), hidden[:, 0].float().cpu().numpy()

    def batches(self, subwords: Subwords, windows: Windows) -> Iterator[Batch]:
        """Yield batches of windows of similar length."""
        lengths = subwords.offsets[windows.end] - subwords.offsets[windows.start]
        num_special = len(self.special_tokens.prefix) + len(self.special_tokens.suffix)
        for indices in batch_by_length(lengths + num_special, self.batch_tokens):
            yield self.batch(subwords, windows, indices)

    def batch(self, subwords: Subwords, windows: Windows, indices: NDArray[np.int64]) -> Batch:
        """Return a batch of the windows with these indices."""
        offsets = subwords.offsets
        start = offsets[windows.start[indices]]
        input_ids, attention_mask = self._pad(subwords.ids, start, offsets[windows.end[indices]] - start)
        output_start, output_end = windows.output_start[indices], windows.output_end[indices]
        shift = np.arange(len(indices)) * input_ids.shape[1] + len(self.special_tokens.prefix) - start
        positions = concat_ranges(offsets[output_start] + shift, offsets[output_end] - offsets[output_start])
        words = concat_ranges(output_start, output_end - output_start)
        return Batch(indices, words, input_ids, attention_mask, positions, subwords.counts[words])

    def infer(self, batch: Batch, **options: Any) -> Any:
        """Return the output of the model for a batch, without gradients."""
        with self.torch.inference_mode():
            return self.forward(batch, **options)

    def forward(self, batch: Batch, **options: Any) -> Any:
        """Return the output of the model for a batch, with gradients."""
        return self.model(
            input_ids=self.torch.from_numpy(batch.input_ids).to(self.device),
            attention_mask=self.torch.from_numpy(batch.attention_mask.astype(np.int64)).to(self.device),
            **options,
        )

    def _pad(
        self, ids: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return padded subwords with special tokens, and the attention mask.  -> (B, T), (B, T)"""
        prefix, suffix = self.special_tokens.prefix, self.special_tokens.suffix
        total = length + len(prefix) + len(suffix)
        padded = np.full((len(start), int(total.max())), self.special_tokens.padding_id, np.int64)
        padded[:, : len(prefix)] = prefix
        attention_mask = np.arange(padded.shape[1]) < total[:, None]
        is_subword = attention_mask & (np.arange(padded.shape[1]) < (length + len(prefix))[:, None])
        is_subword[:, : len(prefix)] = False
        padded[is_subword] = ids[concat_ranges(start, length)]
        for position, token_id in enumerate(suffix):
            padded[np.arange(len(start)), length + len(prefix) + position] = token_id
        return padded, attention_mask

    def _hidden_states(self, batch: Batch) -> torch.Tensor:
        """Return the mean output of the selected layers.  -> (B, T, D)"""
        result = self.infer(batch, output_hidden_states=self.layers != (-1,))
        if self.layers == (-1,):
            return result.last_hidden_state
        outputs = [result.hidden_states[layer].float() for layer in self.layers]
        return self.torch.stack(outputs).mean(0)


def check_model_folder(folder: Path) -> None:
    """Raise an error if files of a model are missing, before anything large is loaded."""
    if not (folder / CONFIG).is_file():
        raise DataError(f"{folder}: not a model folder (expected {CONFIG})")
    read_json(folder / CONFIG)
    if not any(folder.glob(WEIGHTS)):
        pickled = [file.name for file in sorted(folder.glob("*.bin"))]
        hint = f"; {pickled[0]} is a pickle, which can run code: convert it to safetensors" if pickled else ""
        raise DataError(f"{folder}: no weights (expected {WEIGHTS}){hint}")
    if not any(file for pattern in TOKENIZER_FILES for file in folder.glob(pattern)):
        raise DataError(f"{folder}: no tokenizer (expected {TOKENIZER_FILES[0]})")


def model_file_digests(folder: Path) -> dict[str, str]:
    """Return the digests of the files that determine the output, by name."""
    return {
        file.relative_to(folder).as_posix(): file_digest(file)
        for pattern in FINGERPRINT_FILES
        for file in folder.glob(pattern)
        if file.is_file()
    }


@contextmanager
def suppress_transformers_logging(transformers: Any) -> Iterator[None]:
    """Disable progress bars and messages of transformers."""
    transformers_logging = transformers.utils.logging
    progress_enabled, level = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if progress_enabled:
            transformers_logging.enable_progress_bar()


def load_pretrained(
    transformers: Any, folder: Path, model_class: str, *, tags: Sequence[str] | None = None
) -> tuple[Any, Any]:
    """Load tokenizer and model from a folder.

    model_class: name of the class of transformers. tags: labels of a new classification head,
    whose weights need not be in the folder.
    """
    # Never run code of the model, and do not ask the user about it.
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        with suppress_transformers_logging(transformers):
            config = transformers.AutoConfig.from_pretrained(folder, **safe, **_label_config(tags))
            # Byte-level tokenizers mark the start of a word by a preceding space.
            options = {"add_prefix_space": True} if _is_byte_level(folder) else {}
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, **safe, **options)
            model, loading_info = getattr(transformers, model_class).from_pretrained(
                folder,
                config=config,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # reported by _check_weights
                output_loading_info=True,
                **safe,
            )
    except Exception as error:  # safetensors, tokenizers and torch each have their own
        raise DataError(f"{folder}: cannot load the model: {first_line(error)}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(f"{folder}: no fast tokenizer (tokenizer.json), which is needed to align words")
    is_encoder_decoder = hasattr(model, "encoder") and hasattr(model, "decoder")
    encoder = model.get_encoder() if is_encoder_decoder else model
    _check_weights(folder, model, encoder if tags is None else model.base_model, loading_info)
    return tokenizer, encoder


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: invalid JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected a JSON object, got {type(content).__name__}")
    return content


def use_bfloat16(torch: Any, requested: str, device: Any) -> bool:
    """Return whether to compute in bfloat16: as requested, or if the processor supports it."""
    if requested != "auto":
        return requested == "bfloat16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_arm_bf16_supported")
    return device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in names)


def _label_config(tags: Sequence[str] | None) -> dict[str, Any]:
    """Return the config entries of a classification head with these tags."""
    if tags is None:
        return {}
    names = dict(enumerate(tags))
    return {"id2label": names, "label2id": {tag: number for number, tag in names.items()}}


def _check_weights(folder: Path, model: Any, encoder: Any, loading_info: dict[str, Any]) -> None:
    """Raise an error if weights are missing or of the wrong shape: they would be random."""
    used = {id(weight) for weight in encoder.parameters()}
    # The pooler is not used, and many folders have none.
    needed = {name for name, weight in model.named_parameters() if id(weight) in used and "pooler" not in name}
    mismatched = needed & {*loading_info["missing_keys"], *(item[0] for item in loading_info["mismatched_keys"])}
    if mismatched:
        raise DataError(
            f"{folder}: the weights do not match config.json: {len(mismatched)} of {len(needed)} "
            f"are missing or have another shape, e.g. {min(mismatched)}"
        )


def _is_byte_level(folder: Path) -> bool:
    """Return whether the tokenizer is byte-level, where words start with a space."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return (folder / "merges.txt").is_file()
    return '"ByteLevel"' in json.dumps(read_json(file).get("pre_tokenizer"))


def _resolve_max_length(tokenizer: Any, config: Any, requested: int | None, folder: Path) -> int:
    """Return the number of subwords per window, special tokens included."""
    limit = int(min(tokenizer.model_max_length, 1 << 30))
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        # Some models start positions after the padding id: two are never used.
        limit = min(limit, positions if limit <= positions else positions - 2)
    if requested is not None and requested > limit:
        raise ConfigError(f"max_length must be at most {limit}, the limit of {folder.name}, got {requested}")
    return requested or min(limit, DEFAULT_MAX_LENGTH)


def _resolve_layers(requested: Any, config: Any, folder: Path) -> tuple[int, ...]:
    """Return the layer numbers, negative ones from the end; all must exist."""
    layers = {"last": (-1,), "last-four": LAST_FOUR}.get(requested, requested)
    count = getattr(config, "num_hidden_layers", None)
    if count is not None and not all(-count - 1 <= layer <= count for layer in layers):
        raise ConfigError(f"layers must be in [{-count - 1}, {count}] for {folder.name}, got {layers}")
    return tuple(layers)


def _drop_unused_layers(model: Any, layers: tuple[int, ...]) -> None:
    """Remove the layers above those that are used.

    One more layer is kept, because some models normalize the output of the last layer.
    """
    count, needed = getattr(model.config, "num_hidden_layers", None), max(layers) + 1
    if count is None or min(layers) < 0 or needed >= count:
        return
    for module in model.modules():
        for name, child in module.named_children():
            if type(child).__name__ == "ModuleList" and len(child) == count:
                setattr(module, name, child[:needed])
                model.config.num_hidden_layers = needed
                return


def _resolve_device(torch: Any, requested: str) -> str:
    if requested != "auto":
        try:
            torch.zeros(1, device=requested)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device {requested!r} is not available: {error}") from None
        return requested
    return "cuda" if torch.cuda.is_available() else "cpu"
