"""The segment model: true spans, and sources that mark them or not, once per span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from convener.config import check_fraction, check_min
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.inference.span_lattice import best_configuration
from convener.models.base import LabelModel, RecallPrecision, warn_unused_sources
from convener.models.em import EMConfig, run_em
from convener.models.fitted import Params
from convener.models.segment.marks import Ints, Marks, family_heads, votes_outside
from convener.models.segment.observations import Floats, SpanObservations
from convener.models.segment.prior import ADJACENT, initial_posterior, prior_counts
from convener.models.segment.sources import EStep, SourceCounts, SourceParams, e_step, expected_counts
from convener.storage import select_prefix

OUTSIDE_MISS_WEIGHT = 1.0
OUTSIDE_PRIOR_STRENGTH = 1.0


@dataclass(frozen=True, kw_only=True)
class SegmentConfig(EMConfig):
    """Settings of the segment model."""

    miss_weight: float = 0.1
    prior_strength: float = 5.0
    threshold: float = 0.3
    family_similarity: float = 0.7
    steps: int = 30
    tolerance: float = 1e-7

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction(self, "miss_weight", "family_similarity")
        check_min(self, 0, "prior_strength", "threshold")


class SegmentParams(NamedTuple):
    counts: SourceCounts
    adjacency: Floats
    heads: Ints

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        counts = {f"counts.{name}": array for name, array in self.counts._asdict().items()}
        return counts | {"adjacency": self.adjacency, "heads": self.heads}

    @classmethod
    def from_arrays(cls, arrays: Params) -> Self:
        counts = SourceCounts(**select_prefix("counts.", arrays))
        return cls(counts, arrays["adjacency"], arrays["heads"])


class Segment(LabelModel):
    """Semi-Markov."""

    Config = SegmentConfig
    summary = "disjoint true spans, which each source detects or not, once per span"

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        warn_unused_sources(train, self.name)
        outside, weights = votes_outside(train), self._miss_weights(train)
        marks = Marks.from_dataset(train)
        mark_counts = marks.counts(len(train.sources), len(train.tags.types))
        if previous is None:
            heads = family_heads(marks, ~outside, self.config.family_similarity)
        else:
            heads = previous["heads"]
        observed = SpanObservations.from_dataset(train, marks, heads)
        mark_counts = observed.marks.counts(len(train.sources), len(train.tags.types))
        if previous is None:
            initial, prior, adjacency = self._initialize(observed, mark_counts, weights)
        else:
            restored = SegmentParams.from_arrays(previous)
            initial, prior, adjacency = restored.counts, restored.counts, restored.adjacency

        def step(counts: SourceCounts) -> tuple[SourceCounts, float]:
            params = SourceParams.from_counts(counts, outside)
            result = e_step(observed, params, weights, adjacency)
            value = result.log_likelihood + params.log_likelihood(prior)
            expected = expected_counts(observed, result.lattice.spans, result.covered)
            fixed = ~outside[:, None] & True
            expected = expected._replace(detected=np.where(fixed, 0, expected.detected), missed=np.where(fixed, 0, expected.missed))
            return prior.add(expected), value / max(1, len(train.tokens))

        best, trace = run_em(step, initial, name=self.name, limits=self.config)
        return SegmentParams(best, adjacency, heads).to_arrays(), trace.diagnostics()

    def _initialize(self, observed: SpanObservations, mark_counts: Floats, weights: Floats):
        posterior = initial_posterior(observed, mark_counts)
        outside = observed.outside
        covered = observed.per_mark(posterior, np.zeros(len(observed.lattice.pairs)))
        counts = expected_counts(observed, posterior, covered)
        counts = counts.add(prior_counts(counts, mark_counts, outside))
        adjacency = self._adjacency(observed, mark_counts, counts)
        result = e_step(observed, SourceParams.from_counts(counts, outside), weights, adjacency)
        anchor = expected_counts(observed, result.lattice.spans, result.covered)
        strength = np.where(outside, OUTSIDE_PRIOR_STRENGTH, self.config.prior_strength)
        prior = anchor.scale(strength).add(prior_counts(anchor, mark_counts, outside).scale(1 + strength))
        adjacency = self._adjacency(observed, mark_counts, prior.add(anchor))
        return prior.add(anchor), prior, adjacency

    def _adjacency(self, observed, mark_counts, counts):
        marks = observed.marks; E = observed.num_types
        key = (marks.source * E + marks.type)
        big = int(marks.end.max(initial=0)) + 1
        touching = np.isin(key * big + marks.start, key * big + marks.end)
        adj = np.bincount(marks.type[touching], minlength=E); n = mark_counts.sum(0)
        overall = (adj.sum() + .5) / (n.sum() + ADJACENT)
        rho = (adj + ADJACENT * overall) / (n + ADJACENT)
        return np.minimum(0, np.log(rho * counts.tokens / counts.spans))

    def _miss_weights(self, data: Dataset) -> Floats:
        return np.where(votes_outside(data), OUTSIDE_MISS_WEIGHT, self.config.miss_weight)

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        restored = SegmentParams.from_arrays(params)
        observed = SpanObservations.from_dataset(data, Marks.from_dataset(data), restored.heads)
        weights = self._miss_weights(data)
        table = SourceParams.from_counts(restored.counts, votes_outside(data))
        result = e_step(observed, table, weights, restored.adjacency)
        q = result.lattice.spans
        chosen = best_configuration(observed.lattice, q - self.config.threshold)
        found = observed.candidates.take(chosen)
        order = np.lexsort((found.start, found.sentence))
        labels = data.tags.labels(found.take(order), data.offsets)
        return LabelOutput(labels, np.eye(len(data.tags), dtype=np.float32)[labels], q[chosen][order].astype(np.float32))
