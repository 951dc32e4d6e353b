"""The tagger with the entity recognizer of spaCy."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.taggers.spacy import SpacyTagger
from convener.taggers.targets import Targets

from .toys import UNUSUAL_SENTENCES, f1, sentences, soft_predictions, unlabeled

QUICK: dict[str, Any] = {"max_epochs": 8, "batch_size": 8}


@pytest.fixture(scope="module")
def tagger() -> SpacyTagger:
    return SpacyTagger(**QUICK).fit(soft_predictions(sentences(120)))


def test_it_learns_labels_that_depend_on_the_text(tagger: SpacyTagger) -> None:
    assert f1(tagger, sentences(60, seed=1)) > 0.95
    predictions = tagger.predict(unlabeled(UNUSUAL_SENTENCES))
    assert predictions.probabilities is None
    assert predictions.model == "spacy tagger"


def test_empty_words_and_sentences_are_accepted(tagger: SpacyTagger) -> None:
    predictions = tagger.predict(unlabeled([[], [""], ["Oslo", "", "\ud800"], [" ", "cat"]]))
    assert predictions.labels[[0, 1, 2, 4, 5]].tolist() == [0, 1, 0, 0, 3]
    assert len(tagger.predict(unlabeled([])).labels) == 0


def test_whitespace_at_the_ends_of_a_span_is_removed() -> None:
    words = [["the", " ", "Oslo", "\t", "sat"], ["is", " ", "in"]] * 30
    spans = [[(1, 4, "LOC")], [(1, 2, "LOC")]] * 30
    data = cv.Dataset.from_spans(["LOC", "ANI"], words, {}, gold=spans)
    tagger = SpacyTagger(**QUICK).fit(Targets.from_gold(data))
    assert tagger.predict(data[:2]).labels.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


def test_saving_and_loading_changes_nothing(tagger: SpacyTagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "t")
    loaded = cv.load_tagger(tmp_path / "t")
    data = unlabeled(UNUSUAL_SENTENCES)
    assert loaded.predict(data).labels.tobytes() == tagger.predict(data).labels.tobytes()
    (tmp_path / "t" / "config.cfg").unlink()
    with pytest.raises(cv.DataError, match="the pipeline cannot be loaded"):
        cv.load_tagger(tmp_path / "t")


def test_weights_depend_on_the_seed_and_global_generators_are_restored() -> None:
    data = sentences(20)
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    pipelines = [SpacyTagger(max_epochs=2).fit(Targets.from_gold(data)).fitted.state for _ in range(2)]
    weights = [nlp.get_pipe("ner").model.to_bytes() for nlp in pipelines]
    assert weights[0] == weights[1]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_fit_continues_from_the_fitted_state(tagger: SpacyTagger) -> None:
    more = SpacyTagger(max_epochs=1)
    more._fitted = tagger.fitted
    more.fit(Targets.from_gold(sentences(10, seed=8)))
    assert f1(more, sentences(60, seed=1)) > 0.9
    assert more.fitted.uses_gold


def test_without_validation_data_the_last_epoch_is_kept() -> None:
    targets = Targets.from_gold(sentences(60))
    tagger = SpacyTagger(**QUICK).fit(targets, targets.slice_sentences(0, 0))
    assert f1(tagger, sentences(30, seed=1)) > 0.9


@pytest.mark.parametrize("invalid", [{"dropout": 1}, {"max_epochs": 0}, {"encoder": "minilm"}])
def test_invalid_settings_are_rejected(invalid: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(invalid))):
        SpacyTagger(**invalid)


def test_an_unknown_language_is_rejected() -> None:
    with pytest.raises(cv.ConfigError, match="language 'qq'"):
        SpacyTagger(language="qq").fit(Targets.from_gold(sentences(5)))
