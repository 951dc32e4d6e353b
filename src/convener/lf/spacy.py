"""spaCy sources: the entities of a pipeline, and the matches of token patterns."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, Unpack

from convener.data.tokenize import to_spacy_word
from convener.errors import ConfigError, DataError, UnknownNameError, check_known, first_line, require
from convener.lf.doc import Doc
from convener.lf.function import (
    BatchedSource,
    LabelingFunction,
    LabelMapping,
    LFSettings,
    RawOutput,
    absolute_path,
    to_label_map,
)
from convener.storage import compute_digest, file_digest

BATCH_SIZE = 256
"""Number of texts per batch of a pipeline."""
EXCLUDED_COMPONENTS = (
    *("tagger", "morphologizer", "parser", "senter"),
    *("attribute_ruler", "lemmatizer", "trainable_lemmatizer"),
)
"""Components that entity recognizers do not need; patterns of an entity ruler may need them."""
TokenPattern = Sequence[Mapping[str, Any]]
"""A spaCy token pattern: one attribute dictionary per token."""


def spacy_model(
    pipeline: str | Path,
    labels: LabelMapping,
    *,
    name: str | None = None,
    exclude: Sequence[str] = EXCLUDED_COMPONENTS,
    **settings: Unpack[LFSettings],
) -> LabelingFunction:
    """Return a labeling function that marks the entities of a spaCy pipeline.

    pipeline  an installed package or a folder
    labels    the entity types to use, or a mapping from them to labels; other types are dropped
    exclude   components that are not loaded; pass () if rules of the pipeline need them
    settings  other fields of `LabelingFunction`

    The pipeline receives our tokens and sentences. It is loaded on first use, once per process.
    """
    pipeline_path, label_map = absolute_path(pipeline), to_label_map(labels)
    pipeline_folder(pipeline_path)
    if (available_types := pipeline_types(pipeline_path)) is not None:
        check_known(f"entity type of {pipeline_path}", label_map, available_types)
    source = PipelineEntities(pipeline_path, label_map, tuple(exclude))
    return source.as_function(name or Path(pipeline_path).name, label_map.values(), settings)


def spacy_matcher(
    patterns: Mapping[str, Sequence[TokenPattern]],
    *,
    name: str = "spacy_matcher",
    language: str = "en",
    pipeline: str | Path | None = None,
    exclude: Sequence[str] = (),
    **settings: Unpack[LFSettings],
) -> LabelingFunction:
    """Return a labeling function that marks the matches of spaCy token patterns.

    patterns  a list of patterns per label, in the syntax of spaCy's Matcher
    language  language of lexical attributes such as LIKE_NUM and IS_STOP
    pipeline  a package or a folder, needed for patterns over tags, lemmas or entities
    exclude   components of the pipeline that are not loaded
    settings  other fields of `LabelingFunction`

    Of overlapping matches the longest is kept, then the first.

    >>> dose = {"DOSE": [[{"LIKE_NUM": True}, {"LOWER": {"IN": ["mg", "ml"]}}]]}
    >>> spacy_matcher(dose)("Take 5 mg daily")
    Take [5 mg](DOSE) daily
    """
    if not isinstance(patterns, Mapping):
        raise ConfigError(f"patterns must be a mapping from labels to lists of patterns, got {type(patterns).__name__}")
    try:
        patterns_json = json.dumps(patterns)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"patterns must be JSON-serializable: {error}") from None
    pipeline_path = None if pipeline is None else absolute_path(pipeline)
    source = PatternMatches(patterns_json, language, pipeline_path, tuple(exclude))
    function = source.as_function(name, patterns, settings)
    _check_patterns(source)
    return function


@dataclass(frozen=True)
class PipelineEntities(BatchedSource):
    """Entities of a pipeline, with labels mapped."""

    pipeline: str
    label_map: dict[str, str]
    exclude: tuple[str, ...]

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """Return the entities of each text."""
        return [
            [
                (entity.start, entity.end, self.label_map[entity.label_])
                for entity in spacy_doc.ents
                if entity.label_ in self.label_map
            ]
            for spacy_doc in run_pipeline(load_pipeline(self.pipeline, self.exclude), docs)
        ]

    def fingerprint(self) -> str:
        """Return a digest of the pipeline and the settings."""
        settings = {"renamed": self.label_map, "exclude": self.exclude}
        return compute_digest(pipeline_digest(self.pipeline), settings)


@dataclass(frozen=True)
class PatternMatches(BatchedSource):
    """Matches of token patterns in the output of a pipeline."""

    patterns: str
    """The patterns as JSON."""
    language: str
    pipeline: str | None
    exclude: tuple[str, ...]

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """Return the non-overlapping matches of each text."""
        nlp, matcher = _build_matcher(self.patterns, self.language, self.pipeline, self.exclude)
        filter_spans = import_spacy("spacy.util").filter_spans
        return [
            [(span.start, span.end, span.label_) for span in filter_spans(matcher(spacy_doc, as_spans=True))]
            for spacy_doc in run_pipeline(nlp, docs)
        ]

    def fingerprint(self) -> str:
        """Return a digest of the patterns, the settings and the pipeline."""
        settings = {"language": self.language, "exclude": self.exclude}
        return compute_digest(pipeline_digest(self.pipeline), self.patterns, settings)


def import_spacy(module: str = "spacy") -> Any:
    """Import spaCy or one of its modules."""
    return require(module, extra="spacy", purpose="a source that uses spaCy")


def pipeline_folder(name: str) -> Path:
    """Return the folder of a pipeline, given a path or the name of an installed package."""
    if Path(name).is_dir():
        return Path(name)
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise UnknownNameError(f"unknown spaCy pipeline {name!r}: expected a folder or an installed package")
    return Path(spec.origin).parent


def pipeline_types(name: str) -> list[str] | None:
    """Return the labels listed in the pipeline's meta.json, or None if it lists none."""
    try:
        meta = json.loads((pipeline_folder(name) / "meta.json").read_text(encoding="utf-8"))
        return [kind for kinds in meta["labels"].values() for kind in kinds]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def pipeline_digest(name: str | None) -> str:
    """Return a digest of a pipeline: a package by its version, a folder by its files, None by spaCy's version."""
    spacy_version = metadata.version("spacy")
    if name is None:
        return compute_digest(spacy_version)
    if not Path(name).is_dir():
        with suppress(metadata.PackageNotFoundError):  # importable, but not installed as a package
            return compute_digest(spacy_version, name, metadata.version(name))
    folder = pipeline_folder(name)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    names = [str(file.relative_to(folder)) for file in files]
    return compute_digest(spacy_version, *names, *map(file_digest, files))


