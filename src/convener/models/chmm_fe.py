"""CHMM with the true emissions, fixed: a reference that sees gold."""

from __future__ import annotations

from dataclasses import dataclass

from convener.data import Dataset
from convener.errors import DataError
from convener.models.base import Params
from convener.models.chmm import CHMM
from convener.models.neural import NeuralChainConfig
from convener.nets.chmm import FixedEmissionNetwork
from convener.settings import check_min
from convener.train.chain import Floats
from convener.train.heard import WeightedLabels
from convener.train.start import emission_from_gold, initialize_chain, network_sizes


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
