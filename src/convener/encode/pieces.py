"""Words cut into the pieces that a model knows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.packed import StringArray, concat_ranges, lengths_to_offsets

Ints = NDArray[np.int64]
MAX_WORD_CHARS = 1000
"""Characters of a word that are looked at: nothing longer is a word."""


@dataclass(frozen=True, eq=False)
class Subwords:
    """Ids of all pieces (P,), and how many each word has (N,)."""

    ids: Ints
    counts: Ints

    @cached_property
    def offsets(self) -> Ints:
        """Where the pieces of each word begin.  -> (N+1,)"""
        return lengths_to_offsets(self.counts)


class SpecialTokens(NamedTuple):
    """What a tokenizer puts around a sentence, and reads where a word yields nothing."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    unknown_id: int
    padding_id: int


def get_special_tokens(tokenizer: Any) -> SpecialTokens:
    """The special pieces of a fast tokenizer, found by looking at what it makes of a word."""
    encoded = tokenizer(["a"], is_split_into_words=True, return_special_tokens_mask=True)
    ids, mask = encoded["input_ids"], encoded["special_tokens_mask"]
    word_positions = [position for position, special in enumerate(mask) if not special]
    candidates = (
        tokenizer.unk_token_id,
        tokenizer.mask_token_id,
        tokenizer.sep_token_id,
        tokenizer.eos_token_id,
    )
    unknown = next((number for number in candidates if number is not None), None)
    if not word_positions or unknown is None:
        raise DataError(f"{tokenizer.name_or_path}: a tokenizer that makes nothing of a word")
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
    """Cut all words of all sentences.

    A word that yields nothing (a zero-width space, say) is read as `unknown`, or has no piece where
    that is None; of a word that yields more than `most` pieces the first ones are kept.
    """
    words = [_clean(word_ids) for word_ids in tokens.to_list()]
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
    """A word as tokenizers take it: of bearable length, and Unicode text."""
    word = word[:MAX_WORD_CHARS]
    return word if word.isascii() else word.encode("utf-8", "replace").decode("utf-8")
