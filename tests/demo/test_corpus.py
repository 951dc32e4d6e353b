"""The embedded corpus: its size, its gold labels and its sources."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

import convener as cv
from convener.demo import ENTITY_PATTERN
from convener.evaluation.source_analysis import analyze

MAX_BYTES = 200_000
MIN_SENTENCES = {"train": 550, "valid": 100, "test": 250}


@pytest.fixture(scope="module")
def corpus() -> cv.Corpus:
    return cv.demo.load_corpus()


def test_the_file_is_small_and_its_markup_complete() -> None:
    raw = resources.files("convener.demo").joinpath("corpus.txt").read_bytes()
    assert len(raw) < MAX_BYTES
    text = raw.decode()
    assert {match[2] for match in ENTITY_PATTERN.finditer(text)} == set(cv.demo.TYPES)
    plain = ENTITY_PATTERN.sub("", text)
    assert not set("[]") & set(plain)


def test_every_entity_of_the_file_is_a_gold_span() -> None:
    text = resources.files("convener.demo").joinpath("corpus.txt").read_text(encoding="utf-8")
    data = cv.demo.load_text()
    assert data.gold is not None
    spans = data.tags.spans(data.gold, data.offsets)
    types = [data.tags.types[span.type] for span in spans]
    assert types == [match[2] for match in ENTITY_PATTERN.finditer(text)]


def test_documents_have_different_names_and_no_sentence_occurs_twice() -> None:
    lines = resources.files("convener.demo").joinpath("corpus.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line]
    assert len(lines) == len(set(lines))


def test_splits_are_large_enough_and_share_no_document(corpus: cv.Corpus) -> None:
    documents = []
    for name, size in MIN_SENTENCES.items():
        data = corpus[name]
        assert len(data) >= size
        assert data.doc_ids is not None
        documents.append(set(data.doc_ids))
    train, valid, test = documents
    assert not train & valid | train & test | valid & test


def test_some_sentences_have_no_entity(corpus: cv.Corpus) -> None:
    data = corpus.train
    assert data.gold is not None
    entities = np.bincount(data.sentence_of_token()[data.gold > 0], minlength=len(data))
    assert 0.05 < (entities == 0).mean() < 0.4


def test_sources_differ_in_quality(corpus: cv.Corpus) -> None:
    rows = {row["name"]: row for row in analyze(corpus.train).table().to_records()}
    assert list(rows) == list(corpus.train.sources) == [function.name for function in cv.demo.LFS]
    assert len(rows) >= 10
    precision = [row["precision"] for row in rows.values()]
    assert min(precision) < 0.5
    assert max(precision) > 0.9
