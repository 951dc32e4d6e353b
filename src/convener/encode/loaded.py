"""A transformer in memory: tokenizer, weights, and one batch after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.encode.folder import from_folder
from convener.encode.pieces import Pieces, Specials, pieces_of, specials_of
from convener.encode.windows import Windows, batches
from convener.errors import ConfigError, DataError, require
from convener.packed import Strings, offsets_of, ranges
from convener.settings import at_least, to_mapping

if TYPE_CHECKING:
    import torch

USUAL_WINDOW = 512
"""Pieces that are read at once unless set otherwise; models that could read more are slow there."""
LAST_FOUR = (-4, -3, -2, -1)
BUDGETS = {"cpu": 1024, "cuda": 32768}
"""Pieces in a batch: what the caches of a processor hold, what keeps a GPU busy."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a model reads."""

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

    def identity(self) -> dict[str, Any]:
        """Settings that decide the numbers; the others only where and how fast."""
        settings = to_mapping(self)
        return {name: settings[name] for name in settings if name not in ("device", "budget")}


class Batch(NamedTuple):
    """Windows that a model reads together.

    windows (B,) their numbers; words: those that they give; ids (B, T) their pieces; seen (B, T)
    which of them are real; places: where the pieces of the words they give stand, with the batch
    laid out as one row; counts: how many pieces each of those words has.
    """

    windows: NDArray[np.int64]
    words: NDArray[np.int64]
    ids: NDArray[np.int64]
    seen: NDArray[np.bool_]
    places: NDArray[np.int64]
    counts: NDArray[np.int64]

    def first_pieces(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Words that have a piece, and where the first of each stands, as in `places`."""
        begins, there = offsets_of(self.counts)[:-1], self.counts > 0
        return self.words[there], self.places[begins[there]]


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
    def of(
        cls,
        folder: Path,
        config: Reading,
        *,
        layers: str | tuple[int, ...] = "last",
        kind: str = "AutoModel",
        tags: Sequence[str] | None = None,
    ) -> Loaded:
        """Load tokenizer and weights, from safetensors only; no code of the model's is run.

        layers: which ones `vectors` gives. kind: the class of transformers' that knows what
        stands over the last layer; tags: those of a new head there.
        """
        purpose = f"the model in {folder.name}"
        torch = require("torch", extra="encoders", purpose=purpose)
        transformers = require("transformers", extra="encoders", purpose=purpose)
        device = torch.device(_device(torch, config.device))
        tokenizer, model = from_folder(transformers, folder, kind, tags=tags)
        specials = specials_of(tokenizer)
        around = len(specials.before) + len(specials.after)
        window = _window(tokenizer, model.config, config.window, folder)
        dtype = torch.bfloat16 if in_bfloat16(torch, config.precision, device) else torch.float32
        chosen = _layers(layers, model.config, folder)
        _shorten(model, chosen)
        return cls(
            torch,
            tokenizer,
            model.eval().to(device=device, dtype=dtype),
            device,
            dtype,
            specials,
            window - around,
            chosen,
            config.budget or BUDGETS.get(device.type, BUDGETS["cuda"]),
        )

    def pieces(
        self, tokens: Strings, offsets: NDArray[np.int64], *, invisible: bool = False
    ) -> Pieces:
        """The words cut; none takes more than a quarter of a window.

        invisible: leave words that yield nothing without a piece, as a plain tokenizer does.
        """
        most, unknown = max(1, self.capacity // 4), None if invisible else self.specials.unknown
        pieces = pieces_of(self.tokenizer, tokens, offsets, unknown=unknown, most=most)
        known = len(self.model.get_input_embeddings().weight)
        if pieces.ids.max(initial=0) >= known:
            where, piece = self.tokenizer.name_or_path, pieces.ids.max()
            raise DataError(f"{where}: the model knows {known} pieces; its tokenizer gives {piece}")
        return pieces

    def vectors(
        self, pieces: Pieces, windows: Windows
    ) -> Iterator[tuple[Batch, NDArray[np.float32], NDArray[np.float32]]]:
        """Batches, vectors of the words they give, and of their windows' first pieces."""
        for batch in self.batches(pieces, windows):
            hidden = self._hidden(batch)
            rows = hidden.reshape(-1, hidden.shape[2])[self.torch.from_numpy(batch.places)].float()
            words = self.torch.segment_reduce(
                rows, "mean", lengths=self.torch.from_numpy(batch.counts).to(rows.device)
            )
            yield batch, words.cpu().numpy(), hidden[:, 0].float().cpu().numpy()

    def batches(self, pieces: Pieces, windows: Windows) -> Iterator[Batch]:
        """Windows of about one length, to be read together."""
        lengths = pieces.before[windows.end] - pieces.before[windows.start]
        around = len(self.specials.before) + len(self.specials.after)
        for chosen in batches(lengths + around, self.budget):
            yield self.batch(pieces, windows, chosen)

    def batch(self, pieces: Pieces, windows: Windows, chosen: NDArray[np.int64]) -> Batch:
        """The windows of these numbers, to be read together."""
        before = pieces.before
        start = before[windows.start[chosen]]
        ids, seen = self._padded(pieces.ids, start, before[windows.end[chosen]] - start)
        first, last = windows.first[chosen], windows.last[chosen]
        shift = np.arange(len(chosen)) * ids.shape[1] + len(self.specials.before) - start
        places = ranges(before[first] + shift, before[last] - before[first])
        words = ranges(first, last - first)
        return Batch(chosen, words, ids, seen, places, pieces.counts[words])

    def read(self, batch: Batch, **options: Any) -> Any:
        """What the model makes of a batch."""
        with self.torch.inference_mode():
            return self.forward(batch, **options)

    def forward(self, batch: Batch, **options: Any) -> Any:
        """The same, with what is needed to train the model."""
        return self.model(
            input_ids=self.torch.from_numpy(batch.ids).to(self.device),
            attention_mask=self.torch.from_numpy(batch.seen.astype(np.int64)).to(self.device),
            **options,
        )

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

    def _hidden(self, batch: Batch) -> torch.Tensor:
        """The chosen layers' output, their mean where there are several.  -> (B, T, D)"""
        result = self.read(batch, output_hidden_states=self.layers != (-1,))
        if self.layers == (-1,):
            return result.last_hidden_state
        chosen = [result.hidden_states[layer].float() for layer in self.layers]
        return self.torch.stack(chosen).mean(0)


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


def in_bfloat16(torch: Any, wanted: str, device: Any) -> bool:
    """Whether to compute in bfloat16: as set, or where the processor multiplies such numbers."""
    if wanted != "auto":
        return wanted == "bfloat16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_arm_bf16_supported")
    return device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in names)
