"""Nothing is lost between any two formats that can carry the content."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import convener as cv
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.io import formats
from convener.io.api import read_content
from convener.io.formats import LabeledData
from tests.generators import Kind, contents, same

SUFFIXES = {
    ".json": "wrench",
    ".jsonl": "jsonl",
    ".conll": "conll",
    ".csv": "table",
    ".parquet": "table",
    ".npz": "npz",
    ".spacy": "spacy",
    ".hf": "huggingface",
}


def kept(content: LabeledData, names: tuple[str, str]) -> LabeledData:
    """The content without what one of the formats cannot carry."""
    carries = formats.get_format(names[0]).capabilities & formats.get_format(names[1]).capabilities
    data = content.data if isinstance(content, cv.Predictions) else content
    if "text" not in carries:
        data = replace(data, text=None)
    if "documents" not in carries:
        data = replace(data, doc_ids=None)
    if isinstance(content, cv.Dataset):
        return data
    fields = {"probabilities": "probabilities", "scores": "span_scores"}
    changes = {field: None for part, field in fields.items() if part not in carries}
    return replace(content, data=data, **changes)


def there_and_back(content: LabeledData, path: Path) -> LabeledData:
    cv.write(content, path)
    return read_content(path)


def test_every_format_is_tried() -> None:
    writable = {form.name for form in formats.list_formats() if form.suffixes}
    assert writable == set(SUFFIXES.values())


@pytest.mark.parametrize(("first", "second"), list(product(SUFFIXES, SUFFIXES)))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents(Kind(spaces=False)))
def test_through_two_formats_and_back(first: str, second: str, content: LabeledData) -> None:
    content = kept(content, (SUFFIXES[first], SUFFIXES[second]))
    with TemporaryDirectory() as room:
        once = there_and_back(content, Path(room) / f"a{first}")
        twice = there_and_back(once, Path(room) / f"b{second}")
    assert same(once, content)
    assert same(twice, content)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_sentence_of_5000_tokens(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = StringArray.from_list(["Ada", "北京", "🙂", "e\u0301", "of"])
    offsets = lengths_to_offsets([3, 5000, 1])
    tags = cv.TagSet(("PER", "LOC"))

    def labels() -> np.ndarray:
        drawn = rng.choice(5, size=5004, p=[0.8, 0.08, 0.05, 0.05, 0.02]).astype(np.int16)
        return tags.repair(drawn, offsets)[0]

    data = cv.Dataset(
        tags=tags,
        tokens=words.take(rng.integers(len(words), size=5004)),
        offsets=offsets,
        sources=("a", "b"),
        votes=np.stack([labels(), labels()], axis=1),
        silence=("O", "abstain"),
        gold=labels(),
    )
    assert there_and_back(data, tmp_path / f"long{suffix}") == data
