"""Between Arrow columns and packed arrays, whole buffers at a time.

Columns are typed Any: pyarrow is optional and says nothing to a type checker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, require
from convener.io.messages import readable
from convener.packed import Array, Strings, offsets_of, piece_at


def pyarrow(module: str = "pyarrow") -> Any:
    """The library or one of its modules."""
    return require(module, extra="arrow", purpose="Arrow and Parquet data")


def parquet_schema(path: Path) -> Any:
    """The Arrow schema of a Parquet file."""
    with readable(str(path), "Parquet file"):
        return pyarrow("pyarrow.parquet").read_schema(path)


def is_list(kind: Any) -> bool:
    """Whether a type is a list of any layout."""
    types = pyarrow("pyarrow.types")
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_string(kind: Any) -> bool:
    """Whether a type is a string, plainly or as a dictionary."""
    types = pyarrow("pyarrow.types")
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def strings(column: Any) -> Strings:
    """Packed strings of a column without nulls, copied out of it."""
    pa = pyarrow()
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return Strings.concat(_strings(chunk) for chunk in chunks if len(chunk))


def _strings(chunk: Any) -> Strings:
    pa = pyarrow()
    if chunk.type not in (pa.string(), pa.large_string()):
        chunk = chunk.cast(pa.large_string())
    width = np.int32 if chunk.type == pa.string() else np.int64
    _, bounds, data = chunk.buffers()
    inside = slice(chunk.offset, chunk.offset + len(chunk) + 1)
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Strings(raw, np.frombuffer(bounds, width)[inside].astype(np.int64))


def numbers(column: Any, dtype: Any = None) -> Array:
    """A column without nulls as an array, of its own type if none is named."""
    options = {"zero_copy_only": False} if isinstance(column, pyarrow().Array) else {}
    return np.asarray(column.to_numpy(**options), dtype)


def codes(column: Any) -> tuple[NDArray[np.int64], Strings]:
    """Numbers of the distinct values of a column, -1 for null, and the values as strings."""
    pa = pyarrow()
    if not pyarrow("pyarrow.types").is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.unify_dictionaries().chunks or [column.combine_chunks()])
    found = numbers(column.indices.fill_null(-1)).astype(np.int64)
    values = column.dictionary
    if values.null_count:  # a null may stand in the dictionary as well
        found = np.where(numbers(values.is_null())[found], -1, found)
        values = values.fill_null("")
    return found, strings(values.cast(pa.large_string()))


def opened(column: Any, what: str) -> tuple[NDArray[np.int64], Any]:
    """Length of each list of a column, and the values of all; nulls are refused.

    `what` names the column for the message: "train.parquet: tokens".
    """
    compute = pyarrow("pyarrow.compute")
    if not is_list(column.type):
        raise DataError(f"{what}: expected a list column, got {column.type}")
    if column.null_count:
        row = int(np.flatnonzero(numbers(compute.is_null(column), bool))[0])
        raise DataError(f"{what}: row {row} is null")
    lengths = numbers(compute.list_value_length(column), np.int64)
    values = compute.list_flatten(column)
    if values.null_count:
        at = int(np.flatnonzero(numbers(compute.is_null(values), bool))[0])
        raise DataError(f"{what}: row {piece_at(offsets_of(lengths), at)} holds a null")
    return lengths, values


def matrix(values: Any, width: int, dtype: Any, what: str) -> Array:
    """Rows of one width, of a column of lists.  -> (N, width)"""
    lengths, flat = opened(values, what)
    if (lengths != width).any():
        wrong = lengths[lengths != width][0]
        raise DataError(f"{what}: expected {width} numbers each, got {wrong}")
    kinds = "iu" if np.dtype(dtype).kind == "i" else "iuf"
    found = numbers(flat) if len(flat) else np.zeros(0, dtype)
    if found.dtype.kind not in kinds:
        raise DataError(f"{what}: expected {np.dtype(dtype)}, got {flat.type}")
    if kinds == "iu" and len(found) and not 0 <= found.min() <= found.max() < 2**31:
        raise DataError(f"{what}: expected offsets, got {found.min()} to {found.max()}")
    return found.astype(dtype).reshape(-1, width)


def string_array(packed: Strings) -> Any:
    """An Arrow array over the same buffers, with 32-bit offsets where they suffice."""
    pa = pyarrow()
    compact = packed.compact()
    small = len(compact.data) < 2**31
    bounds = compact.offsets.astype(np.int32) if small else compact.offsets
    kind = pa.string() if small else pa.large_string()
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(compact.data)]
    return pa.Array.from_buffers(kind, len(packed), buffers)


def list_array(lengths: NDArray[Any], values: Any, null: NDArray[np.bool_] | None = None) -> Any:
    """Lists of these lengths over the values; null where the mask says so (of length 0)."""
    pa = pyarrow()
    small = len(values) < 2**31
    offsets = pa.array(offsets_of(lengths).astype(np.int32 if small else np.int64))
    kind = pa.ListArray if small else pa.LargeListArray
    return kind.from_arrays(offsets, values, mask=None if null is None else pa.array(null))


def rows(array: Array) -> Any:
    """Each row of a matrix as a list.  (N, width) -> N lists"""
    pa = pyarrow()
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    return list_array(np.full(len(array), array.shape[1]), flat)
