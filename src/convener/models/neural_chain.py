"""Base of the chain models with a neural network: loss, validation score, prediction, settings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from convener.config import check_min
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.data.ragged import chunk_bounds, hold_out
from convener.data.tables import PERCENT, Table
from convener.data.tags import TagSet
from convener.evaluation.metrics import score_labels
from convener.inference._numba import Array
from convener.inference.autograd import chain_objective
from convener.inference.decoding import decode
from convener.models.base import FeatureConfig, LabelModel, warn_unused_sources
from convener.models.fitted import Params
from convener.models.initialization import (
    complete_coarse_spans,
    emission_from_votes,
    paper_emission,
    paper_transition,
    transition_from_votes,
)
from convener.models.majority_vote import initial_labels
from convener.models.vote_evidence import VoteEvidence, explicit_votes, marked_tokens
from convener.neural.batch import BLOCK_TOKENS, Batch, PackedDataset
from convener.neural.checkpoint import checkpoint_for, load_weights, weights_to_arrays
from convener.neural.training import Stage, TrainingRun, learning_curves, torch_threads, train_network
from convener.neural.transition import ILLEGAL_LOGIT, ContextConfig, TransitionNetwork, floored_log

if TYPE_CHECKING:
    from convener.models.chmm import CHMMNetwork
    from convener.models.chmm_fe import FixedEmissionNetwork


class ChainNetwork(Protocol):
    """A network that predicts p(z0), transitions and evidence of a chain."""

    def log_initial(self) -> Tensor: ...
    def transition_logits(self, batch: Batch, generator: Generator | None = None) -> Tensor: ...
    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor: ...


Loss = Callable[[Batch, Generator], Tensor]
HeldOutLoss = Callable[[Batch], Tensor]
"""Mean negative log-likelihood of the sentences of a batch, without sampling."""


def chain_loss(net: ChainNetwork, tau: float, *, sample: bool) -> Loss:
    """Loss: mean over sentences of -(log p(x) - tau H(z|x)); with tau = 1 it is -Q, Eq. (8)."""

    def loss(batch: Batch, generator: Generator) -> Tensor:
        log_evidence = net.log_evidence(batch, generator if sample else None) + batch.log_evidence_offset
        value, _ = chain_objective(
            net.log_initial(),
            net.transition_logits(batch, generator),
            log_evidence,
            batch.offsets,
            tau=tau,
        )
        return -value.mean()

    return loss


class ValidationScore:
    """Validation score of a network: F1 if there is gold, else the log-likelihood of the votes per token."""

    def __init__(self, net: ChainNetwork, data: Dataset, evidence: VoteEvidence, held_out_loss: HeldOutLoss) -> None:
        self.net, self.data, self.evidence = net, data, evidence
        self.held_out_loss = held_out_loss
        self.blocks = list(prediction_blocks(data, evidence))

    def __call__(self) -> float:
        """The score; higher is better."""
        if self.data.gold is not None:
            labels = np.concatenate(
                [predict_block(self.net, packed, self.evidence, block).labels for block, packed in self.blocks]
                or [np.zeros(0, np.int16)]
            )
            gold, offsets, tags = self.data.gold, self.data.offsets, self.data.fine_tags
            return score_labels(labels, gold, offsets, tags).micro.f1
        total = 0.0
        with torch.no_grad():
            for part, parts in self.blocks:
                total -= float(self.held_out_loss(parts[0].batch())) * len(part)
        return total / max(1, len(self.data.tokens))


def prediction_blocks(
    data: Dataset, evidence: VoteEvidence
) -> Iterator[tuple[Dataset, tuple[PackedDataset, PackedDataset]]]:
    """Blocks of a dataset, each packed twice: with all votes, and with unmarked tokens as abstentions."""
    for start, stop in pairwise(chunk_bounds(data.offsets, BLOCK_TOKENS).tolist()):
        block = data[start:stop]
        packed = PackedDataset.from_dataset(block, evidence.offset(block))
        yield block, (packed, packed.replace_votes(explicit_votes(block)))


def predict_block(
    net: ChainNetwork,
    packed: tuple[PackedDataset, PackedDataset],
    evidence: VoteEvidence,
    data: Dataset,
    *,
    num_threads: int = 1,
) -> LabelOutput:
    """Viterbi labels, marginals and span posteriors of one block."""
    with torch.no_grad():
        all_votes, without_unmarked = (version.batch() for version in packed)
        log_evidence: Array = np.zeros((len(data.tokens), len(data.fine_tags)), np.float32)
        for weight, batch in (
            (evidence.unmarked_weight, all_votes),
            (1 - evidence.unmarked_weight, without_unmarked),
        ):
            if weight:
                log_evidence = log_evidence + weight * net.log_evidence(batch).numpy()
        log_evidence = np.asarray(log_evidence + all_votes.log_evidence_offset.numpy(), np.float32)
        log_evidence[~marked_tokens(data), 1::2] -= evidence.new_span_penalty
        transition_logits = evidence.penalize_splits(net.transition_logits(all_votes).numpy(), data)
        log_initial = net.log_initial().numpy()
    return decode(transition_logits, log_evidence, data, num_threads, log_initial=log_initial)


def predict_all(net: ChainNetwork, data: Dataset, evidence: VoteEvidence, *, num_threads: int = 1) -> LabelOutput:
    """Viterbi labels, marginals and span posteriors of a dataset, block by block."""
    outputs = (
        predict_block(net, packed, evidence, block, num_threads=num_threads)
        for block, packed in prediction_blocks(data, evidence)
    )
    return LabelOutput.concat(outputs, len(data.fine_tags))


NetworkT = TypeVar("NetworkT", bound=TransitionNetwork)
INITIAL_O_LOGIT = 9.2
"""Initial logit of O in p(z0): a probability of 0.9999 against one other label."""


class InitialMatrices(NamedTuple):
    """Initial transition matrix Psi* (L, L) and emission matrices Phi* (K, L, L) [source, label, vote]."""

    transition: NDArray[np.float64]
    emission: NDArray[np.float64]

    @classmethod
    def from_votes(cls, data: Dataset) -> InitialMatrices:
        """Matrices estimated from the labels of a simple vote."""
        weighted_labels = complete_coarse_spans(data, initial_labels(data.without_coarse()))
        return cls(transition_from_votes(data, weighted_labels), emission_from_votes(data, weighted_labels))

    @classmethod
    def from_paper(cls, data: Dataset) -> InitialMatrices:
        """Psi* and Phi* of the paper."""
        return cls(paper_transition(data), paper_emission(data))

    def initialize(self, net: CHMMNetwork | FixedEmissionNetwork) -> None:
        """Set the biases of a network with zero weights, so that it starts exactly at these matrices."""
        with torch.no_grad():
            net.transition_layer.bias.copy_(floored_log(self.transition).reshape(-1))
            net.set_emission(floored_log(self.emission))


def initialize_chain(net: NetworkT, data: Dataset, initial_state: Literal["O", "uniform"] = "O") -> NetworkT:
    """Set p(z0) to almost surely O, or uniform, and forbid illegal transitions.  -> the network"""
    with torch.no_grad():
        net.initial_logits[0] = INITIAL_O_LOGIT if initial_state == "O" else 0.0
        illegal_logits = np.where(data.fine_tags.legal_transitions, 0.0, ILLEGAL_LOGIT).reshape(-1)
        net.illegal_logits.copy_(torch.from_numpy(illegal_logits))
    return net


INITIAL_LEARNING_RATE = 1e-2
"""Learning rate of p(z0), or of start and transition scores of a CRF: 0.01 as in the paper, and in all our fits."""
WEIGHT_DECAY = 1e-5
"""Weight decay of matrices: 1e-5 as in the paper, and in all our fits."""


@dataclass(frozen=True, kw_only=True)
class NeuralChainConfig(VoteEvidence, ContextConfig, FeatureConfig):
    """Settings of every neural chain. The defaults are the plain model of the paper."""

    max_epochs: int = 10
    """Maximum number of epochs of a stage; at least 1."""
    patience: int = 10
    """Epochs without a better validation score before a stage stops; at least 1."""
    learning_rate: float = 1e-3
    """Learning rate of Adam; at least 0."""
    batch_size: int = 64
    """Sentences per batch; at least 1."""
    num_threads: int = 1
    """Number of threads; at least 1. Results do not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "max_epochs", "patience", "batch_size", "num_threads")
        check_min(self, 0, "learning_rate")


