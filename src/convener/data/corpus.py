"""Corpus: a train, validation and test split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from convener.data.dataset import Dataset
from convener.errors import UnknownNameError, unknown_name_message


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Named splits of a corpus: `corpus.train`, `corpus["test"]`."""

    splits: Mapping[str, Dataset]

    def __getitem__(self, name: str) -> Dataset:
        if name not in self.splits:
            raise UnknownNameError(unknown_name_message("split", name, self.splits))
        return self.splits[name]

    def __contains__(self, name: str) -> bool:
        return name in self.splits

    @property
    def train(self) -> Dataset:
        """The training split."""
        return self["train"]

    @property
    def valid(self) -> Dataset:
        """The validation split."""
        return self["valid"]

    @property
    def test(self) -> Dataset:
        """The test split."""
        return self["test"]

    def __repr__(self) -> str:
        lines = [f"  {name}: {data.summary()}" for name, data in self.splits.items()]
        return "\n".join(["Corpus", *lines])
