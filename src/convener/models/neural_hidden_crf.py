"""Neural-Hidden-CRF: one undirected model of text, true labels and votes, with a matrix of potentials per source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.models.connet import consensus_labels
from convener.models.dws import DWSNetwork, votes_loss
from convener.models.initialization import network_sizes
from convener.models.neural_chain import HeldOutLoss, InitialMatrices, StagedChainModel, WeakSupervisionConfig
from convener.models.sparse_chmm.training import add_majority_source
from convener.models.vote_evidence import VoteEvidence
from convener.neural.batch import Batch, PackedDataset
from convener.neural.crf import CRF, build_crf, crf_to_chain, set_transitions
from convener.neural.losses import labels_loss
from convener.neural.training import Stage, parameter_groups
from convener.neural.transition import NO_CONTEXT, ContextConfig


class NeuralHiddenCRFNetwork(DWSNetwork):
    """A CRF over token scores U and transitions V, and the potentials M of the sources, normalized per sentence.

    p(z, x | e) is proportional to exp(sum_t U[t, z(t)] + V[z(t-1), z(t)] + sum_k M[k, z(t), x_k(t)]). The sum over all
    votes gives each label l of a token the factor n(l) = prod_k sum_j exp M[k, l, j]. So p(z | e) is a CRF with scores
    U + log n, and p(x | z) is softmax(M): the network of DWS with logits M and other scores. A vote that a source did
    not give is summed out.
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
        super().__init__(input_dim, num_sources, crf, context)
        self.use_votes = use_votes

    def text_potentials(self, batch: Batch, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """U (N, L), including the scores of first labels, and V (L, L)."""
        return super().potentials(batch, generator)

    def potentials(self, batch: Batch, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Scores U + log n (N, L) and transitions V (L, L) of p(z | features)."""
        scores, transitions = self.text_potentials(batch, generator)
        return scores + self.emission_logits.logsumexp(2).sum(0), transitions

    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Log evidence of the chain from features and votes or, if votes are not used, from U alone.  -> (N, L)"""
        if self.use_votes:
            return super().log_evidence(batch, generator)
        scores, transitions = self.text_potentials(batch, generator)
        return crf_to_chain(scores, transitions.expand(len(scores), -1, -1), batch.offsets).log_evidence


@dataclass(frozen=True, kw_only=True)
class NeuralHiddenCRFConfig(WeakSupervisionConfig):
    """Settings of Neural-Hidden-CRF."""

    rho: float = 4.0
    """Factor of the initial potentials of the sources: M[k, l, j] = rho P(source k votes j | label l), counted with the
    labels of a simple vote; at least 0. With 0, all sources start uninformative."""
    source_learning_rate: float = 1e-2
    """Learning rate of the potentials of the sources; at least 0; 0 fixes them."""
    use_votes: bool = True
    """Use the votes of a sentence in prediction. Otherwise the text potentials alone decide, as in the paper; the
    penalties and `unmarked_weight` then have no effect."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "rho", "source_learning_rate")


class NeuralHiddenCRF(StagedChainModel):
    """Text, true labels and votes form one undirected graph, normalized over the sentence.

    p(z, x | e) = exp(sum_t U[t, z(t)] + V[z(t-1), z(t)] + sum_k M[k, z(t), x_k(t)]) / Z(e), where
    U[t] = Linear(e[t] and its neighbours) and Z(e) sums over all labels and votes. U and V are trained
    on the labels of a simple vote, then all parameters on the likelihood of the votes, log sum_z
    p(z, x | e). Labels are the Viterbi path of p(z | x, e) or, with `use_votes=False`, of the text
    potentials U and V. Chen et al. 2023, "Neural-Hidden-CRF: A Robust Weakly-Supervised Sequence Labeler".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> NeuralHiddenCRF(encoder="hashing", max_epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = NeuralHiddenCRFConfig
    config: NeuralHiddenCRFConfig
    summary = "an undirected model of text, true labels and votes, normalized per sentence (KDD 2023)"

    @init_with(NeuralHiddenCRFConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _build_network(self, data: Dataset) -> NeuralHiddenCRFNetwork:
        """An untrained network for these sources and labels."""
        config, (input_dim, num_sources, _) = self.config, network_sizes(data)
        return NeuralHiddenCRFNetwork(input_dim, num_sources, build_crf(data), config, use_votes=config.use_votes)

    def _initialize(self, net: NeuralHiddenCRFNetwork, train: Dataset) -> None:
        """Set transitions and potentials of the sources from the labels of a simple vote."""
        initial = InitialMatrices.from_votes(train)
        set_transitions(net.crf, initial.transition)
        with torch.no_grad():
            net.emission_logits.copy_(self.config.rho * torch.from_numpy(initial.emission))

    def _pack(self, train: Dataset) -> PackedDataset:
        """The training sentences, with the labels of a simple vote as the last source."""
        return super()._pack(add_majority_source(train, consensus_labels(train)))

    def _stages(self, net: NeuralHiddenCRFNetwork, packed: PackedDataset) -> list[Stage]:
        """The two stages: U and V on the labels of a simple vote, then all parameters on the votes."""
        votes, consensus = (packed.replace_votes(part) for part in (packed.votes[:, :-1], packed.votes[:, -1:]))

        def consensus_loss(batch: Batch, generator: Generator) -> Tensor:
            return labels_loss(*net.text_potentials(batch, generator), batch.votes[:, 0], batch)

        def joint_loss(batch: Batch, generator: Generator) -> Tensor:
            return votes_loss(net, batch, generator)

        source_rate = self.config.source_learning_rate
        return [
            # The likelihood of the votes, by which stages end, says nothing about this one.
            replace(self._stage("text", consensus_loss, consensus, ("scorer", "crf")), early_stopping=False),
            self._stage("joint", joint_loss, votes, parameter_groups(net), emission_logits=source_rate),
        ]

    def _held_out_loss(self, net: NeuralHiddenCRFNetwork) -> HeldOutLoss:
        """Negative log-likelihood of held-out votes given the features."""
        return lambda batch: votes_loss(net, batch, None)

    @property
    def vote_evidence(self) -> VoteEvidence:
        """How unmarked tokens enter the evidence; not at all if votes are not used in prediction."""
        return self.config if self.config.use_votes else VoteEvidence()
