"""Source analysis equals scikit-learn, a textbook alpha and counts by hand."""

import json
from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from convener.data.dataset import Dataset
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.tags import TagSet
from convener.errors import UnknownNameError
from convener.evaluation.metrics import score_labels
from convener.evaluation.source_analysis import analyze

TAGS = TagSet(("PER", "LOC", "ORG"))


def random_data(seed, *, sources=4, abstain=0.3, gold=True):
    """Sources with random errors; half of them have unmarked="abstain", and all abstain on some sentences."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 10, size=12)
    count = int(lengths.sum())
    truth = rng.choice([0, 0, 0, 1, 2, 3, 4, 5, 6], size=count)
    truth[1:] = np.where(rng.random(count - 1) < 0.5, truth[:-1] + truth[:-1] % 2, truth[1:])
    votes = np.stack([truth] * sources, axis=1)
    noise = rng.random(votes.shape) < 0.25
    votes[noise] = rng.integers(0, len(TAGS), size=int(noise.sum()))
    unseen = np.repeat(rng.random((len(lengths), sources)) < abstain, lengths, axis=0)
    votes[unseen] = -1
    return Dataset(
        tags=TAGS,
        tokens=StringArray.from_list("w" for _ in range(count)),
        offsets=lengths_to_offsets(lengths),
        sources=tuple(f"s{number}" for number in range(sources)),
        votes=votes.astype(np.int16),
        unmarked=tuple("abstain" if number % 2 else "outside" for number in range(sources)),
        gold=truth.astype(np.int16) if gold else None,
    )


def categories(data):
    """Unit by source: type, "none", or None where the source abstained on the sentence."""
    marked = [{span[:3]: span.type for span in data.tags.spans(column, data.offsets)} for column in data.votes.T]
    rows = []
    for unit in sorted(set().union(*marked)):
        a, b = data.offsets[unit[0]], data.offsets[unit[0] + 1]
        saw = (data.votes[a:b] != -1).any(axis=0)
        rows.append([marks.get(unit, "none") if saw[k] else None for k, marks in enumerate(marked)])
    return rows


def textbook_alpha(rows):
    """Krippendorff's alpha from the coincidence matrix, value pair by value pair."""
    coincidence = {}
    for row in rows:
        values = [value for value in row if value is not None]
        for i, first in enumerate(values):
            for j, second in enumerate(values):
                if i != j:
                    share = 1 / (len(values) - 1)
                    coincidence[first, second] = coincidence.get((first, second), 0) + share
    margin = {}
    for (first, _), value in coincidence.items():
        margin[first] = margin.get(first, 0) + value
    total = sum(margin.values())
    observed = sum(value for (a, b), value in coincidence.items() if a != b)
    expected = sum(margin[a] * margin[b] for a in margin for b in margin if a != b) / (total - 1)
    return 1 - observed / expected


@pytest.mark.parametrize("seed", range(8))
def test_shares_equal_counts_token_by_token(seed):
    data = random_data(seed)
    votes, vote_type = data.informative_votes(), (data.votes + 1) // 2
    found = analyze(data)
    size = len(data.tokens)
    for k, source in enumerate(found.sources):
        others = [j for j in range(4) if j != k]
        overlap = [votes[t, k] and votes[t, others].any() for t in range(size)]
        conflict = [
            votes[t, k] and any(votes[t, j] and vote_type[t, j] != vote_type[t, k] for j in others) for t in range(size)
        ]
        shares = (source.coverage, source.overlap, source.conflict)
        assert shares == pytest.approx((votes[:, k].mean(), np.mean(overlap), np.mean(conflict)))
        spans = list(data.tags.spans(data.votes[:, k], data.offsets))
        assert source.spans == len(spans)
        assert source.types == tuple(TAGS.types[t] for t in sorted({s.type for s in spans}))
        assert source.sentences == len(set(data.sentence_of_token()[votes[:, k]].tolist()))
    types_at_token = [set(vote_type[t, votes[t]].tolist()) for t in range(size)]
    assert found.conflict == pytest.approx(np.mean([len(types) > 1 for types in types_at_token]))
    assert found.coverage == pytest.approx(votes.any(axis=1).mean())
    assert found.overlap == pytest.approx((votes.sum(axis=1) > 1).mean())


