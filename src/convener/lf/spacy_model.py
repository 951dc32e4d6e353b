"""The entities of a spaCy pipeline as votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convener.caching import digest_of
from convener.errors import check_known
from convener.lf.batched import Batched, Labels, located, renamings
from convener.lf.function import Found, LabelingFunction
from convener.lf.spacy_docs import digest_of_pipeline, docs_of, folder_of, pipeline, types_of
from convener.lf.view import View

NOT_NEEDED = (
    *("tagger", "morphologizer", "parser", "senter"),
    *("attribute_ruler", "lemmatizer", "trainable_lemmatizer"),
)
"""Components that entity recognisers do without; patterns of an entity ruler may not."""


def spacy_model(
    pipeline: str | Path,
    labels: Labels,
    *,
    name: str | None = None,
    exclude: Sequence[str] = NOT_NEEDED,
    **settings: Any,
) -> LabelingFunction:
    """A source that gives a pipeline's entities.

    pipeline: an installed package, or a folder. labels: the types to use, or a mapping from the
    pipeline's types to yours; others are left out. exclude: components that are not run; give ()
    where a rule of the pipeline needs them. Settings are those of `LabelingFunction`.

    The pipeline is given our words and sentences, loaded when the first text comes and once in
    each process.
    """
    place, renamed = located(pipeline), renamings(labels)
    folder_of(place)
    if (known := types_of(place)) is not None:
        check_known(f"entity type of {place}", renamed, known)
    source = Entities(place, renamed, tuple(exclude))
    return source.as_function(name or Path(place).name, renamed.values(), settings)


@dataclass(frozen=True)
class Entities(Batched):
    """Entities of a pipeline, renamed."""

    pipeline: str
    renamed: dict[str, str]
    exclude: tuple[str, ...]

    def find_all(self, views: Sequence[View]) -> list[Found]:
        """The entities of each text."""
        return [
            [
                (entity.start, entity.end, self.renamed[entity.label_])
                for entity in doc.ents
                if entity.label_ in self.renamed
            ]
            for doc in docs_of(pipeline(self.pipeline, self.exclude), views)
        ]

    def digest(self) -> str:
        """By the pipeline and what is made of it."""
        settings = {"renamed": self.renamed, "exclude": self.exclude}
        return digest_of(digest_of_pipeline(self.pipeline), settings)
