"""Between Arrow columns and packed arrays, whole buffers at a time.

Columns are typed Any: pyarrow is optional and says nothing to a type checker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, require
from convener.io.messages import wrap_errors
from convener.packed import Array, StringArray, lengths_to_offsets, row_at


def import_pyarrow(module: str = "pyarrow") -> Any:
    """The library or one of its modules."""
    return require(module, extra="arrow", purpose="Arrow and Parquet data")


def read_parquet_schema(path: Path) -> Any:
    """The Arrow schema of a Parquet file."""
    with wrap_errors(str(path), "Parquet file"):
        return import_pyarrow("pyarrow.parquet").read_schema(path)


def is_list(arrow_type: Any) -> bool:
    """Whether a type is a list of any layout."""
    types = import_pyarrow("pyarrow.types")
    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type))


def is_string(arrow_type: Any) -> bool:
    """Whether a type is a string, plainly or as a dictionary."""
    types = import_pyarrow("pyarrow.types")
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type))


def to_strings(column: Any) -> StringArray:
    """Packed strings of a column without nulls, copied out of it."""
    pa = import_pyarrow()
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return StringArray.concat(_chunk_to_strings(chunk) for chunk in chunks if len(chunk))


def _chunk_to_strings(chunk: Any) -> StringArray:
    pa = import_pyarrow()
    if chunk.type not in (pa.string(), pa.large_string()):
        chunk = chunk.cast(pa.large_string())
    offset_dtype = np.int32 if chunk.type == pa.string() else np.int64
    _, bounds, data = chunk.buffers()
    used = slice(chunk.offset, chunk.offset + len(chunk) + 1)
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return StringArray(raw, np.frombuffer(bounds, offset_dtype)[used].astype(np.int64))


def to_numpy(column: Any, dtype: Any = None) -> Array:
    """A column without nulls as an array, of its own type if none is named."""
    options = {"zero_copy_only": False} if isinstance(column, import_pyarrow().Array) else {}
    return np.asarray(column.to_numpy(**options), dtype)


def dictionary_codes(column: Any) -> tuple[NDArray[np.int64], StringArray]:
    """Numbers of the distinct values of a column, -1 for null, and the values as strings."""
    pa = import_pyarrow()
    if not import_pyarrow("pyarrow.types").is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.unify_dictionaries().chunks or [column.combine_chunks()])
    indices = to_numpy(column.indices.fill_null(-1)).astype(np.int64)
    values = column.dictionary
    if values.null_count:  # a null may stand in the dictionary as well
        indices = np.where(to_numpy(values.is_null())[indices], -1, indices)
        values = values.fill_null("")
    return indices, to_strings(values.cast(pa.large_string()))


def flatten_lists(column: Any, column_name: str) -> tuple[NDArray[np.int64], Any]:
    """Length of each list of a column, and the values of all; nulls are refused.

    `what` names the column for the message: "train.parquet: tokens".
    """
    compute = import_pyarrow("pyarrow.compute")
    if not is_list(column.type):
        raise DataError(f"{column_name}: expected a list column, got {column.type}")
    if column.null_count:
        row = int(np.flatnonzero(to_numpy(compute.is_null(column), bool))[0])
        raise DataError(f"{column_name}: row {row} is null")
    lengths = to_numpy(compute.list_value_length(column), np.int64)
    values = compute.list_flatten(column)
    if values.null_count:
        index = int(np.flatnonzero(to_numpy(compute.is_null(values), bool))[0])
        raise DataError(f"{column_name}: row {row_at(lengths_to_offsets(lengths), index)} holds a null")
    return lengths, values


def to_matrix(values: Any, width: int, dtype: Any, column_name: str) -> Array:
    """Rows of one width, of a column of lists.  -> (N, width)"""
    lengths, flat = flatten_lists(values, column_name)
    if (lengths != width).any():
        wrong = lengths[lengths != width][0]
        raise DataError(f"{column_name}: expected {width} numbers each, got {wrong}")
    allowed_kinds = "iu" if np.dtype(dtype).kind == "i" else "iuf"
    numbers = to_numpy(flat) if len(flat) else np.zeros(0, dtype)
    if numbers.dtype.kind not in allowed_kinds:
        raise DataError(f"{column_name}: expected {np.dtype(dtype)}, got {flat.type}")
    if allowed_kinds == "iu" and len(numbers) and not 0 <= numbers.min() <= numbers.max() < 2**31:
        raise DataError(f"{column_name}: expected offsets, got {numbers.min()} to {numbers.max()}")
    return numbers.astype(dtype).reshape(-1, width)


def from_strings(packed: StringArray) -> Any:
    """An Arrow array over the same buffers, with 32-bit offsets where they suffice."""
    pa = import_pyarrow()
    compact = packed.compact()
    fits_int32 = len(compact.data) < 2**31
    bounds = compact.offsets.astype(np.int32) if fits_int32 else compact.offsets
    arrow_type = pa.string() if fits_int32 else pa.large_string()
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(compact.data)]
    return pa.Array.from_buffers(arrow_type, len(packed), buffers)


def list_array(lengths: NDArray[Any], values: Any, null_mask: NDArray[np.bool_] | None = None) -> Any:
    """Lists of these lengths over the values; null where the mask says so (of length 0)."""
    pa = import_pyarrow()
    fits_int32 = len(values) < 2**31
    offsets = pa.array(lengths_to_offsets(lengths).astype(np.int32 if fits_int32 else np.int64))
    array_type = pa.ListArray if fits_int32 else pa.LargeListArray
    return array_type.from_arrays(offsets, values, mask=None if null_mask is None else pa.array(null_mask))


def from_matrix(array: Array) -> Any:
    """Each row of a matrix as a list.  (N, width) -> N lists"""
    pa = import_pyarrow()
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    return list_array(np.full(len(array), array.shape[1]), flat)
