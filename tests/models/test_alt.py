"""ALT: a label model and a tagger, trained alternately."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.diagnostics import Diagnostics
from convener.models.alt import ALT, TAGGER_SOURCE, AltParams, Round, _Checkpoints
from convener.taggers.targets import Targets

SETTINGS = {"encoder": "hashing", "label_model": "majority-vote", "max_rounds": 1}


def make_sentences(people: range, *, seed: int, known: bool) -> cv.Dataset:
    """Sentences about these people, whom all sources mark or none."""
    rng = np.random.default_rng(seed)
    sentences = [
        [f"word{n}" for n in rng.integers(40, size=3)]
        + [f"Name{rng.choice(people)}"]
        + [f"word{n}" for n in rng.integers(40, size=3)]
        for _ in range(60)
    ]
    gold = [[(3, 4, "PER")]] * 60
    spans = gold if known else [[]] * 60
    sources = {"list": spans, "again": spans[:30] + [[]] * 30}
    return cv.Dataset.from_spans(["PER"], sentences, sources, gold=gold)


@pytest.fixture(scope="module")
def known_people() -> cv.Dataset:
    return make_sentences(range(12), seed=1, known=True)


@pytest.fixture(scope="module")
def new_people() -> cv.Dataset:
    """Sentences about people whom no source marks."""
    return make_sentences(range(12, 40), seed=2, known=False)


def test_the_tagger_finds_entities_that_no_source_marks(known_people: cv.Dataset, new_people: cv.Dataset) -> None:
    assert not cv.MajorityVote().fit(known_people).predict(new_people).labels.any()
    found = cv.evaluate(ALT(**SETTINGS).fit(known_people).predict(new_people), new_people)
    assert found.recall is not None
    assert found.recall > 0.8


def test_gold_of_valid_is_used_only_if_allowed(known_people: cv.Dataset, new_people: cv.Dataset) -> None:
    wrong = new_people.with_gold(np.zeros_like(new_people.gold))

    def labels(valid: cv.Dataset, *, use_gold: bool) -> bytes:
        model = ALT(**SETTINGS).fit(known_people, valid, use_valid_gold=use_gold)
        return model.predict(new_people).labels.tobytes()

    assert labels(new_people, use_gold=False) == labels(wrong, use_gold=False)
    assert labels(new_people, use_gold=True) != labels(wrong, use_gold=True)


@pytest.mark.parametrize(("tol", "rounds"), [(0.99, 1), (0.0, 3)])
def test_rounds_end_when_labels_no_longer_change(
    tol: float,
    rounds: int,
    known_people: cv.Dataset,
    new_people: cv.Dataset,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The validation sentences are about people whom the tagger finds from the first round on."""
    valid = cv.Dataset.concat([new_people, known_people])
    with caplog.at_level("INFO", logger="convener"):
        ALT(**(SETTINGS | {"max_rounds": 3, "tol": tol})).fit(known_people, valid)
    tagger_messages = [line for line in caplog.messages if "tagger" in line]
    assert len(tagger_messages) == 3 * rounds  # one tagger on all of train, one on each half


def test_diagnostics_list_the_tagger_as_a_source(known_people: cv.Dataset) -> None:
    model = ALT(**SETTINGS).fit(known_people)
    assert model.diagnostics().sources == (*known_people.sources, TAGGER_SOURCE)
    assert [row["source"] for row in model.reliability().to_records()] == list(known_people.sources)


def test_saving_and_loading_changes_nothing(known_people: cv.Dataset, tmp_path: Path) -> None:
    model = ALT(**SETTINGS).fit(known_people)
    model.save(tmp_path / "run")
    ours, theirs = (each.predict(known_people) for each in (model, cv.load_model(tmp_path / "run")))
    assert ours.labels.tobytes() == theirs.labels.tobytes()
    np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)


def test_a_second_fit_keeps_the_tagger_as_a_source(known_people: cv.Dataset) -> None:
    model = ALT(**SETTINGS).fit(known_people).fit(known_people)
    assert TAGGER_SOURCE in model.diagnostics().sources


def test_a_report_shows_the_added_source(known_people: cv.Dataset, tmp_path: Path) -> None:
    cv.write_report(ALT(**SETTINGS).fit(known_people), known_people, tmp_path / "report.html")
    assert TAGGER_SOURCE in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("labels", ["best-consensus", "alt"])
def test_supervised_models_and_alt_itself_are_refused_as_label_model(labels: str, known_people: cv.Dataset) -> None:
    with pytest.raises(cv.ConfigError, match="label_model must name a label model"):
        ALT(**(SETTINGS | {"label_model": labels})).fit(known_people)


def test_with_folds_no_tagger_labels_its_own_training_sentences() -> None:
    """Random labels can be memorized but not predicted."""
    rng = np.random.default_rng(0)
    words = [[f"{n:x}" for n in rng.integers(1 << 40, size=3)] if at % 9 else [] for at in range(90)]
    data = cv.encode(cv.Dataset.from_spans(["PER"], words, {}), "hashing", cache=False)
    labels = rng.integers(2, size=len(data.tokens)).astype(np.int16)
    targets = Targets(data=data, labels=labels)
    same = {}
    for folds, count in ((1, 90), (2, 90), (100, 5)):  # more folds than sentences: each sentence is a fold
        split = Round(AltParams({}, None), Diagnostics(), targets.take(range(count)), targets.take([]))
        model = ALT(**(SETTINGS | {"num_folds": folds}))
        tagger = model._fit_tagger(None, split.train, split.valid)
        same[folds] = np.mean(model._cross_predict(1, split, tagger, _Checkpoints(None)) == split.train.labels)
    assert same[1] > 0.95
    assert 0.3 < same[2] < 0.7
    assert same[100] < 0.9


@pytest.mark.parametrize("bad", [{"max_rounds": 0}, {"num_folds": 0}, {"tol": -0.1}, {"tol": 1.0}])
def test_bad_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        ALT(**bad)
