"""The neural segment model: the segment model with a CRF prior over spans, computed from features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Generator, Tensor

from convener.config import check_min, check_range, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.data.ragged import HELD_OUT_FRACTION, chunk_bounds
from convener.inference.semi_markov import open_spans, segment_posterior
from convener.models.base import FeatureConfig, LabelModel, warn_unused_sources
from convener.models.fitted import Params
from convener.models.neural_segment.decoding import MIN_OPEN_POSTERIOR, LikelySpans
from convener.models.neural_segment.evidence import EvidenceModel, log_unseen_probability
from convener.models.neural_segment.network import ChainScores, SegmentBatch, SegmentCounts, SegmentNetwork, votes_loss
from convener.models.neural_segment.training import SourceUpdates, TrainingSplit
from convener.models.segment.marks import Ints
from convener.models.segment.model import Segment, SegmentState
from convener.models.segment.observations import Floats
from convener.models.segment.sources import SourceParams, e_step
from convener.neural.batch import BLOCK_TOKENS, require_features
from convener.neural.checkpoint import checkpoint_for, load_weights, weights_to_arrays
from convener.neural.training import Stage, TrainingRun, learning_curves, parameter_groups, torch_threads, train_network
from convener.neural.transition import ContextConfig
from convener.storage import select_prefix

BIASES, BIAS_LEARNING_RATE, WEIGHT_DECAY = ("transition", "second", "further"), 1e-2, 1e-5
PRIOR_STRENGTH, CROWD_PRIOR_STRENGTH = 0.3, 1.0
"""Defaults of the setting `prior_strength`: with labeling functions, and if all sources are workers."""
MIN_EPOCHS = 3
"""At least three, so that the sources are updated twice."""
STATE_PREFIX, NETWORK_PREFIX = "segment.", "network."
"""Names of the parameters of the segment model and of the network begin with these."""


@dataclass(frozen=True, kw_only=True)
class NeuralSegmentConfig(ContextConfig, FeatureConfig):
    """Settings of the neural segment model."""

    context_window: int = 2
    """Neighbours on either side of a token whose features score its label, too; at least 0, which uses none."""
    dropout: float = 0.6
    """Share of the feature dimensions that are set to 0 in a training step, in [0, 1); 0 switches it off."""
    max_steps: int = 250
    """Approximate number of training steps, rounded to whole epochs, and at least three epochs; at least 1."""
    learning_rate: float = 1e-3
    """Learning rate of Adam; at least 0."""
    batch_size: int = 64
    """Sentences per batch; at least 1."""
    prior_strength: float | None = None
    """Multiple of the segment model's source counts that is added as a prior; at least 0, which adds none. None is 0.3,
    or 1 if all sources are workers, who have few marks each."""
    dependence: float = 3.0
    """How much labeling functions (sources with unmarked="abstain") depend on each other, at least 0. The log-odds of a
    span on which n of them mark something are divided by 1 + dependence f^2 (n - 1), where f is the estimated share of
    false lone marks. 0 takes the sources as independent."""
    boundary_penalty: float = 5.0
    """Penalty in nats for each token of a span that no source marks, if the token is next to a mark; at least 0."""
    threshold: float | None = None
    """Minimum posterior of a predicted span, in [0, 1]. 0 keeps every span that overlaps no more probable one. None
    is 0.4, or 0.4 (1 - 1 / A)^2 if there are workers (sources with unmarked="outside"), A per token."""
    duplicate_similarity: float = 0.7
    """Jaccard similarity of the marks of two labeling functions from which they are near duplicates and count as one,
    in (0, 1]. 1 merges only sources with equal marks."""
    num_threads: int = 1
    """Number of threads; at least 1. Results do not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "max_steps", "batch_size", "num_threads")
        check_min(self, 0, "learning_rate", "prior_strength", "dependence", "boundary_penalty")
        check_range(self, "[0, 1]", "threshold")
        check_range(self, "(0, 1]", "duplicate_similarity")


