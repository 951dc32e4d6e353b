"""What sources that run a model share: many texts at once, and types under other names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from convener.errors import ConfigError
from convener.lf.function import Found, LabelingFunction, labeling_function
from convener.lf.view import View

Labels = Mapping[str, str] | Sequence[str]
"""Which of a model's types are used: a list of them, or a mapping to the names they get."""


class Batched(ABC):
    """Finds spans in many texts at once. Holds settings only, so that a process can be sent it."""

    @abstractmethod
    def find_all(self, views: Sequence[View]) -> list[Found]:
        """What is found in each text."""

    @abstractmethod
    def digest(self) -> str:
        """All that decides what is found, as one word."""

    def find(self, view: View) -> Found:
        """What is found in one text."""
        (found,) = self.find_all([view])
        return found

    def as_function(
        self, name: str, labels: Iterable[str], settings: Mapping[str, Any]
    ) -> LabelingFunction:
        """The labeling function; settings are the fields of `LabelingFunction`."""
        given = tuple(dict.fromkeys(labels))
        as_found = {"find_all": self.find_all, "offsets": "tokens"}
        return labeling_function(given, name=name, **as_found, **settings)(self.find)


def located(model: str | Path) -> str:
    """A model's name, or the whole path of its folder, wherever one goes from here."""
    return str(Path(model).absolute() if Path(model).is_dir() else model)


def renamings(labels: Labels) -> dict[str, str]:
    """A model's types and what they are called here.

    >>> renamings(["PER"]), renamings({"GPE": "LOC", "LOC": "LOC"})
    ({'PER': 'PER'}, {'GPE': 'LOC', 'LOC': 'LOC'})
    """
    if isinstance(labels, str) or not labels:
        raise ConfigError(f"labels are a list or a mapping of entity types, got {labels!r}")
    return dict(labels) if isinstance(labels, Mapping) else {name: name for name in labels}
