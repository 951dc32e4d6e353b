"""Words -> subwords -> windows: sentences longer than a window are covered by overlapping windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.ragged import StringArray, concat_ranges, lengths_to_offsets
from convener.errors import DataError

Ints = NDArray[np.int64]
MAX_WORD_CHARS = 1000
"""Characters of a word that are used; the rest is ignored."""


@dataclass(frozen=True, eq=False)
class Subwords:
    """Ids of all subwords (P,), and the number of subwords of each word (N,)."""

    ids: Ints
    counts: Ints

    @cached_property
    def offsets(self) -> Ints:
        """Offsets of the words, in subwords.  -> (N+1,)"""
        return lengths_to_offsets(self.counts)


class SpecialTokens(NamedTuple):
    """Ids that a tokenizer puts around a sentence, and those of unknown words and padding."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    unknown_id: int
    padding_id: int


def get_special_tokens(tokenizer: Any) -> SpecialTokens:
    """Return the special tokens of a fast tokenizer, found by encoding one word."""
    encoded = tokenizer(["a"], is_split_into_words=True, return_special_tokens_mask=True)
    ids, mask = encoded["input_ids"], encoded["special_tokens_mask"]
    word_positions = [position for position, special in enumerate(mask) if not special]
    candidates = (getattr(tokenizer, f"{kind}_token_id") for kind in ("unk", "mask", "sep", "eos"))
    unknown = next((token_id for token_id in candidates if token_id is not None), None)
    if not word_positions or unknown is None:
        raise DataError(f"{tokenizer.name_or_path}: the tokenizer returns no tokens for a word")
    padding = tokenizer.pad_token_id
    return SpecialTokens(
        tuple(ids[: word_positions[0]]),
        tuple(ids[word_positions[-1] + 1 :]),
        unknown,
        unknown if padding is None else padding,
    )


def tokenize_words(
    tokenizer: Any, tokens: StringArray, offsets: Ints, *, unknown_id: int | None, max_per_word: int
) -> Subwords:
    """Split all words of all sentences into subwords.

    A word without subwords (for example a zero-width space) becomes `unknown_id`, or stays empty if
    that is None. Of a word with more than `max_per_word` subwords the first are kept.
    """
    words = [_clean(word) for word in tokens.to_list()]
    sentences = [words[start:end] for start, end in pairwise(offsets.tolist()) if start < end]
    if not sentences:
        return Subwords(np.zeros(0, np.int64), np.zeros(0, np.int64))
    encodings = tokenizer(sentences, is_split_into_words=True, add_special_tokens=False, verbose=False).encodings
    ids = np.concatenate([np.array(item.ids, np.int64) for item in encodings])
    starts = np.repeat(offsets[:-1][np.diff(offsets) > 0], [len(item.ids) for item in encodings])
    word_ids = np.concatenate([np.array(item.word_ids, np.int64) for item in encodings]) + starts
    counts = np.bincount(word_ids, minlength=len(words))
    first_subword = lengths_to_offsets(counts)[:-1]
    kept_counts = np.clip(counts, 0 if unknown_id is None else 1, max_per_word)
    positions = np.minimum(concat_ranges(first_subword, kept_counts), max(0, len(ids) - 1))
    kept_ids = ids[positions] if len(ids) else np.zeros(int(kept_counts.sum()), np.int64)
    if unknown_id is not None:
        kept_ids[lengths_to_offsets(kept_counts)[:-1][counts == 0]] = unknown_id
    return Subwords(kept_ids, kept_counts)


def _clean(word: str) -> str:
    """Return a word that tokenizers accept: truncated, and valid Unicode."""
    word = word[:MAX_WORD_CHARS]
    return word if word.isascii() else word.encode("utf-8", "replace").decode("utf-8")


class Windows(NamedTuple):
    """Ranges of words that a model processes at once; (W,) each.

    A window covers the words `start` to `end` and provides the vectors of the words `output_start`
    to `output_end`, so that each vector comes from exactly one window. Empty sentences have none.
    """

    start: Ints
    end: Ints
    output_start: Ints
    output_end: Ints


def make_windows(subword_counts: Ints, offsets: Ints, *, max_subwords: int, overlap: float) -> Windows:
    """Return windows of at most `max_subwords` subwords; a sentence that fits is one window.

    subword_counts (N,)  subwords of each word, at most a quarter of `max_subwords`
    offsets (M+1,)       offsets of the sentences, in words
    overlap              share of a window that the next one repeats

    In an overlap the first half of the vectors comes from the earlier window.

    >>> windows = make_windows(np.ones(10, int), np.array([0, 10]), max_subwords=4, overlap=0.5)
    >>> [(int(a), int(b)) for a, b in zip(windows.start, windows.end)]
    [(0, 4), (2, 6), (4, 8), (6, 10)]
    >>> [(int(a), int(b)) for a, b in zip(windows.output_start, windows.output_end)]
    [(0, 3), (3, 5), (5, 7), (7, 10)]
    """
    subword_offsets = lengths_to_offsets(subword_counts)
    start, end = offsets[:-1], offsets[1:]
    fits = subword_offsets[end] - subword_offsets[start] <= max_subwords
    single = (start[fits & (start < end)], end[fits & (start < end)])
    tables = [np.stack([*single, *single])]
    for number in np.flatnonzero(~fits):
        tables.append(_slide_windows(subword_offsets, int(start[number]), int(end[number]), max_subwords, overlap))
    table = np.concatenate(tables, axis=1)
    return Windows(*table[:, np.argsort(table[0], kind="stable")])


def _slide_windows(subword_offsets: Ints, start: int, end: int, max_subwords: int, overlap: float) -> Ints:
    """Return the windows of one long sentence.  -> (4, W)"""
    starts, ends = [start], [_window_end(subword_offsets, start, max_subwords)]
    while ends[-1] < end:
        overlap_start = subword_offsets[ends[-1]] - int(overlap * max_subwords)
        next_start = max(int(np.searchsorted(subword_offsets, overlap_start)), starts[-1] + 1)
        if subword_offsets[end] - subword_offsets[next_start] <= max_subwords:
            # The last window starts as early as possible, which gives its words more context.
            earliest = int(np.searchsorted(subword_offsets, subword_offsets[end] - max_subwords))
            next_start = max(starts[-1] + 1, earliest)
        starts.append(next_start)
        ends.append(min(end, _window_end(subword_offsets, next_start, max_subwords)))
    boundaries = [
        int(np.searchsorted(subword_offsets, (subword_offsets[next_start] + subword_offsets[previous_end]) // 2))
        for next_start, previous_end in zip(starts[1:], ends[:-1], strict=True)
    ]
    windows = np.array([starts, ends, [start, *boundaries], [*boundaries, end]])
    # With large overlap and long words, a window between two others may have no output.
    return windows[:, windows[2] < windows[3]]


def _window_end(subword_offsets: Ints, start: int, max_subwords: int) -> int:
    """Return the end (exclusive) of the window that starts at the word `start`."""
    return int(np.searchsorted(subword_offsets, subword_offsets[start] + max_subwords, side="right")) - 1


def batch_by_length(lengths: Ints, batch_tokens: int) -> list[Ints]:
    """Return batches of window indices of at most `batch_tokens` subwords, padding included.

    Windows are sorted by length to reduce padding; a longer window is a batch of its own.

    >>> [batch.tolist() for batch in batch_by_length(np.array([3, 9, 2, 3]), 9)]
    [[1], [0, 3, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    batches, position = [], 0
    while position < len(order):
        size = max(1, batch_tokens // max(1, int(lengths[order[position]])))
        batches.append(order[position : position + size])
        position += size
    return batches
