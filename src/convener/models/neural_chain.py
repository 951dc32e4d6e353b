"""What label models share whose chain has a network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Generator, Tensor

from convener.config import check_fraction, check_min
from convener.data import diagnostics
from convener.data.dataset import Dataset
from convener.data.ragged import chunk_bounds, hold_out
from convener.data.tables import PERCENT, Table
from convener.data.tags import TagSet
from convener.errors import ConfigError
from convener.evaluation.metrics import score_labels
from convener.inference._numba import Array
from convener.inference.autograd import chain_objective
from convener.inference.decoding import DecodeResult, decode
from convener.models.base import FeatureConfig, LabelModel, LabelOutput, warn_unused_sources
from convener.models.fitted import Params
from convener.models.vote_evidence import VoteEvidence, explicit_votes, marked_tokens
from convener.neural.batch import BLOCK_TOKENS, Batch, PackedDataset
from convener.neural.checkpoint import checkpoint_for, load_weights, weights_to_arrays
from convener.neural.training import Stage, TrainingRun, learning_curves, train_network
from convener.neural.transition import ContextConfig


class ChainNetwork(Protocol):
    """A network that gives a chain its start, its moves and its evidence."""

    def log_initial(self) -> Tensor: ...
    def transition_logits(self, batch: Batch, generator: Generator | None = None) -> Tensor: ...
    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor: ...


Loss = Callable[[Batch, Generator], Tensor]
HeldOutLoss = Callable[[Batch], Tensor]
"""Minus the mean log-likelihood of sentences, nothing drawn."""


def chain_loss(net: ChainNetwork, tau: float, *, sample: bool) -> Loss:
    """Minus the mean of log p(x) - tau H(z|x) over sentences."""

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
    """How good a network is on held-out data: F1 with gold, or else the likelihood of votes."""

    def __init__(self, net: ChainNetwork, data: Dataset, evidence: VoteEvidence, held_out_loss: HeldOutLoss) -> None:
        self.net, self.data, self.evidence = net, data, evidence
        self.held_out_loss = held_out_loss
        self.blocks = list(prediction_blocks(data, evidence))

    def __call__(self) -> float:
        """Higher is better."""
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
    """Blocks of a dataset, laid out twice: with all votes, and without mere silence."""
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
    threads: int = 1,
) -> DecodeResult:
    """Best legal paths, marginals and scored spans of one block."""
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
    return decode(transition_logits, log_evidence, data, threads, log_initial=log_initial)


def predict_all(net: ChainNetwork, data: Dataset, evidence: VoteEvidence, *, threads: int = 1) -> DecodeResult:
    """The same for a dataset of any size, a block at a time."""
    outputs = (
        predict_block(net, packed, evidence, block, threads=threads)
        for block, packed in prediction_blocks(data, evidence)
    )
    return DecodeResult.concat(outputs, len(data.fine_tags))


@dataclass(frozen=True, kw_only=True)
class NeuralChainConfig(FeatureConfig):
    """Settings of every chain with a network."""

    tau: float = 0.0
    """Objective log p(x) - tau H(z|x): 0 is plain likelihood, 1 the published objective."""
    epochs: int = 10
    """At most so many epochs a stage."""
    patience: int = 10
    """Epochs without a better score before a stage ends."""
    smooth: int = 1
    """Epochs over which scores are averaged before they are compared."""
    lr: float = 1e-3
    initial_lr: float = 1e-2
    """Learning rate of p(z0)."""
    decay: float = 1e-5
    batch: int = 64
    start: Literal["votes", "paper"] = "votes"
    """Starting matrices: estimated from the votes, or the paper's."""
    context: int = 0
    """Neighbours on either side of a token that its move depends on, too; 0 is the paper's."""
    dropout: float = 0.0
    """Share of a token's features that a training step leaves out, all else rescaled."""
    legal: bool = True
    """Forbid moves that BIO does not allow."""
    silence: float = 1.0
    """Weight of an O in inference, for sources whose silence is O; 1 is the paper's model. See
    `train.neural.Reading`."""
    edge: float = 0.0
    """Nats by which a token beside a mark, but itself not marked by anyone, is less likely part
    of an entity, and a span less likely to begin behind another of its type where some source's
    span goes on; 0 is the paper's model."""
    clash: float = 0.0
    """Nats by which a marked token is less likely of a type that no source names there, and any
    token of one that some source denies; 0 is the paper's model."""
    doubt: float = 0.0
    """Nats against an entity that begins where no source marks anything, in inference; 0 is the
    paper's model."""
    trust: float = 1.0
    """Probability that the sources are as the model pictures them, their mistakes independent above
    all: what it thinks an entity is one with so much less probability. 1 is the paper's model."""
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "epochs", "patience", "smooth", "batch", "threads")
        check_min(self, 0, "tau", "lr", "initial_lr", "decay", "silence", "edge", "doubt", "clash")
        check_min(self, 0, "context")
        check_fraction(self, "trust")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be in [0, 1), got {self.dropout}")

    def context_config(self) -> ContextConfig:
        """What of the features moves depend on."""
        return ContextConfig(context_window=self.context, dropout=self.dropout)

    def learning_rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return {"initial_logits": self.initial_lr}


