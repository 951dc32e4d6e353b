"""A tagger that trains a whole encoder of the Hugging Face kind."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from convener.caching import digest_of
from convener.data import Dataset
from convener.encode import AUTO, Transformer, get
from convener.encode.folder import check_folder, digests_of, silent
from convener.encode.loaded import Loaded, Reading, in_bfloat16
from convener.encode.windows import windows_of
from convener.errors import ConfigError, require
from convener.settings import at_least
from convener.tagger.base import Tagged, Tagger, TaggerConfig
from convener.tagger.card import model_card
from convener.tagger.losses import expected_cross_entropy
from convener.tagger.schedule import digest_of_weights, schedule_of
from convener.tagger.targets import Targets, Weights, checked_weights
from convener.tagger.windowed import WindowBatch, Windowed
from convener.train.loop import Stage, parts_of, run, warmed

HEAD = "AutoModelForTokenClassification"
USUAL_LR, USUAL_WIDTH, MOST_LR = 5e-5, 768, 5e-4
"""The learning rate that suits an encoder of this width, and the highest that any is given."""
PIECES, MOST_WINDOWS = 512, 16
"""About so many pieces make a batch, and at most so many windows."""
LEAST_EPOCHS, LEAST_STEPS = 5, 300
"""So many there are, of both, unless set otherwise."""


@dataclass(frozen=True, kw_only=True)
class FinetunedConfig(TaggerConfig):
    """Settings of a tagger that trains its encoder."""

    encoder: str = AUTO
    """Where training starts: auto, minilm, mpnet, a folder, or a name on a hub."""
    epochs: int | None = None
    """At most so many epochs; by default 5, or as many as make 300 steps where text is little."""
    patience: int = 5
    batch: int | None = None
    """Sentences in a batch; windows of those that are longer than the encoder reads. By default as
    many as make about 512 pieces, at most 16: of whole abstracts two are plenty."""
    lr: float | None = None
    """Learning rate of the encoder, at its highest; by default by its width, since narrow ones need
    larger steps: 5e-5 where it is 768 (mpnet), 2e-4 where it is 384 (minilm)."""
    head_lr: float = 1e-3
    """The same of the layer that tells the labels, which starts from nothing."""
    warmup: float = 0.1
    """Share of all steps in which learning rates rise; then they fall to zero."""
    decay: float = 0.01
    clip: float = 1.0
    """Gradients that are longer than this are shortened to it."""
    class_weights: Weights = None
    """What an error on a label counts: "balanced", or by type, such as {"PER": 2, "O": 0.5}."""
    window: int | None = None
    """Pieces read at once, special ones included; by default the encoder's limit, at most 512."""
    overlap: float = 0.5
    """The share of a window that the next one reads again, in sentences longer than a window."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of products while training; weights are of float32, as is all when text is labelled. By
    default bfloat16 where the processor has it."""
    device: str = "auto"
    """A device of torch's; by default a GPU where there is one."""
    threads: int | None = None
    """Of torch; by default as many as OMP_NUM_THREADS says, or as there are cores."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "lr", "head_lr", "decay")
        at_least(self, 1e-9, "clip")
        at_least(self, 1, "threads")
        object.__setattr__(self, "class_weights", checked_weights(self.class_weights))
        if not 0 < self.warmup < 1:
            raise ConfigError(f"warmup must be in (0, 1), got {self.warmup}")
        self.reading()

    def reading(self) -> Reading:
        """How the encoder reads: with weights of full precision, since they are trained."""
        return Reading(
            precision="float32", window=self.window, overlap=self.overlap, device=self.device
        )


class FinetunedTagger(Tagger[Loaded]):
    """A linear layer over an encoder, both trained; the first piece of a word has its label.

    Trained by expected cross-entropy with AdamW; the best epoch on the held-out part stays. A word
    has the best label of its first piece, and a stray I- begins a span, so that the folder it
    saves, read with transformers alone, says the same. A word without a piece, such as a
    zero-width space, is not read and is O.
    """

    Config = FinetunedConfig
    kind = "finetuned"
    summary = "an encoder trained as a whole; saved as a Hugging Face folder"

    def learn(self, train: Targets, valid: Targets, start: Loaded | None) -> Loaded:
        """One stage of the loop that trains all networks."""
        config = self.config
        self._set_threads()
        loaded, origin = self._begin(train, start)
        counted = train.class_weights(config.class_weights)
        weights = torch.from_numpy(counted).to(loaded.device)
        packing = Windowed.of(train, loaded, overlap=config.overlap)
        size = config.batch or usual_batch(packing.mean_length())
        mixed = in_bfloat16(torch, config.precision, loaded.device)
        products = partial(torch.autocast, loaded.device.type, torch.bfloat16, mixed)

        def loss(batch: WindowBatch, generator: Generator) -> Tensor:
            loaded.model.train()
            # Dropout draws from torch's own generator: seeded by ours, and left as it was.
            with torch.random.fork_rng(), products():
                torch.manual_seed(int(torch.randint(1 << 62, (1,), generator=generator)))
                logits = loaded.forward(batch.read).logits.float()
            rows = logits.reshape(-1, logits.shape[2])[torch.from_numpy(batch.places)]
            return expected_cross_entropy(rows, batch.shares.to(rows.device), weights)

        def say() -> Tagged:
            with products():
                return self.infer(loaded, valid.data)

        encoder = loaded.model.base_model_prefix
        parts = parts_of(loaded.model)
        stage = Stage(
            name="encoder",
            loss=loss,
            packing=packing,
            trains=parts,
            lr=usual_lr(loaded.model.config.hidden_size) if config.lr is None else config.lr,
            rates={part: config.head_lr for part in parts if part != encoder},
            epochs=config.epochs or usual_epochs(-(-len(packing) // size)),
            patience=config.patience,
        )
        schedule = schedule_of(
            self,
            train,
            valid,
            say=say,
            weights=counted,
            origin=origin,
            batch=size,
            pace=warmed(config.warmup),
            clip=config.clip,
        )
        run(loaded.model, [stage], schedule)
        return loaded

    def infer(self, state: Loaded, data: Dataset) -> Tagged:
        """The best label of each word's first piece, and the probabilities there."""
        self._set_threads()
        state.model.eval()
        probabilities = np.zeros((len(data.tokens), len(data.tags)), np.float32)
        probabilities[:, 0] = 1  # of words without a piece
        pieces = state.pieces(data.tokens, data.offsets, invisible=True)
        windows = windows_of(
            pieces.counts, data.offsets, capacity=state.capacity, overlap=self.config.overlap
        )
        for batch in state.batches(pieces, windows):
            logits = state.read(batch).logits
            words, first = batch.first_pieces()
            rows = logits.reshape(-1, logits.shape[2])[torch.from_numpy(first)]
            probabilities[words] = rows.float().softmax(1).cpu().numpy()
        labels = probabilities.argmax(axis=1).astype(np.int16)
        return Tagged(data.tags.repair(labels, data.offsets)[0], probabilities)

    def write(self, state: Loaded, folder: Path) -> dict[str, Any]:
        """A folder that transformers can load."""
        with silent(require("transformers", extra="encoders", purpose=self.name)):
            state.tokenizer.save_pretrained(folder)
            state.model.save_pretrained(folder)
        card = model_card(list(state.model.config.id2label.values()), "transformers")
        (folder / "README.md").write_text(card, encoding="utf-8")
        return {}

    def read(self, folder: Path, facts: Mapping[str, Any]) -> Loaded:
        """Back from such a folder."""
        check_folder(folder)
        return Loaded.of(folder, self.config.reading(), kind=HEAD)

    def _begin(self, train: Targets, start: Loaded | None) -> tuple[Loaded, str]:
        """The model to train, and a digest of where it comes from."""
        if start is not None:
            loaded = start._replace(model=copy.deepcopy(start.model))
            return loaded, digest_of_weights(loaded.model)
        encoder = get(self.config.encoder)
        if not isinstance(encoder, Transformer):
            raise ConfigError(
                f"encoder {encoder.name!r} has no weights to train: choose minilm, mpnet, a folder "
                "or a name on a hub, or a frozen tagger"
            )
        with torch.random.fork_rng():
            torch.manual_seed(self.config.seed)
            loaded = Loaded.of(
                encoder.folder, self.config.reading(), kind=HEAD, tags=train.data.tags.names
            )
        return loaded, digest_of(digests_of(encoder.folder))

    def _set_threads(self) -> None:
        # Label models set one thread for all of torch, which would leave the other cores idle.
        usual = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        torch.set_num_threads(self.config.threads or usual)


def usual_lr(width: int) -> float:
    """The learning rate that suits an encoder of this width: narrow ones need larger steps.

    >>> usual_lr(768), usual_lr(384), usual_lr(32)
    (5e-05, 0.0002, 0.0005)
    """
    return min(MOST_LR, USUAL_LR * (USUAL_WIDTH / width) ** 2)


def usual_batch(pieces: float) -> int:
    """How many windows of so many pieces make a batch.

    >>> usual_batch(20), usual_batch(130), usual_batch(300), usual_batch(512)
    (16, 4, 2, 1)
    """
    return min(MOST_WINDOWS, max(1, round(PIECES / max(pieces, 1))))


def usual_epochs(steps: int) -> int:
    """How many epochs of so many steps are enough.

    >>> usual_epochs(150), usual_epochs(15), usual_epochs(1)
    (5, 20, 300)
    """
    return max(LEAST_EPOCHS, -(-LEAST_STEPS // max(steps, 1)))
