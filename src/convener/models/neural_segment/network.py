"""The neural prior over segmentations, its training data, and its loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from convener.inference.autograd import segment_log_partition
from convener.inference.semi_markov import SegmentPosterior, SegmentPotentials, SpanEvidence
from convener.models.segment.sources import SourceCounts
from convener.neural.transition import ContextConfig, context_linear

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class SegmentCounts(NamedTuple):
    """Expected counts of segments: transitions (E+1, E+1), second and further tokens of spans (E,)."""

    transition: Floats
    second: Floats
    further: Floats

    @classmethod
    def from_posterior(cls, posterior: SegmentPosterior) -> Self:
        """The counts of a posterior."""
        return cls(posterior.transition, posterior.second, posterior.further)

    @classmethod
    def from_spans(cls, probability: Floats, length: Ints, kind: Ints, num_types: int, num_tokens: int) -> Self:
        """Counts of spans with these probabilities, lengths and types (n,), as if none touched another.

        Half a span of each type is added.
        """
        spans = np.bincount(kind, probability, num_types) + 0.5
        transition = np.zeros((num_types + 1, num_types + 1))
        transition[0, 1:] = transition[1:, 0] = spans
        transition[0, 0] = max(num_tokens - float(probability @ length) - spans.sum(), 1.0)
        # Spans begin after others as often as after O.
        transition[1:, 1:] = np.outer(spans, spans) / transition[0].sum()
        second = np.bincount(kind, probability * (length > 1), num_types) + 0.25
        further = np.bincount(kind, probability * np.maximum(length - 2, 0), num_types) + 0.25
        return cls(transition, second, further)

    def chain_scores(self) -> Self:
        """Scores of the Markov chain over BIO labels with these counts, under which exp(scores) sum to 1."""
        log_next = np.log(self.transition / self.transition.sum(axis=1, keepdims=True))
        spans = self.transition[:, 1:].sum(axis=0)
        log_longer, log_single = np.log(self.second / spans), np.log1p(-self.second / spans)
        stays = self.further / (self.further + self.second)
        log_next[1:] += log_single[:, None]
        return type(self)(log_next, log_longer + np.log1p(-stays) - log_single, np.log(stays))


@dataclass(frozen=True, eq=False)
class SegmentBatch:
    """A view of M sentences with N tokens.

    tokens (N, D) features; offsets (M+1,) token offsets of the sentences; evidence of the votes; expected: the counts
    of segments to expect without features.
    """

    tokens: Tensor
    offsets: Tensor
    evidence: SpanEvidence
    expected: SegmentCounts

    def __len__(self) -> int:
        return len(self.offsets) - 1


class PackedSegments:
    """Sentences in batches of a fixed size, with features in memory. The evidence is replaced between epochs."""

    def __init__(self, tokens: Tensor, offsets: Ints, evidence: SpanEvidence, batch_size: int) -> None:
        self.tokens, self.offsets, self.evidence = tokens, offsets, evidence
        self.batch_size = batch_size
        self.expected: dict[int, SegmentCounts] = {}

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def batch(self, first: int) -> SegmentBatch:
        """The batch that starts with this sentence."""
        offsets = self.offsets[first : first + self.batch_size + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        return SegmentBatch(
            self.tokens[begin:end],
            torch.from_numpy(offsets - begin),
            self.evidence.tokens(begin, end),
            self.expected[first],
        )

    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[SegmentBatch]:
        """Iterate over all batches, in order or, with `rng`, in random order; size is that of construction."""
        firsts = np.arange(0, len(self), size)
        return (self.batch(int(first)) for first in (firsts if rng is None else rng.permutation(firsts)))
