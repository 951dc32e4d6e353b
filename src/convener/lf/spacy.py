"""The entities of a spaCy pipeline as votes."""

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
from typing import Any

from convener.data.tokenize import to_spacy_word
from convener.errors import ConfigError, DataError, UnknownNameError, check_known, first_line, require
from convener.lf.doc import Doc
from convener.lf.function import BatchedSource, LabelingFunction, LabelMapping, RawOutput, absolute_path, to_label_map
from convener.storage import compute_digest, file_digest

BATCH_SIZE = 256
"""Texts that a pipeline reads at once."""


def import_spacy(module: str = "spacy") -> Any:
    """A module of the library."""
    return require(module, extra="spacy", purpose="a source that uses spaCy")


def pipeline_folder(name: str) -> Path:
    """Where a pipeline lies: its folder, or the installed package of that name."""
    if Path(name).is_dir():
        return Path(name)
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise UnknownNameError(f"no spaCy pipeline {name!r}: neither a folder nor an installed package")
    return Path(spec.origin).parent


def pipeline_types(name: str) -> list[str] | None:
    """The types that the pipeline's components know, as its folder tells; None if it does not."""
    try:
        meta = json.loads((pipeline_folder(name) / "meta.json").read_text(encoding="utf-8"))
        return [kind for kinds in meta["labels"].values() for kind in kinds]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def pipeline_digest(name: str | None) -> str:
    """What a pipeline is: a package by its version, a folder by all its files; None is none."""
    spacy_version = metadata.version("spacy")
    if name is None:
        return compute_digest(spacy_version)
    if not Path(name).is_dir():
        with suppress(metadata.PackageNotFoundError):  # a module that was never installed
            return compute_digest(spacy_version, name, metadata.version(name))
    folder = pipeline_folder(name)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    names = [str(file.relative_to(folder)) for file in files]
    return compute_digest(spacy_version, *names, *map(file_digest, files))


@cache
def load_pipeline(name: str, exclude: tuple[str, ...]) -> Any:
    """A pipeline, loaded once in a process."""
    folder = pipeline_folder(name)
    try:
        nlp = import_spacy().load(folder if folder == Path(name) else name, exclude=list(exclude))
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise DataError(f"{name}: the pipeline cannot be loaded: {first_line(error)}") from error
    for component in list(nlp.pipe_names):
        # Embeddings for other components cost a third of the time; where none listens, for nothing.
        if getattr(nlp.get_pipe(component), "listening_components", None) == []:
            nlp.remove_pipe(component)
    return nlp


def run_pipeline(nlp: Any, docs: Sequence[Doc]) -> Iterator[Any]:
    """The documents of some texts, after the pipeline."""
    doc_class = import_spacy("spacy.tokens").Doc
    inputs = (doc_class(nlp.vocab, **_doc_arguments(input_doc)) for input_doc in docs)
    outputs: Iterable[Any] = nlp.pipe(inputs, batch_size=BATCH_SIZE)
    return iter(outputs)


def _doc_arguments(doc: Doc) -> dict[str, Any]:
    """Words, whether a space follows each, and whether each begins a sentence."""
    sentence_starts = {start for start, _ in doc.sentences}
    return {
        "words": [to_spacy_word(word) for word in doc],
        "spaces": [
            *(one[1] < two[0] for one, two in pairwise(doc.token_offsets)),
            *[False] * bool(doc),
        ],
        "sent_starts": [number in sentence_starts for number in range(len(doc))],
    }


TokenPattern = Sequence[Mapping[str, Any]]
"""One description for each word, in spaCy's terms."""


def spacy_matcher(
    patterns: Mapping[str, Sequence[TokenPattern]],
    *,
    name: str = "spacy_matcher",
    language: str = "en",
    pipeline: str | Path | None = None,
    exclude: Sequence[str] = (),
    **settings: Any,
) -> LabelingFunction:
    """A source that marks what patterns of spaCy's Matcher match.

    patterns: for each entity type a list of patterns, as spaCy's documentation describes them.
    language: whose idea of numbers and stop words counts. pipeline: a package or a folder, for
    patterns over tags, lemmas and entities, without the components in `exclude`. Of overlapping
    matches the longest counts, then the first. Settings are those of `LabelingFunction`.

    >>> dose = {"DOSE": [[{"LIKE_NUM": True}, {"LOWER": {"IN": ["mg", "ml"]}}]]}
    >>> spacy_matcher(dose)("Take 5 mg daily")
    [(1, 3, 'DOSE')]
    """
    if not isinstance(patterns, Mapping):
        raise ConfigError(f"patterns are lists by entity type, got {type(patterns).__name__}")
    try:
        patterns_json = json.dumps(patterns)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"patterns must be values that JSON has: {error}") from None
    pipeline_path = None if pipeline is None else absolute_path(pipeline)
    source = PatternMatches(patterns_json, language, pipeline_path, tuple(exclude))
    function = source.as_function(name, patterns, settings)
    _check_patterns(source)
    return function


