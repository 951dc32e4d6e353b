"""Sparse conditional hidden Markov model: reliability scores by sentence, transitions by token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from convener.config import check_fraction, check_min
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.ragged import hold_out
from convener.models.base import warn_unused_sources
from convener.models.fitted import Params
from convener.models.initialization import complete_coarse_spans, estimate_nu_base
from convener.models.majority_vote import MajorityVote, initial_labels
from convener.models.neural_chain import NeuralChainModel, WeakSupervisionConfig
from convener.models.sparse_chmm.network import SparseCHMMNetwork, SparsePrior
from convener.models.sparse_chmm.training import SparseInitialMatrices, StageBuilder, add_majority_source, build_network
from convener.neural.batch import sentence_features
from convener.neural.checkpoint import load_weights, weights_to_arrays
from convener.neural.training import learning_curves, train_network


@dataclass(frozen=True, kw_only=True)
class SparseCHMMConfig(WeakSupervisionConfig):
    """Settings of Sparse-CHMM; the paper's symbols in brackets."""

    level: Literal["label", "entity"] | None = None
    """One reliability score per label or per entity type; by default per label if there is only one type."""
    steepness: float = 1.2
    """Exponent n of the scaling function h, Eq. (2) [h_n]; positive. If `root` is 1, too, 1 switches h off."""
    root: float = 3.0
    """Exponent s of the scaling function h, Eq. (2) [h_s]; positive."""
    exponent: float = 4.0
    """Exponent n of the expansion function g, Eq. (4) [g_n]; at least 1."""
    turn: float = 0.05
    """Split point r of the expansion function g in stage 1, as a multiple of 1/L, in (0, 1] [g_r (S1)]."""
    later_turn: float | None = None
    """The same in stages 2 and 3 [g_r (S2,3)]; by default as in stage 1."""
    base: float | None = None
    """Minimum concentration of the Dirichlet distributions [nu_base]: it bounds the evidence of a single vote. By
    default estimated from the votes, see `models.initialization.estimate_nu_base`."""
    expand: float = 1000.0
    """Scale of the priors in the concentration [nu_expan]; a larger one gives less variance."""
    tau: float = 1.0
    """Weight of the posterior entropy in the objective log p(x) - tau H(z|x): 0 is maximum likelihood, 1 the published
    objective, Eq. (8)."""
    stages: Literal["1", "1-2", "1-3", "1-2-3", "1-23"] = "1-2-3"
    """Stages of training: 1 transition and reliability, 2 addon prior, 3 transition; 23 is 2 and 3 at once."""
    patience: int = 5
    """Epochs without a better validation score before a stage stops; in stage 2 a quarter of it."""
    smooth: int = 1
    """Number of epochs over which validation scores of stage 1 are averaged before they are compared."""
    lr: float = 5e-4
    """Learning rate of stages 1 and 3."""
    expansion_lr: float = 2e-4
    """Learning rate of stage 2."""
    use_mv: bool = False
    """Add a majority-vote source in stages 1 and 2; it abstains in stage 3 and in prediction."""
    precision: float = 0.97
    """Assumed precision of sources whose own is not known, for initial matrices estimated from the votes; in (0, 1]."""
    pretraining: bool = False
    """Approach the initial matrices by five epochs of mean squared error, Eq. (7), instead of setting them directly."""
    uniform_start: bool = False
    """Initialize p(z0) as uniform instead of almost surely O."""
    dirichlet: bool = True
    """Sample emissions from Dirichlet distributions in training; otherwise use their mean."""
    softmax: bool = True
    """Softmax over the sources, Eq. (1); otherwise a sigmoid for each."""
    naive: bool = False
    """Distribute the off-diagonal probability evenly, without the expansion function, Eq. (3)."""
    wxor: Literal["both", "train", "valid"] = "both"
    """Splits from which the WXOR scores, Eq. (5), are computed."""
    published_wxor: bool = False
    """Compute the WXOR scores as the authors' code does: see `sparse_chmm.wxor`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "exponent")
        check_min(self, 0, "expansion_lr")
        check_min(self, 1e-6, "steepness", "root", "base", "expand")
        check_fraction(self, "turn", "later_turn", "precision")

    def prior(self) -> SparsePrior:
        """Parameters of the emission prior."""
        return SparsePrior(
            h_n=self.steepness,
            h_s=self.root,
            g_n=self.exponent,
            nu_base=1.0 if self.base is None else self.base,
            nu_expan=self.expand,
            softmax=self.softmax,
            naive=self.naive,
        )


class SparseCHMM(NeuralChainModel):
    """Hidden Markov model with transitions predicted from tokens and source reliability predicted from sentences.

    Transitions Psi[t] = softmax(Linear(e[t])); reliability scores A~ = h(softmax over sources(Linear(e0))), Eq. (1)
    and (2); emissions Phi[k,i] ~ Dirichlet(nu_expan (Lambda(A~) + Delta) + nu_base). The base prior Lambda, Eq. (3) and
    Eq. (4), assigns errors mostly to O; the addon prior Delta, Eq. (6), assigns them to labels on which sources
    disagree, Eq. (5). Three stages train transition and reliability, then the scales of Delta, then the transition, by
    gradient ascent on log p(x) - tau H(z|x), which is Q, Eq. (8), for tau = 1. docs/paper.md maps each equation to a
    function. For unmarked tokens see `models.vote_evidence.VoteEvidence`.

    Li, Song, Zhang: Sparse Conditional Hidden Markov Model for Weakly Supervised Named Entity Recognition. KDD 2022.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> SparseCHMM(encoder="hashing", epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = SparseCHMMConfig
    summary = "neural transitions by token, source reliabilities by sentence (KDD 2022)"

    def _train(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Train all stages from the initial matrices, or from the weights of an earlier fit."""
        config = self.config
        warn_unused_sources(train, self.name)
        train, valid = hold_out(train, valid, config.seed)
        fine = train.without_coarse()
        labels = initial_labels(fine)
        if config.use_mv:
            majority_vote = MajorityVote(scheme="bio", ties="random", seed=config.seed)
            train = add_majority_source(train, majority_vote._infer({}, fine).labels)
            valid = add_majority_source(valid, np.full(len(valid.tokens), -1, np.int16))
        net = build_network(config, train, self._num_scores(train))
        if config.base is None:
            votes = train.without_coarse().votes
            net.nu_base.fill_(estimate_nu_base(votes, labels, len(fine.tags.types)))
        initial = SparseInitialMatrices(
            config, train, complete_coarse_spans(train, labels), net.num_scores, float(net.nu_base)
        )
        if previous is not None:
            load_weights(net, previous)
        elif not config.pretraining:
            initial.initialize(net)
        stages = StageBuilder(config, net, initial, train, valid).build()
        sentences = sentence_features(train)
        initial_emission = net.mean_emission(sentences).numpy()
        history = train_network(net, stages, self._training_run(net, train, valid, checkpoint_dir))
        return weights_to_arrays(net), Diagnostics(
            emission=net.mean_emission(sentences).double().numpy(),
            initial_emission=initial_emission,
            learning_curves=learning_curves(history),
        )

    def reliability_scores(self, data: Dataset) -> NDArray[np.float32]:
        """Reliability scores A~ of every source the model uses, by sentence and label.  -> (M, K, L)"""
        data = self._prepare_features(self.fitted.selection.apply(self._match(data)))
        net, _ = self._load_network(self.fitted.params, data)
        with torch.no_grad():
            scores: NDArray[np.float32] = net.reliability_scores(sentence_features(data)).numpy()
        return scores[:, : len(data.sources)]

    def _num_scores(self, data: Dataset) -> int:
        types = len(data.fine_tags.types)
        level = self.config.level or ("label" if types == 1 else "entity")
        return len(data.fine_tags) if level == "label" else 1 + types

    def _load_network(self, params: Params, data: Dataset) -> tuple[SparseCHMMNetwork, Dataset]:
        """The fitted network, and the data with the sources that it expects."""
        if self.config.use_mv:
            data = add_majority_source(data, np.full(len(data.tokens), -1, np.int16))
        net = build_network(self.config, data, self._num_scores(data))
        load_weights(net, params)
        return net, data