@dataclass(frozen=True, kw_only=True)
class WeakSupervisionConfig(NeuralChainConfig):
    """Settings that serve weak sources best, with what we added: `docs/research-notes.md`."""

    epochs: int = 20
    patience: int = 5
    context: int = 2
    dropout: float = 0.5
    silence: float = 0.0
    edge: float = 5.0
    clash: float = 5.0
    doubt: float = 0.4
    trust: float = 0.92


class NeuralChainModel(LabelModel):
    """A chain whose moves a network reads off each token.

    A model of the kind has its own `learn`, which trains by `schedule`, and `restored`. Beside the
    weights it keeps `emissions`, averaged over train.  (K, L, L) [source, truth, said]
    """

    Config: ClassVar[type[NeuralChainConfig]] = NeuralChainConfig
    needs_features = True
    supports_coarse = True
    uses_valid_gold = True

    @abstractmethod
    def _load_network(self, params: Params, data: Dataset) -> tuple[ChainNetwork, Dataset]:
        """The network, and data with the sources it knows."""

    def _training_run(self, net: Any, train: Dataset, valid: Dataset) -> TrainingRun:
        """How all stages are trained, and by what they are judged."""
        config = self.config
        return TrainingRun(
            name=self.name,
            seed=config.seed,
            batch_size=config.batch,
            weight_decay=config.decay,
            validation_score=self._validation_score(net, valid) if len(valid.tokens) else None,
            checkpoint=checkpoint_for(self.checkpoint_dir, config, train, valid),
        )

    def _validation_score(self, net: Any, valid: Dataset) -> Callable[[], float]:
        """How good the network is on held-out data; higher is better."""
        return ValidationScore(net, valid, self.vote_evidence, self._held_out_loss(net))

    def _held_out_loss(self, net: Any) -> HeldOutLoss:
        """How badly held-out votes are explained: by that a fit without gold is judged."""
        loss = chain_loss(net, 0.0, sample=False)
        return lambda batch: loss(batch, torch.Generator())

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Best paths, marginals, and exact probabilities of the spans found."""
        net, data = self._load_network(params, data)
        output = predict_all(net, data, self.vote_evidence, threads=self.config.threads)
        scale = np.float32(self.config.trust)
        probabilities = output.probabilities * scale
        probabilities[:, 0] += 1 - scale
        return LabelOutput(output.labels, probabilities, output.span_scores * scale)

    def emission_table(self) -> Table:
        """What each source says where the truth is known, averaged over train."""
        fitted = self.fitted
        tags = TagSet(fitted.types).names
        rows = [
            (source, truth, *fitted.params["emissions"][k, i].tolist())
            for k, source in enumerate(fitted.used_sources)
            for i, truth in enumerate(tags)
        ]
        return Table(
            title=f"Emissions of the sources, as estimated by {self.name}",
            columns=("source", "truth", *tags),
            rows=rows,
            formats=dict.fromkeys(tags, PERCENT),
            notes=("P(source says the column | the truth is the row)",),
        )

    @property
    def vote_evidence(self) -> VoteEvidence:
        """How silence becomes evidence."""
        config = self.config
        return VoteEvidence(config.silence, config.edge, config.clash, config.doubt)


class StagedChainModel(NeuralChainModel):
    """One that says what its network is, where it begins, and by what stages it is trained."""

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """All stages from where the votes let them begin, or on from an earlier fit."""
        config = self.config
        warn_unused_sources(train, self.name)
        torch.set_num_threads(config.threads)
        train, valid = hold_out(train, valid, config.seed)
        net = self._build_network(train)
        if previous is None:
            self._initialize(net, train)
        else:
            load_weights(net, previous)
        packed = self._pack(train)
        initial_diagnostics = diagnostics.initial_emission(net.mean_emission(packed.tokens).numpy())
        history = train_network(net, self._stages(net, packed), self._training_run(net, train, valid))
        emission = net.mean_emission(packed.tokens).numpy()
        return weights_to_arrays(net) | {"emissions": emission} | initial_diagnostics | learning_curves(history)

    @abstractmethod
    def _build_network(self, data: Dataset) -> Any:
        """A network for these sources and labels, as it is before it knows anything."""

    @abstractmethod
    def _initialize(self, net: Any, train: Dataset) -> None:
        """Give a network its start."""

    @abstractmethod
    def _stages(self, net: Any, packed: PackedDataset) -> list[Stage]:
        """How the network is trained."""

    def _pack(self, train: Dataset) -> PackedDataset:
        """The sentences to train on, shuffled, with what is known of them beforehand."""
        return PackedDataset.from_dataset(train, self.vote_evidence.offset(train), seed=self.config.seed)

    def _load_network(self, params: Params, data: Dataset) -> tuple[Any, Dataset]:
        """The network, and data with the sources it knows."""
        net = self._build_network(data)
        load_weights(net, params)
        return net, data

    def _stage(self, name: str, loss: Loss, packed: PackedDataset, trains: Iterable[str]) -> Stage:
        """A stretch of training, as the settings have it."""
        config = self.config
        return Stage(
            name=name,
            loss=loss,
            data=packed,
            trains=tuple(trains),
            learning_rate=config.lr,
            max_epochs=config.epochs,
            patience=config.patience,
            score_window=config.smooth,
            learning_rates=config.learning_rates(),
        )
