"""ConNet: a CRF tagger with one transformation matrix per source, and attention over the sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from convener.config import init_with
from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN
from convener.models.chmm import constant_log_evidence
from convener.models.initialization import network_sizes
from convener.models.majority_vote import initial_labels
from convener.models.neural_chain import InitialMatrices, StagedChainModel, WeakSupervisionConfig
from convener.models.sparse_chmm.training import add_majority_source
from convener.models.vote_evidence import VoteEvidence, marked_tokens
from convener.neural.batch import Batch, PackedDataset
from convener.neural.crf import (
    CRF,
    ChainPotentials,
    add_start_scores,
    build_crf,
    crf_to_chain,
    log_initial_o,
    set_transitions,
)
from convener.neural.losses import labels_loss
from convener.neural.scorer import LinearTokenScorer
from convener.neural.training import Stage
from convener.neural.transition import NO_CONTEXT, ContextConfig, floored_log, zero_linear


class ConNetNetwork(nn.Module):
    """A CRF over token scores, one matrix per source, and attention over the sources.

    Initially the matrices are the identity and attention is uniform. Emissions are fixed; they are used if votes count
    in prediction.
    """

    def __init__(
        self,
        input_dim: int,
        num_sources: int,
        crf: CRF,
        context: ContextConfig = NO_CONTEXT,
        *,
        use_votes: bool = True,
    ) -> None:
        super().__init__()
        num_labels = len(crf.start_transitions)
        self.use_votes = use_votes
        self.scorer, self.crf = LinearTokenScorer(input_dim, num_labels, context), crf
        self.source_matrices = nn.Parameter(torch.eye(num_labels).repeat(num_sources, 1, 1))
        self.attention = zero_linear(input_dim, num_sources)
        # Rows by vote, abstain first. The row of abstain stays zero: an abstention is no evidence.
        self.register_buffer("log_emission", torch.zeros(num_sources, num_labels + 1, num_labels))
        self.log_emission: Tensor

    def set_emission(self, log_emission: Tensor) -> None:
        """Set the emissions.  (K, L, L) [source, true label, vote]"""
        self.log_emission[:, 1:] = log_emission.log_softmax(2).transpose(1, 2)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions, the same for all tokens.  -> (K, L, L)"""
        return self.log_emission[:, 1:].transpose(1, 2).double().exp()

    def potentials_through(self, scores: Tensor, matrix: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """CRF potentials transformed by a matrix (L, L), or by one per sentence (M, L, L).

        scores (N, L) -> scores (N, L), and transitions (L, L) or (N, L, L)
        """
        start = self.crf.start_transitions @ matrix + self.crf.illegal_start_logits
        transitions = self.crf.transitions @ matrix + self.crf.illegal_logits
        if matrix.ndim == 3:
            sentence = torch.repeat_interleave(offsets.diff())
            scores = torch.bmm(scores[:, None], matrix[sentence]).squeeze(1)
            return add_start_scores(scores, start, offsets), transitions[sentence]
        return add_start_scores(scores @ matrix, start, offsets), transitions

    def consensus_potentials(self, batch: Batch, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """CRF potentials transformed by the attention-weighted mean of the source matrices."""
        attention_weights = self.attention(batch.sentences).softmax(1)
        matrices = torch.einsum("mk,kij->mij", attention_weights, self.source_matrices)
        return self.potentials_through(self.scorer(batch, generator), matrices, batch.offsets)

    def log_initial(self) -> Tensor:
        """Log-probabilities of z0 in the chain of consensus and votes.  -> (L,)"""
        return log_initial_o(self.crf.transitions.detach())

    def transition_logits(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Transition logits of the chain of consensus and votes.  -> (N, L, L)"""
        return self._chain_potentials(batch, generator).transition

    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Log evidence of the chain from features and, if used, votes.  -> (N, L)"""
        feature_evidence = self._chain_potentials(batch, generator).log_evidence
        return (
            feature_evidence + constant_log_evidence(self.log_emission, batch) if self.use_votes else feature_evidence
        )

    def _chain_potentials(self, batch: Batch, generator: Generator | None) -> ChainPotentials:
        return crf_to_chain(*self.consensus_potentials(batch, generator), batch.offsets)


@dataclass(frozen=True, kw_only=True)
class ConNetConfig(WeakSupervisionConfig):
    """Settings of ConNet."""

    new_span_penalty: float = 0.0
    ignore_unmarked: bool = True
    """Ignore unmarked tokens of labeling functions (sources with unmarked="abstain") where another source marks
    something. Otherwise they are labels to be learned, as in the paper."""
    use_votes: bool = True
    """Use the votes of a sentence in prediction, as evidence. Otherwise the features alone decide, as in the paper."""


class ConNet(StagedChainModel):
    """One CRF tagger with a transformation matrix per source, aggregated by attention over the sources.

    The CRF of source k has scores U A_k and transitions M A_k, with U[t] = Linear(e[t] and its neighbours) and A_k = I
    initially. Decoupling: ascent on sum_k log p_k(labels of k | e). Aggregation: the consensus has A* = sum_k q_k A_k
    with q = softmax(Linear(e0)), e0 the features of the sentence, and q is trained on the labels of a simple vote.
    Labels are the Viterbi path of the consensus, by default times the emissions of the votes (`use_votes`).
    Lan et al. 2020, "Learning to Contextually Aggregate Multi-Source Supervision for Sequence Labeling".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> ConNet(encoder="hashing", max_epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = ConNetConfig
    config: ConNetConfig
    summary = "a neural CRF with a matrix per source, and attention over the sources (ACL 2020)"

    @init_with(ConNetConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _build_network(self, data: Dataset) -> ConNetNetwork:
        """An untrained network for these sources and labels."""
        config, (input_dim, num_sources, _) = self.config, network_sizes(data)
        return ConNetNetwork(input_dim, num_sources, build_crf(data), config, use_votes=config.use_votes)

    def _initialize(self, net: ConNetNetwork, train: Dataset) -> None:
        """Start as a Markov chain with transitions and emissions from a simple vote."""
        initial = InitialMatrices.from_votes(train)
        set_transitions(net.crf, initial.transition)
        net.set_emission(floored_log(initial.emission).float())

    def _pack(self, train: Dataset) -> PackedDataset:
        """The training sentences, with the votes of the sources and, last, the consensus."""
        return PackedDataset.from_dataset(self._training_votes(train), seed=self.config.seed)

    def _stages(self, net: ConNetNetwork, packed: PackedDataset) -> list[Stage]:
        """The two stages: decoupling, then aggregation."""

        def decoupling_loss(batch: Batch, generator: Generator | None) -> Tensor:
            return sources_loss(net, batch, generator)

        def aggregation_loss(batch: Batch, generator: Generator | None) -> Tensor:
            return consensus_loss(net, batch, generator)

        return [
            self._stage("decoupling", decoupling_loss, packed, ("scorer", "crf", "source_matrices")),
            self._stage("aggregation", aggregation_loss, packed, ("attention",)),
        ]

    def _validation_score(self, net: ConNetNetwork, valid: Dataset) -> Callable[[], float]:
        """Without gold, the log-likelihood of votes and consensus on held-out sentences."""
        if valid.gold is not None:
            return super()._validation_score(net, valid)
        packed = PackedDataset.from_dataset(self._training_votes(valid))

        def score() -> float:
            total = 0.0
            with torch.no_grad():
                for batch in packed.batches(self.config.batch_size):
                    loss = sources_loss(net, batch, None) + consensus_loss(net, batch, None)
                    total -= float(loss) * len(batch.sentences)
            return total / len(valid.tokens)

        return score

    @property
    def vote_evidence(self) -> VoteEvidence:
        """How unmarked tokens enter the evidence; not at all if votes are not used in prediction."""
        return self.config if self.config.use_votes else VoteEvidence()

    def _training_votes(self, data: Dataset) -> Dataset:
        """The data with the votes to train on, and the consensus as the last source."""
        votes, consensus = data.votes, consensus_labels(data)
        if self.config.ignore_unmarked:
            ignored = (votes == 0) & data.unmarked_is_abstain() & marked_tokens(data)[:, None]
            votes = np.where(ignored, np.int16(ABSTAIN), votes)
        training_data = data.with_sources(data.sources, votes, data.unmarked)
        return add_majority_source(training_data, consensus)


def consensus_labels(data: Dataset) -> NDArray[np.int16]:
    """Labels of a simple vote; none where only coarse votes mark a token.  -> (N,)"""
    fine = data.without_coarse()
    labels = initial_labels(fine)
    labels[marked_tokens(data) & ~marked_tokens(fine)] = ABSTAIN
    return labels


def sources_loss(net: ConNetNetwork, batch: Batch, generator: Generator | None) -> Tensor:
    """Negative mean log-probability of the votes of each source, summed over sources."""
    scores = net.scorer(batch, generator)
    all_potentials = (net.potentials_through(scores, matrix, batch.offsets) for matrix in net.source_matrices)
    losses = [labels_loss(*potentials, batch.votes[:, k], batch) for k, potentials in enumerate(all_potentials)]
    return torch.stack(losses).sum()


def consensus_loss(net: ConNetNetwork, batch: Batch, generator: Generator | None) -> Tensor:
    """Negative mean log-probability of the consensus, the last column of the votes."""
    return labels_loss(*net.consensus_potentials(batch, generator), batch.votes[:, -1], batch)
