"""The entities of a spaCy pipeline as votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convener.caching import compute_digest
from convener.errors import check_known
from convener.lf.batched import BatchedSource, LabelMapping, absolute_path, to_label_map
from convener.lf.function import LabelingFunction, RawOutput
from convener.lf.spacy_docs import (
    load_pipeline,
    pipeline_digest,
    pipeline_folder,
    pipeline_types,
    run_pipeline,
)
from convener.lf.view import Doc

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
