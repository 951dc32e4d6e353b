"""A label model and a tagger in turns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.diagnostics import Diagnostics
from convener.models.alt import TAGGER_SOURCE, Alt, AltParams, Round, _Checkpoints
from convener.taggers.targets import Targets

HOW = {"encoder": "hashing", "label_model": "majority-vote", "max_rounds": 1}


def written(people: range, *, seed: int, known: bool) -> cv.Dataset:
    """Sentences about these people, whom the sources know or do not know."""
    rng = np.random.default_rng(seed)
    sentences = [
        [f"word{n}" for n in rng.integers(40, size=3)]
        + [f"Name{rng.choice(people)}"]
        + [f"word{n}" for n in rng.integers(40, size=3)]
        for _ in range(60)
    ]
    gold = [[(3, 4, "PER")]] * 60
    said = gold if known else [[]] * 60
    sources = {"list": said, "again": said[:30] + [[]] * 30}
    return cv.Dataset.from_spans(["PER"], sentences, sources, gold=gold)


@pytest.fixture(scope="module")
def words() -> cv.Dataset:
    return written(range(12), seed=1, known=True)


@pytest.fixture(scope="module")
def fresh() -> cv.Dataset:
    """Of people whom no source knows."""
    return written(range(12, 40), seed=2, known=False)


def test_the_tagger_finds_what_no_source_knows(words: cv.Dataset, fresh: cv.Dataset) -> None:
    assert not cv.MajorityVote().fit(words).predict(fresh).labels.any()
    found = cv.evaluate(Alt(**HOW).fit(words).predict(fresh), fresh)
    assert found.recall is not None
    assert found.recall > 0.8


def test_gold_is_seen_only_when_asked_for(words: cv.Dataset, fresh: cv.Dataset) -> None:
    wrong = fresh.with_gold(np.zeros_like(fresh.gold))

    def labels(held: cv.Dataset, *, use_gold: bool) -> bytes:
        model = Alt(**HOW).fit(words, held, use_valid_gold=use_gold)
        return model.predict(fresh).labels.tobytes()

    assert labels(fresh, use_gold=False) == labels(wrong, use_gold=False)
    assert labels(fresh, use_gold=True) != labels(wrong, use_gold=True)


@pytest.mark.parametrize(("tol", "turns"), [(0.99, 1), (0.0, 3)])
def test_turns_end_when_nothing_changes(
    tol: float,
    turns: int,
    words: cv.Dataset,
    fresh: cv.Dataset,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Held out are people whom the tagger finds from the first turn on."""
    half = cv.Dataset.concat([fresh, words])
    with caplog.at_level("INFO", logger="convener"):
        Alt(**(HOW | {"max_rounds": 3, "tol": tol})).fit(words, half)
    taught = [line for line in caplog.messages if "tagger" in line]
    assert len(taught) == 3 * turns  # one on all of train, one on either half


def test_the_tagger_is_seen_among_the_sources(words: cv.Dataset) -> None:
    model = Alt(**HOW).fit(words)
    assert model.diagnostics().sources == (*words.sources, TAGGER_SOURCE)
    assert [row["source"] for row in model.reliability().to_records()] == list(words.sources)


def test_a_saved_model_says_the_same(words: cv.Dataset, tmp_path: Path) -> None:
    model = Alt(**HOW).fit(words)
    model.save(tmp_path / "run")
    ours, theirs = (each.predict(words) for each in (model, cv.load_model(tmp_path / "run")))
    assert ours.labels.tobytes() == theirs.labels.tobytes()
    np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)


def test_a_second_fit_goes_on_with_the_tagger(words: cv.Dataset) -> None:
    model = Alt(**HOW).fit(words).fit(words)
    assert TAGGER_SOURCE in model.diagnostics().sources


def test_a_report_shows_the_added_source(words: cv.Dataset, tmp_path: Path) -> None:
    cv.write_report(Alt(**HOW).fit(words), words, tmp_path / "report.html")
    assert TAGGER_SOURCE in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("labels", ["best-consensus", "alt"])
def test_models_that_see_gold_or_take_turns_are_refused(labels: str, words: cv.Dataset) -> None:
    with pytest.raises(cv.ConfigError, match="label_model must name a label model"):
        Alt(**(HOW | {"label_model": labels})).fit(words)


def test_taggers_do_not_speak_of_what_they_learned_from() -> None:
    """Labels by the roll of a die are remembered, and cannot be guessed."""
    rng = np.random.default_rng(0)
    words = [[f"{n:x}" for n in rng.integers(1 << 40, size=3)] if at % 9 else [] for at in range(90)]
    data = cv.encode(cv.Dataset.from_spans(["PER"], words, {}), "hashing", cache=False)
    labels = rng.integers(2, size=len(data.tokens)).astype(np.int16)
    told = Targets(data=data, labels=labels)
    same = {}
    for folds, count in ((1, 90), (2, 90), (100, 5)):  # of five sentences, each is a part
        turn = Round(AltParams({}, None), Diagnostics(), told.take(range(count)), told.take([]))
        model = Alt(**(HOW | {"num_folds": folds}))
        tagger = model._fit_tagger(None, turn.train, turn.valid)
        same[folds] = np.mean(model._cross_predict(1, turn, tagger, _Checkpoints(None)) == turn.train.labels)
    assert same[1] > 0.95
    assert 0.3 < same[2] < 0.7
    assert same[100] < 0.9


@pytest.mark.parametrize("bad", [{"max_rounds": 0}, {"num_folds": 0}, {"tol": -0.1}, {"tol": 1.0}])
def test_bad_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        Alt(**bad)
