"""What sources that run a model share: many texts at once, and types under other names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from convener.errors import ConfigError
from convener.lf.function import LabelingFunction, RawOutput, labeling_function
from convener.lf.view import Doc

LabelMapping = Mapping[str, str] | Sequence[str]
"""Which of a model's types are used: a list of them, or a mapping to the names they get."""


class BatchedSource(ABC):
    """Finds spans in many texts at once. Holds settings only, so that a process can be sent it."""

    @abstractmethod
    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """What is found in each text."""

    @abstractmethod
    def fingerprint(self) -> str:
        """All that decides what is found, as one word."""

    def find(self, doc: Doc) -> RawOutput:
        """What is found in one text."""
        (output,) = self.find_batch([doc])
        return output

    def as_function(self, name: str, labels: Iterable[str], settings: Mapping[str, Any]) -> LabelingFunction:
        """The labeling function; settings are the fields of `LabelingFunction`."""
        label_names = tuple(dict.fromkeys(labels))
        lf_fields = {"batch_func": self.find_batch, "offsets": "tokens"}
        return labeling_function(label_names, name=name, **lf_fields, **settings)(self.find)


def absolute_path(model: str | Path) -> str:
    """A model's name, or the whole path of its folder, wherever one goes from here."""
    return str(Path(model).absolute() if Path(model).is_dir() else model)


def to_label_map(labels: LabelMapping) -> dict[str, str]:
    """A model's types and what they are called here.

    >>> to_label_map(["PER"]), to_label_map({"GPE": "LOC", "LOC": "LOC"})
    ({'PER': 'PER'}, {'GPE': 'LOC', 'LOC': 'LOC'})
    """
    if isinstance(labels, str) or not labels:
        raise ConfigError(f"labels are a list or a mapping of entity types, got {labels!r}")
    return dict(labels) if isinstance(labels, Mapping) else {name: name for name in labels}
