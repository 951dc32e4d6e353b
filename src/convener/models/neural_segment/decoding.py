"""Spans with a posterior: the candidates of the votes, and likely spans that no source marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from convener.data.spans import Spans
from convener.inference.semi_markov import OpenSpans
from convener.inference.span_lattice import SpanLattice, best_configuration, component_order
from convener.models.segment.marks import Ints
from convener.models.segment.observations import Floats, SpanObservations
from convener.models.segment.outputs import calibrated_scores, highest_scores, reported_scores

MIN_OPEN_POSTERIOR = 0.05
"""Spans that no source marks are considered from this probability on."""


@dataclass(frozen=True, eq=False)
class LikelySpans:
    """Spans in the order of a lattice, with their posteriors and the scores to report (n,)."""

    spans: Spans
    lattice: SpanLattice
    posterior: Floats
    score: Floats

    @classmethod
    def merge(
        cls, observed: SpanObservations, posterior: Floats, opened: OpenSpans, offsets: Ints, error_rate: Floats
    ) -> Self:
        """Join candidates, with posteriors (n,), and open spans.

        error_rate (K,): probability that the lone mark of a source is false. A span that no source marks is presumed
        false with the largest of them.
        """
        candidates = observed.candidates
        sentence = np.concatenate([candidates.sentence, opened.sentence])
        start = np.concatenate([candidates.start.astype(np.int64), opened.start])
        end = np.concatenate([candidates.end.astype(np.int64), opened.end])
        kind = np.concatenate([candidates.type.astype(np.int64), opened.type])
        score = np.minimum(posterior, highest_scores(observed, error_rate))
        open_score = np.minimum(opened.posterior, 1 - error_rate.max(initial=0.0))
        if not observed.is_worker.all():
            open_score = calibrated_scores(open_score, np.zeros(len(open_score)))
        # One position more for each sentence, so that spans of different sentences do not touch.
        first = offsets[sentence] - offsets[0] + sentence
        order, components = component_order(first + start, first + end)
        table = np.stack([sentence, start, end, kind], axis=1)[order]
        no_pairs = np.zeros((0, 2), np.int64)
        return cls(
            Spans.from_array(table),
            SpanLattice((first + start)[order], (first + end)[order], components, no_pairs),
            np.concatenate([posterior, opened.posterior])[order],
            np.concatenate([reported_scores(observed, score), open_score])[order],
        )

    def best(self, threshold: float) -> tuple[Spans, Floats]:
        """The disjoint spans with the largest sum of posterior - threshold, in text order, and their scores."""
        chosen = np.flatnonzero(best_configuration(self.lattice, self.posterior - threshold))
        return self.spans.take(chosen), self.score[chosen]