@cache
def load_pipeline(name: str, exclude: tuple[str, ...]) -> Any:
    """Load a pipeline, once per process."""
    folder = pipeline_folder(name)
    try:
        nlp = import_spacy().load(folder if folder == Path(name) else name, exclude=list(exclude))
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise DataError(f"{name}: cannot load the pipeline: {first_line(error)}") from error
    for component in list(nlp.pipe_names):
        # Shared embeddings cost a third of the run time; remove them if no component uses them.
        if getattr(nlp.get_pipe(component), "listening_components", None) == []:
            nlp.remove_pipe(component)
    return nlp


def run_pipeline(nlp: Any, docs: Sequence[Doc]) -> Iterator[Any]:
    """Run a pipeline on our tokens and yield spaCy documents."""
    doc_class = import_spacy("spacy.tokens").Doc
    inputs = (doc_class(nlp.vocab, **_doc_arguments(input_doc)) for input_doc in docs)
    outputs: Iterable[Any] = nlp.pipe(inputs, batch_size=BATCH_SIZE)
    return iter(outputs)


def _doc_arguments(doc: Doc) -> dict[str, Any]:
    """Return words, trailing spaces and sentence starts for spaCy's `Doc`."""
    sentence_starts = {start for start, _ in doc.sentences}
    return {
        "words": [to_spacy_word(word) for word in doc],
        "spaces": [
            *(left[1] < right[0] for left, right in pairwise(doc.token_offsets)),
            *[False] * bool(doc),
        ],
        "sent_starts": [number in sentence_starts for number in range(len(doc))],
    }


def _check_patterns(source: PatternMatches) -> None:
    """Raise an error for invalid patterns without loading the pipeline."""
    nlp, matcher = _build_matcher(source.patterns, source.language, None, ())
    if source.pipeline is None:
        try:
            matcher(nlp("a"))
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"these patterns need a pipeline: {reason}") from error


@cache
def _build_matcher(patterns: str, language: str, name: str | None, exclude: tuple[str, ...]) -> tuple[Any, Any]:
    """Return a pipeline and a matcher for its documents, built once per process."""
    nlp = _blank(language) if name is None else load_pipeline(name, exclude)
    matcher = import_spacy("spacy.matcher").Matcher(nlp.vocab, validate=True)
    for label, rows in json.loads(patterns).items():
        try:
            matcher.add(label, rows)
        except Exception as error:  # of spaCy and of its validation library
            reason = " ".join(str(error).split())
            raise ConfigError(f"invalid patterns for {label!r}: {reason}") from error
    return nlp, matcher


@cache
def _blank(language: str) -> Any:
    try:
        return import_spacy().blank(language)
    except ImportError:
        raise ConfigError(f"spaCy does not support the language {language!r}") from None
