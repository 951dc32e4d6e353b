"""Sentences and spans become datasets and predictions."""

from __future__ import annotations

import numpy as np
import pytest

from convener.data import Dataset
from convener.errors import DataError, UnknownNameError
from convener.io.assemble import GOLD, LABELS, Assembler, StringsBuilder
from convener.io.facts import Facts
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.packed import Strings
from convener.predictions import Predictions


def assembler(**options: object) -> Assembler:
    found = Assembler(ReadOptions(**options), Report())  # type: ignore[arg-type]
    found.sentence(["Ada", "wrote"], where="f:1")
    found.span("a", 0, 1, "PER")
    found.source("b")
    found.sentence([], where="f:2")
    found.sentence(["東京", "🙂"], where="f:3")
    found.span("b", 0, 2, "LOC")
    found.unseen("a")
    return found


def test_votes_by_source_in_the_order_they_came() -> None:
    data = assembler().build(facts=Facts(silence={"a": "abstain", "b": "O"}))
    assert isinstance(data, Dataset)
    assert data.tags.types == ("LOC", "PER")
    assert data.sources == ("a", "b")
    assert data.silence == ("abstain", "O")
    assert data.votes.tolist() == [[3, 0], [0, 0], [-1, 1], [-1, 2]]
    assert data.tokens.to_list() == ["Ada", "wrote", "東京", "🙂"]
    assert data.gold is None
    assert data.documents is None


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
    assert assembler().found_types == ("PER", "LOC")


@pytest.mark.parametrize(("start", "end"), [(0, 2**31), (-(2**70), 1), (0, 2**80)])
def test_offsets_beyond_all_bounds_are_refused(start: int, end: int) -> None:
    found = assembler()
    with pytest.raises(DataError, match=r"^f:3: span .* of gold is out of range$"):
        found.span(GOLD, start, end, "PER")


def test_gold_that_marks_nothing_is_gold() -> None:
    found = assembler()
    found.source(GOLD)
    data = found.build()
    assert isinstance(data, Dataset)
    assert data.gold is not None
    assert data.gold.tolist() == [0, 0, 0, 0]


def predictions(score: float, probabilities: np.ndarray | None) -> Predictions:
    found = Assembler(ReadOptions(), Report())
    found.sentence(["Ada"], where="f:1")
    found.span(LABELS, 0, 1, "PER", score)
    result = found.build(probabilities=probabilities, facts=Facts(model="m", settings={"a": 1}))
    assert isinstance(result, Predictions)
    return result


def test_labels_make_predictions_and_keep_their_scores() -> None:
    plain = predictions(0.5, None)
    assert plain.scores is not None
    assert plain.scores.tolist() == [0.5]
    assert (plain.model, plain.settings) == ("m", {"a": 1})
    assert predictions(float("nan"), None).scores is None


def test_scores_that_the_probabilities_give_are_not_kept_twice() -> None:
    rows = np.array([[0.5, 0.5, 0]], np.float32)
    assert predictions(0.5, rows).scores is None
    other = predictions(0.25, rows)
    assert other.scores is not None
    assert other.scores.tolist() == [0.25]


def test_text_is_for_all_sentences_or_none() -> None:
    found = assembler()
    with pytest.raises(DataError, match=r"^f:4: some sentences have text and some do not$"):
        found.sentence([], where="f:4", text="", chars=np.zeros((0, 2), np.int32))


def test_strings_of_every_width_are_packed() -> None:
    builder = StringsBuilder()
    for strings in (["a", "", "bc"], ["é🙂", "x", "\ud800"], []):
        builder.extend(strings)
    assert builder.build() == Strings.of(["a", "", "bc", "é🙂", "x", "\ud800"])
