"""One gazetteer in a process of its own: `python -m benchmarks.lf.gazetteer WHO PHRASES TOKENS`.

Prints a line of JSON: CPU seconds to build, to make texts ready, to match; spans; peak memory.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import convener as cv
from benchmarks.lf.corpus import phrase_numbers, text, words
from benchmarks.record import forget_peak, peak_memory
from convener.lf.apply import ApplyOptions, apply_with_report
from convener.lf.gazetteer import gazetteer

NAME = "X"


def ours(phrases: list[list[str]], data: cv.Dataset) -> dict[str, Any]:
    """Ours, applied as users do: from packed text to votes."""
    began = time.process_time()
    function = gazetteer([" ".join(phrase) for phrase in phrases], NAME)
    built = time.process_time()
    result = apply_with_report([function], data, ApplyOptions(cache=False))
    ended = time.process_time()
    spans = result.data.tags.spans(result.data.votes[:, 0], data.offsets)
    found = [(span.sentence, span.start, span.end) for span in spans]
    return {"build": built - began, "ready": 0.0, "match": ended - built, "found": found}


def skweak(phrases: list[list[str]], data: cv.Dataset) -> dict[str, Any]:
    """skweak's, without the checks that need a parser: texts made ready for it, then spans."""
    import spacy
    from skweak.gazetteers import GazetteerAnnotator, Trie
    from spacy.tokens import Doc

    vocab = spacy.blank("en").vocab
    began = time.process_time()
    annotator = GazetteerAnnotator("x", {NAME: Trie(phrases)}, additional_checks=False)
    built = time.process_time()
    docs = [
        Doc(vocab, words=words, sent_starts=[number == 0 for number in range(len(words))])
        for words in (sentence.tokens for sentence in data)
    ]
    ready = time.process_time()
    found = [(number, start, end) for number, doc in enumerate(docs) for start, end, _ in annotator.find_spans(doc)]
    ended = time.process_time()
    return {"build": built - began, "ready": ready - built, "match": ended - ready, "found": found}


def main(who: str, phrases: int, tokens: int) -> None:
    known = words()
    numbers = phrase_numbers(phrases)
    data = text(tokens, numbers, known)
    names = known.to_list()
    spelled = [[names[number] for number in phrase] for phrase in numbers]
    forget_peak()
    before = peak_memory()
    result = {"ours": ours, "skweak": skweak}[who](spelled, data)
    result |= {"more": peak_memory() - before, "spans": len(result["found"])}
    if tokens > 1_000_000:
        del result["found"]
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
