"""Sentences and spans become datasets and predictions."""

from __future__ import annotations

import numpy as np
import pytest

from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.errors import DataError, UnknownNameError
from convener.io.builder import GOLD, PREDICTIONS, DatasetBuilder, StringArrayBuilder
from convener.io.formats import ReadOptions
from convener.io.metadata import Metadata


def assembler(**options: object) -> DatasetBuilder:
    found = DatasetBuilder(ReadOptions(**options), Issues())  # type: ignore[arg-type]
    found.add_sentence(["Ada", "wrote"], where="f:1")
    found.add_span("a", 0, 1, "PER")
    found.source_spans("b")
    found.add_sentence([], where="f:2")
    found.add_sentence(["東京", "🙂"], where="f:3")
    found.add_span("b", 0, 2, "LOC")
    found.abstain("a")
    return found


def test_votes_by_source_in_the_order_they_came() -> None:
    data = assembler().build(metadata=Metadata(silence={"a": "abstain", "b": "O"}))
    assert isinstance(data, Dataset)
    assert data.tags.types == ("LOC", "PER")
    assert data.sources == ("a", "b")
    assert data.silence == ("abstain", "O")
    assert data.votes.tolist() == [[3, 0], [0, 0], [-1, 1], [-1, 2]]
    assert data.tokens.to_list() == ["Ada", "wrote", "東京", "🙂"]
    assert data.gold is None
    assert data.doc_ids is None


def test_the_options_choose_sources_types_and_silence() -> None:
    chosen = assembler(sources=("b",), types=("PER", "LOC"), silence="abstain").build()
    assert isinstance(chosen, Dataset)
    assert (chosen.sources, chosen.silence) == (("b",), ("abstain",))
    assert chosen.votes[:, 0].tolist() == [0, 0, 3, 4]
    with pytest.raises(UnknownNameError, match="no source 'c'"):
        assembler(sources=("c",)).build()
    with pytest.raises(DataError, match=r"^f:1: no entity type 'PER'; available: LOC \(a\)$"):
        assembler(types=("LOC",)).build()


def test_types_are_known_before_the_dataset_is() -> None:
    assert assembler().observed_types == ("PER", "LOC")


@pytest.mark.parametrize(("start", "end"), [(0, 2**31), (-(2**70), 1), (0, 2**80)])
def test_offsets_beyond_all_bounds_are_refused(start: int, end: int) -> None:
    found = assembler()
    with pytest.raises(DataError, match=r"^f:3: span .* of gold is out of range$"):
        found.add_span(GOLD, start, end, "PER")


def test_gold_that_marks_nothing_is_gold() -> None:
    found = assembler()
    found.source_spans(GOLD)
    data = found.build()
    assert isinstance(data, Dataset)
    assert data.gold is not None
    assert data.gold.tolist() == [0, 0, 0, 0]


def predictions(score: float, probabilities: np.ndarray | None) -> Predictions:
    found = DatasetBuilder(ReadOptions(), Issues())
    found.add_sentence(["Ada"], where="f:1")
    found.add_span(PREDICTIONS, 0, 1, "PER", score)
    result = found.build(probabilities=probabilities, metadata=Metadata(model="m", model_settings={"a": 1}))
    assert isinstance(result, Predictions)
    return result


def test_labels_make_predictions_and_keep_their_scores() -> None:
    plain = predictions(0.5, None)
    assert plain.span_scores is not None
    assert plain.span_scores.tolist() == [0.5]
    assert (plain.model, plain.settings) == ("m", {"a": 1})
    assert predictions(float("nan"), None).span_scores is None


def test_scores_that_the_probabilities_give_are_not_kept_twice() -> None:
    rows = np.array([[0.5, 0.5, 0]], np.float32)
    assert predictions(0.5, rows).span_scores is None
    other = predictions(0.25, rows)
    assert other.span_scores is not None
    assert other.span_scores.tolist() == [0.25]


def test_text_is_for_all_sentences_or_none() -> None:
    found = assembler()
    with pytest.raises(DataError, match=r"^f:4: some sentences have text and some do not$"):
        found.add_sentence([], where="f:4", text="", token_offsets=np.zeros((0, 2), np.int32))


def test_strings_of_every_width_are_packed() -> None:
    builder = StringArrayBuilder()
    for strings in (["a", "", "bc"], ["é🙂", "x", "\ud800"], []):
        builder.extend(strings)
    assert builder.build() == StringArray.from_list(["a", "", "bc", "é🙂", "x", "\ud800"])
