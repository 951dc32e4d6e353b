"""Error kinds against the rule applied pair by pair."""

import json

import numpy as np
import pytest

from convener.data.ragged import lengths_to_offsets
from convener.data.spans import Spans
from convener.data.tags import TagSet
from convener.errors import DataError
from convener.evaluation.error_types import ErrorType, count_error_types, match_spans

TAGS = TagSet(("PER", "LOC", "ORG"))


def by_the_rule(predicted, gold):
    """The four rounds, written as the module's text says."""
    ours, theirs = list(predicted), list(gold)
    kinds, fates, partner = (
        [ErrorType.SPURIOUS] * len(ours),
        [ErrorType.MISSED] * len(theirs),
        [-1] * len(ours),
    )

    def shared(p, g):
        return min(p.end, g.end) - max(p.start, g.start) if p.sentence == g.sentence else 0

    def bounds(span):
        return (span.sentence, span.start, span.end)

    rounds = [
        (ErrorType.CORRECT, lambda p, g: p == g),
        (ErrorType.TYPE, lambda p, g: bounds(p) == bounds(g)),
        (ErrorType.BOUNDARY, lambda p, g: shared(p, g) > 0 and p.type == g.type),
        (ErrorType.BOUNDARY_AND_TYPE, lambda p, g: shared(p, g) > 0),
    ]
    for kind, fits in rounds:
        pairs = [(i, j) for i, p in enumerate(ours) for j, g in enumerate(theirs) if fits(p, g)]
        pairs.sort(key=lambda pair: (-shared(ours[pair[0]], theirs[pair[1]]), *pair))
        for i, j in pairs:
            if partner[i] < 0 and fates[j] == ErrorType.MISSED:
                kinds[i] = fates[j] = kind
                partner[i] = j
    return kinds, fates, partner


def random_spans(rng, offsets):
    labels = rng.choice([0, 0, 0, 1, 2, 2, 3, 4, 4, 6], size=int(offsets[-1])).astype(np.int16)
    return TAGS.spans(labels, offsets)


def test_equals_the_rule_applied_pair_by_pair():
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(150):
        offsets = lengths_to_offsets(rng.integers(0, 15, size=4))
        predicted, gold = random_spans(rng, offsets), random_spans(rng, offsets)
        kinds, fates, partner = by_the_rule(predicted, gold)
        found = match_spans(predicted, gold)
        assert found.predicted_error.tolist() == kinds
        assert found.gold_error.tolist() == fates
        assert found.matched_gold.tolist() == partner
        seen |= {*kinds, *fates}
        result = count_error_types(predicted, gold, TAGS.types)
        counts = result.counts
        assert sum(counts.values()) - counts[ErrorType.SPURIOUS] == len(gold)
        assert sum(counts.values()) - counts[ErrorType.MISSED] == len(predicted)
        for axis, spans in ((1, gold), (0, predicted)):
            totals = np.bincount(spans.type, minlength=3).tolist()
            assert result.confusion.sum(axis=axis)[:3].tolist() == totals
    assert seen == set(ErrorType)


def test_a_long_chain_of_overlaps_is_solved_best_first():
    """Each predicted span reaches into the next gold span; the widest overlap goes first."""
    predicted = Spans.from_rows([(0, 0, 4, 0), (0, 4, 9, 0), (0, 9, 11, 0)])
    gold = Spans.from_rows([(0, 1, 6, 0), (0, 6, 12, 0)])
    found = match_spans(predicted, gold)  # overlaps: 3, 2, 3, 2
    assert found.matched_gold.tolist() == [0, 1, -1]
    assert found.predicted_error.tolist() == [
        ErrorType.BOUNDARY,
        ErrorType.BOUNDARY,
        ErrorType.SPURIOUS,
    ]


def test_no_spans_on_one_side():
    none, some = Spans.from_rows([]), Spans.from_rows([(0, 0, 1, 2)])
    assert count_error_types(none, some, TAGS.types).counts[ErrorType.MISSED] == 1
    assert count_error_types(some, none, TAGS.types).counts[ErrorType.SPURIOUS] == 1
    assert sum(count_error_types(none, none, TAGS.types).counts.values()) == 0


def test_tables_and_json():
    result = count_error_types(Spans.from_rows([(0, 0, 2, 0)]), Spans.from_rows([(0, 0, 2, 1)]), TAGS.types)
    assert "boundary and type" in str(result)
    assert result.confusion_table().to_records()[1]["PER"] == 1
    found = json.loads(json.dumps(result.to_json()))
    assert (found["type"], found["correct"]) == (1, 0)
    assert found["confusion"]["counts"][1][0] == 1


@pytest.mark.parametrize("rows", [[(0, 0, 3, 0), (0, 2, 4, 0)], [(1, 0, 1, 0), (0, 0, 1, 0)]])
def test_overlapping_or_unordered_spans_are_refused(rows):
    with pytest.raises(DataError, match="predicted spans must be in the order of the text"):
        match_spans(Spans.from_rows(rows), Spans.from_rows([]))
