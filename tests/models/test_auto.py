"""The choice of a model by the votes alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.models import auto
from convener.models.auto import Auto, VoteSummary

# The toy data hold a source without votes, of which some models rightly warn.
pytestmark = pytest.mark.filterwarnings("ignore:.*sources without votes")


def words(count: int) -> list[list[str]]:
    return [["Ada", "Lovelace", "wrote", "to", "Bo", "."]] * count


def corpus(count: int = 40, **unmarked: str) -> cv.Dataset:
    return cv.Dataset.from_spans(
        ["PER"],
        words(count),
        {
            "names": [[(0, 2, "PER")]] * count,
            "first": [[(0, 2, "PER"), (4, 5, "PER")]] * (count // 2) + [[]] * (count - count // 2),
        },
        **unmarked,  # type: ignore[arg-type]
    )


def test_the_selected_network_gives_the_same_result_by_itself() -> None:
    data = corpus()
    model = Auto(encoder="hashing", seed=3).fit(data)
    assert model.selected_model == "sparse-chmm"
    alone = cv.get_model("sparse-chmm")(encoder="hashing", seed=3).fit(data)
    np.testing.assert_array_equal(model.predict(data).probabilities, alone.predict(data).probabilities)
    assert model.reliability().rows == alone.reliability().rows


def test_bsc_is_selected_for_annotators() -> None:
    model = Auto(encoder="hashing").fit(corpus(unmarked="outside"))
    assert model.selected_model == "bsc"
    assert "as annotators do" in model.explain()[1]


def test_majority_vote_is_selected_if_few_tokens_are_marked() -> None:
    with pytest.warns(cv.ConvenerWarning, match="only 12 tokens are marked"):
        model = Auto(encoder="hashing").fit(corpus(5))
    assert model.selected_model == "majority-vote"
    assert "too little is marked" in model.explain()[1]


def test_an_implausible_fit_is_replaced_by_majority_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    data = corpus()
    monkeypatch.setattr(auto, "MIN_AGREEMENT", 2.0)
    with pytest.warns(cv.ConvenerWarning, match="implausible; using majority vote"):
        model = Auto(encoder="hashing").fit(data)
    assert model.selected_model == "majority-vote"
    assert "implausible" in model.explain()[1]
    union = cv.MajorityVote(scheme="span").fit(data).predict(data)
    np.testing.assert_array_equal(model.predict(data).labels, union.labels)


@pytest.mark.parametrize(("shared", "unsupported", "plausible"), [(81, 0, True), (79, 0, False), (100, 101, False)])
def test_plausibility_depends_on_shared_and_unsupported_spans(shared: int, unsupported: int, plausible: bool) -> None:
    summary = VoteSummary(2, 100, 0.0, 0.0, 100, 100, shared, unsupported)
    assert summary.is_plausible() is plausible
    # Where all lone marks look false, a model may drop what only one source marks.
    assert summary._replace(overlap=0.5, false_rate=1.0, shared_spans=41, unsupported_spans=0).is_plausible()


def test_missing_overlap_of_sources_gives_a_warning() -> None:
    data = corpus()
    with pytest.warns(cv.ConvenerWarning, match="only one source"):
        Auto(encoder="hashing").fit(data.select_sources(["names"]))
    votes = np.where(np.arange(len(data.tokens))[:, None] % 6 < 3, data.votes * [1, 0], [[0, 1]])
    apart = data.with_sources(data.sources, votes.astype(np.int16), data.unmarked)
    with pytest.warns(cv.ConvenerWarning, match="no token is marked by two sources"):
        Auto(encoder="hashing").fit(apart)


def test_the_selection_is_saved_and_kept_by_a_refit(tmp_path: Path) -> None:
    data = corpus()
    model = Auto(encoder="hashing").fit(data)
    model.save(tmp_path / "m")
    again = cv.load_model(tmp_path / "m")
    assert again.explain() == model.explain()
    np.testing.assert_array_equal(again.predict(data).probabilities, model.predict(data).probabilities)
    assert isinstance(model.fit(data), Auto)
    assert model.selected_model == "sparse-chmm"


def test_the_summary_counts_spans_and_tokens() -> None:
    data = corpus(30)
    model = Auto(encoder="hashing").fit(data)
    summary = model.fitted.params.summary
    ours = set(map(tuple, model.predict(data).spans))
    union = set(map(tuple, cv.MajorityVote(scheme="span").fit(data).predict(data).spans))
    keys = [{span[:4] for span in spans} for spans in (ours, union)]
    assert (summary.model_spans, summary.baseline_spans, summary.shared_spans) == (
        *map(len, keys),
        len(keys[0] & keys[1]),
    )
    assert (summary.num_sources, summary.marked_tokens) == (2, 30 * 2 + 15)
    assert summary.overlap == pytest.approx(30 / 75)
