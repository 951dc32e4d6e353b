"""Features: storage types, subsets and standardization."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from convener.data import features as module
from convener.data.features import DTYPES, EncoderSpec, Features, Standardizer, from_float32, numpy_dtype, to_float32
from convener.errors import DataError, MismatchError

TOY = EncoderSpec("toy", "t")
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def rows(*values: list[float]) -> Any:
    return np.array(values, np.float32)


def features(tokens: Any, sentences: Any = None, encoding: EncoderSpec = TOY) -> Features:
    tokens = np.asarray(tokens)
    return Features(tokens, tokens[:1] if sentences is None else sentences, encoding)


def matrices() -> st.SearchStrategy[Any]:
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=12)
    return hnp.arrays(np.float32, shapes, elements=st.floats(-100, 100, width=32))


# How numbers are stored


@given(hnp.arrays(np.float32, st.integers(0, 30), elements=FLOATS))
def test_bfloat16_is_rounded_as_in_torch(numbers: Any) -> None:
    torch = pytest.importorskip("torch")
    expected = torch.from_numpy(numbers.copy()).to(torch.bfloat16)
    if not torch.isfinite(expected).all():
        with pytest.raises(DataError, match="do not fit bfloat16; choose float32"):
            from_float32(numbers, "bfloat16")
        return
    stored = from_float32(numbers, "bfloat16")
    assert stored.dtype == np.uint16
    np.testing.assert_array_equal(stored, expected.view(torch.uint16).numpy())
    np.testing.assert_array_equal(to_float32(stored), expected.float().numpy())


@pytest.mark.parametrize("bits", [0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0xBF818000, 1])
def test_ties_go_to_the_even_neighbour(bits: int) -> None:
    torch = pytest.importorskip("torch")
    number = np.array([bits], np.uint32).view(np.float32)
    expected = torch.from_numpy(number.copy()).to(torch.bfloat16).view(torch.uint16).numpy()
    assert from_float32(number, "bfloat16").tolist() == expected.tolist()


@given(hnp.arrays(np.float32, st.integers(0, 30), elements=FLOATS))
def test_float16_is_rounded_as_in_numpy_or_rejected(numbers: Any) -> None:
    with np.errstate(over="ignore"):
        expected = numbers.astype(np.float16)
    if np.isfinite(expected).all():
        np.testing.assert_array_equal(from_float32(numbers, "float16"), expected)
    else:
        with pytest.raises(DataError, match="do not fit float16; choose bfloat16 or float32"):
            from_float32(numbers, "float16")


@given(hnp.arrays(np.float32, st.integers(0, 30), elements=FLOATS))
def test_float32_is_not_changed(numbers: Any) -> None:
    np.testing.assert_array_equal(to_float32(from_float32(numbers, "float32")), numbers)


def test_the_range_of_a_storage_type_is_exact() -> None:
    assert from_float32(rows([65504, -65504]), "float16").tolist() == [[65504, -65504]]
    with pytest.raises(DataError, match="features up to 70000 do not fit float16"):
        from_float32(rows([1, -70000]), "float16")
    largest = np.array([0x7F7F0000], np.uint32).view(np.float32)
    assert to_float32(from_float32(largest, "bfloat16")) == largest
    with pytest.raises(DataError, match="do not fit bfloat16"):
        from_float32(np.array([np.finfo(np.float32).max]), "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_rejected(dtype: Any, bad: float) -> None:
    with pytest.raises(DataError, match="not finite"):
        from_float32(rows([0, bad]), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_need_not_be_contiguous(dtype: Any) -> None:
    wide = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(to_float32(from_float32(wide[::2, ::3], dtype)), wide[::2, ::3])
    np.testing.assert_array_equal(to_float32(from_float32(wide.T, dtype)), wide.T)
    assert from_float32(wide, dtype).dtype == numpy_dtype(dtype)


def test_stored_float32_is_read_without_a_copy() -> None:
    table = rows([1, 2])
    assert np.shares_memory(to_float32(table), table)


# Features


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_come_as_float32(dtype: Any) -> None:
    table = from_float32(rows([1, 2], [3, 4], [5, 6]), dtype)
    found = Features(table, table[:2], TOY)
    assert (found.dtype, found.dim) == (dtype, 2)
    assert found.token_vectors().dtype == np.float32
    assert found.token_vectors(slice(1, 3)).tolist() == [[3, 4], [5, 6]]
    assert found.token_vectors(np.array([2, 0])).tolist() == [[5, 6], [1, 2]]
    assert found.sentence_vectors().tolist() == [[1, 2], [3, 4]]
    assert found.sentence_vectors(np.array([1])).tolist() == [[3, 4]]


@pytest.mark.parametrize(
    ("tokens", "sentences", "message"),
    [
        (np.zeros(3, np.float32), np.zeros((1, 3), np.float32), r"tokens must be \(., D\)"),
        (np.zeros((1, 3), np.float32), np.zeros(3, np.float32), r"sentences must be \(., D\)"),
        (np.zeros((1, 3)), np.zeros((1, 3), np.float32), "bfloat16 as uint16, got float64"),
        (np.zeros((1, 3), np.float32), np.zeros((1, 3), int), "bfloat16 as uint16, got int64"),
        (np.zeros((1, 3), np.float32), np.zeros((1, 4), np.float32), "same dimension, got 3 and 4"),
    ],
)
def test_invalid_arrays_are_rejected(tokens: Any, sentences: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Features(tokens, sentences, TOY)


def test_slices_are_views_and_indexing_copies() -> None:
    table = np.arange(12, dtype=np.float16).reshape(6, 2)
    complete = Features(table, table[:3], TOY)
    view = complete.subset(slice(1, 3), slice(2, 5))
    assert np.shares_memory(view.tokens, table)
    assert (view.tokens.tolist(), view.sentences.tolist()) == (
        table[2:5].tolist(),
        table[1:3].tolist(),
    )
    copy = complete.subset(np.array([2, 0]), np.array([5, 0]))
    assert not np.shares_memory(copy.tokens, table)
    assert copy.tokens.tolist() == [[10, 11], [0, 1]]
    assert copy.encoder_spec is TOY


def test_subsets_keep_their_standardizer() -> None:
    complete = features(rows([0, 0], [2, 4]), rows([1, 1])).with_standardizer(
        Standardizer.fit(features(rows([0, 0], [2, 4]), rows([1, 1])))
    )
    assert complete.subset(slice(0, 1), slice(1, 2)).token_vectors().tolist() == [[1, 1]]


@given(matrices(), st.integers(0, 12))
def test_concat_reverses_slicing(table: Any, at: int) -> None:
    complete = Features(table, table, TOY)
    joined = Features.concat(
        [complete.subset(slice(0, at), slice(0, at)), complete.subset(slice(at, None), slice(at, None))]
    )
    np.testing.assert_array_equal(joined.tokens, table)
    np.testing.assert_array_equal(joined.sentences, table)


def test_features_of_different_kinds_are_not_concatenated() -> None:
    one = features(rows([1, 2]))
    for other, message in (
        (features(rows([1, 2]), encoding=EncoderSpec("toy", "u")), r"toy \(t\).*; toy \(u\)"),
        (features(rows([1, 2]).astype(np.float16)), "float16.*; .*float32"),
        (features(rows([1, 2, 3])), "2 wide; .*3 wide"),
        (one.with_standardizer(Standardizer.fit(one)), "different standardizers"),
    ):
        with pytest.raises(MismatchError, match=message):
            Features.concat([one, other])
    assert Features.concat([one, replace(one, encoder_spec=EncoderSpec("other name", "t"))]).dim == 2


def test_the_repr_is_short() -> None:
    assert repr(features(rows([1, 2]))) == "Features(toy (t), 2 wide, float32)"


# Encodings


def test_specs_are_compared_by_digest() -> None:
    one = EncoderSpec("models/a", "d", {"window": 8})
    assert one == EncoderSpec("other/models/a", "d", {})
    assert hash(one) == hash(EncoderSpec("elsewhere", "d"))
    assert one != EncoderSpec("models/a", "e", {"window": 8})


def test_a_spec_is_restored_from_json() -> None:
    one = EncoderSpec("a", "d", {"layers": [1, 2], "window": None})
    back = EncoderSpec.from_json(one.to_json())
    assert back == one
    assert (back.name, back.settings) == (one.name, one.settings)


# Standardising


@given(matrices(), matrices(), st.sampled_from([1, 2, 5, 1 << 14]))
def test_mean_and_scale_match_numpy(tokens: Any, sentences: Any, block: int) -> None:
    width = min(tokens.shape[1], sentences.shape[1])
    raw = Features(tokens[:, :width], sentences[:, :width], TOY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_SIZE", block)
        found = Standardizer.fit(raw)
    for table, mean, scale in (
        (raw.tokens, found.token_mean, found.token_scale),
        (raw.sentences, found.sentence_mean, found.sentence_scale),
    ):
        exact = table.astype(np.float64)
        np.testing.assert_allclose(mean, exact.mean(axis=0), rtol=1e-5, atol=1e-5)
        spread = exact.std(axis=0)
        seen = spread > 1e-3
        np.testing.assert_allclose(scale[seen], spread[seen], rtol=1e-5)
        assert (scale[exact.max(axis=0) == exact.min(axis=0)] == 1).all()


@given(matrices())
def test_standardized_rows_have_mean_zero_and_variance_one(table: Any) -> None:
    assume(len(table) > 1)
    raw = Features(table, table[::2] * 3 + 1, TOY)
    scaled = raw.with_standardizer(Standardizer.fit(raw))
    for stored, found in (
        (raw.tokens, scaled.token_vectors()),
        (raw.sentences, scaled.sentence_vectors()),
    ):
        moving = stored.astype(np.float64).std(axis=0) > 1e-2
        exact = found.astype(np.float64)
        np.testing.assert_allclose(exact.mean(axis=0)[moving], 0, atol=1e-2)
        np.testing.assert_allclose(exact.std(axis=0)[moving], 1, atol=1e-2)


def test_tokens_and_sentences_are_standardized_separately() -> None:
    raw = features(rows([0.0], [2.0]), rows([10.0], [30.0]))
    found = raw.with_standardizer(Standardizer.fit(raw))
    assert found.token_vectors().ravel().tolist() == [-1, 1]
    assert found.sentence_vectors().ravel().tolist() == [-1, 1]
    assert found.token_vectors(np.array([1])).tolist() == [[1]]
    assert found.tokens is raw.tokens  # as it was stored


def test_a_standardizer_is_fitted_on_stored_features() -> None:
    raw = features(rows([0.0], [2.0]), rows([10.0], [30.0]))
    once = Standardizer.fit(raw)
    twice = Standardizer.fit(raw.with_standardizer(once))
    assert [a.tolist() for a in once] == [a.tolist() for a in twice]


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-20, 3e4])
def test_a_constant_column_becomes_zero(value: float) -> None:
    table = np.full((50_000, 1), value, np.float32)
    raw = Features(table, table[:3], TOY)
    scaling = Standardizer.fit(raw)
    assert scaling.token_scale.tolist() == [1]
    np.testing.assert_allclose(raw.with_standardizer(scaling).token_vectors(), 0, atol=1e-2)


def test_the_standardizer_of_no_features_is_the_identity() -> None:
    empty = Features(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32), TOY)
    scaling = Standardizer.fit(empty)
    assert [array.tolist() for array in scaling] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert empty.with_standardizer(scaling).token_vectors().shape == (0, 2)


def test_features_of_another_dimension_are_rejected() -> None:
    scaling = Standardizer.fit(features(rows([1, 2, 3])))
    with pytest.raises(MismatchError, match="must be 3 wide as in training, got 2"):
        features(rows([1, 2])).with_standardizer(scaling)


def test_large_means_do_not_affect_small_scales() -> None:
    """Plain sums of squares would lose all digits here."""
    table = (1e4 + np.random.default_rng(0).normal(0, 1, (40_000, 1))).astype(np.float32)
    found = Standardizer.fit(Features(table, table[:2], TOY))
    np.testing.assert_allclose(found.token_scale, table.astype(np.float64).std(), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_are_standardized_alike_in_any_selection(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    stored = from_float32(rng.standard_normal((50, 3)).astype(np.float32), dtype)
    kept = stored.copy()
    standardizer = Standardizer(*(rng.random(3).astype(np.float32) + 0.5 for _ in range(4)))
    found = features(stored).with_standardizer(standardizer)
    expected = to_float32(stored) - standardizer.token_mean
    expected /= standardizer.token_scale
    monkeypatch.setattr(module, "BLOCK_SIZE", 7)
    order = rng.permutation(50)
    np.testing.assert_array_equal(found.token_vectors(), expected)
    np.testing.assert_array_equal(found.token_vectors(slice(5, 20)), expected[5:20])
    np.testing.assert_array_equal(found.token_vectors(order), expected[order])
    np.testing.assert_array_equal(stored, kept)