@dataclass(frozen=True, kw_only=True)
class WeakSupervisionConfig(NeuralChainConfig):
    """Defaults that work best on weak sources, with our additions: see docs/research-notes.md."""

    max_epochs: int = 20
    patience: int = 5
    context_window: int = 2
    dropout: float = 0.5
    unmarked_weight: float = 0.0
    boundary_penalty: float = 5.0
    type_penalty: float = 5.0
    new_span_penalty: float = 0.4
    probability_scale: float = 0.92


class NeuralChainModel(LabelModel):
    """Base class of chain models whose transitions are predicted from token features.

    A subclass defines `_train` and `_load_network`. The diagnostics hold emissions averaged over train.
    """

    Config: ClassVar[type[NeuralChainConfig]] = NeuralChainConfig
    config: NeuralChainConfig
    needs_features = True
    supports_coarse = True
    uses_valid_gold = True

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Train the network with the number of threads of the settings."""
        with torch_threads(self.config.num_threads):
            return self._train(train, valid, previous, checkpoint_dir)

    @abstractmethod
    def _train(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Initialize the network, or take the weights of an earlier fit, and train it."""

    @abstractmethod
    def _load_network(self, params: Params, data: Dataset) -> tuple[ChainNetwork, Dataset]:
        """The fitted network, and the data with the sources that it expects."""

    def _training_run(self, net: Any, train: Dataset, valid: Dataset, checkpoint_dir: Path | None) -> TrainingRun:
        """Batch size, validation score and checkpoint of all stages."""
        config = self.config
        return TrainingRun(
            name=self.name,
            seed=config.seed,
            batch_size=config.batch_size,
            weight_decay=WEIGHT_DECAY,
            validation_score=self._validation_score(net, valid) if len(valid.tokens) else None,
            checkpoint=checkpoint_for(checkpoint_dir, config, train, valid),
        )

    def _validation_score(self, net: Any, valid: Dataset) -> Callable[[], float]:
        """Validation score of the network; higher is better."""
        return ValidationScore(net, valid, self.vote_evidence, self._held_out_loss(net))

    def _held_out_loss(self, net: Any) -> HeldOutLoss:
        """Negative log-likelihood of held-out votes, which decides early stopping where there is no gold."""
        loss = chain_loss(net, 0.0, sample=False)
        return lambda batch: loss(batch, torch.Generator())

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Viterbi labels, marginals, and exact posteriors of the predicted spans."""
        net, data = self._load_network(params, data)
        output = predict_all(net, data, self.vote_evidence, num_threads=self.config.num_threads)
        scale = np.float32(self.config.probability_scale)
        probabilities = output.require_probabilities() * scale
        probabilities[:, 0] += 1 - scale
        span_scores = None if output.span_scores is None else output.span_scores * scale
        return LabelOutput(output.labels, probabilities, span_scores)

    def emission_table(self) -> Table:
        """Emission probabilities of each source, averaged over train."""
        diagnostics, tags = self.diagnostics(), TagSet(self.fitted.types).names
        emission = np.zeros((0, len(tags), len(tags))) if diagnostics.emission is None else diagnostics.emission
        rows = [
            (source, truth, *emission[k, i].tolist())
            for k, source in enumerate(diagnostics.sources)
            for i, truth in enumerate(tags)
        ]
        return Table(
            title=f"Emissions, estimated by {self.name}",
            columns=("source", "true label", *tags),
            rows=rows,
            formats=dict.fromkeys(tags, PERCENT),
            notes=("P(vote is the column | true label is the row)",),
        )

    @property
    def vote_evidence(self) -> VoteEvidence:
        """How unmarked tokens enter the evidence: the settings of this group."""
        return self.config


class StagedChainModel(NeuralChainModel):
    """A neural chain that is defined by its network, its initialization and its training stages."""

    def _train(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Initialize the network, or load the weights of an earlier fit, and train all stages."""
        config = self.config
        warn_unused_sources(train, self.name)
        train, valid = hold_out(train, valid, config.seed)
        net = self._build_network(train)
        if previous is None:
            self._initialize(net, train)
        else:
            load_weights(net, previous)
        packed = self._pack(train)
        initial_emission = net.mean_emission(packed.tokens).numpy()
        training_run = self._training_run(net, train, valid, checkpoint_dir)
        history = train_network(net, self._stages(net, packed), training_run)
        return weights_to_arrays(net), Diagnostics(
            emission=net.mean_emission(packed.tokens).numpy(),
            initial_emission=initial_emission,
            learning_curves=learning_curves(history),
        )

    @abstractmethod
    def _build_network(self, data: Dataset) -> Any:
        """An untrained network for these sources and labels."""

    @abstractmethod
    def _initialize(self, net: Any, train: Dataset) -> None:
        """Set the initial parameters of a network."""

    @abstractmethod
    def _stages(self, net: Any, packed: PackedDataset) -> list[Stage]:
        """The training stages."""

    def _pack(self, train: Dataset) -> PackedDataset:
        """The training sentences, shuffled and packed, with their evidence offset."""
        return PackedDataset.from_dataset(train, self.vote_evidence.offset(train), seed=self.config.seed)

    def _load_network(self, params: Params, data: Dataset) -> tuple[Any, Dataset]:
        """The fitted network, and the data with the sources that it expects."""
        net = self._build_network(data)
        load_weights(net, params)
        return net, data

    def _stage(self, name: str, loss: Loss, packed: PackedDataset, trains: Iterable[str], **rates: float) -> Stage:
        """A training stage with the settings of the model; `rates` are learning rates of parameters with their own."""
        config = self.config
        return Stage(
            name=name,
            loss=loss,
            data=packed,
            trains=tuple(trains),
            learning_rate=config.learning_rate,
            max_epochs=config.max_epochs,
            patience=config.patience,
            learning_rates={"initial_logits": INITIAL_LEARNING_RATE, "crf": INITIAL_LEARNING_RATE} | rates,
        )