@pytest.mark.parametrize("seed", range(8))
def test_pairwise_metrics_equal_counts_pair_by_pair(seed):
    data = random_data(seed)
    votes, vote_type = data.informative_votes(), (data.votes + 1) // 2
    pairwise = analyze(data).pairwise
    rows = categories(data)
    for i, j in combinations(range(4), 2):
        both = votes[:, i] & votes[:, j]
        differ = both & (vote_type[:, i] != vote_type[:, j])
        assert pairwise["overlap"][i, j] == pytest.approx(both.mean())
        assert pairwise["conflict"][i, j] == pytest.approx(differ.mean())
        assert pairwise["agreement"][i, j] == pytest.approx(1 - differ.sum() / both.sum())
        seen = [(str(row[i]), str(row[j])) for row in rows if row[i] is not None and row[j] is not None]
        kappa = cohen_kappa_score(*zip(*seen, strict=True))
        assert pairwise["kappa"][i, j] == pytest.approx(kappa)
        same = sum(a == b != "none" for a, b in seen)
        marked = sum((a != "none") + (b != "none") for a, b in seen)
        assert pairwise["span_f1"][i, j] == pytest.approx(2 * same / marked)
    for matrix in pairwise.values():
        np.testing.assert_allclose(matrix, matrix.T)
    for name in ("agreement", "span_f1", "kappa"):
        np.testing.assert_allclose(np.diag(pairwise[name]), 1)
    np.testing.assert_allclose(np.diag(pairwise["overlap"]), votes.mean(axis=0))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("abstain", [0.0, 0.3, 0.6])
def test_krippendorff_alpha_equals_the_textbook(seed, abstain):
    data = random_data(seed, sources=5, abstain=abstain)
    assert analyze(data).krippendorff_alpha == pytest.approx(textbook_alpha(categories(data)))


def test_span_f1_equals_the_score_of_one_source_against_the_other():
    data = random_data(3, abstain=0.0)
    score = score_labels(data.votes[:, 0], data.votes[:, 1], data.offsets, TAGS).micro
    assert analyze(data).pairwise["span_f1"][0, 1] == pytest.approx(score.f1)


@pytest.mark.parametrize(("votes_on_second", "recall"), [(None, 1.0), ([], 0.5)])
@pytest.mark.parametrize("unmarked", ["abstain", "outside"])
def test_recall_counts_the_text_that_a_source_read(unmarked, votes_on_second, recall):
    data = Dataset.from_spans(
        ["X"],
        [["a"], ["b"]],
        {"half": [[(0, 1, "X")], votes_on_second]},
        gold=[[(0, 1, "X")], [(0, 1, "X")]],
        unmarked=unmarked,
    )
    source = analyze(data).sources[0]
    assert (source.score.precision, source.score.recall) == (1.0, recall)


def test_scores_are_those_on_the_sentences_that_a_source_read():
    data = random_data(5, abstain=0.5)
    for number, source in enumerate(analyze(data).sources):
        read = [n for n in range(len(data)) if (data.votes[data.offsets[n] : data.offsets[n + 1], number] >= 0).any()]
        part = data.take(np.array(read))
        assert source.score == score_labels(part.votes[:, number], part.gold, part.offsets, TAGS).micro


def test_unmarked_tokens_count_as_votes_only_with_unmarked_outside():
    tokens, votes = [["a", "b"]], {"one": [[(0, 1, "X")]], "two": [[]]}
    not_counted = analyze(Dataset.from_spans(["X"], tokens, votes, unmarked="abstain"))
    assert (not_counted.coverage, not_counted.overlap, not_counted.conflict) == (0.5, 0.0, 0.0)
    counted = analyze(Dataset.from_spans(["X"], tokens, votes, unmarked="outside"))
    assert (counted.coverage, counted.overlap, counted.conflict) == (1.0, 1.0, 0.5)


