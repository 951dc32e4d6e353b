"""The HMM of skweak on our datasets."""

from __future__ import annotations

import contextlib
import io
import time
from typing import Any

import numpy as np

import convener as cv
from convener.data.spans import Spans


def fit_skweak(train: cv.Dataset, test: cv.Dataset) -> tuple[float, float, float]:
    """CPU seconds to fit and to predict, and F1 on test."""
    from skweak.generative import HMM

    # skweak cannot predict with a source that marks nothing in train.
    used = [name for name, votes in zip(train.sources, train.votes.T, strict=True) if (votes > 0).any()]
    train_docs, test_docs = _to_docs(train.select_sources(used)), _to_docs(test.select_sources(used))
    types = test.tags.types
    model = HMM("hmm", list(types))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        begin = time.process_time()
        model.fit(train_docs)
        middle = time.process_time()
        found = list(model.pipe(test_docs))
        end = time.process_time()
    rows = [
        (number, span.start, span.end, types.index(span.label_))
        for number, doc in enumerate(found)
        for span in doc.spans["hmm"]
    ]
    spans = Spans.from_array(np.array(rows, np.int64).reshape(-1, 4))
    predictions = cv.Predictions(data=test, labels=test.tags.labels(spans, test.offsets))
    return middle - begin, end - middle, cv.evaluate(predictions, test).f1


def _to_docs(data: cv.Dataset) -> list[Any]:
    """The sentences as documents of spaCy, with the spans of every source."""
    from spacy.tokens import Doc, Span
    from spacy.vocab import Vocab

    vocab, docs = Vocab(), []
    for sentence in data:
        doc = Doc(vocab, words=sentence.tokens)
        for column, name in enumerate(data.sources):
            spans = data.tags.spans(sentence.votes[:, column], np.array([0, len(doc)]))
            doc.spans[name] = [Span(doc, s.start, s.end, label=data.tags.types[s.type]) for s in spans]
        docs.append(doc)
    return docs
