"""A transformer in memory: tokenizer, weights, and one batch after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from convener.encode.pieces import Pieces, Specials, pieces_of, specials_of
from convener.encode.windows import Windows, batches
from convener.errors import ConfigError, DataError, require
from convener.packed import Strings, offsets_of, ranges

if TYPE_CHECKING:
    import torch

USUAL_WINDOW = 512
"""Pieces that are read at once unless set otherwise; models that could read more are slow there."""
LAST_FOUR = (-4, -3, -2, -1)
BUDGETS = {"cpu": 1024, "cuda": 32768}
"""Pieces in a batch: what the caches of a processor hold, what keeps a GPU busy."""


class Settings(Protocol):
    """What of a transformer's settings matters here."""

    @property
    def layers(self) -> str | tuple[int, ...]: ...
    @property
    def precision(self) -> str: ...
    @property
    def window(self) -> int | None: ...
    @property
    def device(self) -> str: ...
    @property
    def budget(self) -> int | None: ...


class Loaded(NamedTuple):
    """A model in memory, and all that its use depends on."""

    torch: Any
    tokenizer: Any
    model: Any
    device: Any
    dtype: Any
    specials: Specials
    capacity: int
    layers: tuple[int, ...]
    budget: int

    @classmethod
    def of(cls, folder: Path, config: Settings) -> Loaded:
        """Load tokenizer and weights, from safetensors only; no code of the model's is run."""
        purpose = f"the encoder in {folder.name}"
        torch = require("torch", extra="encoders", purpose=purpose)
        transformers = require("transformers", extra="encoders", purpose=purpose)
        device = torch.device(_device(torch, config.device))
        tokenizer, model = _from_folder(transformers, folder)
        specials = specials_of(tokenizer)
        around = len(specials.before) + len(specials.after)
        window = _window(tokenizer, model.config, config.window, folder)
        dtype = torch.bfloat16 if _bfloat16(torch, config.precision, device) else torch.float32
        layers = _layers(config.layers, model.config, folder)
        _shorten(model, layers)
        return cls(
            torch,
            tokenizer,
            model.eval().to(device=device, dtype=dtype),
            device,
            dtype,
            specials,
            window - around,
            layers,
            config.budget or BUDGETS.get(device.type, BUDGETS["cuda"]),
        )

    def pieces(self, tokens: Strings, offsets: NDArray[np.int64]) -> Pieces:
        """The words cut; none takes more than a quarter of a window."""
        most, unknown = max(1, self.capacity // 4), self.specials.unknown
        pieces = pieces_of(self.tokenizer, tokens, offsets, unknown=unknown, most=most)
        known = len(self.model.get_input_embeddings().weight)
        if pieces.ids.max(initial=0) >= known:
            where, piece = self.tokenizer.name_or_path, pieces.ids.max()
            raise DataError(f"{where}: the model knows {known} pieces; its tokenizer gives {piece}")
        return pieces

    def vectors(
        self, pieces: Pieces, windows: Windows
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]]:
        """By batch: the windows' numbers, vectors of the words they give, of their first piece."""
        before = offsets_of(pieces.counts)
        lengths = before[windows.end] - before[windows.start]
        around = len(self.specials.before) + len(self.specials.after)
        for chosen in batches(lengths + around, self.budget):
            start, length = before[windows.start[chosen]], lengths[chosen]
            ids, seen = self._padded(pieces.ids, start, length)
            hidden = self._hidden(ids, seen)
            first, last = windows.first[chosen], windows.last[chosen]
            # Places of the pieces to give, in the batch laid out as one row.
            shift = np.arange(len(chosen)) * ids.shape[1] + len(self.specials.before) - start
            places = ranges(before[first] + shift, before[last] - before[first])
            rows = hidden.reshape(-1, hidden.shape[2])[self.torch.from_numpy(places)].float()
            counts = pieces.counts[ranges(first, last - first)]
            words = self.torch.segment_reduce(
                rows, "mean", lengths=self.torch.from_numpy(counts).to(rows.device)
            )
            yield chosen, words.cpu().numpy(), hidden[:, 0].float().cpu().numpy()

    def _padded(
        self, ids: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Pieces of some windows as rows of one length, and which of them are real."""
        before, after = self.specials.before, self.specials.after
        total = length + len(before) + len(after)
        table = np.full((len(start), int(total.max())), self.specials.padding, np.int64)
        table[:, : len(before)] = before
        seen = np.arange(table.shape[1]) < total[:, None]
        inside = seen & (np.arange(table.shape[1]) < (length + len(before))[:, None])
        inside[:, : len(before)] = False
        table[inside] = ids[ranges(start, length)]
        for place, piece in enumerate(after):
            table[np.arange(len(start)), length + len(before) + place] = piece
        return table, seen

    def _hidden(self, ids: NDArray[np.int64], seen: NDArray[np.bool_]) -> torch.Tensor:
        """The chosen layers' output, their mean where there are several.  -> (B, T, D)"""
        torch = self.torch
        with torch.inference_mode():
            result = self.model(
                input_ids=torch.from_numpy(ids).to(self.device),
                attention_mask=torch.from_numpy(seen.astype(np.int64)).to(self.device),
                output_hidden_states=self.layers != (-1,),
            )
            if self.layers == (-1,):
                return result.last_hidden_state
            chosen = [result.hidden_states[layer].float() for layer in self.layers]
            return torch.stack(chosen).mean(0)


def _from_folder(transformers: Any, folder: Path) -> tuple[Any, Any]:
    """Tokenizer and model of a folder, silently."""
    bars = transformers.utils.logging
    shown, level = bars.is_progress_bar_enabled(), bars.get_verbosity()
    bars.disable_progress_bar()
    bars.set_verbosity_error()
    # No code of a model's is run, nor is the user asked whether to run it.
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        facts = transformers.AutoConfig.from_pretrained(folder, **safe)
        # Tokenizers that tell a word from its continuation by the space before it need one.
        options = {"add_prefix_space": True} if _spaced(folder) else {}
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, use_fast=True, **safe, **options
        )
        model, found = transformers.AutoModel.from_pretrained(
            folder,
            config=facts,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # so that they are told, below
            output_loading_info=True,
            **safe,
        )
    except Exception as error:  # of all kinds: safetensors, tokenizers and torch have their own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{folder}: the model cannot be loaded: {reason}") from error
    finally:
        bars.set_verbosity(level)
        if shown:
            bars.enable_progress_bar()
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(f"{folder}: has no fast tokenizer (tokenizer.json), which words need")
    both = hasattr(model, "encoder") and hasattr(model, "decoder")
    encoder = model.get_encoder() if both else model
    _check_weights(folder, model, encoder, found)
    return tokenizer, encoder


