"""A dataset as sentences and as documents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convener.data.dataset import Dataset
from convener.data.ragged import StringArray
from convener.lf import doc as module
from convener.lf.doc import Docs
from tests.generators import datasets


@given(datasets(), st.data())
def test_sentence_scope_yields_each_sentence(data: Dataset, draw: st.DataObject) -> None:
    texts = Docs.from_dataset(data, "sentence")
    assert len(texts) == len(data)
    start = draw.draw(st.integers(0, len(data)))
    stop = draw.draw(st.integers(start, len(data)))
    docs = texts.make_docs(start, stop)
    assert [view.tokens for view in docs] == [data[m].tokens for m in range(start, stop)]
    if data.text is not None:
        for view, m in zip(docs, range(start, stop), strict=True):
            assert view.text == data.text.sentences[m]
            places = data.text.token_offsets[data.offsets[m] : data.offsets[m + 1]].tolist()
            assert [list(place) for place in view.token_offsets] == places
    if data.doc_ids is not None:
        assert [view.doc_id for view in docs] == data.doc_ids.to_list()[start:stop]


@given(datasets(), st.data())
def test_documents_collect_their_sentences_in_any_order(data: Dataset, draw: st.DataObject) -> None:
    names = draw.draw(st.lists(st.sampled_from(["d1", "d2", ""]), min_size=len(data), max_size=len(data)))
    data = replace(data, doc_ids=StringArray.from_list(names))
    texts = Docs.from_dataset(data, "document")
    docs = texts.make_docs(0, len(texts))
    assert [view.doc_id for view in docs] == list(dict.fromkeys(names))
    for view in docs:
        members = [m for m, name in enumerate(names) if name == view.doc_id]
        assert list(view) == [word for m in members for word in data[m].tokens]
        assert [view.tokens[a:b] for a, b in view.sentences] == [data[m].tokens for m in members]
        assert [view.text[a:b] for a, b in view.token_offsets] == [
            token for m in members for token in written_tokens(data, m)
        ]
    # `token_order` restores the original order.
    order = np.arange(len(data.tokens)) if texts.token_order is None else texts.token_order
    placed_words = [word for view in docs for word in view]
    placed = {int(at): word for at, word in zip(order, placed_words, strict=True)}
    assert [placed[at] for at in range(len(placed))] == data.tokens.to_list()


def written_tokens(data: Dataset, m: int) -> list[str]:
    """The tokens of a sentence as they occur in its text."""
    if data.text is None:
        return list(data[m].tokens)
    places = data.text.token_offsets[data.offsets[m] : data.offsets[m + 1]].tolist()
    return [data.text.sentences[m][a:b] for a, b in places]


def test_shards_cover_all_texts() -> None:
    data = Dataset.from_spans(["A"], [["w"] * n for n in (3, 5000, 1, 0, 2)], {})
    shards = Docs.from_dataset(data, "sentence").shards()
    assert shards == [(0, 1), (1, 2), (2, 5)]
    assert module.SHARD_TOKENS < 5000


def test_locations_name_sentence_and_document() -> None:
    data = Dataset.from_spans(["A"], [["a"], ["b"], ["c"]], {})
    assert Docs.from_dataset(data, "sentence").location(2) == "sentence 2"
    assert Docs.from_dataset(data, "document").location(2) == "sentence 2"
    named = replace(data, doc_ids=StringArray.from_list(["x", "y", "x"]))
    assert Docs.from_dataset(named, "sentence").location(2) == "document x, sentence 2"
    assert Docs.from_dataset(named, "document").location(1) == "document y"
    assert len(Docs.from_dataset(data, "document")) == 3
