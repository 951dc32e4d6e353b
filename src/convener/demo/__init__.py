"""Built-in demo corpus: news-like sentences with gold labels, written for this project.

The labeling functions in `convener.demo.lfs` run when the corpus is loaded, so the complete pipeline from
text to evaluated labels needs no download.
"""

from __future__ import annotations

import re
from importlib import resources

from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.tokenize import word_spans
from convener.demo.lfs import LFS
from convener.io.builder import GOLD, DatasetBuilder
from convener.io.formats import ReadOptions
from convener.lf.apply import apply_lfs

TYPES = ("PER", "ORG", "LOC")
ENTITY_PATTERN = re.compile(r"\[([^]]+)\]\((\w+)\)")

__all__ = ["LFS", "TYPES", "load_corpus", "load_text"]


def load_corpus() -> Corpus:
    """The demo corpus with the votes of its labeling functions, split by document.

    >>> load_corpus().test.tags.types
    ('PER', 'ORG', 'LOC')
    """
    labeled = apply_lfs(LFS, load_text(), cache=False)
    train, rest = labeled.split(0.6, seed=1, by_document=True)
    valid, test = rest.split(0.25, seed=1, by_document=True)
    return Corpus(splits={"train": train, "valid": valid, "test": test})


def load_text() -> Dataset:
    """The demo sentences with gold labels, without votes."""
    builder = DatasetBuilder(ReadOptions(on_misaligned="error"), Issues())
    document = ""
    lines = resources.files(__package__).joinpath("corpus.txt").read_text(encoding="utf-8")
    for number, line in enumerate(lines.splitlines(), start=1):
        if line.startswith("# "):
            document = line[2:].strip()
        elif line.strip():
            _add_sentence(builder, line.strip(), document, f"corpus.txt:{number}")
    data = builder.build(types=TYPES)
    return data.data if isinstance(data, Predictions) else data


def _add_sentence(builder: DatasetBuilder, line: str, document: str, where: str) -> None:
    """Add one sentence in inline markup: `[Maria](PER) flew to [Oslo](LOC).`"""
    plain, spans, position = "", [], 0
    for match in ENTITY_PATTERN.finditer(line):
        plain += line[position : match.start()]
        spans.append((len(plain), len(plain) + len(match[1]), match[2]))
        plain += match[1]
        position = match.end()
    plain += line[position:]
    token_offsets = word_spans(plain)
    tokens = [plain[a:b] for a, b in token_offsets.tolist()]
    builder.add_sentence(tokens, where=where, text=plain, token_offsets=token_offsets, doc_id=document)
    builder.source_spans(GOLD)
    for start, end, label in spans:
        builder.add_span(GOLD, start, end, label)