def test_begin_and_inside_of_one_type_do_not_conflict():
    data = Dataset.from_spans(
        ["X", "Y"],
        [["a", "b"]],
        {"long": [[(0, 2, "X")]], "short": [[(1, 2, "X")]], "other": [[(0, 1, "Y")]]},
    )
    found = analyze(data)
    assert found.pairwise["conflict"].tolist() == [[0, 0, 0.5], [0, 0, 0], [0.5, 0, 0]]
    assert found.pairwise["span_f1"][0, 1] == 0.0


def test_json_without_gold_and_with_undefined_metrics():
    data = Dataset.from_spans(["X"], [["a"], []], {"never": [[], []], "once": [[(0, 1, "X")], None]})
    found = analyze(data)
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert plain["sources"][1]["f1"] is None
    assert plain["sources"][1]["coverage"] == 1.0
    assert plain["pairwise"]["agreement"][0][1] is None
    assert (plain["tokens"], plain["sentences"]) == (1, 2)
    assert "precision" not in str(found)


@pytest.mark.parametrize("votes", [{}, {"a": []}, {"a": [], "b": []}])
def test_empty_dataset(votes):
    found = analyze(Dataset.from_spans(["X"], [], votes))
    assert found.krippendorff_alpha is None
    assert found.coverage == 0.0
    assert str(found).startswith("Sources")
    json.dumps(found.to_json(), allow_nan=False)


def test_no_sources():
    found = analyze(Dataset.from_spans(["X"], [["a"]], {}, gold=[[(0, 1, "X")]]))
    assert (found.sources, found.krippendorff_alpha, found.coverage) == ((), None, 0.0)


def test_tables():
    found = analyze(random_data(1))
    assert "conlleval mode" in str(found)
    assert "Krippendorff's alpha" in str(found)
    for metric in found.pairwise:
        table = found.pairwise_table(metric)
        assert [row[0] for row in table.rows] == ["1 s0", "2 s1", "3 s2", "4 s3"]
        assert len(table.columns) == 5
    with pytest.raises(UnknownNameError, match="did you mean 'overlap'"):
        found.pairwise_table("overlaps")


def coarse_data() -> Dataset:
    """Gold PER 0-2, LOC 3-4; words 0 to 5."""
    data = Dataset.from_spans(
        ["PER", "LOC", "ENT", "NAME", "NOT-PER"],
        [["Ada", "Lovelace", "saw", "Oslo", "once", "."]],
        {
            "people": [[(0, 2, "PER"), (3, 4, "PER")]],
            "bounds": [[(0, 2, "ENT"), (3, 4, "ENT"), (4, 5, "ENT")]],
            "names": [[(0, 2, "NAME"), (3, 4, "NAME")]],
            "exclusions": [[(3, 4, "NOT-PER"), (4, 5, "NOT-PER")]],
        },
        gold=[[(0, 2, "PER"), (3, 4, "LOC")]],
    )
    return data.with_coarse({"ENT": "any", "NAME": ("PER",), "NOT-PER": "not PER"})


def test_a_coarse_vote_conflicts_only_with_labels_it_does_not_allow() -> None:
    found = analyze(coarse_data())
    tokens = found.pairwise["conflict"] * 6
    # Only "exclusions" conflicts, with the sources that vote PER for Oslo.
    expected = np.zeros((4, 4))
    expected[0, 3] = expected[3, 0] = expected[2, 3] = expected[3, 2] = 1
    np.testing.assert_allclose(tokens, expected)
    assert found.conflict == pytest.approx(1 / 6)
    conflicts = {source.name: source.conflict for source in found.sources}
    assert conflicts == pytest.approx(dict.fromkeys(conflicts, 1 / 6))
    assert [source.types for source in found.sources][1:] == [("ENT",), ("NAME",), ("NOT-PER",)]


def test_a_coarse_span_is_correct_if_it_allows_the_gold_type() -> None:
    scores = {source.name: source.score for source in analyze(coarse_data()).sources}
    assert scores["exclusions"] is None
    counts = {name: (score.correct, score.predicted, score.gold) for name, score in scores.items() if score is not None}
    assert counts == {"people": (1, 2, 2), "bounds": (2, 3, 2), "names": (1, 2, 2)}
    assert "exclusions" in str(analyze(coarse_data()))
