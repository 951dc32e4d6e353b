"""The neural prior over segmentations, its training data, and its loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from convener.inference.semi_markov import SegmentPosterior, SegmentPotentials, SpanEvidence, segment_posterior
from convener.inference.semi_markov_autograd import segment_log_partition
from convener.models.segment.observations import Floats, sum_by
from convener.models.segment.sources import SourceCounts
from convener.neural.transition import ContextConfig, TokenBatch, context_linear

Ints = NDArray[np.int64]
SOURCE_PREFIX = "sources_"
"""Prefix of the buffers with the counts of the sources."""


class ChainScores(NamedTuple):
    """Scores of a Markov chain over segments: transitions (E+1, E+1), second and further tokens of spans (E,)."""

    transition: Floats
    second: Floats
    further: Floats


class SegmentCounts(NamedTuple):
    """Expected counts of segments: transitions (E+1, E+1), second and further tokens of spans (E,)."""

    transition: Floats
    second: Floats
    further: Floats

    @classmethod
    def zeros(cls, num_types: int) -> Self:
        """No counts."""
        return cls(np.zeros((num_types + 1, num_types + 1)), np.zeros(num_types), np.zeros(num_types))

    @classmethod
    def from_posterior(cls, posterior: SegmentPosterior) -> Self:
        """The counts of a posterior."""
        return cls(posterior.transition, posterior.second, posterior.further)

    @classmethod
    def from_spans(cls, probability: Floats, length: Ints, kind: Ints, adjacency: Floats, num_tokens: int) -> Self:
        """Counts of spans with these probabilities, lengths and types (n,), as if none touched another.

        Half a span of each type is added. adjacency (E,): log-weight of two touching spans of a type.
        """
        num_types = len(adjacency)
        spans = sum_by(kind, probability, num_types) + 0.5
        transition = np.zeros((num_types + 1, num_types + 1))
        transition[0, 1:] = transition[1:, 0] = spans
        transition[0, 0] = max(num_tokens - float(probability @ length) - spans.sum(), 1.0)
        # Spans begin after those of other types as often as after O.
        transition[1:, 1:] = np.outer(spans, spans) / transition[0].sum() * np.exp(np.diag(adjacency))
        second = sum_by(kind, probability * (length > 1), num_types) + 0.25
        further = sum_by(kind, probability * np.maximum(length - 2, 0), num_types) + 0.25
        return cls(transition, second, further)

    def chain_scores(self) -> ChainScores:
        """Scores of the Markov chain over BIO labels with these counts, under which exp(scores) sum to 1."""
        log_next = np.log(self.transition / self.transition.sum(axis=1, keepdims=True))
        spans = self.transition[:, 1:].sum(axis=0)
        log_longer, log_single = np.log(self.second / spans), np.log1p(-self.second / spans)
        stays = self.further / (self.further + self.second)
        log_next[1:] += log_single[:, None]
        return ChainScores(log_next, log_longer + np.log1p(-stays) - log_single, np.log(stays))


@dataclass(frozen=True, eq=False)
class SegmentBatch:
    """A view of M sentences with N tokens.

    tokens     (N, D) features
    offsets    (M+1,) token offsets of the sentences
    evidence   of the votes
    expected   expected segment counts under the initial chain and the votes, without features
    """

    tokens: Tensor
    offsets: Tensor
    evidence: SpanEvidence
    expected: SegmentCounts

    def __len__(self) -> int:
        return len(self.offsets) - 1


class PackedSegments:
    """Sentences in batches of a fixed size, with features in memory. Training replaces the evidence of the votes."""

    def __init__(self, tokens: Tensor, offsets: Ints, evidence: SpanEvidence, batch_size: int) -> None:
        self.tokens, self.offsets, self.evidence, self.batch_size = tokens, offsets, evidence, batch_size
        num_types = evidence.open_begin.shape[1]
        self.expected = [SegmentCounts.zeros(num_types)] * -(-len(self) // batch_size)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_batches(self) -> int:
        """Number of batches of an epoch."""
        return len(self.expected)

    def compute_expected_counts(self, initial_scores: ChainScores, *, num_threads: int = 1) -> None:
        """Set the expected counts of each batch to those under the evidence and a Markov chain with these scores."""
        label_scores = np.zeros((len(self.tokens), 2 * len(initial_scores.second) + 1), np.float32)
        expected = []
        for batch in self.batches(self.batch_size):
            potentials = SegmentPotentials(label_scores[: len(batch.tokens)], *initial_scores, batch.evidence)
            posterior = segment_posterior(potentials, batch.offsets.numpy(), num_threads=num_threads)
            expected.append(SegmentCounts.from_posterior(posterior))
        self.expected = expected

    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[SegmentBatch]:
        """Iterate over all batches, in order or, with `rng`, in random order; the size must be that of all epochs."""
        if size != self.batch_size:
            raise ValueError(f"batches have {self.batch_size} sentences, not {size}")
        numbers = range(len(self.expected)) if rng is None else rng.permutation(len(self.expected))
        for number in numbers:
            offsets = self.offsets[number * size : (number + 1) * size + 1]
            begin, end = int(offsets[0]), int(offsets[-1])
            yield SegmentBatch(
                self.tokens[begin:end],
                torch.from_numpy(offsets - begin),
                self.evidence.tokens(begin, end),
                self.expected[number],
            )


class SegmentNetwork(nn.Module):
    """Scores of labels from features, biases of segments, and the counts of the sources that training updates.

    label_scores = the features of a token and its neighbours times weights, which are initially zero. The biases
    transition, second and further are as in `semi_markov`.
    """

    def __init__(self, input_dim: int, num_types: int, context: ContextConfig, sources: SourceCounts) -> None:
        super().__init__()
        self.num_labels, self.context = 2 * num_types + 1, context
        self.weight = nn.Parameter(torch.zeros(self.num_labels, input_dim))
        self.context_weight = nn.Parameter(torch.zeros(2 * context.context_window * self.num_labels, input_dim))
        self.transition = nn.Parameter(torch.zeros(num_types + 1, num_types + 1))
        self.second = nn.Parameter(torch.zeros(num_types))
        self.further = nn.Parameter(torch.zeros(num_types))
        # Buffers, so that checkpoints and the best weights of a fit contain them.
        for name, counts in sources._asdict().items():
            self.register_buffer(SOURCE_PREFIX + name, torch.from_numpy(np.array(counts, np.float64)))

    @property
    def biases(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transition (E+1, E+1), second (E,) and further (E,)."""
        return self.transition, self.second, self.further

    @property
    def sources(self) -> SourceCounts:
        """Counts of the sources."""
        return SourceCounts(*(getattr(self, SOURCE_PREFIX + name).numpy() for name in SourceCounts._fields))

    def set_biases(self, initial_scores: ChainScores) -> None:
        """Set the biases to these scores."""
        with torch.no_grad():
            for bias, scores in zip(self.biases, initial_scores, strict=True):
                bias.copy_(torch.from_numpy(scores))

    def set_sources(self, sources: SourceCounts) -> None:
        """Set the counts of the sources."""
        for name, counts in sources._asdict().items():
            getattr(self, SOURCE_PREFIX + name).copy_(torch.from_numpy(counts))

    def label_scores(self, batch: TokenBatch, generator: Generator | None = None) -> Tensor:
        """Scores of the labels; with a generator, dropout of features, the same for all tokens.  -> (N, L)"""
        no_bias = self.weight.new_zeros(self.num_labels)
        own, neighbors = context_linear(batch, self.weight, no_bias, self.context_weight, self.context, generator)
        return own if neighbors is None else own + neighbors

    def potentials(self, batch: TokenBatch, evidence: SpanEvidence) -> SegmentPotentials:
        """Potentials of the posterior given the votes."""
        with torch.no_grad():
            scores = self.label_scores(batch).numpy()
        transition, second, further = (bias.detach().double().numpy() for bias in self.biases)
        return SegmentPotentials(scores, transition, second, further, evidence)


def votes_loss(net: SegmentNetwork, batch: SegmentBatch, generator: Generator | None, num_threads: int = 1) -> Tensor:
    """Loss: mean over sentences of log Z - log Z', the negative log-likelihood of the votes given the features.

    Z sums over the prior, Z' over the prior times the evidence. The weights follow its gradient. The biases do not:
    they follow that of the log-likelihood of the expected counts, log Z - <biases, expected>. With the likelihood of
    the votes they would learn too low a rate of entities, since all sources miss many.
    """
    scores = net.label_scores(batch, generator)
    num_types = len(net.second)
    none = SpanEvidence.none(len(scores), num_types)
    log_prior = segment_log_partition(scores, *net.biases, none, batch.offsets, num_threads=num_threads)
    transition, second, further = (bias.detach() for bias in net.biases)
    log_votes = segment_log_partition(
        scores, transition, second, further, batch.evidence, batch.offsets, num_threads=num_threads
    )
    terms = [(bias * torch.from_numpy(count)).sum() for bias, count in zip(net.biases, batch.expected, strict=True)]
    score = torch.stack(terms).sum()
    return (log_prior.sum() - log_votes.sum() - (score - score.detach())) / len(batch)
