from __future__ import annotations

import numpy as np
import pytest
import torch

import convener as cv
from convener.neural.batch import PackedDataset, sentence_features


def test_shuffling_keeps_all_sentences(encoded: cv.Dataset) -> None:
    packing = PackedDataset.from_dataset(encoded, seed=5)
    order = np.random.default_rng(5).permutation(len(encoded))
    assert not np.array_equal(order, np.arange(len(encoded)))
    for place, number in enumerate(order):
        batch, one = packing.batch(place, place + 1), encoded.take([number])
        np.testing.assert_array_equal(batch.tokens, one.features.token_vectors())
        np.testing.assert_array_equal(batch.sentences, one.features.sentence_vectors())
        np.testing.assert_array_equal(batch.votes, one.votes)
        assert batch.offsets.tolist() == [0, len(one.tokens)]


def test_a_batch_is_a_view(encoded: cv.Dataset) -> None:
    packing = PackedDataset.from_dataset(encoded)
    batch = packing.batch(3, 9)
    assert batch.tokens.untyped_storage().data_ptr() == packing.tokens.untyped_storage().data_ptr()
    assert batch.cells.label.base is not None


def test_batches_contain_every_sentence_once(encoded: cv.Dataset) -> None:
    packing = PackedDataset.from_dataset(encoded)
    for rng in (None, np.random.default_rng(1)):
        rows = torch.cat([batch.sentences for batch in packing.batches(7, rng)])
        assert len(rows) == len(encoded)
        kept = {tuple(row.tolist()) for row in rows}
        assert kept == {tuple(row.tolist()) for row in packing.sentences}


def test_evidence_offsets_and_replaced_votes_follow_the_packed_order(encoded: cv.Dataset) -> None:
    given = np.arange(len(encoded.tokens) * len(encoded.tags), dtype=np.float32)
    given = given.reshape(-1, len(encoded.tags))
    mute = np.full_like(encoded.votes, -1)
    packing = PackedDataset.from_dataset(encoded, given, seed=2).replace_votes(mute)
    assert (packing.votes == -1).all()
    assert sorted(packing.log_evidence_offset[:, 0].tolist()) == given[:, 0].tolist()
    first = int(np.random.default_rng(2).permutation(len(encoded))[0])
    place = slice(encoded.offsets[first], encoded.offsets[first + 1])
    np.testing.assert_array_equal(packing.batch(0, 1).log_evidence_offset, given[place])


def test_data_without_features_is_rejected(toy: cv.Dataset) -> None:
    with pytest.raises(cv.DataError, match="features are needed"):
        PackedDataset.from_dataset(toy)
    with pytest.raises(cv.DataError, match="features are needed"):
        sentence_features(toy)