def _check_weights(folder: Path, model: Any, encoder: Any, found: dict[str, Any]) -> None:
    """Refuse weights that do not fit the model: what is missing would be random numbers."""
    used = {id(weight) for weight in encoder.parameters()}
    # What stands over the last layer is not read, and many folders have none.
    needed = {
        name
        for name, weight in model.named_parameters()
        if id(weight) in used and "pooler" not in name
    }
    wrong = {*found["missing_keys"], *(item[0] for item in found["mismatched_keys"])} & needed
    if wrong:
        raise DataError(
            f"{folder}: the weights are not those of config.json: {len(wrong)} of {len(needed)} "
            f"do not fit, such as {min(wrong)}"
        )


def _spaced(folder: Path) -> bool:
    """Whether the tokenizer is of the byte-level kind, where words begin with a space."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return (folder / "merges.txt").is_file()
    return '"ByteLevel"' in json.dumps(read_json(file).get("pre_tokenizer"))


def _window(tokenizer: Any, facts: Any, wanted: int | None, folder: Path) -> int:
    """Pieces that the model reads at once, special ones included."""
    limit = int(min(tokenizer.model_max_length, 1 << 30))
    positions = getattr(facts, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        # Some models count positions from behind the padding: two are never used there.
        limit = min(limit, positions if limit <= positions else positions - 2)
    if wanted is not None and wanted > limit:
        raise ConfigError(f"window must be at most {limit}, what {folder.name} reads, got {wanted}")
    return wanted or min(limit, USUAL_WINDOW)


def _layers(wanted: Any, facts: Any, folder: Path) -> tuple[int, ...]:
    """Numbers of layers, from the end where negative; all must exist."""
    chosen = {"last": (-1,), "last-four": LAST_FOUR}.get(wanted, wanted)
    count = getattr(facts, "num_hidden_layers", None)
    if count is not None and not all(-count - 1 <= layer <= count for layer in chosen):
        raise ConfigError(f"layers must be in [{-count - 1}, {count}] for {folder.name}: {chosen}")
    return tuple(chosen)


def _shorten(model: Any, layers: tuple[int, ...]) -> None:
    """Leave out what stands over the layers that are asked for.

    One more layer stays, since some models norm what their last layer gives.
    """
    count, needed = getattr(model.config, "num_hidden_layers", None), max(layers) + 1
    if count is None or min(layers) < 0 or needed >= count:
        return
    for module in model.modules():
        for name, part in module.named_children():
            if type(part).__name__ == "ModuleList" and len(part) == count:
                setattr(module, name, part[:needed])
                model.config.num_hidden_layers = needed
                return


def _device(torch: Any, wanted: str) -> str:
    if wanted != "auto":
        try:
            torch.zeros(1, device=wanted)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device {wanted!r} is not there: {error}") from None
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"


def _bfloat16(torch: Any, wanted: str, device: Any) -> bool:
    """Whether to compute in bfloat16: as set, or where the processor multiplies such numbers."""
    if wanted != "auto":
        return wanted == "bfloat16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_arm_bf16_supported")
    return device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in names)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected an object, got {type(content).__name__}")
    return content
