"""CHMM with fixed emissions counted from gold labels: a reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.errors import DataError
from convener.models.chmm import constant_log_evidence
from convener.models.fitted import Params
from convener.models.initialization import emission_from_gold, network_sizes
from convener.models.neural_chain import (
    InitialMatrices,
    NeuralChainConfig,
    StagedChainModel,
    chain_loss,
    initialize_chain,
)
from convener.neural.batch import Batch, PackedDataset
from convener.neural.training import Stage, parameter_groups
from convener.neural.transition import NO_CONTEXT, ContextConfig, TransitionNetwork


@dataclass(frozen=True, kw_only=True)
class CHMMFEConfig(NeuralChainConfig):
    """Settings of CHMM-FE."""

    tau: float = 0.0
    """Weight of the posterior entropy in the objective log p(x) - tau H(z|x), at least 0: 0 is maximum likelihood, 1
    the published objective."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "tau")


class CHMMFE(StagedChainModel):
    """CHMM whose emissions are counted from gold labels and fixed.

    Phi[k,i,j] is the share of votes j of source k where the gold label of train is i, the same for every token;
    Psi[t] = softmax(Linear(e[t])) and p(z0) are trained as in `chmm`. It uses the gold labels of train, and those of
    valid for early stopping. Li et al. 2022, "CHMM-FE".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 15 + [[]] * 5, "first": [[(0, 1, "PER")]] * 20},
    ...     gold=[[(0, 2, "PER")]] * 20,
    ... )
    >>> CHMMFE(encoder="hashing").fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = CHMMFEConfig
    config: CHMMFEConfig
    summary = "reference: chmm with the true emissions, counted from gold"
    supervised = True

    @init_with(CHMMFEConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _train(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Count the emissions, then train the transitions."""
        if train.gold is None:
            raise DataError(f"{self.name} needs gold labels; train has none")
        return super()._train(train, valid, previous, checkpoint_dir)

    def _initialize(self, net: FixedEmissionNetwork, train: Dataset) -> None:
        """Set the transitions from the labels of a simple vote, and the emissions counted from gold labels."""
        InitialMatrices.from_votes(train)._replace(emission=emission_from_gold(train)).initialize(net)

    def _stages(self, net: FixedEmissionNetwork, packed: PackedDataset) -> list[Stage]:
        """One stage that trains p(z0) and the transitions."""
        loss = chain_loss(net, self.config.tau, sample=False)
        return [self._stage("chain", loss, packed, parameter_groups(net))]

    def _build_network(self, data: Dataset) -> FixedEmissionNetwork:
        """An untrained network for these sources and labels."""
        return initialize_chain(FixedEmissionNetwork(*network_sizes(data), self.config), data)


class FixedEmissionNetwork(TransitionNetwork):
    """A network with fixed emissions, the same for every token."""

    def __init__(self, input_dim: int, num_sources: int, num_labels: int, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__(input_dim, num_sources, num_labels, context)
        # Rows by vote, abstain first. The row of abstain stays zero: an abstention is no evidence.
        self.register_buffer("log_emission", torch.zeros(num_sources, num_labels + 1, num_labels))
        self.log_emission: Tensor

    def set_emission(self, log_emission: Tensor) -> None:
        """Set the emissions.  (K, L, L) [source, true label, vote]"""
        self.log_emission[:, 1:] = log_emission.log_softmax(2).transpose(1, 2)

    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Log evidence of the votes; the generator is not used.  -> (N, L)"""
        return constant_log_evidence(self.log_emission, batch)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions, the same for all tokens.  -> (K, L, L)"""
        return self.log_emission[:, 1:].transpose(1, 2).double().exp()
