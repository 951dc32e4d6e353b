"""Training of the neural segment model: the data of a split, and updates of the sources between epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from convener.data.dataset import Dataset
from convener.data.ragged import concat_ranges
from convener.inference.semi_markov import SegmentPotentials, SpanEvidence, segment_posterior
from convener.models.neural_segment.evidence import EvidenceModel, VoteLattice
from convener.models.neural_segment.network import ChainScores, PackedSegments, SegmentBatch, SegmentNetwork
from convener.models.segment.marks import Ints
from convener.models.segment.observations import Floats
from convener.models.segment.sources import SourceCounts
from convener.neural.batch import require_features


@dataclass(frozen=True, eq=False)
class TrainingSplit:
    """Sentences to train on or to score: the votes as a lattice, and the features in batches."""

    lattice: VoteLattice
    packed: PackedSegments

    @classmethod
    def from_dataset(cls, data: Dataset, duplicate_of: Ints, batch_size: int, sentences: Ints | None = None) -> Self:
        """Pack these sentences of a dataset in this order, by default all of them."""
        features = require_features(data)
        rows: slice | Ints = slice(None)
        if sentences is not None:  # features are not copied to the packed ones by way of another dataset
            rows = concat_ranges(data.offsets[:-1][sentences], data.lengths[sentences])
            data = data.with_features(None).take(sentences)
        lattice = VoteLattice.from_dataset(data, duplicate_of)
        tokens = torch.from_numpy(features.token_vectors(rows))
        evidence = SpanEvidence.none(len(tokens), lattice.observed.num_types)
        return cls(lattice, PackedSegments(tokens, data.offsets - data.offsets[0], evidence, batch_size))


class SourceUpdates:
    """Before each epoch: recompute the source counts from the posterior of the network, then the evidence from them."""

    def __init__(
        self,
        net: SegmentNetwork,
        train: TrainingSplit,
        valid: TrainingSplit,
        *,
        model: EvidenceModel,
        prior: SourceCounts,
        initial_scores: ChainScores,
        num_threads: int,
    ) -> None:
        self.net, self.train, self.valid, self.model, self.prior = net, train, valid, model, prior
        self.initial_scores, self.num_threads = initial_scores, num_threads

    def before_epoch(self, epochs_done: int) -> None:
        """Update the sources, except before the first epoch, and the evidence."""
        if epochs_done:
            self.net.set_sources(self.prior.add(self.expected_counts()))
        self.set_evidence()

    def set_evidence(self) -> None:
        """Set the evidence of both splits to that of the present sources."""
        for split in (self.train, self.valid):
            split.packed.evidence = self.model.evidence(split.lattice, self.net.sources)

    def expected_counts(self) -> SourceCounts:
        """Expected counts of the sources on train under the posterior of the network: see `posteriors`."""
        return self.train.lattice.source_counts(self.posteriors())

    def posteriors(self) -> Floats:
        """Posteriors of the candidates on train, whose evidence is replaced by that of the present sources.  -> (n,)"""
        lattice, packed = self.train.lattice, self.train.packed
        packed.evidence = self.model.evidence(lattice, self.net.sources)
        arcs = [self._posterior(batch) for batch in packed.batches(packed.batch_size)]
        return lattice.candidate_posteriors(np.concatenate([np.zeros(0), *arcs]))

    def _posterior(self, batch: SegmentBatch) -> Floats:
        potentials = self.net.potentials(batch, batch.evidence)
        return segment_posterior(potentials, batch.offsets.numpy(), num_threads=self.num_threads).arcs

    def mean_feature_gain(self) -> float:
        """Mean of `feature_gain_by_sentence`."""
        return float(self.feature_gain_by_sentence().mean())

    def feature_gain_by_sentence(self) -> Floats:
        """Gain of each held-out sentence in the log-likelihood of the votes, over the initial biases alone.  -> (M,)

        The evidence of both splits is recomputed first, from the present sources.
        """
        self.set_evidence()
        packed, gains = self.valid.packed, [np.zeros(0)]
        for batch in packed.batches(packed.batch_size):
            potentials = self.net.potentials(batch, batch.evidence)
            without = SegmentPotentials(np.zeros_like(potentials.labels), *self.initial_scores, batch.evidence)
            gains.append(self._log_likelihood(potentials, batch) - self._log_likelihood(without, batch))
        return np.concatenate(gains)

    def _log_likelihood(self, potentials: SegmentPotentials, batch: SegmentBatch) -> Floats:
        """Log-likelihood of the votes of each sentence, up to what does not depend on the prior.  -> (M,)"""
        offsets, num_types = batch.offsets.numpy(), len(potentials.second)
        prior = potentials._replace(evidence=SpanEvidence.none(len(batch.tokens), num_types))
        with_votes, without = (
            segment_posterior(x, offsets, num_threads=self.num_threads).log_partition for x in (potentials, prior)
        )
        gained: Floats = with_votes - without
        return gained
