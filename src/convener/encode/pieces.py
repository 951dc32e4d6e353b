"""Words cut into the pieces that a model knows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.packed import Strings, offsets_of, ranges

Ints = NDArray[np.int64]
LONGEST = 1000
"""Characters of a word that are looked at: nothing longer is a word."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Ids of all pieces (P,), and how many each word has (N,)."""

    ids: Ints
    counts: Ints

    @cached_property
    def before(self) -> Ints:
        """Where the pieces of each word begin.  -> (N+1,)"""
        return offsets_of(self.counts)


class Specials(NamedTuple):
    """What a tokenizer puts around a sentence, and reads where a word yields nothing."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    unknown: int
    padding: int


def specials_of(tokenizer: Any) -> Specials:
    """The special pieces of a fast tokenizer, found by looking at what it makes of a word."""
    encoded = tokenizer(["a"], is_split_into_words=True, return_special_tokens_mask=True)
    ids, mask = encoded["input_ids"], encoded["special_tokens_mask"]
    words = [place for place, special in enumerate(mask) if not special]
    known = (
        tokenizer.unk_token_id,
        tokenizer.mask_token_id,
        tokenizer.sep_token_id,
        tokenizer.eos_token_id,
    )
    unknown = next((number for number in known if number is not None), None)
    if not words or unknown is None:
        raise DataError(f"{tokenizer.name_or_path}: a tokenizer that makes nothing of a word")
    padding = tokenizer.pad_token_id
    return Specials(
        tuple(ids[: words[0]]),
        tuple(ids[words[-1] + 1 :]),
        unknown,
        unknown if padding is None else padding,
    )


def pieces_of(
    tokenizer: Any, tokens: Strings, offsets: Ints, *, unknown: int | None, most: int
) -> Pieces:
    """Cut all words of all sentences.

    A word that yields nothing (a zero-width space, say) is read as `unknown`, or has no piece where
    that is None; of a word that yields more than `most` pieces the first ones are kept.
    """
    words = [_clean(word) for word in tokens.to_list()]
    sentences = [words[start:end] for start, end in pairwise(offsets.tolist()) if start < end]
    if not sentences:
        return Pieces(np.zeros(0, np.int64), np.zeros(0, np.int64))
    cut = tokenizer(
        sentences, is_split_into_words=True, add_special_tokens=False, verbose=False
    ).encodings
    ids = np.concatenate([np.array(item.ids, np.int64) for item in cut])
    starts = np.repeat(offsets[:-1][np.diff(offsets) > 0], [len(item.ids) for item in cut])
    word = np.concatenate([np.array(item.word_ids, np.int64) for item in cut]) + starts
    counts = np.bincount(word, minlength=len(words))
    first = offsets_of(counts)[:-1]
    kept = np.clip(counts, 0 if unknown is None else 1, most)
    places = np.minimum(ranges(first, kept), max(0, len(ids) - 1))
    chosen = ids[places] if len(ids) else np.zeros(int(kept.sum()), np.int64)
    if unknown is not None:
        chosen[offsets_of(kept)[:-1][counts == 0]] = unknown
    return Pieces(chosen, kept)


def _clean(word: str) -> str:
    """A word as tokenizers take it: of bearable length, and Unicode text."""
    word = word[:LONGEST]
    return word if word.isascii() else word.encode("utf-8", "replace").decode("utf-8")
