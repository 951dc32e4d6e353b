"""Error types equal the matching rule applied pair by pair."""

import json

import numpy as np
import pytest

from convener.data.ragged import lengths_to_offsets
from convener.data.spans import Spans
from convener.data.tags import TagSet
from convener.errors import DataError
from convener.evaluation.error_types import ErrorType, count_error_types, match_spans

TAGS = TagSet(("PER", "LOC", "ORG"))


def match_by_definition(predicted, gold):
    """The four rounds as in the docstring of the module."""
    predicted, gold = list(predicted), list(gold)
    predicted_error, gold_error, matched_gold = (
        [ErrorType.SPURIOUS] * len(predicted),
        [ErrorType.MISSED] * len(gold),
        [-1] * len(predicted),
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
    for error, fits in rounds:
        pairs = [(i, j) for i, p in enumerate(predicted) for j, g in enumerate(gold) if fits(p, g)]
        pairs.sort(key=lambda pair: (-shared(predicted[pair[0]], gold[pair[1]]), *pair))
        for i, j in pairs:
            if matched_gold[i] < 0 and gold_error[j] == ErrorType.MISSED:
                predicted_error[i] = gold_error[j] = error
                matched_gold[i] = j
    return predicted_error, gold_error, matched_gold


def random_spans(rng, offsets):
    labels = rng.choice([0, 0, 0, 1, 2, 2, 3, 4, 4, 6], size=int(offsets[-1])).astype(np.int16)
    return TAGS.spans(labels, offsets)


def test_matching_equals_its_definition():
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(150):
        offsets = lengths_to_offsets(rng.integers(0, 15, size=4))
        predicted, gold = random_spans(rng, offsets), random_spans(rng, offsets)
        predicted_error, gold_error, matched_gold = match_by_definition(predicted, gold)
        matching = match_spans(predicted, gold)
        assert matching.predicted_error.tolist() == predicted_error
        assert matching.gold_error.tolist() == gold_error
        assert matching.matched_gold.tolist() == matched_gold
        seen |= {*predicted_error, *gold_error}
        result = count_error_types(predicted, gold, TAGS.types)
        counts = result.counts
        assert sum(counts.values()) - counts[ErrorType.SPURIOUS] == len(gold)
        assert sum(counts.values()) - counts[ErrorType.MISSED] == len(predicted)
        for axis, spans in ((1, gold), (0, predicted)):
            totals = np.bincount(spans.type, minlength=3).tolist()
            assert result.confusion.sum(axis=axis)[:3].tolist() == totals
    assert seen == set(ErrorType)


def test_in_a_chain_of_overlaps_the_widest_is_matched_first():
    """Each predicted span extends into the next gold span."""
    predicted = Spans.from_rows([(0, 0, 4, 0), (0, 4, 9, 0), (0, 9, 11, 0)])
    gold = Spans.from_rows([(0, 1, 6, 0), (0, 6, 12, 0)])
    matching = match_spans(predicted, gold)  # overlaps: 3, 2, 3, 2
    assert matching.matched_gold.tolist() == [0, 1, -1]
    assert matching.predicted_error.tolist() == [
        ErrorType.BOUNDARY,
        ErrorType.BOUNDARY,
        ErrorType.SPURIOUS,
    ]


def test_one_set_of_spans_is_empty():
    none, some = Spans.from_rows([]), Spans.from_rows([(0, 0, 1, 2)])
    assert count_error_types(none, some, TAGS.types).counts[ErrorType.MISSED] == 1
    assert count_error_types(some, none, TAGS.types).counts[ErrorType.SPURIOUS] == 1
    assert sum(count_error_types(none, none, TAGS.types).counts.values()) == 0


def test_tables_and_json():
    result = count_error_types(Spans.from_rows([(0, 0, 2, 0)]), Spans.from_rows([(0, 0, 2, 1)]), TAGS.types)
    assert "boundary and type" in str(result)
    assert result.confusion_table().to_records()[1]["PER"] == 1
    plain = json.loads(json.dumps(result.to_json()))
    assert (plain["type"], plain["correct"]) == (1, 0)
    assert plain["confusion"]["counts"][1][0] == 1


@pytest.mark.parametrize("rows", [[(0, 0, 3, 0), (0, 2, 4, 0)], [(1, 0, 1, 0), (0, 0, 1, 0)]])
def test_overlapping_or_unsorted_spans_are_rejected(rows):
    with pytest.raises(DataError, match="predicted spans must be in text order"):
        match_spans(Spans.from_rows(rows), Spans.from_rows([]))
