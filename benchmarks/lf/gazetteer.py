"""One gazetteer in a process of its own: `python -m benchmarks.lf.gazetteer WHO PHRASES TOKENS`.

Prints a line of JSON: seconds to build, seconds to match, spans, peak memory of each.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import convener as cv
from benchmarks.lf.corpus import phrase_numbers, text, words
from benchmarks.record import peak_memory
from convener.lf import gazetteer
from convener.lf.apply import Settings, applied

NAME = "X"


def ours(phrases: list[list[str]], data: cv.Dataset) -> dict[str, Any]:
    """Ours, applied as users do: votes and all."""
    began = time.perf_counter()
    function = gazetteer([" ".join(phrase) for phrase in phrases], NAME)
    built, memory = time.perf_counter() - began, peak_memory()
    began = time.perf_counter()
    result = applied([function], data, Settings(cache=False))
    took = time.perf_counter() - began
    spans = result.data.tags.spans(result.data.votes[:, 0], data.offsets)
    found = [(span.sentence, span.start, span.end) for span in spans]
    return {"build": built, "built": memory, "match": took, "found": found}


def skweak(phrases: list[list[str]], data: cv.Dataset) -> dict[str, Any]:
    """skweak's, without the checks that need a parser; texts are made ready before the clock."""
    import spacy
    from skweak.gazetteers import GazetteerAnnotator, Trie
    from spacy.tokens import Doc

    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=sentence.tokens) for sentence in data]
    for doc in docs:
        for token in doc:
            token.is_sent_start = token.i == 0
    began = time.perf_counter()
    annotator = GazetteerAnnotator("x", {NAME: Trie(phrases)}, additional_checks=False)
    built, memory = time.perf_counter() - began, peak_memory()
    began = time.perf_counter()
    found = [
        (number, start, end)
        for number, doc in enumerate(docs)
        for start, end, _ in annotator.find_spans(doc)
    ]
    took = time.perf_counter() - began
    return {"build": built, "built": memory, "match": took, "found": found}


def main(who: str, phrases: int, tokens: int) -> None:
    known = words()
    numbers = phrase_numbers(phrases)
    data = text(tokens, numbers, known)
    names = known.to_list()
    spelled = [[names[number] for number in phrase] for phrase in numbers]
    before = peak_memory()
    result = {"ours": ours, "skweak": skweak}[who](spelled, data)
    result |= {"before": before, "peak": peak_memory(), "spans": len(result["found"])}
    if tokens > 1_000_000:
        del result["found"]
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
