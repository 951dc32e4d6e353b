"""Training of Sparse-CHMM: initial matrices and the three stages of the paper."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn import functional

from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN
from convener.models import initialization
from convener.models.initialization import (
    WeightedLabels,
    add_source,
    emission_counts,
    network_sizes,
    normalize_rows,
    paper_emission,
    paper_transition,
    transition_from_votes,
)
from convener.models.neural_chain import INITIAL_LEARNING_RATE, chain_loss, initialize_chain
from convener.models.sparse_chmm.network import SparseCHMMNetwork
from convener.models.sparse_chmm.prior import reliability_logits
from convener.models.sparse_chmm.wxor import WXORSums, wxor_sums
from convener.neural.batch import Batch, PackedDataset, sentence_features
from convener.neural.training import Stage
from convener.neural.transition import MIN_PROBABILITY, floored_log

if TYPE_CHECKING:
    from convener.models.sparse_chmm.model import SparseCHMMConfig

# The keys are the values of `SparseCHMMConfig.stages`.
STAGE_PLANS = {
    "1": ("transition and reliability",),
    "1-2": ("transition and reliability", "addon"),
    "1-3": ("transition and reliability", "transition"),
    "1-2-3": ("transition and reliability", "addon", "transition"),
    "1-23": ("transition and reliability", "addon and transition"),
}
"""What the stages train, by setting. "addon and transition" trains the parameters of stages 2 and 3 at once, with the
learning rate, the patience and the majority source of stage 2."""
PRETRAINING_EPOCHS, PRETRAINING_LEARNING_RATE = 5, 5e-4
"""Epochs and learning rate of the pre-training by mean squared error, Eq. (7), as in the authors' scripts."""
INITIAL_EMISSION_WEIGHT = 0.2
"""lambda of the paper: weight of Phi* in the emissions on which the addon prior is pre-trained."""
ADDON_SCALE_INIT = -4.0
"""Initial logit of the addon scales C. Starting at 1/2 would reduce every diagonal by a third."""
INITIAL_PRECISION = 0.97
"""Precision of sources whose own is not known, in initial matrices estimated from the votes; the same in all our fits.
It is no setting, since what is known of a source belongs to the data (`Dataset.prior_precision`)."""
MAJORITY_SOURCE = "majority-vote"
TRANSITION_PARAMETERS = ("initial_logits", "transition_layer", "context_weight")


def add_majority_source(data: Dataset, labels: NDArray[np.int16]) -> Dataset:
    """The data with these labels as the votes of an additional, last source."""
    return add_source(data, MAJORITY_SOURCE, labels, "abstain")


def mask_last_source(votes: NDArray[np.int16]) -> NDArray[np.int16]:
    """Votes in which the last source abstains.  (N, K) -> (N, K)"""
    votes = votes.copy()
    votes[:, -1] = ABSTAIN
    return votes


def mse_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """Mean squared difference of matrices (..., L, L) from a target that broadcasts to them: one term of Eq. (7).

    The paper sums over the entries of a matrix; the mean is smaller by a factor of L * L.
    """
    return functional.mse_loss(predicted, target.expand_as(predicted))


