"""Coarse votes: used by models that support them, abstentions to the others."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.evaluation.metrics import Score, score_labels
from convener.models import em, hmm
from tests.models.test_contract import bytes_of, new_model, prediction_data

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
SUPPORTING = {
    "alt",
    "auto",
    "hmm",
    "linked-hmm",
    "chmm",
    "chmm-fe",
    "sparse-chmm",
    "dws",
    "connet",
    "neural-hidden-crf",
}
Marks = list[list[tuple[int, int, str]]]


def test_which_models_support_coarse_votes() -> None:
    assert {name for name in cv.list_models() if cv.get_model(name).supports_coarse} == SUPPORTING


class CueCorpus:
    """Sentences with persons after "says" and places after "in", and sources that mark them."""

    def __init__(self, seed: int, sentences: int = 160) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.words: list[list[str]] = []
        self.gold: Marks = []
        for _ in range(sentences):
            words: list[str] = []
            spans: list[tuple[int, int, str]] = []
            for _ in range(int(rng.integers(1, 4))):
                words += [f"w{rng.integers(120)}" for _ in range(int(rng.integers(2, 5)))]
                kind, cue = [("PER", "says"), ("LOC", "in")][int(rng.integers(2))]
                size = int(rng.integers(1, 3))
                spans.append((len(words) + 1, len(words) + 1 + size, kind))
                words += [cue, *(f"{kind}{rng.integers(40)}" for _ in range(size))]
            self.words.append([*words, "w0", "w1"])
            self.gold.append(spans)
        self.votes = {
            "people": self.marks(["PER"], 0.3),
            "places": self.marks(["LOC"], 0.3),
            "both": self.marks(["PER", "LOC"], 0.25),
        }

    def marks(self, kinds: list[str], share: float, wrong: float = 0.0) -> Marks:
        """Marks of a share of the entities of these types, and of a share of all other words as the first type."""
        found = []
        for words, spans in zip(self.words, self.gold, strict=True):
            inside = {at for start, end, _ in spans for at in range(start, end)}
            some = [span for span in spans if span[2] in kinds and self.rng.random() < share]
            others = [at for at in range(len(words)) if at not in inside]
            some += [(at, at + 1, kinds[0]) for at in others if self.rng.random() < wrong]
            found.append(sorted(some))
        return found

    def data(self, **more: Marks) -> cv.Dataset:
        """The corpus with the votes of three sources and these additional ones."""
        types = ["PER", "LOC", "ENT", "NOT-PER"]
        data = cv.Dataset.from_spans(types, self.words, self.votes | more, gold=self.gold)
        return data.with_coarse({"ENT": "any", "NOT-PER": "not PER"})

    def bounds(self) -> Marks:
        """Marks of all entities, without their type."""
        return [[(start, end, "ENT") for start, end, _ in spans] for spans in self.gold]

    def denials(self) -> Marks:
        """Marks of ordinary words as not being persons."""
        return [
            [(at, at + 1, "NOT-PER") for at, word in enumerate(words) if word.startswith("w")] for words in self.words
        ]


def score_of(name: str, data: cv.Dataset) -> dict[str, Score]:
    labels = new_model(name).fit(data).predict(data).labels
    assert data.gold is not None
    found = score_labels(labels, data.gold, data.offsets, data.fine_tags)
    return {**found.per_type, "all": found.micro}


@pytest.mark.parametrize("name", ["hmm", "linked-hmm", "chmm", "sparse-chmm", "dws", "connet", "neural-hidden-crf"])
def test_boundaries_without_types_raise_recall(name: str) -> None:
    corpus = CueCorpus(0)
    without = score_of(name, corpus.data())["all"]
    with_bounds = score_of(name, corpus.data(bounds=corpus.bounds()))["all"]
    assert with_bounds.recall > without.recall + 0.2
    assert with_bounds.f1 > without.f1 + 0.1


@pytest.mark.parametrize("name", ["hmm", "linked-hmm", "chmm", "sparse-chmm", "dws", "connet"])
def test_votes_against_a_type_remove_false_spans(name: str) -> None:
    corpus = CueCorpus(1)
    loud = corpus.marks(["PER"], 0.6, wrong=0.1)
    before, after = (
        replace(data, prior_precision=(*[None] * 3, 0.5, *[None] * (len(data.sources) - 4)))
        for data in (corpus.data(loud=loud), corpus.data(loud=loud, denials=corpus.denials()))
    )
    if name != "chmm":  # for other models the precision alone would remove them, or is not needed
        before, after = replace(before, prior_precision=()), replace(after, prior_precision=())
    without, denied = score_of(name, before)["PER"], score_of(name, after)["PER"]
    false = [score.predicted - score.correct for score in (without, denied)]
    assert false[0] > 40
    assert false[1] < 0.6 * false[0]
    assert denied.f1 > without.f1 + 0.05


@pytest.fixture(scope="module")
def coarse(toy: cv.Dataset) -> cv.Dataset:
    """The toy data with coarse votes: half of those of one source, and all those of an additional source."""
    rng = np.random.default_rng(0)
    data = toy.with_coarse({"ENT": "any", "NOT-PER": "not PER"})
    votes = data.votes.copy()
    fair = votes[:, 1]
    votes[:, 1] = np.where((fair > 0) & (rng.random(len(fair)) < 0.5), 5 + (fair % 2 == 0), fair)
    only = np.where(rng.random(len(fair)) < 0.2, 7, 0) * (toy.gold == 0)
    votes = np.column_stack([votes, only]).astype(np.int16)
    return data.with_sources((*data.sources, "only"), votes, (*data.unmarked, "abstain"))


@pytest.mark.parametrize("name", cv.list_models())
def test_the_contract_holds_with_coarse_votes(name: str, coarse: cv.Dataset, tmp_path: Path) -> None:
    model = new_model(name).fit(coarse, coarse[:9])
    labels = model.predict(coarse)
    assert labels.probabilities is not None
    assert labels.probabilities.shape == (len(coarse.tokens), 5)
    np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1, atol=1e-5)
    assert labels.data == coarse.without_gold()
    model.save(tmp_path / "model")
    loaded = cv.load_model(tmp_path / "model")
    assert bytes_of(loaded.predict(coarse)) == bytes_of(labels)
    assert str(loaded.reliability()) == str(model.reliability())
    for number in (0, 7):
        alone = model.predict_proba(coarse.take([number]))[0]
        np.testing.assert_allclose(labels.probabilities_by_sentence()[number], alone, atol=1e-5)
    rows = model.reliability().to_records()
    assert {row["type"] for row in rows} == {"PER", "LOC"}
    assert "only" not in {row["source"] for row in rows}
    again = copy.copy(model).fit(coarse)
    assert len(again.predict(prediction_data(model, coarse[:3])).labels) == len(coarse[:3].tokens)


@pytest.mark.parametrize("name", sorted(set(cv.list_models()) - SUPPORTING))
def test_other_models_treat_coarse_votes_as_abstentions(name: str, coarse: cv.Dataset) -> None:
    found = new_model(name).fit(coarse).predict(coarse)
    expected = new_model(name).fit(coarse.without_coarse()).predict(coarse.without_coarse())
    assert bytes_of(found) == bytes_of(expected)


@pytest.mark.parametrize("name", sorted(SUPPORTING))
def test_coarse_labels_without_votes_change_nothing(name: str, toy: cv.Dataset) -> None:
    data = toy.with_coarse({"ENT": "any", "NOT-PER": "not PER"})
    found, expected = (new_model(name).fit(some).predict(some) for some in (data, toy))
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-5)


def test_coarse_labels_at_prediction_may_differ_from_those_of_train(coarse: cv.Dataset) -> None:
    model = new_model("hmm").fit(coarse)
    renamed = coarse.without_coarse().with_coarse({"SOMETHING": "any"})
    votes = np.where((coarse.votes == 5) | (coarse.votes == 6), coarse.votes, renamed.votes)
    fine_votes = np.where(coarse.votes > 6, np.int16(-1), coarse.votes)
    found = model.predict(renamed.with_sources(renamed.sources, votes, renamed.unmarked))
    same = model.predict(coarse.with_sources(coarse.sources, fine_votes, coarse.unmarked))
    assert bytes_of(found) == bytes_of(same)


def test_unmarked_tokens_of_a_source_with_votes_against_types_have_no_effect(coarse: cv.Dataset) -> None:
    model = new_model("hmm").fit(coarse)
    assert model.fitted.selection.negative_sources == ("only",)
    votes = coarse.votes.copy()
    votes[votes[:, -1] == 0, -1] = -1
    without_o = coarse.with_sources(coarse.sources, votes, coarse.unmarked)
    assert bytes_of(model.predict(coarse)) == bytes_of(model.predict(without_o))


def test_the_objective_of_hmm_never_decreases(coarse: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    traces, loop = [], em.run_em
    monkeypatch.setattr(hmm, "run_em", lambda *given, **how: traces.append(loop(*given, **how)) or traces[-1])
    for unmarked in ("abstain", "outside"):
        data = coarse.with_sources(coarse.sources, coarse.votes, (unmarked,) * 6)
        cv.get_model("hmm")(max_iter=20, tol=0).fit(data)
    for _, trace in traces:
        assert len(trace.objective) > 3
        assert (np.diff(trace.objective) > -1e-7).all()


def test_a_type_with_only_coarse_votes_is_predicted() -> None:
    words = [["a", "b", "c"]] * 30
    data = cv.Dataset.from_spans(
        ["X", "ENT"], words, {"s": [[(1, 2, "ENT")]] * 25 + [[]] * 5, "t": [[(1, 2, "ENT")]] * 30}
    ).with_coarse({"ENT": "any"})
    assert new_model("hmm").fit(data).predict(data).tags()[0] == ["O", "B-X", "O"]
