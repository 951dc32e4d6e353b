"""Dataset: fields, slicing, concatenation and validation, compared with lists of sentences."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convener.data.dataset import Dataset, Text
from convener.data.features import EncoderSpec, Features
from convener.data.ragged import RaggedArray, StringArray
from convener.data.tags import ABSTAIN, TagSet
from convener.errors import DataError, MismatchError, UnknownNameError
from tests.generators import datasets, sentence_spans, tag_sets, words


def sentences(data: Dataset) -> list[tuple[Any, ...]]:
    """All fields of each sentence as Python values."""
    result = []
    for m, (first, last) in enumerate(pairwise(data.offsets.tolist())):
        text = data.text
        result.append(
            (
                [data.tokens[t] for t in range(first, last)],
                [data.votes[t].tolist() for t in range(first, last)],
                None if data.gold is None else [int(data.gold[t]) for t in range(first, last)],
                None
                if text is None
                else (
                    text.sentences[m],
                    text.token_offsets[first:last].tolist(),
                    int(text.doc_offsets[m]),
                ),
                None if data.doc_ids is None else data.doc_ids[m],
            )
        )
    return result


def check(data: Dataset) -> None:
    """A part must be as valid as a dataset built from scratch."""
    rebuilt = Dataset(**{item.name: getattr(data, item.name) for item in fields(data)})
    assert rebuilt == data


@pytest.fixture
def small() -> Dataset:
    return Dataset.from_spans(
        ["PER", "LOC"],
        [["Ada", "met", "Bob"], [], ["Oslo"]],
        {"names": [[(0, 1, "PER"), (2, 3, "PER")], [], []], "crowd": [None, None, [(0, 1, "LOC")]]},
        gold=[[(0, 1, "PER")], [], [(0, 1, "LOC")]],
    )


# Building


@given(tag_sets(), st.data())
def test_spans_become_votes(tags: TagSet, data: st.DataObject) -> None:
    tokens = data.draw(st.lists(st.lists(words, max_size=6), max_size=4))
    drawn = [data.draw(sentence_spans(len(sentence), len(tags.types))) for sentence in tokens]
    named = [[(a, b, tags.types[kind]) for a, b, kind in spans] for spans in drawn]
    unseen = [data.draw(st.booleans()) for _ in tokens]
    given_votes = [None if skip else spans for skip, spans in zip(unseen, named, strict=True)]
    built = Dataset.from_spans(tags.types, tokens, {"s": given_votes, "nothing": [[]] * len(tokens)}, gold=named)
    expected = []
    for sentence, spans in zip(tokens, drawn, strict=True):
        labels = [0] * len(sentence)
        for start, end, kind in spans:
            labels[start:end] = [2 * kind + 1] + [2 * kind + 2] * (end - start - 1)
        expected.append(labels)
    assert [list(one.tokens) for one in built] == tokens
    for one, labels, skip in zip(RaggedArray(built.votes, built.offsets), expected, unseen, strict=True):
        assert one[:, 0].tolist() == ([ABSTAIN] * len(labels) if skip else labels)
        assert not one[:, 1].any()
    assert built.gold is not None
    assert [labels.tolist() for labels in RaggedArray(built.gold, built.offsets)] == expected
    assert built.unmarked == ("abstain", "abstain")


def test_a_dataset_may_be_empty() -> None:
    data = Dataset.from_spans(["PER"], [], {})
    assert (len(data), data.votes.shape, list(data)) == (0, (0, 0), [])
    assert data[:0] == data[5:] == data.take([]) == Dataset.concat([data, data]) == data
    assert data.split(0.5, seed=1) == (data, data)
    assert data.informative_votes().shape == (0, 0)
    assert data.with_types(["LOC"]).tags.types == ("LOC",)
    assert data.select_sources([]) == data
    no_tokens = Dataset.from_spans(["PER"], [[], []], {"s": [[], None]}, gold=[[], []])
    assert len(no_tokens) == 2
    assert no_tokens[1].tokens == ()


def test_long_sentences_and_many_sources_work() -> None:
    size = 5000
    spans = [[(t, t + 2, "PER") for t in range(0, size, 2)]]
    data = Dataset.from_spans(["PER"], [["w"] * size], {f"s{k}": spans for k in range(300)})
    assert data.votes.shape == (size, 300)
    assert len(data.tags.spans(data.votes[:, 299].copy(), data.offsets)) == size // 2


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ({"s": [[]]}, r"spans must have shape \(2,\), got \(1,\)"),
        ({"s": [[(0, 3, "PER")], []]}, "sentence 0: span 0-3 is not a range of tokens of the sentence"),
        ({"s": [[], [(0, 1, "PERS")]]}, "no entity type 'PERS'; did you mean 'PER'"),
        ({"s": [[(0, 2, "PER"), (1, 2, "PER")], []]}, "sentence 0: spans overlap at token 1"),
    ],
)
def test_invalid_spans_are_rejected(votes: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_spans(["PER"], [["a", "b"], ["c"]], votes)


def test_gold_cannot_abstain() -> None:
    with pytest.raises(DataError, match=r"gold must be labels in \[0, 3\), got -1 to"):
        Dataset.from_spans(["PER"], [["a"]], {}, gold=[None])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": np.array([0, 3, 3])}, r"run from 0 to the 4 tokens, got \[0, 3\]"),
        ({"offsets": np.array([1, 3, 4])}, r"run from 0 to the 4 tokens, got \[1, 4\]"),
        ({"offsets": np.array([0, 3, 1, 4])}, r"not decrease, but do after \[3\]"),
        ({"offsets": np.array([], int)}, r"have shape \(M\+1,\), got \(0,\)"),
        ({"offsets": np.array([[0, 4]])}, r"have shape \(M\+1,\), got \(1, 2\)"),
        ({"votes": np.zeros((3, 2), np.int16)}, r"votes must have shape \(4, 2\), got \(3, 2\)"),
        ({"votes": np.zeros((4, 2), np.int64)}, "votes must be int16, got int64"),
        (
            {"votes": np.full((4, 2), 5, np.int16)},
            r"votes must be labels in \[-1, 5\), got 5 to 5",
        ),
        ({"votes": np.full((4, 2), -2, np.int16)}, r"labels in \[-1, 5\), got -2 to"),
        ({"gold": np.zeros(5, np.int16)}, r"gold must have shape \(4,\), got \(5,\)"),
        ({"gold": np.zeros(4)}, "gold must be int16, got float64"),
        ({"gold": np.full(4, -1, np.int16)}, r"gold must be labels in \[0, 5\), got -1"),
        ({"sources": ("a", "a")}, "different names, got twice: a"),
        ({"unmarked": ("abstain",)}, r"for each of the 2 sources, got \('abstain',\)"),
        ({"unmarked": ("abstain", "quiet")}, r"'abstain' or 'outside'.* got \('abstain', 'quiet'\)"),
        (
            {"doc_ids": StringArray.from_list(["a"])},
            r"doc_ids must have shape \(3,\), got \(1,\)",
        ),
        (
            {"text": Text(StringArray.from_list("ab"), np.zeros((4, 2), np.int32), np.zeros(3, np.int64))},
            r"text must have shape \(3,\), got \(2,\)",
        ),
        (
            {"text": Text(StringArray.from_list("abc"), np.zeros((3, 2), np.int32), np.zeros(3, np.int64))},
            r"token_offsets must have shape \(4, 2\), got \(3, 2\)",
        ),
        (
            {"text": Text(StringArray.from_list("abc"), np.zeros((4, 2), np.int32), np.zeros(4, np.int64))},
            r"doc_offsets must have shape \(3,\), got \(4,\)",
        ),
    ],
)
def test_invalid_fields_are_rejected(small: Dataset, changes: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(small, **changes)


def test_lists_of_sources_become_tuples(small: Dataset) -> None:
    listed: Any = {"sources": list(small.sources), "unmarked": list(small.unmarked)}
    assert replace(small, **listed) == small
    assert replace(small, **listed).sources == ("names", "crowd")


# Equality


@given(datasets(), datasets())
def test_datasets_are_equal_if_all_fields_are(one: Dataset, two: Dataset) -> None:
    def all_of(data: Dataset) -> Any:
        head = (data.tags, data.sources, data.unmarked, data.prior_precision, data.coarse)
        holds = (data.gold is None, data.text is None, data.doc_ids is None)
        return head, holds, sentences(data)

    assert (one == two) == (all_of(one) == all_of(two))
    assert one == one.take(range(len(one)))
    assert one != "data"


def test_every_field_counts_in_equality(small: Dataset) -> None:
    text = Text(StringArray.from_list("abc"), np.zeros((4, 2), np.int32), np.zeros(3, np.int64))
    full = replace(small, text=text, doc_ids=StringArray.from_list("xyz"))
    gold = np.array([1, 0, 0, 0], np.int16)
    for changes in (
        {"tags": TagSet(("PER", "ORG"))},
        {"tokens": StringArray.from_list("abcd")},
        {"offsets": np.array([0, 3, 4, 4])},
        {"sources": ("names", "other")},
        {"votes": np.zeros((4, 2), np.int16)},
        {"unmarked": ("abstain", "outside")},
        {"prior_precision": (0.9, None)},
        {"gold": gold},
        {"gold": None},
        {"text": None},
        {"text": replace(text, sentences=StringArray.from_list("abd"))},
        {"text": replace(text, token_offsets=np.ones((4, 2), np.int32))},
        {"text": replace(text, doc_offsets=np.ones(3, np.int64))},
        {"doc_ids": None},
        {"doc_ids": StringArray.from_list("xyy")},
    ):
        assert replace(full, **changes) != full, changes  # type: ignore[arg-type]
    assert replace(full) == full
    assert text != "text"
    for value in (full, text):
        with pytest.raises(TypeError):
            hash(value)


# Parts

bounds = st.none() | st.integers(-8, 8)
slices = st.builds(slice, bounds, bounds, st.none() | st.integers(-2, 2).filter(bool))


@given(datasets(), slices, slices)
def test_slices_behave_like_those_of_a_list(data: Dataset, one: slice, two: slice) -> None:
    assert sentences(data[one]) == sentences(data)[one]
    assert sentences(data[one][two]) == sentences(data)[one][two]
    check(data[one][two])


@given(datasets())
def test_a_sentence_is_indexed(data: Dataset) -> None:
    expected = sentences(data)
    for index in range(-len(data), len(data)):
        one = data[index]
        assert list(one.tokens) == expected[index][0]
        assert one == list(data)[index]
    assert [list(one.tokens) for one in data] == [row[0] for row in expected]
    for outside in (len(data), -len(data) - 1):
        with pytest.raises(IndexError, match=f"sentence {outside} of {len(data)}"):
            data[outside]


def test_slices_are_views_and_takes_are_copies(small: Dataset) -> None:
    text = Text(StringArray.from_list(["a b c", "", "d"]), np.zeros((4, 2), np.int32), np.zeros(3, np.int64))
    data = replace(small, text=text, doc_ids=StringArray.from_list("xyz"))

    def buffers(part: Dataset) -> list[Any]:
        assert part.text is not None
        assert part.doc_ids is not None
        return [
            part.tokens.data,
            part.votes,
            part.gold,
            part.text.sentences.data,
            part.text.token_offsets,
            part.text.doc_offsets,
            part.doc_ids.data,
        ]

    for mine, complete in zip(buffers(data[2:]), buffers(data), strict=True):
        assert np.shares_memory(mine, complete)
    for mine, complete in zip(buffers(data.take([2])), buffers(data), strict=True):
        assert not np.shares_memory(mine, complete)


@given(datasets(), st.data())
def test_take_returns_sentences_in_any_order(data: Dataset, drawn: st.DataObject) -> None:
    expected = sentences(data)
    index = drawn.draw(st.lists(st.integers(-len(data), len(data) - 1))) if len(data) else []
    taken = data.take(index)
    assert sentences(taken) == [expected[m] for m in index]
    check(taken)
    mask = [m in index for m in range(len(data))]
    kept = [row for row, keep in zip(expected, mask, strict=True) if keep]
    assert sentences(data.take(np.array(mask, bool))) == kept


@given(datasets(), st.randoms(use_true_random=False))
def test_a_permutation_is_reversible(data: Dataset, random: Any) -> None:
    order = list(range(len(data)))
    random.shuffle(order)
    assert data.take(order).take(np.argsort(np.array(order, np.int64))) == data


@given(datasets(), st.integers(0, 6), st.integers(0, 6))
def test_concat_reverses_slicing(data: Dataset, i: int, j: int) -> None:
    i, j = min(i, j), max(i, j)
    assert Dataset.concat([data[:i], data[i:j], data[j:]]) == data
    assert Dataset.concat([data]) == data
    turned = Dataset.concat([data[i:], data[:i]])
    assert sentences(turned) == sentences(data)[i:] + sentences(data)[:i]
    check(turned)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tags": TagSet(("PER", "ORG"))}, "tags differ, .*'LOC'.* and .*'ORG'"),
        ({"sources": ("names", "x")}, r"sources differ, \('names', 'crowd'\) and \('names', 'x'\)"),
        ({"unmarked": ("abstain", "outside")}, r"unmarked differ, .* and \('abstain', 'outside'\)"),
        ({"gold": None}, "only some parts have gold"),
        ({"doc_ids": StringArray.from_list("xyz")}, "only some parts have doc_ids"),
    ],
)
def test_parts_that_differ_are_not_concatenated(small: Dataset, changes: Any, message: str) -> None:
    with pytest.raises(MismatchError, match=message):
        Dataset.concat([small, replace(small, **changes)])


def test_concat_needs_at_least_one_part() -> None:
    with pytest.raises(DataError, match="at least one dataset to concatenate"):
        Dataset.concat([])


# Splits

shares = st.floats(0, 1)


@given(datasets(), shares)
def test_without_a_seed_the_first_part_is_the_beginning(data: Dataset, share: float) -> None:
    first, second = data.split(share)
    assert Dataset.concat([first, second]) == data
    assert abs(len(first) - share * len(data)) <= 0.5


@given(datasets(), shares, st.integers(0, 5))
def test_a_seeded_split_is_reproducible_and_complete(data: Dataset, share: float, seed: int) -> None:
    data = replace(data, doc_ids=StringArray.from_list(str(m) for m in range(len(data))))
    first, second = data.split(share, seed=seed)
    assert (first, second) == data.split(share, seed=seed)
    assert abs(len(first) - share * len(data)) <= 0.5
    rows = {row[-1]: row for row in sentences(data)}
    parts = [sentences(part) for part in (first, second)]
    assert sorted(row[-1] for part in parts for row in part) == sorted(rows)
    assert all(row == rows[row[-1]] for part in parts for row in part)
    for part in parts:
        assert part == sorted(part, key=lambda row: int(row[-1]))


def test_other_seeds_give_other_splits() -> None:
    data = Dataset.from_spans(["PER"], [[str(m)] for m in range(40)], {})
    parts = {tuple(data.split(0.5, seed=seed)[0].tokens) for seed in range(8)}
    assert len(parts) == 8


@given(datasets(documents=True), shares, st.none() | st.integers(0, 5))
def test_a_split_by_document_keeps_documents_together(data: Dataset, share: float, seed: int | None) -> None:
    first, second = data.split(share, seed=seed, by_document=True)
    assert first.doc_ids is not None
    assert second.doc_ids is not None
    assert not set(first.doc_ids) & set(second.doc_ids)
    assert len(first) + len(second) == len(data)
    assert (first, second) == data.split(share, seed=seed, by_document=True)
    if seed is None:
        names = list(dict.fromkeys(data.doc_ids or []))
        assert list(dict.fromkeys(first.doc_ids)) == names[: len(set(first.doc_ids))]


def test_a_split_by_document_counts_sentences() -> None:
    """One document of eight sentences and two of one: half is not two documents of three."""
    data = Dataset.from_spans(["PER"], [[str(m)] for m in range(10)], {})
    data = replace(data, doc_ids=StringArray.from_list("abbbbbbbbc"))
    first, second = data.split(0.9, by_document=True)
    assert (len(first), len(second)) == (9, 1)
    first, second = data.split(0.2, by_document=True)
    assert (len(first), len(second)) == (1, 9)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_an_invalid_fraction_is_rejected(small: Dataset, share: float) -> None:
    with pytest.raises(DataError, match=rf"fraction must be in \[0, 1\], got {share}"):
        small.split(share)


def test_a_split_by_document_needs_documents(small: Dataset) -> None:
    with pytest.raises(DataError, match="needs document ids"):
        small.split(0.5, by_document=True)


# Sources, types, gold


@given(datasets(), st.randoms(use_true_random=False))
def test_sources_are_selected_by_name(data: Dataset, random: Any) -> None:
    names = [name for name in data.sources if random.random() < 0.7]
    random.shuffle(names)
    chosen = data.select_sources(iter(names))
    assert chosen.sources == tuple(names)
    for k, name in enumerate(names):
        column = data.sources.index(name)
        assert data.source_index(name) == column
        assert np.array_equal(chosen.votes[:, k], data.votes[:, column])
        assert chosen.unmarked[k] == data.unmarked[column]
    check(chosen)


def test_unknown_and_repeated_sources_are_rejected(small: Dataset) -> None:
    with pytest.raises(UnknownNameError, match="no source 'name'; did you mean 'names'"):
        small.select_sources(["name"])
    with pytest.raises(UnknownNameError, match="no source 1; available: names, crowd"):
        small.source_index(1)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="got twice: crowd"):
        small.select_sources(["crowd", "names", "crowd"])


def test_sources_are_replaced_and_checked(small: Dataset) -> None:
    votes = np.ones((4, 1), np.int16)
    other = small.with_sources(["new"], votes, ["outside"])
    assert (other.sources, other.unmarked) == (("new",), ("outside",))
    assert other.gold is small.gold
    with pytest.raises(DataError, match=r"votes must have shape \(4, 2\)"):
        small.with_sources(["a", "b"], votes, ["abstain", "abstain"])


@given(datasets())
def test_a_vote_is_informative_unless_it_is_merely_unmarked(data: Dataset) -> None:
    expected = [
        [
            label > 0 or (label == 0 and unmarked == "outside")
            for label, unmarked in zip(row, data.unmarked, strict=True)
        ]
        for row in data.votes.tolist()
    ]
    assert data.informative_votes().tolist() == expected


@given(datasets(), tag_sets())
def test_other_types_keep_the_meaning_of_every_label(data: Dataset, tags: TagSet) -> None:
    arrays = [array for array in (data.votes, data.gold) if array is not None]
    labels = {label for array in arrays for label in array.ravel().tolist() if label > 0}
    used = {data.tags.types[(label - 1) // 2] for label in labels} - set(data.coarse)
    if data.coarse and "O" in tags.types:
        with pytest.raises(DataError, match="entity type 'O' cannot be combined with coarse labels"):
            data.with_types(tags.types)
        return
    if not all({"O", *tags.types} & set(allowed) for allowed in data.coarse.values()):
        with pytest.raises(DataError, match="allows nothing"):
            data.with_types(tags.types)
        return
    if not used <= set(tags.types):
        with pytest.raises(DataError, match="no entity type '"):
            data.with_types(tags.types)
        return
    moved = data.with_types(list(tags.types))
    assert moved.tags.types == (*tags.types, *data.coarse)
    for name, allowed in data.coarse.items():
        assert set(moved.coarse[name]) == set(allowed) & {"O", *tags.types}
    check(moved)

    def named(part: Dataset, array: Any) -> list[str]:
        return [part.tags.names[label] if label >= 0 else "" for label in array.ravel().tolist()]

    assert named(moved, moved.votes) == named(data, data.votes)
    if data.gold is not None:
        assert named(moved, moved.gold) == named(data, data.gold)
    assert moved.without_coarse().with_types(data.fine_tags.types) == data.without_coarse()


def test_the_same_types_are_the_same_data(small: Dataset) -> None:
    assert small.with_types(["PER", "LOC"]) is small


def test_gold_is_set_and_removed(small: Dataset) -> None:
    bare = small.without_gold()
    assert bare.gold is None
    assert small.gold is not None
    assert bare.with_gold(small.gold) == small
    with pytest.raises(DataError, match="gold"):
        bare.with_gold(np.zeros(2, np.int16))


@settings(max_examples=30)
@given(datasets())
def test_sentence_of_token_is_the_sentence_index(data: Dataset) -> None:
    expected = [m for m, row in enumerate(sentences(data)) for _ in row[0]]
    assert data.sentence_of_token().tolist() == expected
    assert data.lengths.tolist() == [len(row[0]) for row in sentences(data)]


def test_the_repr_lists_optional_fields(small: Dataset) -> None:
    assert small.summary() == "Dataset(3 sentences, 4 tokens, 2 sources, types PER, LOC, gold)"
    full = replace(small.without_gold(), doc_ids=StringArray.from_list("xyz"))
    assert full.summary().endswith("types PER, LOC, documents)")


# Features


def numbered(data: Dataset) -> Dataset:
    """Add features that identify their token or sentence."""
    tokens, sentences = (
        np.stack([np.arange(n), np.full(n, 7)], axis=1).astype(np.float32) for n in (len(data.tokens), len(data))
    )
    return data.with_features(Features(tokens, sentences, EncoderSpec("toy", "t")))


def numbers(data: Dataset) -> list[tuple[list[int], int]]:
    """Identifiers of the tokens of each sentence, and of the sentence."""
    assert data.features is not None
    tokens, own = data.features.tokens[:, 0], data.features.sentences[:, 0]
    return [
        (tokens[first:last].astype(int).tolist(), int(own[m]))
        for m, (first, last) in enumerate(pairwise(data.offsets.tolist()))
    ]


@given(datasets(), slices, slices)
def test_slices_have_the_features_of_their_sentences(data: Dataset, one: slice, two: slice) -> None:
    complete = numbered(data)
    assert numbers(complete[one]) == numbers(complete)[one]
    assert numbers(complete[one][two]) == numbers(complete)[one][two]
    check(complete[one][two])


@given(datasets(), st.data())
def test_take_selects_the_features_of_the_sentences(data: Dataset, drawn: st.DataObject) -> None:
    complete = numbered(data)
    chosen = drawn.draw(st.lists(st.integers(0, len(data) - 1))) if len(data) else []
    assert numbers(complete.take(chosen)) == [numbers(complete)[number] for number in chosen]
    check(complete.take(chosen))


@given(datasets(), st.integers(0, 8))
def test_features_are_concatenated_with_the_parts(data: Dataset, at: int) -> None:
    complete = numbered(data)
    assert numbers(Dataset.concat([complete[:at], complete[at:]])) == numbers(complete)


def test_slices_of_features_are_views_and_takes_are_copies(small: Dataset) -> None:
    data = numbered(small)
    assert data.features is not None
    for part, shared in ((data[2:], True), (data[::1], True), (data.take([2]), False)):
        assert part.features is not None
        for name in ("tokens", "sentences"):
            mine, complete = getattr(part.features, name), getattr(data.features, name)
            assert np.shares_memory(mine, complete) is shared


def test_changes_of_other_fields_keep_the_features(small: Dataset) -> None:
    data = numbered(small)
    for same in (
        data.without_gold(),
        data.with_gold(np.zeros(4, np.int16)),
        data.select_sources(["crowd"]),
        data.with_types(["LOC", "PER"]),
        data.with_sources(("x",), np.zeros((4, 1), np.int16), ("abstain",)),
    ):
        assert same.features is data.features
    assert data.with_features(None).features is None
    assert small.features is None


def rows(count: int, width: int = 2) -> Any:
    return np.zeros((count, width), np.float32)


@pytest.mark.parametrize(
    ("tokens", "sentences", "message"),
    [
        (rows(3), rows(3), r"features of tokens must have shape \(4, 2\), got \(3, 2\)"),
        (rows(4), rows(4), r"features of sentences must have shape \(3, 2\), got \(4, 2\)"),
    ],
)
def test_features_of_other_data_are_rejected(small: Dataset, tokens: Any, sentences: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        small.with_features(Features(tokens, sentences, EncoderSpec("toy", "t")))


def test_features_are_concatenated_only_if_all_come_from_one_encoder(
    small: Dataset,
) -> None:
    data = numbered(small)
    with pytest.raises(MismatchError, match="only some parts have features"):
        Dataset.concat([data, small])
    other = data.with_features(Features(rows(4), rows(3), EncoderSpec("other", "o")))
    with pytest.raises(MismatchError, match=r"other \(o\) .*; toy \(t\)"):
        Dataset.concat([data, other])


def test_features_are_in_the_repr_but_not_in_equality(small: Dataset) -> None:
    """Features are computed from the tokens: equal datasets may have them or not."""
    assert numbered(small).summary().endswith("gold, features of toy)")
    assert numbered(small) == small


def test_prior_precision_stays_with_its_source() -> None:
    data = Dataset.from_spans(["X"], [["a"], ["b"]], {"s": [[], []], "t": [[], []], "u": [[], []]})
    assert data.prior_precision == (None, None, None)
    stated = replace(data, prior_precision=(0.9, None, np.float32(0.5)))
    assert stated != data
    assert stated.select_sources(["u", "s"]).prior_precision == (0.5, 0.9)
    assert stated[1:].prior_precision == stated.take([0]).prior_precision == stated.prior_precision
    other = stated.with_sources(["v", "s"], np.zeros((2, 2), np.int16), ["abstain", "abstain"])
    assert other.prior_precision == (None, 0.9)
    assert stated.with_sources(stated.sources, stated.votes, stated.unmarked) == stated
    np.testing.assert_array_equal(stated.prior_precision_or(0.7), [0.9, 0.7, 0.5])
    with pytest.raises(MismatchError, match="precision differ"):
        Dataset.concat([stated, data])
    assert Dataset.concat([stated, stated]).prior_precision == stated.prior_precision


@pytest.mark.parametrize("precision", [(1.0,), (0.0,), (float("nan"),), (0.5, 0.5)])
def test_an_invalid_prior_precision_is_rejected(precision: tuple[float, ...]) -> None:
    data = Dataset.from_spans(["X"], [["a"]], {"s": [[]]})
    with pytest.raises(DataError, match=r"precision must be in \(0, 1\)"):
        replace(data, prior_precision=precision)


def test_a_vote_matrix_gives_the_same_dataset_as_spans() -> None:
    tokens = [["Ada", "Lovelace", "left"], ["She", "wrote"]]
    spans = Dataset.from_spans(
        ["PER"],
        tokens,
        {"names": [[(0, 2, "PER")], []], "crowd": [[], None]},
        gold=[[(0, 2, "PER")], []],
        unmarked="outside",
    )
    matrix = [[1, 0], [2, 0], [0, 0], [0, -1], [0, -1]]
    found = Dataset.from_votes(["PER"], tokens, matrix, sources=["names", "crowd"], gold=[1, 2, 0, 0, 0])
    assert found == spans
    with pytest.raises(DataError, match=r"votes must be labels in \[-1, 3\), got 0 to 4"):
        Dataset.from_votes(["PER"], [["Ada", "left"]], [[4], [0]])
    empty = Dataset.from_votes(["PER"], [["Ada"]], np.zeros((1, 0)))
    assert empty.sources == ()
