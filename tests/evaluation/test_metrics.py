"""Scores equal those of seqeval and nervaluate, and counts by hand."""

from itertools import pairwise

import numpy as np
import pytest
from nervaluate import Evaluator
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from convener.data.ragged import lengths_to_offsets
from convener.data.spans import Spans
from convener.data.tags import TagSet
from convener.errors import ConfigError, DataError, MismatchError
from convener.evaluation.metrics import (
    Score,
    labels_to_spans,
    score_labels,
    score_spans,
    sentence_counts,
    span_keys,
    token_accuracy,
)

pytestmark = pytest.mark.slow

CORPORA = 1000
TYPES = ("PER", "LOC", "ORG-2", "X_y")


def random_corpus(rng):
    """Random gold with illegal labels, and predictions that are a corrupted copy of it."""
    tags = TagSet(TYPES[: rng.integers(1, 5)])
    lengths = rng.integers(0, 25, size=rng.integers(1, 20))
    count, size = int(lengths.sum()), len(tags)
    density = rng.choice([0.0, 0.2, 0.6, 1.0])
    gold = np.where(rng.random(count) < density, rng.integers(0, size, count), 0)
    gold[1:] = np.where(
        rng.random(count - 1 if count else 0) < 0.4, gold[:-1] + (gold[:-1] % 2), gold[1:]
    )  # some true continuations: B-x or I-x followed by I-x
    corrupted = rng.random(count) < rng.choice([0.0, 0.1, 0.5])
    predicted = np.where(corrupted, rng.integers(0, size, count), gold)
    return tags, predicted.astype(np.int16), gold.astype(np.int16), lengths_to_offsets(lengths)


def to_tags(labels, offsets, tags):
    names = [tags.names[label] for label in labels]
    return [names[a:b] for a, b in pairwise(offsets)]


def triple(score):
    return (score.precision, score.recall, score.f1)


@pytest.fixture(scope="module")
def corpora():
    rng = np.random.default_rng(20220814)
    return [random_corpus(rng) for _ in range(CORPORA)]


SEQEVAL_OPTIONS = {"conlleval": {}, "strict": {"mode": "strict", "scheme": IOB2}}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("mode", ["conlleval", "strict"])
def test_equals_seqeval(corpora, mode):
    options = {"zero_division": 0, **SEQEVAL_OPTIONS[mode]}
    differing = 0
    for tags, predicted, gold, offsets in corpora:
        texts = [to_tags(labels, offsets, tags) for labels in (gold, predicted)]
        ours = score_labels(predicted, gold, offsets, tags, mode)
        theirs = [score(*texts, **options) for score in (precision_score, recall_score, f1_score)]
        assert triple(ours.micro) == pytest.approx(theirs, abs=1e-12)
        occurring = [name for name, s in ours.per_type.items() if s.predicted or s.gold]
        if occurring:  # seqeval's macro average of no types is not a number, ours is 0.0
            each = f1_score(*texts, average=None, **options)
            mine = [ours.per_type[name].f1 for name in sorted(occurring)]
            assert mine == pytest.approx(list(each), abs=1e-12)
            mean = f1_score(*texts, average="macro", **options)
            assert ours.macro_f1 == pytest.approx(mean, abs=1e-12)
        other = "strict" if mode == "conlleval" else "conlleval"
        differing += ours.micro != score_labels(predicted, gold, offsets, tags, other).micro
    assert differing > CORPORA / 4  # the modes differ on these corpora


def test_nervaluate_strict_equals_conlleval_mode(corpora):
    """Nervaluate lets an I- tag that continues nothing start a span; its "strict" refers to the matching of spans."""
    for tags, predicted, gold, offsets in corpora:
        texts = [to_tags(labels, offsets, tags) for labels in (gold, predicted)]
        result = Evaluator(*texts, tags=list(tags.types), loader="list").evaluate()
        theirs = result["overall"]["strict"]
        ours = score_labels(predicted, gold, offsets, tags, "conlleval")
        assert triple(ours.micro) == pytest.approx((theirs.precision, theirs.recall, theirs.f1), abs=1e-12)
        assert (ours.micro.predicted, ours.micro.gold) == (theirs.actual, theirs.possible)
        for name, by_matching in result["entities"].items():
            assert ours.per_type[name].f1 == pytest.approx(by_matching["strict"].f1, abs=1e-12)


