"""`python -m benchmarks.speed.lf [TOKENS]`: a gazetteer of 500 thousand phrases, workers, the cache.

The gazetteers run in processes of their own, one thread each, skweak's on a part of the text.
"""

from __future__ import annotations

import hashlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from benchmarks.harness.cli import simple_parser
from benchmarks.harness.data import make_dataset
from benchmarks.harness.results import RESULTS, save_tables
from benchmarks.harness.timing import call_in_process, is_installed, peak_memory, reset_peak_memory
from convener.data.ragged import StringArray, concat_ranges, lengths_to_offsets
from convener.lf.apply import ApplyOptions, ApplyResult, apply_with_report
from convener.lf.combinators import propagate
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.pattern import pattern
from convener.lf.validation import Span

SEED = 1
TYPE = "X"
PHRASES, TOKENS, COMPARED_TOKENS = 500_000, 10_000_000, 500_000
"""Phrases and tokens for the gazetteer; tokens on which it is compared with skweak's."""
WORKER_TOKENS, WORKER_PHRASES, REPEATS = 1_000_000, 20_000, 3
SMOKE_PHRASES, SMOKE_TOKENS = 500, 2_000
VOCABULARY, COMMON_WORDS = 300_000, 1000
"""Words in all, and those that occur in every text."""
SENTENCE_LENGTH, PHRASE_RATE = 25, 0.02
"""Share of positions at which a phrase begins, matches by chance not counted."""
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"


def vocabulary() -> StringArray:
    """Distinct words of two to eight letters."""
    rng = np.random.default_rng(SEED)
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        lengths = rng.integers(2, 9, size=VOCABULARY)
        letters = rng.integers(len(LETTERS), size=int(lengths.sum()))
        text = "".join(LETTERS[letter] for letter in letters.tolist())
        bounds = lengths_to_offsets(lengths).tolist()
        found |= dict.fromkeys(text[a:b] for a, b in pairwise(bounds))
    return StringArray.from_list(list(found)[:VOCABULARY])


def draw_phrases(count: int) -> list[tuple[int, ...]]:
    """Distinct phrases of one to four words as indices into the vocabulary; one word at least is rare."""
    rng = np.random.default_rng(SEED + 1)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        sizes = rng.choice([1, 2, 3, 4], size=count, p=[0.2, 0.4, 0.25, 0.15])
        common = rng.zipf(1.1, size=int(sizes.sum())) % VOCABULARY
        rare = rng.integers(COMMON_WORDS, VOCABULARY, size=int(sizes.sum()))
        drawn = np.where(rng.random(len(rare)) < 0.5, common, rare).tolist()
        for first, last in pairwise(lengths_to_offsets(sizes).tolist()):
            phrase = tuple(drawn[first:last])
            if max(phrase) >= COMMON_WORDS:  # a list with "of the" would mark everything
                found[phrase] = None
    return list(found)[:count]