class SparseInitialMatrices:
    """Initial matrices: transition Psi* (L, L), emission Phi* (K, L, L) and reliability scores (K, Q)."""

    def __init__(
        self,
        config: SparseCHMMConfig,
        data: Dataset,
        weighted_labels: WeightedLabels,
        nu_base: float,
    ) -> None:
        num_labels = len(data.fine_tags)
        if config.init == "votes":
            counts = emission_counts(data, weighted_labels, default_precision=INITIAL_PRECISION)
            self.transition = transition_from_votes(data, weighted_labels)
            smoothed = initialization.smoothed_emission_counts(
                counts, false_votes=1 - INITIAL_PRECISION, precision=data.prior_precision_or(np.nan)
            )
            self.emission = normalize_rows(smoothed)
            precision = data.prior_precision_or(INITIAL_PRECISION)
            scores = initialization.initial_reliability(counts, counts.sum(axis=1), precision=precision)
        else:
            self.transition = paper_transition(data)
            self.emission = paper_emission(data)
            scores = np.einsum("kii->ki", self.emission)
        # nu_base moves emissions towards uniform: choose the prior whose mean emission is the wanted one.
        nu_expan = config.nu_expan
        total = nu_expan + num_labels * nu_base
        target = np.clip((scores * total - nu_base) / nu_expan, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        if num_scores(data) != num_labels:
            type_target = (target[:, 1::2] + target[:, 2::2]) / 2
            target = np.concatenate([target[:, :1], type_target], axis=1)
        self.reliability = target

    def initialize(self, net: SparseCHMMNetwork) -> None:
        """Set the biases of a network with zero weights, so that it starts at these matrices.

        Transitions are exact; reliability is as close as the softmax over sources, Eq. (1), allows.
        """
        prior = net.prior
        logits = reliability_logits(
            torch.from_numpy(self.reliability).float(),
            h_n=prior.h_n,
            h_s=prior.h_s,
            softmax=prior.softmax,
        )
        with torch.no_grad():
            net.transition_layer.bias.copy_(floored_log(self.transition).reshape(-1))
            net.reliability_layer.bias.copy_(logits.reshape(-1))
            net.addon_layer.bias.fill_(ADDON_SCALE_INIT)


class StageBuilder:
    """Builds the stages of one fit for `neural.training.train_network`."""

    def __init__(
        self,
        config: SparseCHMMConfig,
        net: SparseCHMMNetwork,
        initial: SparseInitialMatrices,
        train: Dataset,
        valid: Dataset,
    ) -> None:
        self.config, self.net, self.initial = config, net, initial
        self.train, self.valid = train, valid
        self.packed = PackedDataset.from_dataset(train, config.offset(train), seed=config.seed)
        self.without_majority = self.packed
        if config.use_mv:
            self.without_majority = self.packed.replace_votes(mask_last_source(self.packed.votes))

    def build(self) -> list[Stage]:
        """Pre-training if the settings ask for it, then the stages of the paper."""
        stages = [self._pretraining_stage()] if self.config.init == "pretrained" else []
        builders: dict[str, Callable[[], list[Stage]]] = {
            "transition and reliability": self._reliability_stages,
            "addon": self._addon_stages,
            "addon and transition": partial(self._addon_stages, with_transition=True),
            "transition": self._transition_stages,
        }
        for part in STAGE_PLANS[self.config.stages]:
            stages += builders[part]()
        return stages

    def _reliability_stages(self) -> list[Stage]:
        """Stage 1: transitions and reliabilities, without the addon prior."""
        trains = (*TRANSITION_PARAMETERS, "reliability_layer")
        window = self.config.score_window
        return [
            self._stage("transition and reliability", trains, score_window=window, on_start=self._start_without_addon)
        ]

    def _transition_stages(self) -> list[Stage]:
        """Stage 3: the transitions alone, without the majority source."""
        return [self._stage("transition", TRANSITION_PARAMETERS, data=self.without_majority)]

    def _stage(self, name: str, trains: tuple[str, ...], **overrides: Any) -> Stage:
        config = self.config
        defaults: dict[str, Any] = {
            "loss": chain_loss(self.net, config.tau, sample=config.dirichlet),
            "data": self.packed,
            "learning_rate": config.learning_rate,
            "max_epochs": config.max_epochs,
            "patience": config.patience,
            "learning_rates": {"initial_logits": INITIAL_LEARNING_RATE},
            "on_start": self._start_later_stage,
        }
        return Stage(name=name, trains=trains, **(defaults | overrides))

    def _addon_stages(self, *, with_transition: bool = False) -> list[Stage]:
        """Stage 2: compute the WXOR scores, pre-train the addon scales C by Eq. (7), then train them."""
        config, net = self.config, self.net

        def on_start() -> None:
            self._start_later_stage()
            mean_emission = net.mean_emission(self.packed.sentences)
            initial = torch.from_numpy(self.initial.emission).float()
            net.addon_target.copy_(INITIAL_EMISSION_WEIGHT * initial + (1 - INITIAL_EMISSION_WEIGHT) * mean_emission)
            net.wxor.copy_(torch.from_numpy(self._wxor_scores()))

        def loss(batch: Batch, _: Generator) -> Tensor:
            return mse_loss(net.emission(batch.sentences), net.addon_target)

        trained = (*TRANSITION_PARAMETERS, "addon_layer") if with_transition else ("initial_logits", "addon_layer")
        return [
            self._stage(
                "addon prior, start",
                ("addon_layer",),
                loss=loss,
                learning_rate=PRETRAINING_LEARNING_RATE,
                max_epochs=PRETRAINING_EPOCHS,
                early_stopping=False,
                on_start=on_start,
            ),
            self._stage(
                "addon prior",
                trained,
                learning_rate=config.addon_learning_rate,
                patience=max(1, config.patience // 4),
            ),
        ]

    def _start_without_addon(self) -> None:
        """Stage 1: no addon prior and the first g_r, also if the network was trained before."""
        self.net.wxor.zero_()
        self.net.g_r.fill_(self.config.g_r_by_stage(self.net.num_labels)[0])

    def _start_later_stage(self) -> None:
        """Stages 2 and 3: the g_r of later stages."""
        self.net.g_r.fill_(self.config.g_r_by_stage(self.net.num_labels)[1])

    def _wxor_scores(self) -> NDArray[np.float64]:
        """WXOR scores W~, Eq. (5), of the splits that the settings name.  -> (K, L, L)"""
        splits = {"both": (self.train, self.valid), "train": (self.train,), "valid": (self.valid,)}
        total: WXORSums | None = None
        for data in (data.without_coarse() for data in splits[self.config.wxor_split]):
            with torch.no_grad():
                scores = self.net.reliability_scores(sentence_features(data))
            sums = wxor_sums(data.votes, data.offsets, scores.numpy())
            total = sums if total is None else total + sums
        return np.zeros(tuple(self.net.wxor.shape)) if total is None else total.scores()

    def _pretraining_stage(self) -> Stage:
        """Pre-training of the paper: mean squared error to the initial matrices, Eq. (7)."""
        transition = torch.from_numpy(self.initial.transition).float()
        emission = torch.from_numpy(self.initial.emission).float()

        def loss(batch: Batch, _: Generator) -> Tensor:
            psi = self.net.transition_logits(batch).softmax(-1)
            return mse_loss(psi, transition) + mse_loss(self.net.emission(batch.sentences), emission)

        return self._stage(
            "pre-training",
            ("transition_layer", "reliability_layer"),
            loss=loss,
            learning_rate=PRETRAINING_LEARNING_RATE,
            max_epochs=PRETRAINING_EPOCHS,
            early_stopping=False,
            on_start=self._start_without_addon,
        )


def num_scores(data: Dataset) -> int:
    """Reliability scores of a source: one per label if there is one type, else one for O and for each type.

    This rule gives the level that the paper's table has for each of its data sets.
    """
    num_types = len(data.fine_tags.types)
    return len(data.fine_tags) if num_types == 1 else 1 + num_types


def build_network(config: SparseCHMMConfig, data: Dataset) -> SparseCHMMNetwork:
    """A network for the sources and labels of the data, with zero weights."""
    net = SparseCHMMNetwork(*network_sizes(data), num_scores(data), config, config)
    return initialize_chain(net, data, config.initial_state)
