"""spaCy's own recogniser, trained on labels."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.taggers.spacy import SpacyTagger
from convener.taggers.targets import Targets

from .toys import HARD, believed, f1, sentences, text

QUICK: dict[str, Any] = {"epochs": 8, "batch": 8}


@pytest.fixture(scope="module")
def tagger() -> SpacyTagger:
    return SpacyTagger(**QUICK).fit(believed(sentences(120)))


def test_it_learns_what_text_decides(tagger: SpacyTagger) -> None:
    assert f1(tagger, sentences(60, seed=1)) > 0.95
    found = tagger.predict(text(HARD))
    assert found.probabilities is None
    assert found.model == "spacy tagger"


def test_empty_words_and_sentences_work(tagger: SpacyTagger) -> None:
    found = tagger.predict(text([[], [""], ["Oslo", "", "\ud800"], [" ", "cat"]]))
    assert found.labels[[0, 1, 2, 4, 5]].tolist() == [0, 1, 0, 0, 3]
    assert len(tagger.predict(text([])).labels) == 0


def test_white_space_at_the_edges_of_a_span_is_left_out() -> None:
    words = [["the", " ", "Oslo", "\t", "sat"], ["is", " ", "in"]] * 30
    marks = [[(1, 4, "LOC")], [(1, 2, "LOC")]] * 30
    data = cv.Dataset.from_spans(["LOC", "ANI"], words, {}, gold=marks)
    tagger = SpacyTagger(**QUICK).fit(Targets.from_gold(data))
    assert tagger.predict(data[:2]).labels.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


def test_saved_and_loaded_it_says_the_same(tagger: SpacyTagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "t")
    loaded = cv.load_tagger(tmp_path / "t")
    data = text(HARD)
    assert loaded.predict(data).labels.tobytes() == tagger.predict(data).labels.tobytes()
    (tmp_path / "t" / "config.cfg").unlink()
    with pytest.raises(cv.DataError, match="the pipeline cannot be loaded"):
        cv.load_tagger(tmp_path / "t")


def test_the_same_seed_repeats_and_other_generators_are_left_alone() -> None:
    data = sentences(20)
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    found = [SpacyTagger(epochs=2).fit(Targets.from_gold(data)).fitted.state for _ in range(2)]
    weights = [nlp.get_pipe("ner").model.to_bytes() for nlp in found]
    assert weights[0] == weights[1]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_fit_on_a_fitted_tagger_goes_on(tagger: SpacyTagger) -> None:
    more = SpacyTagger(epochs=1)
    more._fitted = tagger.fitted
    more.fit(Targets.from_gold(sentences(10, seed=8)))
    assert f1(more, sentences(60, seed=1)) > 0.9
    assert more.fitted.uses_gold


def test_without_a_held_out_part_the_last_epoch_stays() -> None:
    targets = Targets.from_gold(sentences(60))
    tagger = SpacyTagger(**QUICK).fit(targets, targets.slice_sentences(0, 0))
    assert f1(tagger, sentences(30, seed=1)) > 0.9


@pytest.mark.parametrize("bad", [{"dropout": 1}, {"epochs": 0}, {"encoder": "minilm"}])
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        SpacyTagger(**bad)


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(cv.ConfigError, match="lang 'qq'"):
        SpacyTagger(lang="qq").fit(Targets.from_gold(sentences(5)))
