"""The dataset builder: from sentences and spans to datasets and predictions."""

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


def make_builder(**options: object) -> DatasetBuilder:
    builder = DatasetBuilder(ReadOptions(**options), Issues())  # type: ignore[arg-type]
    builder.add_sentence(["Ada", "wrote"], where="f:1")
    builder.add_span("a", 0, 1, "PER")
    builder.source_spans("b")
    builder.add_sentence([], where="f:2")
    builder.add_sentence(["東京", "🙂"], where="f:3")
    builder.add_span("b", 0, 2, "LOC")
    builder.abstain("a")
    return builder


def test_sources_are_ordered_by_first_appearance() -> None:
    data = make_builder().build(metadata=Metadata(unmarked={"a": "outside", "b": "abstain"}))
    assert isinstance(data, Dataset)
    assert data.tags.types == ("LOC", "PER")
    assert data.sources == ("a", "b")
    assert data.unmarked == ("outside", "abstain")
    assert data.votes.tolist() == [[3, 0], [0, 0], [-1, 1], [-1, 2]]
    assert data.tokens.to_list() == ["Ada", "wrote", "東京", "🙂"]
    assert data.gold is None
    assert data.doc_ids is None


def test_the_options_select_sources_types_and_unmarked() -> None:
    selected = make_builder(sources=("b",), types=("PER", "LOC"), unmarked="outside").build()
    assert isinstance(selected, Dataset)
    assert (selected.sources, selected.unmarked) == (("b",), ("outside",))
    assert selected.votes[:, 0].tolist() == [0, 0, 3, 4]
    with pytest.raises(UnknownNameError, match="no source 'c'"):
        make_builder(sources=("c",)).build()
    with pytest.raises(DataError, match=r"^f:1: no entity type 'PER'; available: LOC \(a\)$"):
        make_builder(types=("LOC",)).build()


def test_observed_types_are_available_before_build() -> None:
    assert make_builder().observed_types == ("PER", "LOC")


@pytest.mark.parametrize(("start", "end"), [(0, 2**31), (-(2**70), 1), (0, 2**80)])
def test_offsets_out_of_range_are_an_error(start: int, end: int) -> None:
    builder = make_builder()
    with pytest.raises(DataError, match=r"^f:3: span .* of gold is out of range$"):
        builder.add_span(GOLD, start, end, "PER")


def test_gold_without_spans_is_gold() -> None:
    builder = make_builder()
    builder.source_spans(GOLD)
    data = builder.build()
    assert isinstance(data, Dataset)
    assert data.gold is not None
    assert data.gold.tolist() == [0, 0, 0, 0]


def predictions(score: float, probabilities: np.ndarray | None) -> Predictions:
    builder = DatasetBuilder(ReadOptions(), Issues())
    builder.add_sentence(["Ada"], where="f:1")
    builder.add_span(PREDICTIONS, 0, 1, "PER", score)
    result = builder.build(probabilities=probabilities, metadata=Metadata(model="m", model_settings={"a": 1}))
    assert isinstance(result, Predictions)
    return result


def test_predicted_spans_make_predictions_with_scores() -> None:
    plain = predictions(0.5, None)
    assert plain.span_scores is not None
    assert plain.span_scores.tolist() == [0.5]
    assert (plain.model, plain.settings) == ("m", {"a": 1})
    assert predictions(float("nan"), None).span_scores is None


def test_scores_that_follow_from_probabilities_are_not_stored() -> None:
    rows = np.array([[0.5, 0.5, 0]], np.float32)
    assert predictions(0.5, rows).span_scores is None
    other = predictions(0.25, rows)
    assert other.span_scores is not None
    assert other.span_scores.tolist() == [0.25]


def test_text_must_be_given_for_every_sentence_or_none() -> None:
    builder = make_builder()
    with pytest.raises(DataError, match=r"^f:4: text must be given for every sentence or for none$"):
        builder.add_sentence([], where="f:4", text="", token_offsets=np.zeros((0, 2), np.int32))


def test_strings_with_characters_of_every_width_are_packed() -> None:
    builder = StringArrayBuilder()
    for strings in (["a", "", "bc"], ["é🙂", "x", "\ud800"], []):
        builder.extend(strings)
    assert builder.build() == StringArray.from_list(["a", "", "bc", "é🙂", "x", "\ud800"])
