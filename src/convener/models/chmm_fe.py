"""CHMM with fixed emissions counted from gold labels: a reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor

from convener.config import check_min
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.errors import DataError
from convener.models.chmm import CHMM, TokenVoteBatch, constant_log_evidence
from convener.models.fitted import Params
from convener.models.hmm import Floats
from convener.models.initialization import WeightedLabels, emission_from_gold, network_sizes
from convener.models.neural_chain import NeuralChainConfig, initialize_chain
from convener.neural.transition import NO_CONTEXT, ContextConfig, TransitionNetwork


@dataclass(frozen=True, kw_only=True)
class CHMMFEConfig(NeuralChainConfig):
    """Settings of CHMM-FE."""

    smoothing: float = 0.5
    """Number of votes added to the counts of each label, distributed as the votes of the source."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1e-6, "smoothing")


class CHMMFE(CHMM):
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
    summary = "reference: chmm with the true emissions, counted from gold"
    supervised = True

    def _train(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Count the emissions, then train the transitions."""
        if train.gold is None:
            raise DataError(f"{self.name} needs gold labels; train has none")
        return super()._train(train, valid, previous, checkpoint_dir)

    def _initial_emission(self, train: Dataset, weighted_labels: WeightedLabels) -> Floats:
        """Emissions counted from gold labels, which stay fixed.  -> (K, L, L)"""
        return emission_from_gold(train, smoothing=self.config.smoothing)

    def _build_network(self, data: Dataset) -> FixedEmissionNetwork:
        """An untrained network for these sources and labels."""
        return initialize_chain(
            FixedEmissionNetwork(*network_sizes(data), self.config.context_config()),
            data,
            legal=self.config.legal,
        )


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

    def log_evidence(self, batch: TokenVoteBatch, generator: Generator | None = None) -> Tensor:
        """Log evidence of the votes; the generator is not used.  -> (N, L)"""
        return constant_log_evidence(self.log_emission, batch)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions, the same for all tokens.  -> (K, L, L)"""
        return self.log_emission[:, 1:].transpose(1, 2).double().exp()
