"""spaCy's own entity recogniser, trained on our labels."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener import progress
from convener.data import Dataset
from convener.errors import ConfigError, DataError, first_line, require
from convener.io.spacy.docbin import spacy_word
from convener.tagger.base import Tagged, Tagger, TaggerConfig, agreement
from convener.tagger.card import model_card
from convener.tagger.targets import Targets

READ = 256
"""Sentences that a pipeline reads at once."""


def spacy(module: str = "spacy") -> Any:
    """A module of the library."""
    return require(module, extra="spacy", purpose="a spaCy tagger")


@dataclass(frozen=True, kw_only=True)
class SpacyConfig(TaggerConfig):
    """Settings of a spaCy pipeline."""

    epochs: int = 20
    batch: int = 32
    lang: str = "en"
    """Whose rules cut text into words when the pipeline is used alone; "xx" for none."""
    dropout: float = 0.2
    """Share of the features that a training step leaves out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be in [0, 1), got {self.dropout}")


class SpacyTagger(Tagger[Any]):
    """A blank pipeline with spaCy's transition-based recogniser.

    It learns hard labels: of soft targets, the labels that come with them. spaCy lets no entity
    begin or end with white space, so such words are left out of spans. It gives no probabilities.
    Training that was killed starts over.

    >>> data = Dataset.from_spans(
    ...     ["PER"], [["Ada", "met", "Bo"]] * 20, {}, gold=[[(0, 1, "PER"), (2, 3, "PER")]] * 20
    ... )
    >>> SpacyTagger(epochs=15).fit(Targets.of_gold(data)).predict(data).tags()[0]
    ['B-PER', 'O', 'B-PER']
    """

    Config = SpacyConfig
    kind = "spacy"
    learns_soft = False
    summary = "spaCy's own entity recogniser; saved as a spaCy pipeline"

    def learn(self, train: Targets, valid: Targets, start: Any | None) -> Any:
        """Epochs of small batches; the averaged weights of the best epoch stay."""
        config, rng = self.config, np.random.default_rng(self.config.seed)
        with _seeded(config.seed):
            nlp = self._blank(train.types)
            examples = list(_examples(nlp, train))
            optimizer = nlp.initialize(lambda: examples[:100])
            if start is not None:
                nlp.from_bytes(start.to_bytes())
                optimizer = nlp.resume_training()
            best, best_score, waited = b"", -np.inf, 0
            steps = -(-len(examples) // config.batch)
            with progress.bar(self.name, config.epochs * steps) as advance:
                said = ""
                for epoch in range(config.epochs):
                    order = rng.permutation(len(examples)).tolist()
                    for at in range(0, len(order), config.batch):
                        batch = [examples[number] for number in order[at : at + config.batch]]
                        nlp.update(batch, sgd=optimizer, drop=config.dropout)
                        advance(f"epoch {epoch + 1}/{config.epochs}{said}")
                    with nlp.use_params(optimizer.averages):
                        score = self._score(nlp, valid)
                        said, waited = f", held out {score:.4f}", waited + 1
                        # As long as no span is right, nothing tells one epoch from another.
                        if score > best_score or best_score <= 0:
                            best, best_score, waited = nlp.to_bytes(), score, 0
                    if waited >= config.patience:
                        break
            return self._blank(()).from_bytes(best)

    def infer(self, state: Any, data: Dataset) -> Tagged:
        """The entities that the pipeline finds in our words."""
        labels = np.zeros(len(data.tokens), np.int16)
        docs = (_doc(state, words) for words in _sentences(data))
        found = state.pipe(docs, batch_size=READ)
        for first, doc in zip(data.offsets[:-1].tolist(), found, strict=True):
            for entity in doc.ents:
                begin = 2 * data.tags.type_number(entity.label_) + 1
                labels[first + entity.start : first + entity.end] = begin + 1
                labels[first + entity.start] = begin
        return Tagged(labels)

    def write(self, state: Any, folder: Path) -> dict[str, Any]:
        """A folder that spaCy can load."""
        state.to_disk(folder)
        card = model_card(sorted(state.get_pipe("ner").labels), "spacy")
        (folder / "README.md").write_text(card, encoding="utf-8")
        return {}

    def read(self, folder: Path, facts: Mapping[str, Any]) -> Any:
        """Back from such a folder."""
        try:
            return spacy().load(folder)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            why = first_line(error)
            raise DataError(f"{folder}: the pipeline cannot be loaded: {why}") from error

    def _blank(self, types: tuple[str, ...]) -> Any:
        try:
            nlp = spacy().blank(self.config.lang)
        except ImportError as error:
            raise ConfigError(f"lang {self.config.lang!r}: {first_line(error)}") from error
        recogniser = nlp.add_pipe("ner")
        for name in types:
            recogniser.add_label(name)
        return nlp

    def _score(self, nlp: Any, valid: Targets) -> float:
        return agreement(self.infer(nlp, valid.data), valid)


def _sentences(data: Dataset) -> Iterator[list[str]]:
    """The words of each sentence, as spaCy takes them."""
    words = [spacy_word(word) for word in data.tokens.to_list()]
    return (words[start:end] for start, end in pairwise(data.offsets.tolist()))


def _doc(nlp: Any, words: list[str]) -> Any:
    return spacy("spacy.tokens").Doc(nlp.vocab, words=words)


def _examples(nlp: Any, targets: Targets) -> Iterator[Any]:
    """Sentences with their entities, without the empty ones."""
    tokens, example = spacy("spacy.tokens"), spacy("spacy.training").Example
    tags, data = targets.data.tags, targets.data
    spans = tags.spans(targets.labels, data.offsets).by_sentence(len(data))
    for words, row in zip(_sentences(data), spans, strict=True):
        if not words:
            continue
        doc, blank = _doc(nlp, words), np.array([word.isspace() for word in words])
        kept = [(*_trimmed(start, end, blank), kind) for start, end, kind in row]
        entities = [
            tokens.Span(doc, start, end, label=tags.types[kind])
            for start, end, kind in kept
            if start < end
        ]
        doc.set_ents(entities, default="outside")
        yield example(_doc(nlp, words), doc)


def _trimmed(start: int, end: int, blank: NDArray[np.bool_]) -> tuple[int, int]:
    """A span without white space at its edges."""
    while start < end and blank[start]:
        start += 1
    while start < end and blank[end - 1]:
        end -= 1
    return start, end


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """SpaCy draws from Python's and numpy's generators: seeded inside, as before outside."""
    before = random.getstate(), np.random.get_state()
    spacy("spacy.util").fix_random_seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
