"""Which documents of a crowd deserve another answer, and which workers to ask for it.

Under the probabilities of a model, the expected errors of a document are the predicted spans that are wrong and the
true spans that are missed,

    sum over predicted spans (1 - p)  +  sum over types max(0, sum P(B-type) - sum of p of its predicted spans).

Documents with the most errors per token come first, since reading costs time. A worker is expected to be right on an
error of type e as often as its F1 says; the F1 of a worker with few marks is close to that of the crowd:

    F1[k, e] = (2 H + PRIOR m) / (n + G + PRIOR),    right[d, k] = sum over e: errors[d, e] F1[k, e],

with H, n and G of `source_reliability`, and m the same ratio for all workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.ragged import lengths_to_offsets
from convener.data.tables import PERCENT, Table
from convener.errors import DataError
from convener.evaluation.intervals import Interval
from convener.evaluation.metrics import check_same_tokens, ratio
from convener.evaluation.source_reliability import (
    INTERVAL_NOTE,
    estimate_reliability,
    expected_counts,
    span_probabilities,
)
from convener.inference.counts import safe_divide

PRIOR = 20.0
"""Weight of the crowd in the F1 of a worker, in marks plus true spans."""
NUM_WORKERS = 3
"""Workers that are named for each document."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DocumentToAsk:
    """A document that deserves another answer.

    document         its id; without document ids, the index of the sentence
    sentences        indices of its sentences
    tokens           number of tokens
    answers          number of workers who read it
    expected_errors  wrong and missed spans to expect among the predictions
    ask              workers to ask, best first; none if all of them have read it
    """

    document: str
    sentences: tuple[int, ...]
    tokens: int
    answers: int
    expected_errors: float
    ask: tuple[str, ...]


@dataclass(frozen=True)
class WorkerToAsk:
    """A worker, with the quality that a model expects of it.

    documents  number of documents that it read
    marks      number of spans that it marked in them
    recall, precision, f1   estimates over all types, with intervals of about 95 %
    """

    worker: str
    documents: int
    marks: int
    recall: Interval
    precision: Interval
    f1: Interval


@dataclass(frozen=True, eq=False)
class AnswerSuggestions:
    """Where a crowd should answer again, and who.

    documents        those with the most expected errors per token first
    workers          all workers, the highest F1 first
    expected_errors  errors to expect in all of the documents
    """

    documents: tuple[DocumentToAsk, ...]
    workers: tuple[WorkerToAsk, ...]
    expected_errors: float

    def table(self) -> Table:
        """One row per document."""
        share = ratio(sum(each.expected_errors for each in self.documents), self.expected_errors)
        return Table(
            title="Documents that deserve another answer",
            columns=("document", "sentences", "tokens", "answers", "expected errors", "ask"),
            rows=[
                (each.document, len(each.sentences), each.tokens, each.answers, each.expected_errors, list(each.ask))
                for each in self.documents
            ],
            formats={"expected errors": ".2f"},
            notes=(
                f"{share:.0%} of the {self.expected_errors:.1f} wrong or missed spans to expect in all "
                "documents; most errors per token first",
            ),
        )

    def worker_table(self) -> Table:
        """One row per worker."""
        return Table(
            title="Workers to ask",
            columns=("worker", "documents", "marks", "recall", "precision", "F1"),
            rows=[
                (each.worker, each.documents, each.marks, str(each.recall), str(each.precision), str(each.f1))
                for each in self.workers
            ],
            formats=dict.fromkeys(("recall", "precision", "F1"), PERCENT),
            notes=("estimated, highest F1 first", INTERVAL_NOTE),
        )

    def to_json(self) -> dict[str, Any]:
        """All values by name; an interval is a list of estimate, lower and upper bound."""
        return {
            "expected_errors": self.expected_errors,
            "documents": [
                {
                    "document": each.document,
                    "sentences": list(each.sentences),
                    "tokens": each.tokens,
                    "answers": each.answers,
                    "expected_errors": each.expected_errors,
                    "ask": list(each.ask),
                }
                for each in self.documents
            ],
            "workers": [
                {
                    "worker": each.worker,
                    "documents": each.documents,
                    "marks": each.marks,
                    "recall": list(each.recall),
                    "precision": list(each.precision),
                    "f1": list(each.f1),
                }
                for each in self.workers
            ],
        }

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self.worker_table()}"


def is_crowd(data: Dataset) -> bool:
    """Whether all sources are workers: their unmarked tokens are votes for O, and some did not read all of the text."""
    return bool(len(data.sources)) and not data.unmarked_is_abstain().any() and bool((data.votes < 0).any())


