"""The embedded corpus: newspaper-like sentences written for this project, with gold.

Its labeling functions in `sources` run on the spot, so nothing needs to be downloaded to see
the whole way from text to measured labels.
"""

from __future__ import annotations

import re
from importlib import resources

from convener.corpus import Corpus
from convener.data import Dataset
from convener.demo.sources import SOURCES
from convener.io.assemble import GOLD, Assembler
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.io.words import word_spans
from convener.lf import apply
from convener.predictions import Predictions

TYPES = ("PER", "ORG", "LOC")
MARK = re.compile(r"\[([^]]+)\]\((\w+)\)")

__all__ = ["SOURCES", "TYPES", "corpus", "text"]


def corpus() -> Corpus:
    """The demo corpus with the votes of its labeling functions, split by document.

    >>> corpus().test.tags.types
    ('PER', 'ORG', 'LOC')
    """
    voted = apply(SOURCES, text(), cache=False)
    train, rest = voted.split(0.6, seed=1, by_document=True)
    valid, test = rest.split(0.25, seed=1, by_document=True)
    return Corpus(splits={"train": train, "valid": valid, "test": test})


def text() -> Dataset:
    """The demo sentences with gold and without sources."""
    assembler = Assembler(ReadOptions(on_misaligned="error"), Report())
    document = ""
    lines = resources.files(__package__).joinpath("corpus.txt").read_text(encoding="utf-8")
    for number, line in enumerate(lines.splitlines(), start=1):
        if line.startswith("# "):
            document = line[2:].strip()
        elif line.strip():
            _add(assembler, line.strip(), document, f"corpus.txt:{number}")
    data = assembler.build(types=TYPES)
    return data.data if isinstance(data, Predictions) else data


def _add(assembler: Assembler, line: str, document: str, where: str) -> None:
    """Add one marked sentence: `[Maria](PER) flew to [Oslo](LOC).`"""
    plain, spans, position = "", [], 0
    for mark in MARK.finditer(line):
        plain += line[position : mark.start()]
        spans.append((len(plain), len(plain) + len(mark[1]), mark[2]))
        plain += mark[1]
        position = mark.end()
    plain += line[position:]
    chars = word_spans(plain)
    tokens = [plain[a:b] for a, b in chars.tolist()]
    assembler.sentence(tokens, where=where, text=plain, chars=chars, document=document)
    assembler.source(GOLD)
    for start, end, kind in spans:
        assembler.span(GOLD, start, end, kind)
