"""Ten functions on one corpus: with one and two workers, and after one of them was edited."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import convener as cv
from benchmarks.lf.corpus import phrase_numbers, text, words
from convener.lf import LabelingFunction, View, everywhere, gazetteer, labeling_function, pattern
from convener.lf.apply import Settings, applied
from convener.lf.function import Span
from convener.lf.report import Applied
from convener.packed import Strings

TOKENS = 1_000_000
REPEATS = 3
NAME = "X"


def ending(letters: str) -> LabelingFunction:
    """Words that end so, in plain Python."""

    @labeling_function([NAME], name=f"ends in {letters}")
    def ends(view: View) -> Iterator[Span]:
        for number, word in enumerate(view):
            if len(word) > 4 and word.endswith(letters):
                yield number, number + 1, NAME

    return ends


def ten(limit: int) -> list[LabelingFunction]:
    """Gazetteers, patterns, plain functions, one of documents; the limit is in one of them."""
    names = words().to_list()
    phrases = [" ".join(names[word] for word in phrase) for phrase in phrase_numbers(20_000)]

    @labeling_function([NAME])
    def long_words(view: View) -> list[Span]:
        return [(i, i + 1, NAME) for i, word in enumerate(view) if len(word) > limit]

    return [
        gazetteer(phrases[:10_000], NAME, name="first list"),
        gazetteer(phrases[10_000:], NAME, name="second list", ignore_case=True),
        pattern(r"\b[a-m]{6,}\b", NAME, name="pattern"),
        pattern(r"(?:th|st)\w+ \w+ed", NAME, name="words", over="tokens"),
        ending("ing"),
        ending("ed"),
        ending("s"),
        ending("ly"),
        everywhere(ending("ness"), name="everywhere"),
        long_words,
    ]


def digest(result: Applied) -> str:
    """Of the bytes of a file with all votes."""
    with tempfile.TemporaryDirectory() as room:
        cv.write(result.data, Path(room) / "votes.npz")
        return hashlib.sha256((Path(room) / "votes.npz").read_bytes()).hexdigest()


def measured() -> list[dict[str, Any]]:
    """Best of three runs each; the digest says whether the votes are the same."""
    data = text(TOKENS, phrase_numbers(20_000), words())
    data = replace(data, documents=Strings.of(str(number // 20) for number in range(len(data))))
    rows = []
    for workers in (1, 2):
        best = float("inf")
        for _ in range(REPEATS):
            functions = ten(7)
            began = time.perf_counter()
            result = applied(functions, data, Settings(workers=workers, cache=False))
            best = min(best, time.perf_counter() - began)
        rows.append(
            {"run": f"{workers} workers", "seconds": best, "ran": 10, "votes": digest(result)}
        )
    with tempfile.TemporaryDirectory() as room:
        for run, limit in (("first", 7), ("again", 7), ("one edited", 6)):
            functions = ten(limit)
            began = time.perf_counter()
            result = applied(functions, data, Settings(cache=room))
            took = time.perf_counter() - began
            ran = sum(row.how == "ran" for row in result.runs)
            rows.append(
                {"run": f"cache, {run}", "seconds": took, "ran": ran, "votes": digest(result)}
            )
    return rows
