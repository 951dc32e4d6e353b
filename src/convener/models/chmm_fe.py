"""CHMM with the true emissions, fixed: a reference that sees gold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from convener.config import check_min
from convener.data.dataset import Dataset
from convener.errors import DataError
from convener.models.chmm import CHMM, TokenVoteBatch, constant_log_evidence
from convener.models.fitted import Params
from convener.models.hmm import Floats
from convener.models.initialization import WeightedLabels, emission_from_gold, initialize_chain, network_sizes
from convener.models.neural_chain import NeuralChainConfig
from convener.neural.transition import NO_CONTEXT, ContextConfig, TransitionNetwork


@dataclass(frozen=True, kw_only=True)
class CHMMFEConfig(NeuralChainConfig):
    """Settings of CHMM-FE."""

    smoothing: float = 0.5
    """Votes, spread as the source speaks, that are added to what is counted for each label."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1e-6, "smoothing")


class CHMMFE(CHMM):
    """A chain whose moves are read off each token, and whose emissions are known.

    Phi[k,i,j] = how often source k says j where the gold of train is i, the same for every token
    and not trained; Psi[t] = softmax(Linear(e[t])) and p(z0) are, as in `chmm`. It sees the gold
    of train, and that of valid to stop. Li et al. 2022, "CHMM-FE".

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

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """Count the emissions, then train the moves."""
        if train.gold is None:
            raise DataError(f"{self.name} is a reference that needs gold, and train has none")
        return super()._fit(train, valid, previous)

    def _initial_emission(self, train: Dataset, weighted_labels: WeightedLabels) -> Floats:
        """Those that gold shows: the first and the last.  -> (K, L, L)"""
        return emission_from_gold(train, smoothing=self.config.smoothing)

    def _build_network(self, data: Dataset) -> FixedEmissionNetwork:
        """A network whose emissions are still to be fixed."""
        return initialize_chain(
            FixedEmissionNetwork(*network_sizes(data), self.config.context_config()),
            data,
            legal=self.config.legal,
        )


class FixedEmissionNetwork(TransitionNetwork):
    """Emissions that are known: the same for every token, and not trained."""

    def __init__(self, input_dim: int, num_sources: int, num_labels: int, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__(input_dim, num_sources, num_labels, context)
        # By what was said, abstain first, which is no evidence: its row stays zero.
        self.register_buffer("log_emission", torch.zeros(num_sources, num_labels + 1, num_labels))
        self.log_emission: Tensor

    def set_emission(self, log_emission: Tensor) -> None:
        """Take these emissions.  (K, L, L) [source, latent, said]"""
        self.log_emission[:, 1:] = log_emission.log_softmax(2).transpose(1, 2)

    def log_evidence(self, batch: TokenVoteBatch, generator: Generator | None = None) -> Tensor:
        """Log evidence; nothing is drawn.  -> (N, L)"""
        return constant_log_evidence(self.log_emission, batch)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions it has, whatever the tokens.  -> (K, L, L)"""
        return self.log_emission[:, 1:].transpose(1, 2).double().exp()
