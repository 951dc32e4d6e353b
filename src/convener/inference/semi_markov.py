"""Exact inference over segmentations of packed sentences: a semi-Markov chain over tokens.

A segmentation cuts a sentence into segments: single tokens with the label O, and spans of an entity type. States are
O (0) and the types (type + 1). Its score is the sum of

- the transition from the state of each segment to that of the next; before the first segment the state is O
- the score of the BIO label of each token
- for each span, `second` for its second token and `further` for every token after that: with these, the score of a
  length is that of a Markov chain over BIO labels
- for each span, its evidence: an *arc* is one span with a score of its own; every other span is *open*, scores
  `open_begin`, and may only contain tokens with a finite `open_token`.

A span that is open and an arc counts twice. An arc of state 0 is another way to read its tokens as O.

p(z) is exp(score) / Z. All computations are in log space and float64; they are linear in tokens and arcs.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from convener.inference._numba import Array, map_blocks
from convener.inference._segment_pass import posterior_block
from convener.inference._segment_paths import open_span_block, viterbi_block

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Arcs(NamedTuple):
    """Spans with a score of their own, by their last token.

    offsets (N+1,): those whose last token is n have the indices offsets[n] to offsets[n + 1]; start (A,) first token,
    counted over all sentences; state (A,) type + 1, or 0 for O; score (A,).
    """

    offsets: Ints
    start: Ints
    state: Ints
    score: Floats

    @classmethod
    def none(cls, num_tokens: int) -> Self:
        """No arcs."""
        empty = np.zeros(0, np.int64)
        return cls(np.zeros(num_tokens + 1, np.int64), empty, empty, np.zeros(0))

    def tokens(self, begin: int, end: int) -> Self:
        """The arcs of the tokens `begin` to `end` (exclusive), which are complete sentences."""
        offsets = self.offsets[begin : end + 1]
        part = slice(int(offsets[0]), int(offsets[-1]))
        return type(self)(offsets - offsets[0], self.start[part] - begin, self.state[part], self.score[part])


class SpanEvidence(NamedTuple):
    """Evidence of spans.

    open_token (N,) added for every token of an open span, -inf where there is none; open_begin (G, E) added for every
    open span, by the group of its first token; open_group (N,) groups of tokens; arcs.
    """

    open_token: Floats
    open_group: Ints
    open_begin: Floats
    arcs: Arcs

    @classmethod
    def none(cls, num_tokens: int, num_types: int) -> Self:
        """No evidence: every span is open and costs nothing."""
        return cls(
            np.zeros(num_tokens), np.zeros(num_tokens, np.int64), np.zeros((1, num_types)), Arcs.none(num_tokens)
        )

    def tokens(self, begin: int, end: int) -> Self:
        """The evidence of the tokens `begin` to `end` (exclusive), which are complete sentences."""
        part = slice(begin, end)
        arcs = self.arcs.tokens(begin, end)
        return type(self)(self.open_token[part], self.open_group[part], self.open_begin, arcs)


class SegmentPotentials(NamedTuple):
    """Scores of segmentations of sentences with L = 2E + 1 labels; finite but for -inf in `evidence.open_token`.

    labels (N, L); transition (E+1, E+1) [state, next state]; second, further (E,); evidence.
    """

    labels: Array
    transition: Floats
    second: Floats
    further: Floats
    evidence: SpanEvidence


class SegmentPosterior(NamedTuple):
    """Log Z, posteriors, and expected counts: the gradients of the weighted sum of log Z.

    log_partition (M,); labels (N, L) P(label of a token); arcs (A,) P(arc); and, weighted and summed over sentences:
    transition (E+1, E+1), second (E,), further (E,), open_spans (G, E), the number of open spans.
    """

    log_partition: Floats
    labels: Array
    arcs: Floats
    transition: Floats
    second: Floats
    further: Floats
    open_spans: Floats


class OpenSpans(NamedTuple):
    """Open spans and their posteriors: sentence, start, end, type, posterior (S,)."""

    sentence: Ints
    start: Ints
    end: Ints
    type: Ints
    posterior: Floats


class Segmentations(NamedTuple):
    """Labels (N,) int16 of the best segmentation of each sentence, and its score (M,)."""

    labels: NDArray[np.int16]
    scores: Floats


def segment_posterior(
    potentials: SegmentPotentials, offsets: Ints, *, weights: Array | None = None, num_threads: int = 1
) -> SegmentPosterior:
    """Log Z and posteriors of all sentences by the forward-backward algorithm.

    offsets (M+1,) of the sentences; weights (M,) of the sentences in the expected counts, by default 1.
    """
    inputs = _kernel_inputs(potentials, offsets)
    num_types, num_sentences = len(potentials.second), len(offsets) - 1
    shapes = ((num_types + 1, num_types + 1), (num_types,), (num_types,), potentials.evidence.open_begin.shape)
    sentence_weights = np.ones(num_sentences) if weights is None else np.ascontiguousarray(weights, np.float64)
    log_partition, labels = np.empty(num_sentences), np.empty_like(inputs.chain[0])
    arcs = np.empty(len(inputs.arcs.start))

    def run_block(begin: int, end: int) -> tuple[Floats, ...]:
        totals = tuple(np.zeros(shape) for shape in shapes)
        posterior_block(*inputs, offsets, begin, end, sentence_weights, log_partition, labels, arcs, totals)
        return totals

    result = [np.zeros(shape) for shape in shapes]
    for totals in map_blocks(run_block, offsets, labels.shape[1], num_threads):
        for total, part in zip(result, totals, strict=True):
            total += part
    return SegmentPosterior(log_partition, labels, arcs, *result)


def best_segmentation(potentials: SegmentPotentials, offsets: Ints, *, num_threads: int = 1) -> Segmentations:
    """The segmentation with the highest score of each sentence, by the Viterbi algorithm."""
    inputs = _kernel_inputs(potentials, offsets)
    labels, scores = np.empty(len(potentials.labels), np.int16), np.empty(len(offsets) - 1)

    def run_block(begin: int, end: int) -> None:
        viterbi_block(*inputs, offsets, begin, end, labels, scores)

    for _ in map_blocks(run_block, offsets, potentials.labels.shape[1], num_threads):
        pass
    return Segmentations(labels, scores)


def open_spans(potentials: SegmentPotentials, offsets: Ints, *, least: float, num_threads: int = 1) -> OpenSpans:
    """All open spans with a posterior of at least `least` > 0, by sentence and start."""
    inputs = _kernel_inputs(potentials, offsets)

    def run_block(begin: int, end: int) -> tuple[Ints, Floats]:
        size = 1024
        while True:
            found, posterior = np.empty((size, 4), np.int64), np.empty(size)
            count = open_span_block(*inputs, offsets, begin, end, least, found, posterior)
            if count <= size:
                return found[:count], posterior[:count]
            size = count

    parts = list(map_blocks(run_block, offsets, potentials.labels.shape[1], num_threads))
    sentence, start, end, kind = np.concatenate([rows for rows, _ in parts]).T
    return OpenSpans(sentence, start, end, kind, np.concatenate([posterior for _, posterior in parts]))


class _KernelInputs(NamedTuple):
    """Contiguous inputs as the kernels take them."""

    chain: tuple[Array, Floats, Floats, Floats]
    opens: tuple[Floats, Ints, Floats]
    arcs: Arcs


def _kernel_inputs(potentials: SegmentPotentials, offsets: Ints) -> _KernelInputs:
    """Check shapes and convert precisions; label scores keep theirs."""
    labels, transition, second, further, (open_token, open_group, open_begin, arcs) = potentials
    num_tokens, num_types = len(labels), labels.shape[1] // 2
    shapes = {
        "transition": (transition, (num_types + 1, num_types + 1)),
        "second": (second, (num_types,)),
        "further": (further, (num_types,)),
        "open_token": (open_token, (num_tokens,)),
        "open_group": (open_group, (num_tokens,)),
        "open_begin": (open_begin, (len(open_begin), num_types)),
        "offsets of arcs": (arcs.offsets, (num_tokens + 1,)),
    }
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise ValueError(f"{name} must be {shape} for labels {labels.shape}, got {array.shape}")
    if offsets[0] != 0 or offsets[-1] != num_tokens:
        raise ValueError(f"offsets must lead from 0 to {num_tokens}, the number of tokens")
    return _KernelInputs(
        (np.ascontiguousarray(labels), _doubles(transition), _doubles(second), _doubles(further)),
        (_doubles(open_token), _integers(open_group), _doubles(open_begin)),
        Arcs(_integers(arcs.offsets), _integers(arcs.start), _integers(arcs.state), _doubles(arcs.score)),
    )


def _doubles(array: Array) -> Floats:
    return np.ascontiguousarray(array, np.float64)


def _integers(array: Array) -> Ints:
    return np.ascontiguousarray(array, np.int64)
