"""Sparse conditional hidden Markov model: reliability scores by sentence, transitions by token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.ragged import hold_out
from convener.models.base import warn_unused_sources
from convener.models.fitted import Params
from convener.models.initialization import complete_coarse_spans, estimate_nu_base
from convener.models.majority_vote import MajorityVote, initial_labels
from convener.models.neural_chain import NeuralChainModel, WeakSupervisionConfig
from convener.models.sparse_chmm.network import SparseCHMMNetwork
from convener.models.sparse_chmm.paper import PaperData, paper_settings
from convener.models.sparse_chmm.prior import SparsePrior
from convener.models.sparse_chmm.training import SparseInitialMatrices, StageBuilder, add_majority_source, build_network
from convener.neural.batch import sentence_features
from convener.neural.checkpoint import load_weights, weights_to_arrays
from convener.neural.training import learning_curves, train_network


@dataclass(frozen=True, kw_only=True)
class SparseCHMMConfig(SparsePrior, WeakSupervisionConfig):
    """Settings of Sparse-CHMM; `SparseCHMM.paper` gives those of the paper."""

    tau: float = 1.0
    """Weight of the posterior entropy in the objective log p(x) - tau H(z|x), at least 0: 0 is maximum likelihood, 1
    the published objective, Eq. (8)."""
    init: Literal["votes", "paper", "pretrained"] = "votes"
    """Initial matrices: estimated from the votes, or Psi* and Phi* of the paper. These are set directly ("paper"), or
    approached by five epochs of mean squared error, Eq. (7), as the paper does ("pretrained")."""
    initial_state: Literal["O", "uniform"] = "O"
    """Initial p(z0): almost surely O, or uniform."""
    stages: Literal["1", "1-2", "1-3", "1-2-3", "1-23"] = "1-2-3"
    """Stages of training: 1 transition and reliability, 2 addon prior, 3 transition; 23 is 2 and 3 at once."""
    patience: int = 5
    """Epochs without a better validation score before a stage stops, at least 1; in stage 2 a quarter of it."""
    score_window: int = 1
    """Number of epochs over which validation scores of stage 1 are averaged before they are compared, at least 1; 1
    compares each."""
    learning_rate: float = 5e-4
    """Learning rate of stages 1 and 3; at least 0."""
    addon_learning_rate: float = 2e-4
    """Learning rate of stage 2; at least 0. In the paper's table it is a fifth of `learning_rate`."""
    use_mv: bool = False
    """Add a majority-vote source in stages 1 and 2; it abstains in stage 3 and in prediction."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "tau", "addon_learning_rate")
        check_min(self, 1, "score_window")


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
    >>> SparseCHMM(encoder="hashing", max_epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = SparseCHMMConfig
    config: SparseCHMMConfig
    summary = "neural transitions by token, source reliabilities by sentence (KDD 2022)"

    @init_with(SparseCHMMConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    @classmethod
    def paper(cls, data: PaperData, **settings: Any) -> Self:
        """The published method with the hyper-parameters of the paper for a data set; `settings` take precedence.

        The paper stops by the gold labels of valid: `fit(train, valid, use_valid_gold=True)`. docs/paper.md lists what
        still differs.

        >>> SparseCHMM.paper("CoNLL", seed=1).config.nu_base
        10.0
        """
        return cls(**(paper_settings(data) | settings))

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
            majority_vote = MajorityVote(scheme="bio", tie_break="random", seed=config.seed)
            train = add_majority_source(train, majority_vote._infer({}, fine).labels)
            valid = add_majority_source(valid, np.full(len(valid.tokens), -1, np.int16))
        net = build_network(config, train)
        if config.nu_base is None:
            votes = train.without_coarse().votes
            net.nu_base.fill_(estimate_nu_base(votes, labels, len(fine.tags.types)))
        initial = SparseInitialMatrices(config, train, complete_coarse_spans(train, labels), float(net.nu_base))
        if previous is not None:
            load_weights(net, previous)
        elif config.init != "pretrained":
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

    def _load_network(self, params: Params, data: Dataset) -> tuple[SparseCHMMNetwork, Dataset]:
        """The fitted network, and the data with the sources that it expects."""
        if self.config.use_mv:
            data = add_majority_source(data, np.full(len(data.tokens), -1, np.int16))
        net = build_network(self.config, data)
        load_weights(net, params)
        return net, data
