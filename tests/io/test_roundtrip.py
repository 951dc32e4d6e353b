"""Round trips through every pair of formats that can store the content."""

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
from convener.io.formats import LabeledData
from tests.generators import Kind, contents, same
from tests.helpers.reading import read_content

pytestmark = pytest.mark.slow

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


def supported(content: LabeledData, names: tuple[str, str]) -> LabeledData:
    """Return the content without the parts that one of the formats cannot store."""
    capabilities = formats.get_format(names[0]).capabilities & formats.get_format(names[1]).capabilities
    data = content.data if isinstance(content, cv.Predictions) else content
    if "text" not in capabilities:
        data = replace(data, text=None)
    if "documents" not in capabilities:
        data = replace(data, doc_ids=None)
    if isinstance(content, cv.Dataset):
        return data
    fields = {"probabilities": "probabilities", "scores": "span_scores"}
    changes = {field: None for part, field in fields.items() if part not in capabilities}
    return replace(content, data=data, **changes)


def round_trip(content: LabeledData, path: Path) -> LabeledData:
    cv.write(content, path, metadata=True)
    return read_content(path)


def test_every_writable_format_is_tested() -> None:
    writable = {item.name for item in formats.list_formats() if item.suffixes}
    assert writable == set(SUFFIXES.values())


@pytest.mark.parametrize(("first", "second"), list(product(SUFFIXES, SUFFIXES)))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=contents(Kind(spaces=False)))
def test_content_survives_two_formats(first: str, second: str, content: LabeledData) -> None:
    content = supported(content, (SUFFIXES[first], SUFFIXES[second]))
    with TemporaryDirectory() as folder:
        once = round_trip(content, Path(folder) / f"a{first}")
        twice = round_trip(once, Path(folder) / f"b{second}")
    assert same(once, content)
    assert same(twice, content)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_sentence_of_5000_tokens_survives(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = StringArray.from_list(["Ada", "北京", "🙂", "e\u0301", "of"])
    offsets = lengths_to_offsets([3, 5000, 1])
    tags = cv.TagSet(("PER", "LOC"))

    def labels() -> np.ndarray:
        sampled = rng.choice(5, size=5004, p=[0.8, 0.08, 0.05, 0.05, 0.02]).astype(np.int16)
        return tags.repair(sampled, offsets)[0]

    data = cv.Dataset(
        tags=tags,
        tokens=words.take(rng.integers(len(words), size=5004)),
        offsets=offsets,
        sources=("a", "b"),
        votes=np.stack([labels(), labels()], axis=1),
        unmarked=("abstain", "outside"),
        gold=labels(),
    )
    assert round_trip(data, tmp_path / f"long{suffix}") == data
