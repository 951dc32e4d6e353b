"""Features: vectors of tokens and sentences, their storage types and their standardization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from convener.data import validation
from convener.data.ragged import as_indices
from convener.errors import DataError, MismatchError

Dtype = Literal["float16", "bfloat16", "float32"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
Floats = NDArray[np.float32]
Index = slice | NDArray[np.int64]
# NumPy has no bfloat16: its bits are stored as uint16, which no other feature type uses.
_NUMPY_DTYPES = {"float16": np.float16, "bfloat16": np.uint16, "float32": np.float32}
_DTYPE_NAMES: dict[Any, Dtype] = {np.dtype(kind): name for name, kind in _NUMPY_DTYPES.items()}  # type: ignore[misc]
BLOCK_SIZE = 1 << 14
"""Number of rows processed at a time."""


@dataclass(frozen=True)
class EncoderSpec:
    """Identity of the encoder that computed features; specs are equal if their digests are.

    The digest covers everything that determines the values: the files of the model and the settings.
    """

    name: str = field(compare=False)
    digest: str
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """A dictionary that JSON can hold."""
        return {"name": self.name, "digest": self.digest, "settings": dict(self.settings)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EncoderSpec:
        """The inverse of `to_json`."""
        return cls(values["name"], values["digest"], dict(values["settings"]))

    def __str__(self) -> str:
        return f"{self.name} ({self.digest[:12]})"


class Standardizer(NamedTuple):
    """Mean and scale of training features, separately for tokens and sentences; (D,) each."""

    token_mean: Floats
    token_scale: Floats
    sentence_mean: Floats
    sentence_scale: Floats

    @classmethod
    def fit(cls, features: Features) -> Standardizer:
        """Compute mean and standard deviation of features as stored; the scale of a constant column is 1.

        >>> rows = np.array([[1, 5], [3, 5]], np.float32)
        >>> standardizer = Standardizer.fit(Features(rows, rows, EncoderSpec("toy", "")))
        >>> standardizer.token_mean.tolist(), standardizer.token_scale.tolist()
        ([2.0, 5.0], [1.0, 1.0])
        """
        return cls(*_mean_and_scale(features.tokens), *_mean_and_scale(features.sentences))


@dataclass(frozen=True, eq=False)
class Features:
    """Features of every token (N, D) and every sentence (M, D), as stored; often memory-mapped.

    The arrays are float32, float16, or uint16 with the bits of bfloat16. `token_vectors` and `sentence_vectors` return
    float32, standardized if there is a standardizer.
    """

    tokens: NDArray[Any]
    sentences: NDArray[Any]
    encoder_spec: EncoderSpec
    standardizer: Standardizer | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "sentences"):
            array = getattr(self, name)
            validation.check(array.ndim == 2, f"features of {name} must be (., D), got {array.shape}")
            validation.check(
                array.dtype in _DTYPE_NAMES,
                f"features must be float16, float32, or bfloat16 as uint16, got {array.dtype}",
            )
        validation.check(
            self.tokens.shape[1] == self.sentences.shape[1],
            f"features of tokens and sentences must have the same dimension, "
            f"got {self.tokens.shape[1]} and {self.sentences.shape[1]}",
        )

    @property
    def dim(self) -> int:
        """Dimension D of the vectors."""
        return int(self.tokens.shape[1])

    @property
    def dtype(self) -> Dtype:
        """Type in which the values are stored."""
        return _DTYPE_NAMES[self.tokens.dtype]

    def token_vectors(self, index: Index = slice(None)) -> Floats:
        """Vectors of these tokens, by default of all.  -> (n, D) float32"""
        return self._vectors(self.tokens, index, 0)

    def sentence_vectors(self, index: Index = slice(None)) -> Floats:
        """Vectors of these sentences, by default of all.  -> (m, D) float32"""
        return self._vectors(self.sentences, index, 2)

    def _vectors(self, stored: NDArray[Any], index: Index, first: int) -> Floats:
        standardizer = None if self.standardizer is None else self.standardizer[first : first + 2]
        if isinstance(index, slice):
            return _to_vectors(stored[index], standardizer)
        # In blocks, since features need much memory.
        index = as_indices(index)
        rows = np.empty((len(index), self.dim), np.float32)
        for start in range(0, len(index), BLOCK_SIZE):
            block = slice(start, start + BLOCK_SIZE)
            rows[block] = _to_vectors(stored[index[block]], standardizer)
        return rows

    def with_standardizer(self, standardizer: Standardizer) -> Self:
        """The same features, standardized when they are read."""
        if len(standardizer.token_mean) != self.dim:
            raise MismatchError(f"features must be {len(standardizer.token_mean)} wide as in training, got {self.dim}")
        return replace(self, standardizer=standardizer)

    def subset(self, sentences: Index, tokens: Index) -> Self:
        """Features of these sentences and tokens; slices give views."""
        return replace(self, tokens=self.tokens[tokens], sentences=self.sentences[sentences])

    @classmethod
    def concat(cls, parts: list[Features]) -> Features:
        """Concatenate features, which must come from the same encoder."""
        if len({(part.encoder_spec, part.dtype, part.dim) for part in parts}) > 1:
            descriptions = {f"{part.encoder_spec} {part.dtype}, {part.dim} wide" for part in parts}
            raise MismatchError(f"cannot concatenate features of different encoders: {'; '.join(sorted(descriptions))}")
        if any(part.standardizer is not parts[0].standardizer for part in parts):
            raise MismatchError("cannot concatenate features with different standardizers")
        return replace(
            parts[0],
            tokens=np.concatenate([part.tokens for part in parts]),
            sentences=np.concatenate([part.sentences for part in parts]),
        )

    def __repr__(self) -> str:
        return f"Features({self.encoder_spec}, {self.dim} wide, {self.dtype})"


def to_float32(stored: NDArray[Any]) -> Floats:
    """Stored values as float32; a view if they are stored as float32."""
    if stored.dtype == np.uint16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(stored, np.float32)


def from_float32(rows: Floats, dtype: Dtype) -> NDArray[Any]:
    """Values rounded to the storage type; an error if a value is out of its range.

    >>> to_float32(from_float32(np.array([1.0, 3.14159], np.float32), "bfloat16")).tolist()
    [1.0, 3.140625]
    """
    if not np.isfinite(rows).all():
        raise DataError("expected finite features, found values that are not finite")
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
        # Round to nearest, ties to even.
        stored = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        fits = bool(((stored & 0x7F80) != 0x7F80).all())
    else:
        with np.errstate(over="ignore"):
            stored = rows.astype(_NUMPY_DTYPES[dtype])
        fits = bool(np.isfinite(stored).all())
    if not fits:
        wider = "bfloat16 or float32" if dtype == "float16" else "float32"
        raise DataError(f"features up to {np.abs(rows).max():g} do not fit {dtype}; choose {wider}")
    return stored


def numpy_dtype(dtype: Dtype) -> np.dtype[Any]:
    """The NumPy type of a storage type."""
    return np.dtype(_NUMPY_DTYPES[dtype])


def _to_vectors(stored: NDArray[Any], standardizer: tuple[Floats, ...] | None) -> Floats:
    """Stored values as float32, standardized by a mean and a scale."""
    rows = to_float32(stored)
    if standardizer is None:
        return rows
    mean, scale = standardizer
    rows = rows - mean if np.may_share_memory(rows, stored) else np.subtract(rows, mean, out=rows)
    rows /= scale
    return rows


def _mean_and_scale(stored: NDArray[Any]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, combined block by block in float64."""
    dim = stored.shape[1]
    count, mean, squares = 0, np.zeros(dim), np.zeros(dim)
    for rows in _float64_blocks(stored):
        block_mean = rows.mean(axis=0)
        delta, total = block_mean - mean, count + len(rows)
        squares += ((rows - block_mean) ** 2).sum(axis=0) + delta**2 * (count * len(rows) / total)
        mean += delta * (len(rows) / total)
        count = total
    std = np.sqrt(squares / max(count, 1))
    scale = np.where(std > 1e-6 * np.maximum(1e-6, np.abs(mean)), std, 1.0)
    return mean.astype(np.float32), scale.astype(np.float32)


def _float64_blocks(stored: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    for start in range(0, len(stored), BLOCK_SIZE):
        yield to_float32(stored[start : start + BLOCK_SIZE]).astype(np.float64)
