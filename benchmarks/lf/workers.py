"""Ten functions on one corpus: with one and two workers, and after one of them was edited."""

from __future__ import annotations

import hashlib
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import convener as cv
from benchmarks.lf.corpus import phrase_numbers, text, words
from convener.data.ragged import StringArray
from convener.lf.apply import ApplyOptions, ApplyResult, apply_with_report
from convener.lf.combinators import propagate
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.pattern import pattern
from convener.lf.validation import Span

TOKENS = 1_000_000
REPEATS = 3
NAME = "X"


def ending(letters: str) -> LabelingFunction:
    """Words that end so, in plain Python."""

    @labeling_function([NAME], name=f"ends in {letters}")
    def ends(view: Doc) -> Iterator[Span]:
        for number, word in enumerate(view):
            if len(word) > 4 and word.endswith(letters):
                yield number, number + 1, NAME

    return ends


def ten(limit: int) -> list[LabelingFunction]:
    """Gazetteers, patterns, plain functions, one of documents; the limit is in one of them."""
    names = words().to_list()
    phrases = [" ".join(names[word] for word in phrase) for phrase in phrase_numbers(20_000)]

    @labeling_function([NAME])
    def long_words(view: Doc) -> list[Span]:
        return [(i, i + 1, NAME) for i, word in enumerate(view) if len(word) > limit]

    return [
        gazetteer(phrases[:10_000], NAME, name="first list"),
        gazetteer(phrases[10_000:], NAME, name="second list", ignore_case=True),
        pattern(r"\b[a-m]{6,}\b", NAME, name="pattern"),
        pattern(r"(?:th|st)\w+ \w+ed", NAME, name="words", match="tokens"),
        ending("ing"),
        ending("ed"),
        ending("s"),
        ending("ly"),
        propagate(ending("ness"), name="everywhere"),
        long_words,
    ]


def digest(result: ApplyResult) -> str:
    """Of the bytes of a file with all votes."""
    with tempfile.TemporaryDirectory() as room:
        cv.write(result.data, Path(room) / "votes.npz")
        return hashlib.sha256((Path(room) / "votes.npz").read_bytes()).hexdigest()


def cpu_seconds() -> float:
    """Of this process and those it has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


def one(run: str, data: cv.Dataset, limit: int, settings: ApplyOptions) -> dict[str, Any]:
    """One run of the ten functions; the digest says whether the votes are the same."""
    functions = ten(limit)
    began, used = time.perf_counter(), cpu_seconds()
    result = apply_with_report(functions, data, settings)
    return {
        "run": run,
        "seconds": time.perf_counter() - began,
        "cpu": cpu_seconds() - used,
        "ran": sum(row.status == "ran" for row in result.stats),
        "votes": digest(result),
    }


def measured() -> list[dict[str, Any]]:
    """With one and two workers, turn about, the best of three; then with the cache."""
    data = text(TOKENS, phrase_numbers(20_000), words())
    data = replace(data, doc_ids=StringArray.from_list(str(number // 20) for number in range(len(data))))
    runs = [
        [one(f"{workers} workers", data, 7, ApplyOptions(workers=workers, cache=False)) for workers in (1, 2)]
        for _ in range(REPEATS)
    ]
    rows = [min(some, key=lambda row: row["seconds"]) for some in zip(*runs, strict=True)]
    with tempfile.TemporaryDirectory() as room:
        for run, limit in (("first", 7), ("again", 7), ("one edited", 6)):
            rows.append(one(f"cache, {run}", data, limit, ApplyOptions(cache=room)))
    return rows
