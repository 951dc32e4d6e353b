"""Tagger on frozen features: a small network that trains in seconds on a CPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from convener import storage
from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.data.features import EncoderSpec, Features, Standardizer, from_float32
from convener.data.predictions import LabelOutput
from convener.data.ragged import chunk_bounds
from convener.data.tags import TagSet
from convener.encoders import AUTO, ensure_features, restore_encoder
from convener.encoders.base import Encoder
from convener.encoders.hashing import HashingEncoder
from convener.errors import ConfigError
from convener.inference.decoding import decode
from convener.neural.batch import BLOCK_TOKENS, Batch, PackedDataset, require_features
from convener.neural.checkpoint import load_weights, weights_to_arrays
from convener.neural.crf import CRF, ChainPotentials
from convener.neural.losses import expected_cross_entropy
from convener.neural.scorer import TokenScorer
from convener.neural.training import Stage, parameter_groups, train_network
from convener.neural.transition import ContextConfig
from convener.taggers.base import Tagger, TaggerConfig
from convener.taggers.targets import ClassWeights, Targets, validate_class_weights
from convener.taggers.training import make_training_run, weights_digest

MAX_NGRAM = 4
"""Length of the longest character n-grams that the character features use."""


@dataclass(frozen=True, kw_only=True)
class FrozenConfig(ContextConfig, TaggerConfig):
    """Settings of a tagger on frozen features."""

    encoder: str = AUTO
    """Encoder for data without features: auto (the best installed one), hashing, minilm, mpnet, a folder or a name on
    the Hugging Face Hub. To set options of the encoder, call `convener.encode` first."""
    max_epochs: int = 20
    batch_size: int = 8
    learning_rate: float = 1e-3
    """Learning rate of Adam; at least 0."""
    weight_decay: float = 1e-5
    """Weight decay of matrices; at least 0; 0 switches it off."""
    context_window: int = 1
    dropout: float = 0.2
    hidden_size: int = 128
    """Size of the hidden layer, at least 0; 0 for a linear model."""
    char_dim: int = 512
    """Dimension of the character features, at least 0; 0 for none."""
    use_crf: bool = True
    """Add a linear-chain conditional random field over the labels of a sentence. Otherwise tokens are independent."""
    class_weights: ClassWeights = None
    """Weights of the labels in the loss: "balanced", or by type, such as {"PER": 2, "O": 0.5}; requires use_crf=False.
    None weights all labels equally."""
    num_threads: int = 1
    """Number of threads; at least 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "learning_rate", "weight_decay", "hidden_size", "char_dim")
        check_min(self, 1, "num_threads")
        object.__setattr__(self, "class_weights", validate_class_weights(self.class_weights))
        if self.use_crf and self.class_weights is not None:
            raise ConfigError("class_weights require use_crf=False")


@dataclass(frozen=True, eq=False)
class FrozenState:
    """Network, encoders of its features, and the standardization of these features."""

    network: TokenScorer
    encoder_spec: EncoderSpec
    char_encoder: Encoder | None
    standardizer: Standardizer


