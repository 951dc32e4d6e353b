"""Sparse conditional hidden Markov model: reliabilities by sentence, transitions by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from convener.config import check_fraction, check_min
from convener.data import diagnostics
from convener.data.dataset import Dataset
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
    """One reliability per label or per entity type; by default per label where one type is all."""
    steepness: float = 1.2
    """Of the scaling function [h_n]. With `root`, 1 and 1 leave it out."""
    root: float = 3.0
    """Of the scaling function [h_s]."""
    exponent: float = 4.0
    """Of the expansion function [g_n]."""
    turn: float = 0.05
    """Turning point of the expansion function in stage 1, as a share of 1/L [g_r (S1)]."""
    later_turn: float | None = None
    """The same in later stages [g_r (S2,3)]; as in stage 1 unless set."""
    base: float | None = None
    """Least concentration of the Dirichlet laws [nu_base]: how much a mark is worth at most. By
    default estimated, see `kernels.priors.least_concentration`."""
    expand: float = 1000.0
    """Concentration that the priors are given [nu_expan]."""
    tau: float = 1.0
    """Objective log p(x) - tau H(z|x): 0 is plain likelihood, 1 the published objective."""
    stages: Literal["1", "1-2", "1-3", "1-2-3", "1-23"] = "1-2-3"
    """Which stages are trained: 1 transition and reliability, 2 addon prior, 3 transition; 23 is
    both at once."""
    patience: int = 5
    """Epochs without a better score before a stage ends; in stage 2 a quarter of it."""
    smooth: int = 1
    """Epochs over which scores of stage 1 are averaged before they are compared."""
    lr: float = 5e-4
    expansion_lr: float = 2e-4
    """Learning rate of stage 2."""
    use_mv: bool = False
    """Add a majority-vote source for stages 1 and 2."""
    precision: float = 0.97
    """Share of a source's marks that are presumed right where the start is estimated and the
    source's own precision is not known."""
    pretraining: bool = False
    """Reach the starting matrices by the paper's epochs of squared error instead of at once."""
    uniform_start: bool = False
    """Start p(z0) uniform instead of almost surely O."""
    dirichlet: bool = True
    """Draw emissions from Dirichlet laws while training; otherwise take their mean."""
    softmax: bool = True
    """Let sources share their reliability for a label; otherwise each has a sigmoid."""
    naive: bool = False
    """Spread what is wrong evenly, without the expansion function."""
    wxor: Literal["both", "train", "valid"] = "both"
    """Sentences from which the weighted XOR is counted."""
    published_wxor: bool = False
    """The weighted XOR as in the published code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "exponent")
        check_min(self, 0, "expansion_lr")
        check_min(self, 1e-6, "steepness", "root", "base", "expand")
        check_fraction(self, "turn", "later_turn", "precision")

    def prior(self) -> SparsePrior:
        """How scores become emissions."""
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
    """A chain whose moves are read off each token, and whose sources are trusted by sentence.

    Psi[t] = softmax(Linear(e[t])); scores A~ = h(softmax_k(Linear(e0))); emissions
    Phi[k,i] ~ Dirichlet(nu_expan (Lambda(A~) + Delta) + nu_base), where Lambda gives what is not
    right mostly to O, and Delta to what others say instead (weighted XOR). Stages train
    transition and reliability, then Delta's scales, then the transition, by gradient ascent on
    log p(x) - tau H(z|x). Li et al. 2022, "Sparse Conditional Hidden Markov Model for Weakly
    Supervised Named Entity Recognition". By default silence is read as in `train.neural.Reading`.

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

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """Three stages from starting matrices, or on from an earlier fit."""
        config = self.config
        warn_unused_sources(train, self.name)
        torch.set_num_threads(config.threads)
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
        initial_diagnostics = diagnostics.initial_emission(net.mean_emission(sentences).numpy())
        history = train_network(net, stages, self._training_run(net, train, valid))
        emission = net.mean_emission(sentences).double().numpy()
        return weights_to_arrays(net) | {"emissions": emission} | initial_diagnostics | learning_curves(history)

    def reliability_scores(self, data: Dataset) -> NDArray[np.float32]:
        """Reliability scores of every source heard for every label, by sentence.  -> (M, K, L)"""
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
        """The network, and data with the sources it knows."""
        if self.config.use_mv:
            data = add_majority_source(data, np.full(len(data.tokens), -1, np.int16))
        net = build_network(self.config, data, self._num_scores(data))
        load_weights(net, params)
        return net, data