def draw_text(tokens: int, phrases: list[tuple[int, ...]], words: StringArray) -> cv.Dataset:
    """Sentences of 25 words with Zipf frequencies, and phrases of the list among them."""
    rng = np.random.default_rng(SEED + 2)
    numbers = rng.zipf(1.2, size=tokens) % VOCABULARY
    starts = np.flatnonzero(rng.random(tokens) < PHRASE_RATE)
    chosen = [phrases[item] for item in rng.integers(len(phrases), size=len(starts)).tolist()]
    sizes = np.array([len(phrase) for phrase in chosen])
    fits = starts + sizes <= tokens
    cells = concat_ranges(starts[fits], sizes[fits])
    numbers[cells] = [word for phrase, fit in zip(chosen, fits, strict=True) if fit for word in phrase]
    sentences = -(-tokens // SENTENCE_LENGTH)
    offsets = np.minimum(np.arange(sentences + 1) * SENTENCE_LENGTH, tokens)
    return make_dataset((TYPE,), words.take(numbers), offsets, np.zeros((tokens, 0), np.int16))


def measure_gazetteer(library: str, phrases: int, tokens: int) -> dict[str, Any]:
    """CPU seconds to build, to convert texts and to match; spans; growth of peak memory."""
    words, numbers = vocabulary(), draw_phrases(phrases)
    data, names = draw_text(tokens, numbers, words), words.to_list()
    spelled = [[names[number] for number in phrase] for phrase in numbers]
    reset_peak_memory()
    before = peak_memory()
    result = {"ours": _our_gazetteer, "skweak": _skweak_gazetteer}[library](spelled, data)
    result |= {"memory": peak_memory() - before, "spans": len(result["found"])}
    if tokens > 1_000_000:
        del result["found"]
    return result


def _our_gazetteer(phrases: list[list[str]], data: cv.Dataset) -> dict[str, Any]:
    """From packed text to votes, as users apply it."""
    begin = time.process_time()
    function = gazetteer([" ".join(phrase) for phrase in phrases], TYPE)
    built = time.process_time()
    result = apply_with_report([function], data, ApplyOptions(cache=False))
    end = time.process_time()
    spans = result.data.tags.spans(result.data.votes[:, 0], data.offsets)
    found = [(span.sentence, span.start, span.end) for span in spans]
    return {"build": built - begin, "convert": 0.0, "match": end - built, "found": found}


def _skweak_gazetteer(phrases: list[list[str]], data: cv.Dataset) -> dict[str, Any]:
    """skweak's, without the checks that need a parser: spaCy texts are made first, then matched."""
    import spacy
    from skweak.gazetteers import GazetteerAnnotator, Trie
    from spacy.tokens import Doc as SpacyDoc

    vocab = spacy.blank("en").vocab
    begin = time.process_time()
    annotator = GazetteerAnnotator("x", {TYPE: Trie(phrases)}, additional_checks=False)
    built = time.process_time()
    docs = [
        SpacyDoc(vocab, words=words, sent_starts=[number == 0 for number in range(len(words))])
        for words in (list(sentence.tokens) for sentence in data)
    ]
    converted = time.process_time()
    found = [(number, start, end) for number, doc in enumerate(docs) for start, end, _ in annotator.find_spans(doc)]
    end = time.process_time()
    return {"build": built - begin, "convert": converted - built, "match": end - converted, "found": found}


def gazetteer_table(phrases: int, tokens: int, compared: int) -> cv.Table:
    """Ours on the whole text, and both on a part of it where skweak is installed."""
    runs = [("ours", tokens)]
    if is_installed("skweak"):
        runs += [("ours", compared), ("skweak", compared)]
    found = [call_in_process("benchmarks.speed.lf:measure_gazetteer", name, phrases, size) for name, size in runs]
    rows = [
        (
            name,
            size,
            run["build"],
            size / max(1e-9, run["match"]),
            size / max(1e-9, run["match"] + run["convert"]),
            run["memory"] / 1e6,
            run["spans"],
        )
        for (name, size), run in zip(runs, found, strict=True)
    ]
    notes = [
        "CPU seconds of one thread; tokens/s: ours from packed text to votes, skweak's from spaCy texts to spans",
        "with conversion: with the time to make those spaCy texts from words",
        "more MB: peak memory above that of the process with phrases and text",
    ]
    if len(found) > 1:
        ours, theirs = ({tuple(span) for span in run["found"]} for run in found[1:])
        notes.append(
            f"spans of the part: {len(ours & theirs):,} in common, {len(ours - theirs):,} only ours, "
            f"{len(theirs - ours):,} only skweak's (longest first, against leftmost first)"
        )
    return cv.Table(
        title=f"Gazetteer of {phrases:,} phrases",
        columns=("gazetteer", "tokens", "build s", "tokens/s", "with conversion", "more MB", "spans"),
        rows=rows,
        formats=dict.fromkeys(("tokens/s", "with conversion", "more MB"), ",.0f") | {"build s": ".1f"},
        notes=notes,
    )


def _ends_in(letters: str) -> LabelingFunction:
    """Words with this ending, in plain Python."""

    @labeling_function([TYPE], name=f"ends in {letters}")
    def ends_in(doc: Doc) -> Iterator[Span]:
        for number, word in enumerate(doc):
            if len(word) > 4 and word.endswith(letters):
                yield number, number + 1, TYPE

    return ends_in


def ten_functions(min_length: int, num_phrases: int) -> list[LabelingFunction]:
    """Gazetteers, patterns, plain functions and one over documents; `min_length` is in one of them."""
    names = vocabulary().to_list()
    phrases = [" ".join(names[word] for word in phrase) for phrase in draw_phrases(num_phrases)]

    @labeling_function([TYPE])
    def long_words(doc: Doc) -> list[Span]:
        return [(i, i + 1, TYPE) for i, word in enumerate(doc) if len(word) > min_length]

    half = len(phrases) // 2
    return [
        gazetteer(phrases[:half], TYPE, name="first list"),
        gazetteer(phrases[half:], TYPE, name="second list", ignore_case=True),
        pattern(r"\b[a-m]{6,}\b", TYPE, name="pattern"),
        pattern(r"(?:th|st)\w+ \w+ed", TYPE, name="words", match="tokens"),
        _ends_in("ing"),
        _ends_in("ed"),
        _ends_in("s"),
        _ends_in("ly"),
        propagate(_ends_in("ness"), name="everywhere"),
        long_words,
    ]


def _digest(result: ApplyResult) -> str:
    """Digest of a file with all votes."""
    with tempfile.TemporaryDirectory() as folder:
        cv.write(result.data, Path(folder) / "votes.npz")
        return hashlib.sha256((Path(folder) / "votes.npz").read_bytes()).hexdigest()


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _apply(run: str, data: cv.Dataset, functions: list[LabelingFunction], options: ApplyOptions) -> dict[str, Any]:
    begin, used = time.perf_counter(), _cpu_seconds()
    result = apply_with_report(functions, data, options)
    return {
        "run": run,
        "seconds": time.perf_counter() - begin,
        "cpu": _cpu_seconds() - used,
        "ran": sum(row.status == "ran" for row in result.stats),
        "votes": _digest(result),
    }


def workers_table(tokens: int, num_phrases: int, repeats: int) -> cv.Table:
    """Ten functions with one and two workers, alternating; then with the cache."""
    data = draw_text(tokens, draw_phrases(num_phrases), vocabulary())
    data = replace(data, doc_ids=StringArray.from_list(str(number // 20) for number in range(len(data))))
    functions = ten_functions(7, num_phrases)
    runs = [
        [_apply(f"{n} workers", data, functions, ApplyOptions(num_workers=n, cache=False)) for n in (1, 2)]
        for _ in range(repeats)
    ]
    rows = [min(same, key=lambda row: row["seconds"]) for same in zip(*runs, strict=True)]
    edited = ten_functions(6, num_phrases)
    with tempfile.TemporaryDirectory() as folder:
        for run, chosen in (("first", functions), ("again", functions), ("one edited", edited)):
            rows.append(_apply(f"cache, {run}", data, chosen, ApplyOptions(cache=folder)))
    first = rows[0]["votes"]
    return cv.Table(
        title=f"Ten functions on {tokens:,} tokens",
        columns=("run", "seconds", "CPU seconds", "functions run", "votes as in the first row"),
        rows=[(row["run"], row["seconds"], row["cpu"], row["ran"], row["votes"] == first) for row in rows],
        formats={"seconds": ".2f", "CPU seconds": ".2f"},
        notes=(
            f"two workers are {rows[0]['seconds'] / rows[1]['seconds']:.2f} times as fast as one; "
            f"best of {repeats} alternating runs",
            f"load of the machine during the run: {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores",
            "the last row has other votes because one function was edited",
        ),
    )


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("speed.lf", __doc__)
    parser.add_argument("tokens", nargs="?", type=int, default=TOKENS)
    args = parser.parse_args(argv)
    if args.smoke:
        tables = [
            gazetteer_table(SMOKE_PHRASES, SMOKE_TOKENS, SMOKE_TOKENS),
            workers_table(SMOKE_TOKENS, SMOKE_PHRASES, 1),
        ]
    else:
        tables = [
            gazetteer_table(PHRASES, args.tokens, COMPARED_TOKENS),
            workers_table(WORKER_TOKENS, WORKER_PHRASES, REPEATS),
        ]
    save_tables(results, "speed/lf", tables, seed=SEED, packages=["ahocorasick-rs", "regex", "skweak", "spacy"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
