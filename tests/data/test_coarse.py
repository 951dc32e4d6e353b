"""Coarse labels: specifications, allowed labels and their position among the types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.data.coarse import allowed_labels, resolve_coarse_labels
from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN, TagSet
from convener.errors import DataError, MismatchError
from tests.generators import datasets


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ("any", ("PER", "LOC", "ORG")),
        ("not PER", ("O", "LOC", "ORG")),
        ("not PER, O", ("LOC", "ORG")),
        ("ORG, PER", ("PER", "ORG")),
        ("PER", ("PER",)),
        (("ORG", "O"), ("O", "ORG")),
        (["LOC"], ("LOC",)),
    ],
)
def test_specs_are_resolved(spec: Any, allowed: tuple[str, ...]) -> None:
    types = ["PER", "LOC", "ORG", "COARSE"]
    assert resolve_coarse_labels({"COARSE": spec}, types) == {"COARSE": allowed}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("not PERS", "coarse label 'X': no entity type 'PERS'; did you mean 'PER'"),
        (("X",), "coarse label 'X': no entity type 'X'"),
        ((), "coarse label 'X' allows nothing"),
        ("not O, PER", "coarse label 'X' allows nothing"),
    ],
)
def test_invalid_specs_are_rejected(spec: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        resolve_coarse_labels({"X": spec}, ["PER", "X"])


@given(datasets())
def test_allowed_labels_match_the_definition(data: Dataset) -> None:
    allowed, fine = data.allowed_labels(), data.fine_tags.names
    assert allowed.shape == (len(data.tags), len(fine))
    for number, tag in enumerate(data.tags.names):
        if number < len(fine):
            expected = {tag}
        else:
            prefix, name = tag[0], tag[2:]
            kinds = [kind for kind in data.coarse[name] if kind != "O"]
            prefixes = "BI" if "O" in data.coarse[name] else prefix
            expected = {f"{some}-{kind}" for kind in kinds for some in prefixes}
            expected |= {"O"} & set(data.coarse[name])
        assert {fine[place] for place in np.flatnonzero(allowed[number])} == expected


@given(datasets())
def test_without_coarse_turns_coarse_votes_into_abstentions(data: Dataset) -> None:
    fine = data.without_coarse()
    assert fine.tags.types == tuple(name for name in data.tags.types if name not in data.coarse)
    assert fine.coarse == {}
    for before, after in zip(data.votes.ravel(), fine.votes.ravel(), strict=True):
        is_coarse = before > 0 and data.tags.types[(before - 1) // 2] in data.coarse
        assert after == (ABSTAIN if is_coarse else before)
    assert (fine is data) == (not data.coarse)
    np.testing.assert_array_equal(fine.gold, data.gold)


@given(datasets(), st.data())
def test_with_coarse_puts_types_at_the_end_and_keeps_votes(data: Dataset, draw: st.DataObject) -> None:
    data = data.without_gold()
    types = data.fine_tags.types
    if "O" in types:
        with pytest.raises(DataError, match="entity type 'O' cannot be combined with coarse labels"):
            data.with_coarse({"NEW": "any"})
        return
    if len(types) < 2:
        return
    name = draw.draw(st.sampled_from(types))
    if any(name in allowed for allowed in data.coarse.values()):
        with pytest.raises(DataError, match="no entity type"):
            data.with_coarse({name: "any"})
        return
    moved = data.with_coarse({name: "any", "NEW": ("O",)})
    fine = tuple(kind for kind in data.fine_tags.types if kind != name)
    assert moved.tags.types == (*fine, *data.coarse, name, "NEW")
    assert moved.coarse == {**data.coarse, name: fine, "NEW": ("O",)}
    tags = [*data.tags.names, "abstains"]
    expected = [[tags[vote] for vote in row] for row in data.votes]
    tags = [*moved.tags.names, "abstains"]
    assert [[tags[vote] for vote in row] for row in moved.votes] == expected
    assert moved.with_coarse({}) is moved


def small(**changes: Any) -> Dataset:
    data = Dataset.from_spans(["PER", "ENT"], [["Ada", "left"]], {"s": [[(0, 1, "ENT")]]}, gold=[[(0, 1, "PER")]])
    return replace(data, **changes)


def test_coarse_labels_are_last_and_not_in_gold() -> None:
    data = small(coarse={"ENT": ("PER",)})
    assert data.without_coarse().votes.tolist() == [[-1], [0]]
    assert data[:0].coarse == data.take([0]).coarse == data.coarse
    with pytest.raises(DataError, match="must be the last of the types"):
        small(coarse={"PER": ("ENT",)}, gold=None)
    with pytest.raises(DataError, match="must be the last of the types"):
        small(coarse={"PER": ("O",), "ENT": ("O",)}, gold=None)
    with pytest.raises(DataError, match=r"gold \(without coarse labels\) must be labels in \[0, 3\)"):
        small(coarse={"ENT": ("PER",)}, gold=np.array([3, 0], np.int16))


def test_datasets_with_different_coarse_labels_differ() -> None:
    data, other = small(coarse={"ENT": ("PER",)}), small(coarse={"ENT": ("O", "PER")})
    assert data != other
    assert data == small().with_coarse({"ENT": "any"})
    with pytest.raises(MismatchError, match="coarse differ"):
        Dataset.concat([data, other])
    assert Dataset.concat([data, data]).coarse == data.coarse


def test_both_labels_of_a_type_that_allows_o_allow_the_same() -> None:
    allowed = allowed_labels(("A", "B", "NOT-A"), {"NOT-A": ("O", "B")})
    names = TagSet(("A", "B")).names
    for symbol in (5, 6):
        assert [names[i] for i in np.flatnonzero(allowed[symbol])] == ["O", "B-B", "I-B"]
