"""Tagger that trains the entity recognizer of spaCy."""

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
from convener.config import check_range, init_with
from convener.data.dataset import Dataset
from convener.data.predictions import LabelOutput
from convener.data.tokenize import to_spacy_word
from convener.errors import ConfigError, DataError, first_line, require
from convener.taggers.base import Tagger, TaggerConfig, validation_score
from convener.taggers.model_card import model_card
from convener.taggers.targets import Targets

PREDICT_BATCH_SIZE = 256
"""Sentences per batch in inference."""


def import_spacy(module: str = "spacy") -> Any:
    """Import spaCy or one of its modules; an error with a hint if it is not installed."""
    return require(module, extra="spacy", purpose="the spacy tagger")


@dataclass(frozen=True, kw_only=True)
class SpacyConfig(TaggerConfig):
    """Settings of a spaCy tagger."""

    max_epochs: int = 20
    batch_size: int = 32
    language: str = "en"
    """Language whose tokenizer the saved pipeline uses with spaCy alone; "xx" for a multi-language one."""
    dropout: float = 0.2
    """Dropout rate, in [0, 1); 0 switches dropout off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "[0, 1)", "dropout")


class SpacyTagger(Tagger[Any]):
    """Blank pipeline with the transition-based entity recognizer of spaCy.

    It is trained on hard labels and predicts no probabilities. An entity of spaCy cannot start or end with
    whitespace, so such tokens are removed from the ends of spans. Interrupted training starts again from the
    beginning: there are no checkpoints.

    >>> data = Dataset.from_spans(
    ...     ["PER"], [["Ada", "met", "Bo"]] * 20, {}, gold=[[(0, 1, "PER"), (2, 3, "PER")]] * 20
    ... )
    >>> SpacyTagger(max_epochs=15).fit(Targets.from_gold(data)).predict(data).tags()[0]
    ['B-PER', 'O', 'B-PER']
    """

    Config = SpacyConfig
    config: SpacyConfig
    name = "spacy"
    supports_soft_labels = False
    summary = "entity recognizer of spaCy; saved as a spaCy pipeline"

    @init_with(SpacyConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(self, train: Targets, valid: Targets, previous: Any | None, checkpoint_dir: Path | None) -> Any:
        """Train on small batches; keeps the averaged weights of the best epoch."""
        config, rng = self.config, np.random.default_rng(self.config.seed)
        with _fixed_seed(config.seed):
            nlp = self._blank_pipeline(train.types)
            examples = list(_examples(nlp, train))
            optimizer = nlp.initialize(lambda: examples[:100])
            if previous is not None:
                nlp.from_bytes(previous.to_bytes())
                optimizer = nlp.resume_training()
            best, best_score, epochs_without_gain = b"", -np.inf, 0
            steps = -(-len(examples) // config.batch_size)
            with progress.progress_bar(self.display_name, config.max_epochs * steps) as advance:
                score_text = ""
                for epoch in range(config.max_epochs):
                    order = rng.permutation(len(examples)).tolist()
                    for first in range(0, len(order), config.batch_size):
                        batch = [examples[number] for number in order[first : first + config.batch_size]]
                        nlp.update(batch, sgd=optimizer, drop=config.dropout)
                        advance(f"epoch {epoch + 1}/{config.max_epochs}{score_text}")
                    with nlp.use_params(optimizer.averages):
                        score = self._validation_score(nlp, valid)
                        score_text = f", validation score {score:.4f}"
                        epochs_without_gain += 1
                        # While no span is correct, scores are equal: keep the latest epoch.
                        if score > best_score or best_score <= 0:
                            best, best_score, epochs_without_gain = nlp.to_bytes(), score, 0
                    if epochs_without_gain >= config.patience:
                        break
            return self._blank_pipeline(()).from_bytes(best)

    def _infer(self, state: Any, data: Dataset) -> LabelOutput:
        """Entities that the pipeline finds in the given tokens."""
        labels = np.zeros(len(data.tokens), np.int16)
        docs = (_make_doc(state, words) for words in _sentence_words(data))
        parsed = state.pipe(docs, batch_size=PREDICT_BATCH_SIZE)
        for offset, doc in zip(data.offsets[:-1].tolist(), parsed, strict=True):
            for entity in doc.ents:
                b_label = 2 * data.tags.type_index(entity.label_) + 1
                labels[offset + entity.start : offset + entity.end] = b_label + 1
                labels[offset + entity.start] = b_label
        return LabelOutput(labels)

    def _save_state(self, state: Any, folder: Path) -> dict[str, Any]:
        """Write a folder that spaCy can load."""
        state.to_disk(folder)
        card = model_card(sorted(state.get_pipe("ner").labels), "spacy")
        (folder / "README.md").write_text(card, encoding="utf-8")
        return {}

    def _load_state(self, folder: Path, metadata: Mapping[str, Any]) -> Any:
        """Load such a folder."""
        try:
            return import_spacy().load(folder)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            reason = first_line(error)
            raise DataError(f"{folder}: the pipeline cannot be loaded: {reason}") from error

    def _blank_pipeline(self, types: tuple[str, ...]) -> Any:
        try:
            nlp = import_spacy().blank(self.config.language)
        except ImportError as error:
            raise ConfigError(f"language {self.config.language!r}: {first_line(error)}") from error
        ner = nlp.add_pipe("ner")
        for name in types:
            ner.add_label(name)
        return nlp

    def _validation_score(self, nlp: Any, valid: Targets) -> float:
        return validation_score(self._infer(nlp, valid.data), valid)


def _sentence_words(data: Dataset) -> Iterator[list[str]]:
    """Words of each sentence in a form that spaCy accepts."""
    words = [to_spacy_word(word) for word in data.tokens.to_list()]
    return (words[start:end] for start, end in pairwise(data.offsets.tolist()))


def _make_doc(nlp: Any, words: list[str]) -> Any:
    return import_spacy("spacy.tokens").Doc(nlp.vocab, words=words)


def _examples(nlp: Any, targets: Targets) -> Iterator[Any]:
    """Training examples of the sentences that are not empty."""
    spacy_tokens, example_class = (
        import_spacy("spacy.tokens"),
        import_spacy("spacy.training").Example,
    )
    tags, data = targets.data.tags, targets.data
    spans = tags.spans(targets.labels, data.offsets).by_sentence(len(data))
    for words, row in zip(_sentence_words(data), spans, strict=True):
        if not words:
            continue
        doc, is_space = _make_doc(nlp, words), np.array([word.isspace() for word in words])
        trimmed = [(*_trim_whitespace(start, end, is_space), type_index) for start, end, type_index in row]
        entities = [
            spacy_tokens.Span(doc, start, end, label=tags.types[type_index])
            for start, end, type_index in trimmed
            if start < end
        ]
        doc.set_ents(entities, default="outside")
        yield example_class(_make_doc(nlp, words), doc)


def _trim_whitespace(start: int, end: int, is_space: NDArray[np.bool_]) -> tuple[int, int]:
    """Bounds of a span without the whitespace tokens at its ends."""
    while start < end and is_space[start]:
        start += 1
    while start < end and is_space[end - 1]:
        end -= 1
    return start, end


@contextmanager
def _fixed_seed(seed: int) -> Iterator[None]:
    """Seed the global generators of Python and NumPy, which spaCy uses, and restore them afterwards."""
    rng_states = random.getstate(), np.random.get_state()
    import_spacy("spacy.util").fix_random_seed(seed)
    try:
        yield
    finally:
        random.setstate(rng_states[0])
        np.random.set_state(rng_states[1])