class NeuralSegment(LabelModel):
    """The segment model with a CRF prior over spans, computed from features.

    z is a set of disjoint typed spans. Its prior is a conditional random field over segmentations: the labels of each
    token are scored from its features and those of its neighbours, and each span by the type before it (or O) and its
    length. The sources are modeled as in `Segment`. The objective is the log-likelihood of the votes,

        log p(votes | text) = log sum_z exp(score(z) + evidence(z, votes)) - log sum_z exp(score(z))

    where both sums are exact, over a semi-Markov lattice in which tokens that no source marks may be spans as well. The
    evidence of a span is its log-odds in `Segment`, divided by 1 + dependence f^2 (n - 1), without the log-rate of
    spans, which the prior replaces. n is the number of labeling functions with a mark there, and f the estimated share
    of false lone marks. Between epochs the counts of the sources are recomputed from the posterior.

    Sarawagi and Cohen, 2004: Semi-Markov conditional random fields for information extraction. NIPS 17.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> NeuralSegment(encoder="hashing", max_steps=10).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = NeuralSegmentConfig
    config: NeuralSegmentConfig
    summary = "segment with a CRF prior over spans, computed from features"
    needs_features = True

    @init_with(NeuralSegmentConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Fit the segment model, then the network, with updates of the sources between epochs."""
        with torch_threads(self.config.num_threads):
            return self._train(train, valid, previous, checkpoint_dir)

    def _train(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        config = self.config
        warn_unused_sources(train, self.name)
        state = self._segment_state(train, None if previous is None else select_prefix(STATE_PREFIX, previous))
        checkpoint = checkpoint_for(checkpoint_dir, config, train, *([] if valid is None else [valid]))
        splits = self._split(train, valid, state.duplicate_of)
        observed = splits[0].lattice.observed
        log_unseen = log_unseen_probability(observed) if previous is None else previous["log_unseen"]
        net = self._build_network(train, state)
        model = self._evidence_model(state, log_unseen, observed.is_worker)
        initial_scores = self._initialize(net, splits[0], model, state)
        if previous is not None:
            load_weights(net, select_prefix(NETWORK_PREFIX, previous))
        strength = config.prior_strength
        if strength is None:
            strength = CROWD_PRIOR_STRENGTH if observed.is_worker.all() else PRIOR_STRENGTH
        prior = state.counts.scale(strength * observed.num_tokens / float(state.counts.tokens.sum()))
        updates = SourceUpdates(
            net, *splits, model=model, prior=prior, initial_scores=initial_scores, num_threads=config.num_threads
        )
        run = TrainingRun(
            name=self.name,
            seed=config.seed,
            batch_size=config.batch_size,
            weight_decay=WEIGHT_DECAY,
            validation_score=updates.mean_feature_gain if len(splits[1].packed) else None,
            checkpoint=checkpoint,
        )
        history = train_network(net, [self._stage(net, updates)], run)
        params = {STATE_PREFIX + name: array for name, array in state.to_arrays().items()}
        params |= {NETWORK_PREFIX + name: array for name, array in weights_to_arrays(net).items()}
        gains = updates.feature_gain_by_sentence()
        params |= {"log_unseen": log_unseen, "feature_gain": mean_and_error(gains)}
        return params, Diagnostics(learning_curves=learning_curves(history))

    def _split(self, train: Dataset, valid: Dataset | None, duplicate_of: Ints) -> tuple[TrainingSplit, TrainingSplit]:
        """The sentences to train on, shuffled, and the held-out ones."""
        config, held_out = self.config, None
        sentences = np.arange(len(train))
        if valid is None:
            valid = train
            sentences, held_out = train.split_indices(1 - HELD_OUT_FRACTION, seed=config.seed)
        shuffled = sentences[np.random.default_rng(config.seed).permutation(len(sentences))]
        return (
            TrainingSplit.from_dataset(train, duplicate_of, config.batch_size, shuffled),
            TrainingSplit.from_dataset(valid, duplicate_of, config.batch_size, held_out),
        )

    def _segment_state(self, train: Dataset, previous: Params | None) -> SegmentState:
        """Segment-model parameters fitted on train."""
        config = self.config
        segment = Segment(duplicate_similarity=config.duplicate_similarity, num_threads=config.num_threads)
        params, _ = segment._fit(train, None, previous, None)
        return SegmentState.from_arrays(params)

    def _build_network(self, data: Dataset, state: SegmentState) -> SegmentNetwork:
        return SegmentNetwork(require_features(data).dim, len(data.tags.types), self.config, state.counts)

    def _evidence_model(self, state: SegmentState, log_unseen: Floats, is_worker: NDArray[np.bool_]) -> EvidenceModel:
        false_share = float(state.false_share[0])
        return EvidenceModel(
            is_worker=is_worker,
            miss_weight=false_share,
            dependence_rate=self.config.dependence * false_share**2,
            error_rate=state.error_rate**2,
            log_unseen=log_unseen,
            boundary_penalty=self.config.boundary_penalty,
        )

    def _initialize(
        self, net: SegmentNetwork, train: TrainingSplit, model: EvidenceModel, state: SegmentState
    ) -> ChainScores:
        """Set the biases to a Markov chain with the expected counts of the segment model.  -> its scores"""
        lattice, packed, config = train.lattice, train.packed, self.config
        observed = lattice.observed
        params = SourceParams.from_counts(state.counts, observed.is_worker)
        miss_weight = np.where(observed.is_worker, 1.0, model.miss_weight)
        spans = e_step(observed, params, miss_weight, state.adjacency).posterior.spans
        candidates = observed.candidates
        length = candidates.end.astype(np.int64) - candidates.start
        counts = SegmentCounts.from_spans(
            spans, length, candidates.type.astype(np.int64), state.adjacency, observed.num_tokens
        )
        initial_scores = counts.chain_scores()
        net.set_biases(initial_scores)
        independent = replace(model, dependence_rate=0.0)
        packed.evidence = independent.evidence(lattice, state.counts)
        packed.compute_expected_counts(initial_scores, num_threads=config.num_threads)
        return initial_scores

    def _stage(self, net: SegmentNetwork, updates: SourceUpdates) -> Stage:
        """One stage, in which sources are updated between epochs."""
        config, packed = self.config, updates.train.packed

        def loss(batch: SegmentBatch, generator: Generator) -> Tensor:
            return votes_loss(net, batch, generator, config.num_threads)

        max_epochs = max(MIN_EPOCHS, round(config.max_steps / max(1, packed.num_batches)))
        return Stage(
            name="segments",
            loss=loss,
            data=packed,
            trains=parameter_groups(net),
            learning_rate=config.learning_rate,
            learning_rates=dict.fromkeys(BIASES, BIAS_LEARNING_RATE),
            max_epochs=max_epochs,
            patience=max_epochs,
            before_epoch=updates.before_epoch,
        )

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """The best disjoint spans with their probabilities, and the marginals of the labels."""
        state = SegmentState.from_arrays(select_prefix(STATE_PREFIX, params))
        net = self._build_network(data, state)
        load_weights(net, select_prefix(NETWORK_PREFIX, params))
        bounds = pairwise(chunk_bounds(data.offsets, BLOCK_TOKENS).tolist())
        outputs = (self._infer_block(net, state, params["log_unseen"], data[start:stop]) for start, stop in bounds)
        return LabelOutput.concat(outputs, len(data.tags))

    def _infer_block(self, net: SegmentNetwork, state: SegmentState, log_unseen: Floats, data: Dataset) -> LabelOutput:
        config = self.config
        split = TrainingSplit.from_dataset(data, state.duplicate_of, max(len(data), 1))
        lattice = split.lattice
        model = self._evidence_model(state, log_unseen, lattice.observed.is_worker)
        split.packed.evidence = model.evidence(lattice, net.sources)
        (batch,) = split.packed.batches(split.packed.batch_size)
        potentials, offsets = net.potentials(batch, batch.evidence), batch.offsets.numpy()
        posterior = segment_posterior(potentials, offsets, num_threads=config.num_threads)
        opened = open_spans(potentials, offsets, least=MIN_OPEN_POSTERIOR, num_threads=config.num_threads)
        candidates = lattice.candidate_posteriors(posterior.arcs)
        likely = LikelySpans.merge(lattice.observed, candidates, opened, offsets, state.error_rate)
        spans, scores = likely.best(float(state.threshold[0]) if config.threshold is None else config.threshold)
        marginals = posterior.labels / posterior.labels.sum(axis=1, keepdims=True)
        return LabelOutput(data.tags.labels(spans, data.offsets), marginals, scores.astype(np.float32))


def mean_and_error(values: Floats) -> Floats:
    """Mean and its standard error; both are 0 for fewer than two values.  -> (2,)"""
    if len(values) < 2:
        return np.zeros(2)
    return np.array([values.mean(), values.std(ddof=1) / np.sqrt(len(values))])