class FrozenTagger(Tagger[FrozenState]):
    r"""Linear model or one hidden layer on the features of a token and its neighbours, with a CRF.

    The features e of a token are those of an encoder and hashed character n-grams. Without a hidden layer,

    .. math:: s_t = \sum_j W_j e_{t+j} + b, \qquad
        p(z_{1:T}) \propto \exp \sum_t \left( s_{t, z_t} + A_{z_{t-1} z_t} \right)

    where A holds the transition scores of the CRF, or zeros without one. Training maximizes the expected
    log-likelihood of the targets, whose labels are independent given their probabilities. The predicted labels are the
    best legal path.

    >>> data = Dataset.from_spans(
    ...     ["PER"], [["Ada", "met", "Bo"]] * 20, {}, gold=[[(0, 1, "PER"), (2, 3, "PER")]] * 20
    ... )
    >>> tagger = FrozenTagger(encoder="hashing").fit(Targets.from_gold(data))
    >>> tagger.predict(data).tags()[0]
    ['B-PER', 'O', 'B-PER']
    """

    Config = FrozenConfig
    config: FrozenConfig
    name = "frozen"
    summary = "small network on the features of a frozen encoder"

    @init_with(FrozenConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Targets, valid: Targets, previous: FrozenState | None, checkpoint_dir: Path | None
    ) -> FrozenState:
        """Encode the text and train the network in a single stage."""
        config = self.config
        torch.set_num_threads(config.num_threads)
        char_encoder = make_char_encoder(config.char_dim) if previous is None else previous.char_encoder
        encoder_spec = None if previous is None else previous.encoder_spec
        features = require_features(add_char_features(self._encode(train.data, encoder_spec), char_encoder))
        standardizer = Standardizer.fit(features) if previous is None else previous.standardizer
        train = train.with_features(features.with_standardizer(standardizer))
        network = self._build_network(features.dim, train.data.tags)
        if previous is not None:
            network.load_state_dict(previous.network.state_dict())
        class_weights = train.class_weights(config.class_weights)
        weights = torch.from_numpy(class_weights)

        def loss(batch: Batch, generator: Generator) -> Tensor:
            # The batch carries the label probabilities of the targets in place of evidence.
            scores, label_probs = network.scores(batch, generator), batch.log_evidence_offset
            if network.crf is None:
                return expected_cross_entropy(scores, label_probs, weights)
            log_likelihood = network.crf.expected_log_likelihood(scores, label_probs, batch.offsets)
            return -log_likelihood.sum() / max(1, len(label_probs))

        stage = Stage(
            name="tokens",
            loss=loss,
            data=PackedDataset.from_dataset(train.data, train.label_probs(), seed=config.seed),
            trains=parameter_groups(network),
            learning_rate=config.learning_rate,
            max_epochs=config.max_epochs,
            patience=config.patience,
        )
        state = FrozenState(network, features.encoder_spec, char_encoder, standardizer)
        blocks = list(self._blocks(state, valid.data))
        training_run = make_training_run(
            self,
            train,
            valid,
            checkpoint_dir=checkpoint_dir,
            predict_valid=lambda: self._predict_blocks(network, blocks, valid.data),
            class_weights=class_weights,
            init_digest=weights_digest(network),
            batch_size=config.batch_size,
            weight_decay=config.weight_decay,
        )
        train_network(network, [stage], training_run)
        return state

    def _infer(self, state: FrozenState, data: Dataset) -> LabelOutput:
        """Best legal paths, marginals and span posteriors."""
        return self._predict_blocks(state.network, self._blocks(state, data), data)

    def _save_state(self, state: FrozenState, folder: Path) -> dict[str, Any]:
        """Weights and standardization as arrays; the encoders by their specifications."""
        arrays = {f"net.{name}": array for name, array in weights_to_arrays(state.network).items()}
        arrays |= {f"standardizer.{name}": array for name, array in state.standardizer._asdict().items()}
        storage.write_arrays(folder, arrays)
        char_spec = None if state.char_encoder is None else state.char_encoder.spec.to_json()
        return {"encoder": state.encoder_spec.to_json(), "char_encoder": char_spec}

    def _load_state(self, folder: Path, metadata: Mapping[str, Any]) -> FrozenState:
        """Rebuild the network from its arrays; encoders are restored when needed."""
        arrays = storage.read_arrays(folder)
        standardizer_arrays, weights = (storage.select_prefix(part, arrays) for part in ("standardizer.", "net."))
        network = self._build_network(len(standardizer_arrays["token_mean"]), TagSet(tuple(metadata["types"])))
        load_weights(network, weights)
        char_spec = metadata["char_encoder"]
        char_encoder = None if char_spec is None else restore_encoder(EncoderSpec.from_json(char_spec))
        return FrozenState(
            network,
            EncoderSpec.from_json(metadata["encoder"]),
            char_encoder,
            Standardizer(**standardizer_arrays),
        )

    def _build_network(self, dim: int, tags: TagSet) -> TokenScorer:
        config = self.config
        crf = None
        if config.use_crf:
            legal, legal_first = (torch.from_numpy(mask) for mask in (tags.legal_transitions, tags.legal_first))
            crf = CRF(len(tags), legal, legal_first)
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            return TokenScorer(dim, len(tags), config, hidden_size=config.hidden_size, crf=crf)

    def _encode(self, data: Dataset, encoder_spec: EncoderSpec | None) -> Dataset:
        """Data with features of the given encoder, by default the one in the settings."""
        return ensure_features(data, self.config.encoder, encoder_spec, owner=self.display_name)

    def _blocks(self, state: FrozenState, data: Dataset) -> Iterator[tuple[Dataset, PackedDataset]]:
        """Blocks of a dataset with standardized features in memory."""
        data = self._encode(data, state.encoder_spec)
        for start, stop in pairwise(chunk_bounds(data.offsets, BLOCK_TOKENS).tolist()):
            block = add_char_features(data[start:stop], state.char_encoder)
            features = require_features(block).with_standardizer(state.standardizer)
            yield block, PackedDataset.from_dataset(block.with_features(features))

    def _predict_blocks(
        self, network: TokenScorer, blocks: Iterable[tuple[Dataset, PackedDataset]], data: Dataset
    ) -> LabelOutput:
        """Output for all blocks of `data`."""
        with torch.no_grad():
            outputs = [self._decode_block(network, packed.batch(), block) for block, packed in blocks]
        return LabelOutput.concat(outputs, len(data.tags))

    def _decode_block(self, network: TokenScorer, batch: Batch, data: Dataset) -> LabelOutput:
        scores, num_labels = network.scores(batch), len(data.tags)
        if network.crf is None:
            potentials = ChainPotentials(scores.new_zeros(num_labels), scores.new_zeros(num_labels, num_labels), scores)
        else:
            potentials = network.crf.to_chain(scores, batch.offsets)
        log_initial, transition_logits, log_evidence = (part.numpy() for part in potentials)
        return decode(transition_logits, log_evidence, data, self.config.num_threads, log_initial=log_initial)


def make_char_encoder(dim: int) -> Encoder | None:
    """Encoder of character n-grams without context, as the tagger has its own context window; None if `dim` is 0."""
    return HashingEncoder(width=dim, longest=MAX_NGRAM, window=0) if dim else None


def add_char_features(data: Dataset, char_encoder: Encoder | None) -> Dataset:
    """Data with character features appended to its features.

    >>> import convener as cv
    >>> data = cv.encode(cv.demo.load_corpus().test, "hashing", width=64, cache=False)
    >>> add_char_features(data, make_char_encoder(32)).features.dim
    96
    """
    features = require_features(data)
    if char_encoder is None:
        return data
    char_features = char_encoder.encode(data.tokens, data.offsets)
    return data.with_features(
        replace(
            features,
            tokens=_append_columns(features.tokens, char_features.tokens, features),
            sentences=_append_columns(features.sentences, char_features.sentences, features),
        )
    )


def _append_columns(stored: np.ndarray, added: np.ndarray, features: Features) -> np.ndarray:
    return np.hstack([stored, from_float32(added, features.dtype)])