def suggest_answers(data: Dataset, predictions: Predictions, *, number: int = 20) -> AnswerSuggestions:
    """Which documents of a crowd deserve another answer, and which workers to ask; no gold is used.

    A worker is a source whose unmarked tokens are votes for O. Without document ids, every sentence is a document.

    data         votes of the workers; an error if there is no worker
    predictions  of a model on this data, with probabilities
    number       documents to suggest

    >>> name = [(0, 1, "PER")]
    >>> votes = {"Eve": [name, [], name], "Bob": [name, None, []], "Joe": [[], [], None]}
    >>> data = Dataset.from_spans(["PER"], [["Ada"], ["ran"], ["Charles"]], votes, unmarked="outside")
    >>> probabilities = np.array([[0.1, 0.9, 0], [1, 0, 0], [0.4, 0.6, 0]], np.float32)
    >>> predictions = Predictions(data=data, labels=np.array([1, 0, 1], np.int16), probabilities=probabilities)
    >>> found = suggest_answers(data, predictions, number=2)
    >>> [(each.document, round(each.expected_errors, 2), each.ask) for each in found.documents]
    [('2', 0.4, ('Joe',)), ('0', 0.1, ())]
    >>> [each.worker for each in found.workers]
    ['Eve', 'Bob', 'Joe']
    """
    check_same_tokens(predictions.data, data)
    workers = np.flatnonzero(~data.unmarked_is_abstain())
    if not len(workers):
        raise DataError(
            "expected a crowd: at least one source whose unmarked tokens are votes for O (unmarked='outside'); "
            f"found {len(data.sources)} with unmarked='abstain'"
        )
    names, document_of_sentence = _documents(data)
    tokens = np.bincount(document_of_sentence, data.lengths, len(names)).astype(np.int64)
    has_read = _has_read(data, document_of_sentence, len(names))[:, workers]
    errors = _expected_errors(data, predictions, document_of_sentence, len(names))
    total = errors.sum(axis=1)
    right = np.where(has_read, -1.0, errors @ _worker_f1(data, predictions)[workers].T)
    chosen = np.argsort(-total / np.maximum(tokens, 1), kind="stable")[: max(number, 0)]
    sentences = _group_sentences(document_of_sentence, len(names))
    return AnswerSuggestions(
        documents=tuple(
            DocumentToAsk(
                document=names[d],
                sentences=sentences[d],
                tokens=int(tokens[d]),
                answers=int(has_read[d].sum()),
                expected_errors=float(total[d]),
                ask=tuple(
                    data.sources[workers[k]]
                    for k in np.argsort(-right[d], kind="stable")[:NUM_WORKERS].tolist()
                    if not has_read[d, k]
                ),
            )
            for d in chosen.tolist()
        ),
        workers=_workers_to_ask(data, predictions, workers, has_read),
        expected_errors=float(total.sum()),
    )


def _documents(data: Dataset) -> tuple[Sequence[str], NDArray[np.int64]]:
    """Names of the documents in the order of the text, and the document of each sentence."""
    if data.doc_ids is None:
        return [str(n) for n in range(len(data))], np.arange(len(data))
    number: dict[str, int] = {}
    index = [number.setdefault(name, len(number)) for name in data.doc_ids.to_list()]
    return list(number), np.array(index, np.int64)


def _group_sentences(document_of_sentence: NDArray[np.int64], num_documents: int) -> list[tuple[int, ...]]:
    """Indices of the sentences of each document."""
    order = np.argsort(document_of_sentence, kind="stable")
    bounds = lengths_to_offsets(np.bincount(document_of_sentence, minlength=num_documents))
    return [tuple(order[a:b].tolist()) for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


def _has_read(data: Dataset, document_of_sentence: NDArray[np.int64], num_documents: int) -> NDArray[np.bool_]:
    """Which documents each source has read, at least in part.  -> (D, K)"""
    token, source = np.nonzero(data.votes >= 0)
    has_read = np.zeros((num_documents, len(data.sources)), bool)
    has_read[document_of_sentence[data.sentence_of_token()[token]], source] = True
    return has_read


def _expected_errors(
    data: Dataset, predictions: Predictions, document_of_sentence: NDArray[np.int64], num_documents: int
) -> Floats:
    """Expected wrong and missed spans by document and type.  -> (D, E)"""
    spans, num_types = predictions.spans, len(data.fine_tags.types)
    cell = document_of_sentence[spans.sentence] * num_types + spans.type
    probability = span_probabilities(spans, predictions)
    shape = (num_documents, num_types)
    predicted, correct = (
        np.asarray(np.bincount(cell, weights, num_documents * num_types), np.float64).reshape(shape)
        for weights in (np.ones(len(spans)), probability)
    )
    present = np.zeros(shape)
    begins = predictions.require_probabilities()[:, 1::2].astype(np.float64)
    np.add.at(present, document_of_sentence[data.sentence_of_token()], begins)
    missed = np.maximum(present - correct, 0)
    errors: Floats = predicted - correct + missed
    return errors


def _worker_f1(data: Dataset, predictions: Predictions) -> Floats:
    """F1 of each source and type, for few marks close to that of all sources.  -> (K, E)"""
    marks, correct, present = expected_counts(data, predictions)
    crowd = np.nan_to_num(safe_divide(2 * correct.sum(axis=0), (marks + present).sum(axis=0)))
    f1: Floats = (2 * correct + PRIOR * crowd) / (marks + present + PRIOR)
    return f1


def _workers_to_ask(
    data: Dataset, predictions: Predictions, workers: NDArray[np.int64], has_read: NDArray[np.bool_]
) -> tuple[WorkerToAsk, ...]:
    """All workers with their reliability over all types, the highest F1 first."""
    reliability = estimate_reliability(data, predictions, by_type=False)
    found = []
    for position, k in enumerate(workers.tolist()):
        recall, precision, f1 = reliability.intervals(k, 0)
        documents = int(has_read[:, position].sum())
        found.append(WorkerToAsk(data.sources[k], documents, int(reliability.marks[k, 0]), recall, precision, f1))
    return tuple(sorted(found, key=lambda each: -each.f1.value))
