"""Tagger that fine-tunes a Hugging Face encoder."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from convener.config import check_min, check_range, init_with
from convener.data.dataset import Dataset
from convener.data.predictions import LabelOutput
from convener.encoders import AUTO, get_encoder
from convener.encoders.hf_model import (
    Batch,
    HFModel,
    RuntimeConfig,
    check_model_folder,
    model_file_digests,
    suppress_transformers_logging,
    use_bfloat16,
)
from convener.encoders.subwords import Subwords, Windows
from convener.encoders.transformer import TransformerEncoder
from convener.errors import ConfigError, require
from convener.neural.losses import expected_cross_entropy
from convener.neural.training import Stage, linear_warmup, parameter_groups, train_network
from convener.storage import compute_digest
from convener.taggers.base import Tagger, TaggerConfig
from convener.taggers.model_card import model_card
from convener.taggers.targets import ClassWeights, Targets, validate_class_weights
from convener.taggers.training import make_training_run, weights_digest

AUTO_CLASS = "AutoModelForTokenClassification"
"""Class of transformers that adds the layer over the labels to an encoder."""
REFERENCE_LEARNING_RATE, REFERENCE_DIM, MAX_LEARNING_RATE = 5e-5, 768, 5e-4
"""Default learning rate of an encoder with this hidden size, and upper bound of the default for any encoder."""
BATCH_SUBWORDS, MAX_BATCH_WINDOWS = 512, 16
"""Default batch size: about this many subwords, at most this many windows."""
MIN_EPOCHS, MIN_STEPS = 5, 300
"""Lower bounds that determine the default number of epochs."""
BATCHES_PER_POOL = 50
"""Batches drawn from one pool of windows sorted by length, which keeps padding small."""


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """Batch of windows.

    inputs          padded subwords
    first_subwords  (W,) positions of the first subword of each word in the flattened batch
    label_probs     (W, L) label probabilities of these words
    """

    inputs: Batch
    first_subwords: NDArray[np.int64]
    label_probs: Tensor

    def __len__(self) -> int:
        return len(self.inputs.windows)


@dataclass(frozen=True, eq=False)
class WindowedTargets:
    """Windows of a text with the label probabilities (N, L) of its words."""

    hf_model: HFModel
    subwords: Subwords
    windows: Windows
    label_probs: NDArray[np.float32]

    @classmethod
    def from_targets(cls, targets: Targets, hf_model: HFModel, *, overlap: float) -> WindowedTargets:
        """Cut the text of the targets into windows, as in inference."""
        data = targets.data
        subwords = hf_model.tokenize(data.tokens, data.offsets, allow_empty=True)
        windows = hf_model.make_windows(subwords, data.offsets, overlap)
        return cls(hf_model, subwords, windows, targets.label_probs())

    def __len__(self) -> int:
        return len(self.windows.start)

    def mean_length(self) -> float:
        """Mean number of subwords per window."""
        return float(self._lengths().mean()) if len(self) else 0.0

    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[WindowBatch]:
        """Batches of `size` windows: in text order, or with `rng` shuffled and of similar length within a batch."""
        for indices in self._batch_indices(size, rng):
            inputs = self.hf_model.batch(self.subwords, self.windows, indices)
            words, first_subwords = inputs.first_subwords()
            yield WindowBatch(inputs, first_subwords, torch.from_numpy(self.label_probs[words]))

    def _batch_indices(self, size: int, rng: np.random.Generator | None) -> list[NDArray[np.int64]]:
        order = np.arange(len(self))
        if rng is None:
            return [order[start : start + size] for start in range(0, len(order), size)]
        order = rng.permutation(order)
        lengths = self._lengths()
        for start in range(0, len(order), BATCHES_PER_POOL * size):
            pool = order[start : start + BATCHES_PER_POOL * size]
            order[start : start + BATCHES_PER_POOL * size] = pool[np.argsort(lengths[pool], kind="stable")]
        starts = rng.permutation(np.arange(0, len(order), size))
        return [order[start : start + size] for start in starts.tolist()]

    def _lengths(self) -> NDArray[np.int64]:
        subword_offsets = self.subwords.offsets
        return subword_offsets[self.windows.end] - subword_offsets[self.windows.start]


@dataclass(frozen=True, kw_only=True)
class FinetunedConfig(TaggerConfig):
    """Settings of a tagger that fine-tunes its encoder."""

    encoder: str = AUTO
    """Encoder to fine-tune: auto, minilm, mpnet, a folder or a name on the Hugging Face Hub."""
    max_epochs: int | None = None
    """Maximum number of epochs, at least 1; None for 5, or for the number that makes 300 steps if that is more."""
    patience: int = 5
    batch_size: int | None = None
    """Windows per batch, at least 1; a sentence is one window unless it exceeds `max_length`. None for as many as make
    about 512 subwords, at most 16."""
    learning_rate: float | None = None
    """Peak learning rate of the encoder, at least 0; None for a value by its hidden size: 5e-5 for 768 (mpnet), 2e-4
    for 384 (minilm)."""
    head_learning_rate: float = 1e-3
    """Peak learning rate of the layer over the labels, which is trained from scratch; at least 0."""
    warmup_ratio: float = 0.1
    """Share of the steps in which learning rates rise linearly, in (0, 1); afterwards they fall linearly to zero."""
    weight_decay: float = 0.01
    """Weight decay of matrices; at least 0; 0 switches it off."""
    max_grad_norm: float = 1.0
    """Maximum norm of the gradient, above 0; larger gradients are scaled down."""
    class_weights: ClassWeights = None
    """Weights of the labels in the loss: "balanced", or by type, such as {"PER": 2, "O": 0.5}. None weights all labels
    equally."""
    max_length: int | None = None
    """Maximum number of subwords per window, special tokens included, at least 16; None for the limit of the encoder,
    up to 512."""
    overlap: float = 0.5
    """Share of a window that the next window repeats, in sentences longer than a window; in [0, 0.75]."""
    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of matrix products in training; "auto" is bfloat16 if the processor supports it. Weights and inference
    use float32."""
    device: str = "auto"
    """Device of torch; "auto" is a GPU if there is one."""
    num_threads: int | None = None
    """Threads of torch, at least 1; None for OMP_NUM_THREADS, or else the number of cores."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "learning_rate", "head_learning_rate", "weight_decay")
        check_min(self, 1, "num_threads")
        check_min(self, 16, "max_length")
        check_range(self, "(0, inf)", "max_grad_norm")
        check_range(self, "(0, 1)", "warmup_ratio")
        object.__setattr__(self, "class_weights", validate_class_weights(self.class_weights))
        self.runtime_config()

    def runtime_config(self) -> RuntimeConfig:
        """Settings of the encoder; float32, as its weights are trained."""
        return RuntimeConfig(
            compute_dtype="float32",
            max_length=self.max_length,
            overlap=self.overlap,
            device=self.device,
        )


class FinetunedTagger(Tagger[HFModel]):
    """Linear layer over an encoder, both trained; a word has the label of its first subword.

    Training minimizes the expected cross-entropy with AdamW and keeps the epoch with the best validation score. The
    label of a word is the most probable one of its first subword, and an I- label that continues no span starts one:
    therefore the saved folder gives the same labels with transformers alone. A word without a subword, such as a
    zero-width space, is O.
    """

    Config = FinetunedConfig
    config: FinetunedConfig
    name = "finetuned"
    summary = "fine-tuned encoder; saved as a Hugging Face folder"

    @init_with(FinetunedConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(self, train: Targets, valid: Targets, previous: HFModel | None, checkpoint_dir: Path | None) -> HFModel:
        """Train encoder and layer over the labels in a single stage."""
        config = self.config
        self._set_threads()
        hf_model, init_digest = self._initial_model(train, previous)
        class_weights = train.class_weights(config.class_weights)
        weights = torch.from_numpy(class_weights).to(hf_model.device)
        windowed = WindowedTargets.from_targets(train, hf_model, overlap=config.overlap)
        batch_size = config.batch_size or default_batch_size(windowed.mean_length())
        enabled = use_bfloat16(torch, config.compute_dtype, hf_model.device)
        autocast = partial(torch.autocast, hf_model.device.type, torch.bfloat16, enabled)

        def loss(batch: WindowBatch, generator: Generator) -> Tensor:
            hf_model.model.train()
            # Dropout uses the global generator of torch: seed it from ours, and restore it afterwards.
            with torch.random.fork_rng(), autocast():
                torch.manual_seed(int(torch.randint(1 << 62, (1,), generator=generator)))
                logits = hf_model.forward(batch.inputs).logits.float()
            word_logits = logits.reshape(-1, logits.shape[2])[torch.from_numpy(batch.first_subwords)]
            return expected_cross_entropy(word_logits, batch.label_probs.to(word_logits.device), weights)

        def predict_valid() -> LabelOutput:
            with autocast():
                return self._infer(hf_model, valid.data)

        learning_rate = config.learning_rate
        if learning_rate is None:
            learning_rate = default_learning_rate(hf_model.model.config.hidden_size)
        encoder_prefix = hf_model.model.base_model_prefix
        groups = parameter_groups(hf_model.model)
        stage = Stage(
            name="encoder",
            loss=loss,
            data=windowed,
            trains=groups,
            learning_rate=learning_rate,
            learning_rates={part: config.head_learning_rate for part in groups if part != encoder_prefix},
            max_epochs=config.max_epochs or default_max_epochs(-(-len(windowed) // batch_size)),
            patience=config.patience,
        )
        training_run = make_training_run(
            self,
            train,
            valid,
            checkpoint_dir=checkpoint_dir,
            predict_valid=predict_valid,
            class_weights=class_weights,
            init_digest=init_digest,
            batch_size=batch_size,
            weight_decay=config.weight_decay,
            lr_schedule=linear_warmup(config.warmup_ratio),
            max_grad_norm=config.max_grad_norm,
        )
        train_network(hf_model.model, [stage], training_run)
        return hf_model

    def _infer(self, state: HFModel, data: Dataset) -> LabelOutput:
        """Most probable labels of the first subwords, made legal, and their probabilities."""
        self._set_threads()
        state.model.eval()
        probabilities = np.zeros((len(data.tokens), len(data.tags)), np.float32)
        probabilities[:, 0] = 1  # words without a subword
        subwords = state.tokenize(data.tokens, data.offsets, allow_empty=True)
        windows = state.make_windows(subwords, data.offsets, self.config.overlap)
        for batch in state.batches(subwords, windows):
            logits = state.infer(batch).logits
            words, first_subwords = batch.first_subwords()
            word_logits = logits.reshape(-1, logits.shape[2])[torch.from_numpy(first_subwords)]
            probabilities[words] = word_logits.float().softmax(1).cpu().numpy()
        labels = probabilities.argmax(axis=1).astype(np.int16)
        return LabelOutput(data.tags.repair(labels, data.offsets)[0], probabilities)

    def _save_state(self, state: HFModel, folder: Path) -> dict[str, Any]:
        """Write a folder that transformers can load."""
        with suppress_transformers_logging(require("transformers", extra="encoders", purpose=self.display_name)):
            state.tokenizer.save_pretrained(folder)
            state.model.save_pretrained(folder)
        card = model_card(list(state.model.config.id2label.values()), "transformers")
        (folder / "README.md").write_text(card, encoding="utf-8")
        return {}

    def _load_state(self, folder: Path, metadata: Mapping[str, Any]) -> HFModel:
        """Load such a folder."""
        check_model_folder(folder)
        return HFModel.from_folder(folder, self.config.runtime_config(), model_class=AUTO_CLASS)

    def _initial_model(self, train: Targets, previous: HFModel | None) -> tuple[HFModel, str]:
        """Model to train, and a digest of its initial weights."""
        if previous is not None:
            hf_model = previous._replace(model=copy.deepcopy(previous.model))
            return hf_model, weights_digest(hf_model.model)
        encoder = get_encoder(self.config.encoder)
        if not isinstance(encoder, TransformerEncoder):
            raise ConfigError(
                f"encoder {encoder.name!r} has no weights to train; expected minilm, mpnet, a folder "
                "or a name on the Hugging Face Hub (or use the frozen tagger)"
            )
        with torch.random.fork_rng():
            torch.manual_seed(self.config.seed)
            hf_model = HFModel.from_folder(
                encoder.folder,
                self.config.runtime_config(),
                model_class=AUTO_CLASS,
                tags=train.data.tags.names,
            )
        return hf_model, compute_digest(model_file_digests(encoder.folder))

    def _set_threads(self) -> None:
        # Label models may have set the global number of threads of torch to one.
        default = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        torch.set_num_threads(self.config.num_threads or default)


def default_learning_rate(dim: int) -> float:
    """Default learning rate of an encoder with this hidden size: smaller encoders need larger steps.

    >>> default_learning_rate(768), default_learning_rate(384), default_learning_rate(32)
    (5e-05, 0.0002, 0.0005)
    """
    return min(MAX_LEARNING_RATE, REFERENCE_LEARNING_RATE * (REFERENCE_DIM / dim) ** 2)


def default_batch_size(mean_subwords: float) -> int:
    """Default number of windows per batch, given the mean number of subwords per window.

    >>> default_batch_size(20), default_batch_size(130), default_batch_size(300), default_batch_size(512)
    (16, 4, 2, 1)
    """
    return min(MAX_BATCH_WINDOWS, max(1, round(BATCH_SUBWORDS / max(mean_subwords, 1))))


def default_max_epochs(steps_per_epoch: int) -> int:
    """Default number of epochs.

    >>> default_max_epochs(150), default_max_epochs(15), default_max_epochs(1)
    (5, 20, 300)
    """
    return max(MIN_EPOCHS, -(-MIN_STEPS // max(steps_per_epoch, 1)))