@dataclass(frozen=True)
class PatternMatches(BatchedSource):
    """What patterns match, over a pipeline's documents."""

    patterns: str
    """As JSON."""
    language: str
    pipeline: str | None
    exclude: tuple[str, ...]

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """The matches in each text, none overlapping."""
        nlp, matcher = _build_matcher(self.patterns, self.language, self.pipeline, self.exclude)
        filter_spans = import_spacy("spacy.util").filter_spans
        return [
            [(span.start, span.end, span.label_) for span in filter_spans(matcher(spacy_doc, as_spans=True))]
            for spacy_doc in run_pipeline(nlp, docs)
        ]

    def fingerprint(self) -> str:
        """By the patterns, and the pipeline if there is one."""
        settings = {"language": self.language, "exclude": self.exclude}
        return compute_digest(pipeline_digest(self.pipeline), self.patterns, settings)


def _check_patterns(source: PatternMatches) -> None:
    """Say what is wrong with patterns, before any text comes; a pipeline is not loaded for that."""
    nlp, matcher = _build_matcher(source.patterns, source.language, None, ())
    if source.pipeline is None:
        try:
            matcher(nlp("a"))
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"patterns that need a pipeline: {reason}") from error


@cache
def _build_matcher(patterns: str, language: str, name: str | None, exclude: tuple[str, ...]) -> tuple[Any, Any]:
    """A pipeline and the matcher over its documents, made once in a process."""
    nlp = _blank(language) if name is None else load_pipeline(name, exclude)
    matcher = import_spacy("spacy.matcher").Matcher(nlp.vocab, validate=True)
    for label, rows in json.loads(patterns).items():
        try:
            matcher.add(label, rows)
        except Exception as error:  # spaCy's own kinds, and those of what it checks with
            reason = " ".join(str(error).split())
            raise ConfigError(f"patterns of {label!r}: {reason}") from error
    return nlp, matcher


@cache
def _blank(language: str) -> Any:
    try:
        return import_spacy().blank(language)
    except ImportError:
        raise ConfigError(f"spaCy has no language {language!r}") from None


EXCLUDED_COMPONENTS = (
    *("tagger", "morphologizer", "parser", "senter"),
    *("attribute_ruler", "lemmatizer", "trainable_lemmatizer"),
)
"""Components that entity recognisers do without; patterns of an entity ruler may not."""


def spacy_model(
    pipeline: str | Path,
    labels: LabelMapping,
    *,
    name: str | None = None,
    exclude: Sequence[str] = EXCLUDED_COMPONENTS,
    **settings: Any,
) -> LabelingFunction:
    """A source that gives a pipeline's entities.

    pipeline: an installed package, or a folder. labels: the types to use, or a mapping from the
    pipeline's types to yours; others are left out. exclude: components that are not run; give ()
    where a rule of the pipeline needs them. Settings are those of `LabelingFunction`.

    The pipeline is given our words and sentences, loaded when the first text comes and once in
    each process.
    """
    pipeline_path, label_map = absolute_path(pipeline), to_label_map(labels)
    pipeline_folder(pipeline_path)
    if (available_types := pipeline_types(pipeline_path)) is not None:
        check_known(f"entity type of {pipeline_path}", label_map, available_types)
    source = PipelineEntities(pipeline_path, label_map, tuple(exclude))
    return source.as_function(name or Path(pipeline_path).name, label_map.values(), settings)


@dataclass(frozen=True)
class PipelineEntities(BatchedSource):
    """Entities of a pipeline, renamed."""

    pipeline: str
    label_map: dict[str, str]
    exclude: tuple[str, ...]

    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """The entities of each text."""
        return [
            [
                (entity.start, entity.end, self.label_map[entity.label_])
                for entity in spacy_doc.ents
                if entity.label_ in self.label_map
            ]
            for spacy_doc in run_pipeline(load_pipeline(self.pipeline, self.exclude), docs)
        ]

    def fingerprint(self) -> str:
        """By the pipeline and what is made of it."""
        settings = {"renamed": self.label_map, "exclude": self.exclude}
        return compute_digest(pipeline_digest(self.pipeline), settings)