def test_token_accuracy_equals_seqeval(corpora):
    for tags, predicted, gold, offsets in corpora[:100]:
        if len(gold):
            texts = [to_tags(labels, offsets, tags) for labels in (gold, predicted)]
            assert token_accuracy(predicted, gold) == pytest.approx(accuracy_score(*texts))
    assert token_accuracy(np.zeros(0, np.int16), np.zeros(0, np.int16)) == 0.0


def test_sentence_counts_sum_to_the_micro_score(corpora):
    for tags, predicted, gold, offsets in corpora[:100]:
        spans = [labels_to_spans(labels, offsets, tags) for labels in (predicted, gold)]
        counts = sentence_counts(*spans, len(offsets) - 1)
        micro = score_spans(*spans, tags.types).micro
        assert counts.shape == (len(offsets) - 1, 3)
        assert counts.sum(axis=0).tolist() == [micro.correct, micro.predicted, micro.gold]


def test_scores_without_spans_are_zero():
    scores = score_labels(np.zeros(3, int), np.zeros(3, int), np.array([0, 3]), TagSet(("X",)))
    assert triple(scores.micro) == (0.0, 0.0, 0.0)
    assert scores.macro_f1 == 0.0
    assert Score(0, 5, 0).precision == 0.0
    assert Score(0, 0, 5).recall == 0.0


def test_macro_f1_excludes_types_that_do_not_occur():
    scores = score_labels(np.array([1, 0]), np.array([1, 3]), np.array([0, 2]), TagSet(tuple("ABC")))
    assert scores.macro_f1 == 0.5
    assert list(scores.per_type) == ["A", "B", "C"]


def test_abstentions_count_as_outside():
    tags, offsets = TagSet(("X",)), np.array([0, 4])
    scores = score_labels(np.array([1, -1, -1, 1]), np.array([1, 0, 0, 0]), offsets, tags)
    assert scores.micro == Score(correct=1, predicted=2, gold=1)


def test_invalid_input_is_rejected():
    tags, offsets = TagSet(("X",)), np.array([0, 2])
    with pytest.raises(MismatchError, match="found 2 and 3"):
        score_labels(np.zeros(2, int), np.zeros(3, int), offsets, tags)
    with pytest.raises(ConfigError, match="did you mean 'strict'"):
        score_labels(np.zeros(2, int), np.zeros(2, int), offsets, tags, "strikt")
    with pytest.raises(DataError, match=r"labels must be in \[-1, 3\)"):
        score_labels(np.array([0, 3]), np.zeros(2, int), offsets, tags)
    with pytest.raises(MismatchError):
        token_accuracy(np.zeros(2, int), np.zeros(3, int))


def test_span_keys_beyond_the_range_of_int64():
    """The product of the ranges of sentence, start, end and type does not fit into 64 bits."""
    rows = [(2**40, 2**20, 2**30, 500), (0, 0, 1, 0), (2**40, 2**20, 2**30, 499)]
    far = Spans.from_rows(rows)
    same, other = span_keys(far, Spans.from_rows(rows[:1]))
    assert np.isin(same, other).tolist() == [True, False, False]
    assert np.argsort(same).tolist() == [1, 2, 0]


def test_types_whose_names_end_in_a_dash_are_distinct():
    """Seqeval's strict mode strips dashes from type names and so merges A and A-; we do not."""
    gold, predicted = [["B-A"]], [["B-A-"]]
    assert f1_score(gold, predicted, mode="strict", scheme=IOB2) == 1.0
    tags = TagSet(("A", "A-"))
    ours = score_labels(tags.encode(["B-A-"]), tags.encode(["B-A"]), np.array([0, 1]), tags)
    assert ours.micro.f1 == 0.0
