"""Predictions: labels predicted by a model, with everything needed to write them in any format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args, overload

import numpy as np
from numpy.typing import NDArray

from convener.data import validation
from convener.data.dataset import Dataset
from convener.data.highlight import HTML_SENTENCES, first_marked, predicted_text, sentences_html
from convener.data.ragged import RaggedArray, concat_ranges
from convener.data.schemes import Scheme
from convener.data.sentences import Sentence, predicted_sentences
from convener.data.spans import Spans
from convener.errors import DataError, require

GoldUse = Literal["none", "valid", "train", "test"]
"""Which gold labels a model used: none; those of valid, for early stopping; those of train, to learn from; or those of
the very data that it labels, as an oracle does: `test`."""
GOLD_USES: tuple[GoldUse, ...] = get_args(GoldUse)
"""All values, from the least to the most gold."""
UPPER_BOUND = "an upper bound, not a weakly supervised result"


def is_upper_bound(uses_gold: str) -> bool:
    """Whether labels that used this gold are an upper bound, not a weakly supervised result."""
    return uses_gold in ("train", "test")


class LabelOutput(NamedTuple):
    """Labels that a model or tagger infers, without the data they belong to.

    labels         (N,) int16, legal BIO ids
    probabilities  (N, L) float32, rows sum to one; None if only labels are inferred
    span_scores    (S,) float32, one score per span of `labels` in text order; None if not computed
    """

    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32] | None = None
    span_scores: NDArray[np.float32] | None = None

    @classmethod
    def concat(cls, parts: Iterable[LabelOutput], num_labels: int) -> LabelOutput:
        """Join the complete outputs of consecutive parts of a dataset with L = `num_labels`."""
        empty_scores = np.zeros(0, np.float32)
        empty = cls(np.zeros(0, np.int16), np.zeros((0, num_labels), np.float32), empty_scores)
        return cls(*(np.concatenate(arrays) for arrays in zip(empty, *parts, strict=True)))

    def require_probabilities(self) -> NDArray[np.float32]:
        """Probabilities (N, L); an error if there are none."""
        if self.probabilities is None:
            raise DataError("expected label probabilities, found labels only")
        return self.probabilities


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictions:
    """Labels for every token of a dataset.

    `predictions[0]` is a sentence with its tokens, its text and its spans; `predictions[:10]` are the predictions of
    ten sentences. Iterating gives all sentences.

    data           the dataset the labels belong to, without gold
    labels         (N,) int16, legal BIO ids of its fine types: predictions are never coarse
    probabilities  (N, L) float32, rows sum to one; None if labels were read from a file without them
    span_scores    (S,) float32, probability of each span in text order; by default the minimum of its token
                   probabilities
    model          name of the model
    settings       settings of the model
    uses_gold      which gold labels the model used: "none", "valid", "train" or "test", see `GoldUse`

    >>> data = Dataset.from_spans(["PER"], [["Ada", "Lovelace", "wrote"]], {})
    >>> labels = Predictions(data=data, labels=np.array([1, 2, 0], np.int16), model="rules")
    >>> labels.tags()
    [['B-PER', 'I-PER', 'O']]
    >>> labels
    Predictions by rules(1 spans in 1 sentences)
    0: [Ada Lovelace](PER) wrote
    >>> [(span.text, span.label, span.start, span.end) for sentence in labels for span in sentence.spans]
    [('Ada Lovelace', 'PER', 0, 2)]
    """

    data: Dataset
    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32] | None = None
    span_scores: NDArray[np.float32] | None = None
    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    uses_gold: GoldUse = "none"

    def __post_init__(self) -> None:
        num_tokens, num_labels = len(self.data.tokens), len(self.data.fine_tags)
        if self.data.gold is not None:
            object.__setattr__(self, "data", self.data.without_gold())
        validation.check(self.uses_gold in GOLD_USES, f"uses_gold must be one of {', '.join(GOLD_USES)}")
        validation.check_shape("labels", self.labels.shape, (num_tokens,))
        validation.check_labels("labels", self.labels, 0, num_labels)
        _, illegal = self.data.tags.repair(self.labels, self.data.offsets)
        if illegal:
            raise DataError(
                f"predicted labels must be legal BIO sequences, got {illegal} illegal labels; repair them first"
            )
        if self.probabilities is not None:
            validation.check_shape("probabilities", self.probabilities.shape, (num_tokens, num_labels))
        if self.span_scores is not None:
            validation.check_shape("span_scores", self.span_scores.shape, (len(self.spans),))

    @cached_property
    def spans(self) -> Spans:
        """All predicted spans in text order, with scores if there are scores or probabilities."""
        spans = self.data.tags.spans(self.labels, self.data.offsets)
        if self.span_scores is not None:
            return spans.with_scores(self.span_scores)
        if self.probabilities is None:
            return spans
        token_probabilities = self.probabilities[np.arange(len(self.labels)), self.labels]
        start = self.data.offsets[spans.sentence] + spans.start
        end = self.data.offsets[spans.sentence] + spans.end
        bounds = np.stack([start, end], axis=1).ravel()
        if not len(bounds):
            return spans.with_scores(np.zeros(0, np.float32))
        padded = np.append(token_probabilities, np.float32(1))  # the end of a span may be the number of tokens
        return spans.with_scores(np.minimum.reduceat(padded, bounds)[::2].astype(np.float32))

    def tags(self, scheme: Scheme = "bio") -> list[list[str]]:
        """The tags of each sentence."""
        flat = self.data.tags.decode(self.labels, self.data.offsets, scheme)
        return [flat[a:b] for a, b in pairwise(self.data.offsets.tolist())]

    def require_probabilities(self) -> NDArray[np.float32]:
        """Probabilities (N, L); an error if there are none."""
        return LabelOutput(self.labels, self.probabilities).require_probabilities()

    def probabilities_by_sentence(self) -> RaggedArray:
        """Probabilities, one (T, L) view per sentence."""
        return RaggedArray(self.require_probabilities(), self.data.offsets)

    def with_types(self, types: Sequence[str]) -> Predictions:
        """The same predictions over other entity types, which must include those in use."""
        data = self.data.with_types(types)
        if data is self.data:
            return self
        labels = self.data.tags.remap(self.labels, data.tags)
        return replace(self, data=data, labels=labels, probabilities=None, span_scores=self.spans.score)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> Predictions: ...
    def __getitem__(self, index: int | slice) -> Sentence | Predictions:
        if isinstance(index, slice):
            return self._take(np.arange(len(self))[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        (sentence,) = self._take(np.array([index % len(self)]))
        return sentence

    def __iter__(self) -> Iterator[Sentence]:
        """Each sentence with its tokens, text and spans."""
        return predicted_sentences(self.data, self.spans)

    def _take(self, sentences: NDArray[np.int64]) -> Predictions:
        """The predictions of these sentences, in this order."""
        tokens = concat_ranges(self.data.offsets[sentences], self.data.lengths[sentences])
        span_scores = None
        if self.span_scores is not None:
            bounds = self.spans.sentence_offsets(len(self))
            span_scores = self.span_scores[concat_ranges(bounds[sentences], np.diff(bounds)[sentences])]
        return replace(
            self,
            data=self.data.take(sentences),
            labels=self.labels[tokens],
            probabilities=None if self.probabilities is None else self.probabilities[tokens],
            span_scores=span_scores,
        )

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        numbers = first_marked(self.spans.sentence, len(self))
        return predicted_text([(number, self[number]) for number in numbers], self.summary())

    def _repr_html_(self) -> str:
        shown = list(self[:HTML_SENTENCES])
        return sentences_html(
            shown, types=self.data.tags.types, caption=self.summary(), num_more=len(self) - len(shown)
        )

    def summary(self) -> str:
        """One line: the model and the numbers of spans and sentences."""
        suffix = f" by {self.model}" if self.model else ""
        return f"Predictions{suffix}({len(self.spans):,} spans in {len(self.data):,} sentences)"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row per span, in text order; needs pandas.

        Columns are `doc_id` (if the data has documents), `sentence` (its number), and the fields of a span: `start` and
        `end` (tokens), `start_char` and `end_char` (characters of the sentence), `text`, `label`, `score`.
        """
        pandas = require("pandas", extra="pandas", purpose="to_pandas()")
        located = [(sentence, span) for sentence in self for span in sentence.spans]
        columns: dict[str, Any] = {}
        if self.data.doc_ids is not None:
            columns["doc_id"] = [sentence.doc_id for sentence, _ in located]
        columns["sentence"] = self.spans.sentence
        for name in ("start", "end", "start_char", "end_char", "text", "label"):
            columns[name] = [getattr(span, name) for _, span in located]
        columns["score"] = np.full(len(located), np.nan) if self.spans.score is None else self.spans.score
        return pandas.DataFrame(columns)

    def to_spacy(self) -> list[Any]:
        """A spaCy `Doc` for each sentence; needs spaCy.

        `doc.ents` and `doc.spans["convener"]` are the predicted spans, `doc.spans["convener"].attrs["scores"]` their
        scores, and `doc.spans[NAME]` the spans of each source, as in a `.spacy` file.
        """
        # Imported by name: data is below io, and only these two methods need the writers.
        docs: list[Any] = import_module("convener.io.spacy").to_docs(self)
        return docs

    def to_hf(self) -> Any:
        """A `datasets.Dataset` with one row per sentence; needs datasets.

        `tokens` and `ner_tags` (ClassLabel) are what token classifiers are trained on. The other columns are those of
        a folder in the format `huggingface`.
        """
        return import_module("convener.io.huggingface").to_hf(self)
