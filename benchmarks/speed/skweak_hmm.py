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

    train_docs, test_docs = _to_docs(train), _to_docs(test)
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
        doc = Doc(vocab, words=list(sentence.tokens))
        for name, spans in sentence.votes.items():
            doc.spans[name] = [Span(doc, span.start, span.end, label=span.label) for span in spans or ()]
        docs.append(doc)
    return docs
