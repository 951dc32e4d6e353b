"""Exact inference over segmentations of packed sentences: a semi-Markov chain over tokens.

A segmentation cuts a sentence into segments: single tokens with the label O, and spans of an entity type. States are
O (0) and the types (type + 1). Its score is the sum of

- the transition from the state of each segment to that of the next; before the first segment the state is O
- the score of the BIO label of each token
- for each span, `second` for its second token and `further` for every token after that: with these, the score of a
  length is that of a Markov chain over BIO labels
- for each span, its evidence: an *arc* is one span with a score of its own; every other span is *open*, costs
  `open_begin`, and may only contain tokens with a finite `open_token`.

A span may be open and an arc at once; then it is counted twice. An arc of state 0 is another way to read its tokens as
O: it adds probability to them.

p(z) is exp(score) / Z. All computations are in log space and float64; they are linear in tokens and arcs.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from convener.inference._numba import Array, map_blocks
from convener.inference._segment_pass import posterior_block
from convener.inference._segment_paths import likely_open_spans, viterbi_segments

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


class SegmentPotentials(NamedTuple):
    """Scores of segmentations of sentences with L = 2E + 1 labels; finite but for -inf in `open_token`.

    labels (N, L); transition (E+1, E+1) [state, next state]; second, further (E,); open_token (N,) added for every
    token of an open span; open_begin (E,) added for every open span; arcs.
    """

    labels: Array
    transition: Floats
    second: Floats
    further: Floats
    open_token: Floats
    open_begin: Floats
    arcs: Arcs

    @classmethod
    def prior(cls, labels: Array, transition: Floats, second: Floats, further: Floats) -> Self:
        """Potentials without arcs, in which every span is open."""
        num_tokens, num_types = len(labels), len(second)
        return cls(
            labels, transition, second, further, np.zeros(num_tokens), np.zeros(num_types), Arcs.none(num_tokens)
        )


class SegmentPosterior(NamedTuple):
    """log Z, posteriors, and expected counts: the gradients of the weighted sum of log Z.

    log_partition (M,); labels (N, L) P(label of a token); arcs (A,) P(arc); and, weighted and summed over sentences:
    transition (E+1, E+1), second (E,), further (E,), open_spans (E,), the number of open spans.
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
    """log Z and posteriors of all sentences by the forward-backward algorithm.

    weights (M,) of the sentences in the expected counts, by default 1.
    """
    inputs = _validate(potentials, offsets)
    labels, num_types, num_sentences = inputs.labels, len(inputs.second), len(offsets) - 1
    sentence_weights = np.ones(num_sentences) if weights is None else np.ascontiguousarray(weights, np.float64)
    log_partition, arcs = np.empty(num_sentences), np.empty(len(inputs.arcs.start))
    label_posteriors = np.empty_like(labels)

    def run_block(begin: int, end: int) -> tuple[Floats, ...]:
        totals = (np.zeros((num_types + 1, num_types + 1)), *(np.zeros(num_types) for _ in range(3)))
        posterior_block(
            *inputs[:-1], offsets, begin, end, inputs.arcs, sentence_weights,
            log_partition, label_posteriors, arcs, *totals,
        )  # fmt: skip
        return totals

    sums = [np.zeros((num_types + 1, num_types + 1)), *(np.zeros(num_types) for _ in range(3))]
    for totals in map_blocks(run_block, offsets, labels.shape[1], num_threads):
        for total, part in zip(sums, totals, strict=True):
            total += part
    return SegmentPosterior(log_partition, label_posteriors, arcs, *sums)


def best_segmentation(potentials: SegmentPotentials, offsets: Ints, *, num_threads: int = 1) -> Segmentations:
    """The segmentation with the highest score of each sentence, by the Viterbi algorithm."""
    inputs = _validate(potentials, offsets)
    labels, scores = np.empty(len(inputs.labels), np.int16), np.empty(len(offsets) - 1)

    def run_block(begin: int, end: int) -> None:
        viterbi_segments(*inputs[:-1], offsets, begin, end, inputs.arcs, labels, scores)

    for _ in map_blocks(run_block, offsets, inputs.labels.shape[1], num_threads):
        pass
    return Segmentations(labels, scores)


def open_spans(potentials: SegmentPotentials, offsets: Ints, *, least: float, num_threads: int = 1) -> OpenSpans:
    """All open spans with a posterior of at least `least`, by sentence and start; least > 0."""
    inputs = _validate(potentials, offsets)

    def run_block(begin: int, end: int) -> tuple[Ints, Floats]:
        size = 1024
        while True:
            found, posterior = np.empty((size, 4), np.int64), np.empty(size)
            count = likely_open_spans(*inputs[:-1], offsets, begin, end, inputs.arcs, least, found, posterior)
            if count <= size:
                return found[:count], posterior[:count]
            size = count

    parts = list(map_blocks(run_block, offsets, inputs.labels.shape[1], num_threads))
    rows = np.concatenate([rows for rows, _ in parts])
    return OpenSpans(*rows.T, np.concatenate([posterior for _, posterior in parts]))


def _validate(potentials: SegmentPotentials, offsets: Ints) -> SegmentPotentials:
    """Check shapes; return contiguous arrays."""
    labels = np.ascontiguousarray(potentials.labels)
    num_tokens, num_labels = labels.shape
    num_types = num_labels // 2
    shapes = {
        "transition": (num_types + 1, num_types + 1),
        "second": (num_types,),
        "further": (num_types,),
        "open_token": (num_tokens,),
        "open_begin": (num_types,),
    }
    arrays = {}
    for name, shape in shapes.items():
        array = np.ascontiguousarray(getattr(potentials, name), np.float64)
        if array.shape != shape:
            raise ValueError(f"{name} must be {shape} for labels {labels.shape}, got {array.shape}")
        arrays[name] = array
    if offsets[0] != 0 or offsets[-1] != num_tokens:
        raise ValueError(f"offsets must lead from 0 to {num_tokens}, the number of tokens")
    if len(potentials.arcs.offsets) != num_tokens + 1:
        raise ValueError(f"offsets of arcs must be ({num_tokens + 1},), got {potentials.arcs.offsets.shape}")
    arcs = Arcs(*(np.ascontiguousarray(x, np.int64) for x in potentials.arcs[:3]), potentials.arcs.score)
    score = np.ascontiguousarray(arcs.score, np.float64)
    return SegmentPotentials(labels, **arrays, arcs=arcs._replace(score=score))
