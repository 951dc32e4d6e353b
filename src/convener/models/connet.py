"""ConNet: one tagger seen through a matrix of each source, and attention to the sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from convener.data import ABSTAIN, Dataset
from convener.errors import ConfigError
from convener.models.majority_vote import initial_labels
from convener.models.neural import NeuralChainConfig, StagedChainModel, WeakSupervisionConfig
from convener.nets.connet import ConNetNetwork
from convener.settings import check_fraction
from convener.train.field import build_crf, labels_loss, set_transitions
from convener.train.heard import complete_coarse_spans
from convener.train.loop import Stage
from convener.train.neural import VoteEvidence, marked_tokens
from convener.train.packing import Batch, PackedDataset
from convener.train.sparse import add_majority_source
from convener.train.start import floored_log, initial_emission, initial_transition, network_sizes


@dataclass(frozen=True, kw_only=True)
class ConNetConfig(WeakSupervisionConfig):
    """Settings of ConNet."""

    initial_lr: float = 1e-2
    """Learning rate of first labels and moves, which are the same for all tokens."""
    doubt: float = 0.0
    partial: bool = True
    """Leave the O of a source whose silence is O open where another source marks something: it
    may not have known. Otherwise it is a label to be learned, as in the paper."""
    thaw: bool = False
    """Train everything in the aggregation phase, not attention alone."""
    hear: bool = True
    """Let a sentence's votes count when it is labelled. Otherwise the features alone decide, as
    in the paper."""
    precision: float = 0.9
    """Share of a source's marks that are presumed right where its own precision is not known: what
    votes are worth as evidence."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "precision")
        if self.tau:
            raise ConfigError(f"tau must be 0: connet learns labels, not votes, got {self.tau}")

    def learning_rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return {"crf": self.initial_lr}


class ConNet(StagedChainModel):
    """A tagger for all sources, which sees each through a matrix, and weighs them by sentence.

    The field of source k has scores U A_k and moves M A_k, with U[t] = Linear(e[t] and its
    neighbours) and A_k = I at first. Decoupling: ascent on sum_k log p_k(labels of k | e).
    Aggregation: the consensus has A* = sum_k q_k A_k with q = softmax(Linear(e0)), e0 the
    sentence, and q is trained on labels of a simple vote. Labels are the best path of the
    consensus, here times the emissions of the votes (`hear`). Lan et al. 2020, "Learning to
    Contextually Aggregate Multi-Source Supervision for Sequence Labeling".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> ConNet(encoder="hashing", epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config: ClassVar[type[NeuralChainConfig]] = ConNetConfig
    summary = "one neural CRF seen through a matrix of each source, and attention (ACL 2020)"

    def _build_network(self, data: Dataset) -> ConNetNetwork:
        """A network for these sources and labels, as it is before it knows anything."""
        config, (input_dim, num_sources, _) = self.config, network_sizes(data)
        crf = build_crf(data, legal=config.legal)
        return ConNetNetwork(input_dim, num_sources, crf, config.context_config(), use_votes=config.hear)

    def _initialize(self, net: ConNetNetwork, train: Dataset) -> None:
        """Start as a Markov chain with moves of a simple vote; emissions are its, too."""
        weighted_labels = complete_coarse_spans(train, initial_labels(train.without_coarse()))
        set_transitions(net.crf, initial_transition(self.config, train, weighted_labels))
        net.set_emission(floored_log(initial_emission(self.config, train, weighted_labels)).float())

    def _pack(self, train: Dataset) -> PackedDataset:
        """The sentences to train on, with the labels of sources and, last, the consensus."""
        return PackedDataset.from_dataset(self._training_votes(train), seed=self.config.seed)

    def _stages(self, net: ConNetNetwork, packed: PackedDataset) -> list[Stage]:
        """Decoupling, then aggregation."""
        tagger_parameters = ("scorer", "crf", "source_matrices")

        def decoupling_loss(batch: Batch, generator: Generator | None) -> Tensor:
            return sources_loss(net, batch, generator)

        def aggregation_loss(batch: Batch, generator: Generator | None) -> Tensor:
            return consensus_loss(net, batch, generator)

        aggregation_trains = (*tagger_parameters, "attention") if self.config.thaw else ("attention",)
        return [
            self._stage("decoupling", decoupling_loss, packed, tagger_parameters),
            self._stage("aggregation", aggregation_loss, packed, aggregation_trains),
        ]

    def _validation_score(self, net: ConNetNetwork, valid: Dataset) -> Callable[[], float]:
        """Without gold by the labels of sources and consensus on held-out sentences."""
        if valid.gold is not None:
            return super()._validation_score(net, valid)
        packed = PackedDataset.from_dataset(self._training_votes(valid))

        def score() -> float:
            total = 0.0
            with torch.no_grad():
                for batch in packed.batches(self.config.batch):
                    loss = sources_loss(net, batch, None) + consensus_loss(net, batch, None)
                    total -= float(loss) * len(batch.sentences)
            return total / len(valid.tokens)

        return score

    @property
    def vote_evidence(self) -> VoteEvidence:
        """How silence becomes evidence; not at all where votes are not heard."""
        return super().vote_evidence if self.config.hear else VoteEvidence()

    def _training_votes(self, data: Dataset) -> Dataset:
        """The data with what sources are taken to say, and the consensus as the last source."""
        votes, is_marked = data.votes, marked_tokens(data)
        consensus = initial_labels(data.without_coarse())
        consensus[is_marked & ~marked_tokens(data.without_coarse())] = ABSTAIN  # only coarse votes speak
        if self.config.partial:
            ignored = (votes == 0) & data.quiet() & is_marked[:, None]
            votes = np.where(ignored, np.int16(ABSTAIN), votes)
        training_data = data.with_sources(data.sources, votes, data.silence)
        return add_majority_source(training_data, consensus)


def sources_loss(net: ConNetNetwork, batch: Batch, generator: Generator | None) -> Tensor:
    """Minus the mean log-probability of each source's labels, summed over sources."""
    scores = net.scorer(batch, generator)
    all_potentials = (net.potentials_through(scores, matrix, batch.offsets) for matrix in net.source_matrices)
    losses = [labels_loss(*potentials, batch.votes[:, k], batch) for k, potentials in enumerate(all_potentials)]
    return torch.stack(losses).sum()


def consensus_loss(net: ConNetNetwork, batch: Batch, generator: Generator | None) -> Tensor:
    """Minus the mean log-probability of the consensus, the last column of the votes."""
    return labels_loss(*net.consensus_potentials(batch, generator), batch.votes[:, -1], batch)
