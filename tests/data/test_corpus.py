"""Corpus: splits by name."""

from __future__ import annotations

import pytest

from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.errors import UnknownNameError


def test_splits_are_found_by_name_and_by_attribute() -> None:
    parts = {name: Dataset.from_spans(["PER"], [[name]], {}) for name in ("train", "valid", "test")}
    corpus = Corpus(splits=parts)
    assert [corpus.train, corpus.valid, corpus.test] == list(parts.values())
    assert corpus["valid"] is parts["valid"]
    assert "train" in corpus
    assert "dev" not in corpus


def test_a_missing_split_is_reported() -> None:
    corpus = Corpus(splits={"train": Dataset.from_spans(["PER"], [], {})})
    with pytest.raises(UnknownNameError, match="no split 'test'; available: train"):
        _ = corpus.test
    with pytest.raises(UnknownNameError, match="no split 'trian'; did you mean 'train'"):
        _ = corpus["trian"]
    with pytest.raises(UnknownNameError, match="no split 0"):
        _ = corpus[0]  # type: ignore[index]


def test_the_repr_lists_the_splits() -> None:
    corpus = Corpus(splits={"train": Dataset.from_spans(["PER"], [["a"]], {})})
    expected = "Corpus\n  train: Dataset(1 sentences, 1 tokens, 0 sources, types PER)"
    assert repr(corpus) == expected
