"""NumPy archives: the exact native format, and import of vote matrices.

Native archives contain the arrays of a dataset, strings as UTF-8 buffers with offsets, and `convener`, the metadata as
JSON. Nothing is pickled. External archives contain `votes` or `L` (tokens x sources, -1 = abstain), and optionally
`offsets` or `lengths` of sentences, `tokens`, `gold` or `Y`, `sources` and `types`. A `.npy` file contains the matrix
alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset, Text
from convener.data.issues import Issues, error_location, short_repr, wrap_errors
from convener.data.predictions import Predictions
from convener.data.ragged import Array, StringArray, lengths_to_offsets
from convener.data.schemes import from_bio
from convener.data.tags import ABSTAIN, TagSet
from convener.errors import DataError
from convener.io.formats import CAPABILITIES, FileContent, Format, LabeledData, ReadOptions, WriteOptions, get_dataset
from convener.io.metadata import Metadata, apply_read_options
from convener.io.tag_columns import TagRepair
from convener.storage import decode_utf8

VERSION_1_ARRAYS = {"chars": "token_offsets", "starts": "doc_offsets", "labels": "predictions"}
"""Arrays of native files of version 1, and their names since version 2."""
EXTERNAL_ARRAYS = ("votes", "L", "offsets", "lengths", "tokens", "gold", "Y", "sources", "types")
"""Arrays that external archives may contain; others are ignored with an issue."""
MAX_LABEL = np.iinfo(np.int16).max


def read(path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read a native archive, or a vote matrix."""
    where = str(path)
    with wrap_errors(where, "NumPy file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what NumPy warns about becomes an error below
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            arrays: dict[str, Array] = {"votes": loaded}
        else:
            with loaded as archive:
                arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy returns members that are not .npy as bytes
            raise DataError(f"{where}: {name}: expected a NumPy array, got {short_repr(array)}")
    if "convener" not in arrays:
        return FileContent(_read_vote_matrix(arrays, where, options, issues))
    raw = _typed_array(arrays, "convener", np.uint8, 1, where).tobytes()
    metadata = Metadata.from_json(decode_utf8(raw, where), where)
    if metadata.version == 1:
        arrays = {VERSION_1_ARRAYS.get(name, name): array for name, array in arrays.items()}
    with error_location(where):
        content = metadata.restore(_read_native(arrays, metadata, where))
    return FileContent(apply_read_options(content, options, where))


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write all arrays, uncompressed."""
    data = get_dataset(content)
    metadata_json = Metadata.from_content(content).to_json()
    arrays: dict[str, Array] = {
        "convener": np.frombuffer(metadata_json.encode(), np.uint8),
        "votes": data.votes,
        "offsets": data.offsets,
        **_string_buffers("tokens", data.tokens),
    }
    if data.gold is not None:
        arrays["gold"] = data.gold
    if data.text is not None:
        arrays |= _string_buffers("text", data.text.sentences)
        arrays |= {"token_offsets": data.text.token_offsets, "doc_offsets": data.text.doc_offsets}
    if data.doc_ids is not None:
        arrays |= _string_buffers("documents", data.doc_ids)
    if isinstance(content, Predictions):
        arrays["predictions"] = content.labels
        for name, values in (("probabilities", content.probabilities), ("scores", content.span_scores)):
            if values is not None:
                arrays[name] = values
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is named allow_pickle


def _string_buffers(name: str, strings: StringArray) -> dict[str, Array]:
    compact = strings.compact()
    return {f"{name}_bytes": compact.data, f"{name}_offsets": compact.offsets}


def _read_native(arrays: Mapping[str, Array], metadata: Metadata, where: str) -> LabeledData:
    """Return the content of a native archive, unchanged."""

    def array(name: str, dtype: Any, ndim: int = 1) -> Array:
        return _typed_array(arrays, name, dtype, ndim, where)

    def strings(name: str) -> StringArray:
        return _validate_strings(array(f"{name}_bytes", np.uint8), array(f"{name}_offsets", np.int64), name)

    text = None
    if "text" in metadata.contents:
        text = Text(strings("text"), array("token_offsets", np.int32, 2), array("doc_offsets", np.int64))
    data = Dataset(
        tags=TagSet(metadata.types or ()),
        tokens=strings("tokens"),
        offsets=array("offsets", np.int64),
        sources=metadata.sources or (),
        votes=array("votes", np.int16, 2),
        unmarked=metadata.unmarked_by_source(metadata.sources or (), ReadOptions()),
        coarse=metadata.coarse,
        gold=array("gold", np.int16) if "gold" in metadata.contents else None,
        text=text,
        doc_ids=strings("documents") if "documents" in metadata.contents else None,
    )
    if metadata.model is None:
        return data
    return Predictions(
        data=data,
        labels=array("predictions", np.int16),
        probabilities=array("probabilities", np.float32, 2) if "probabilities" in metadata.contents else None,
        span_scores=array("scores", np.float32) if "scores" in metadata.contents else None,
        **metadata.prediction_fields(),
    )


def _typed_array(arrays: Mapping[str, Array], name: str, dtype: Any, ndim: int, where: str) -> Array:
    """Return an array of a native archive; DataError if its type or number of dimensions is wrong."""
    array = arrays.get(name)
    expected = f"array {name!r} of {np.dtype(dtype)} with {ndim} dimensions"
    if array is None:
        raise DataError(f"{where}: expected {expected}, got none")
    if array.dtype != dtype or array.ndim != ndim:
        raise DataError(f"{where}: expected {expected}, got {array.dtype} with {array.ndim}")
    return array


def _validate_strings(data: NDArray[np.uint8], offsets: NDArray[np.int64], name: str) -> StringArray:
    """Return packed strings; DataError if the buffer is not UTF-8 or an offset is inside a character."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data):
        raise DataError(f"{name}_offsets must run from 0 to {len(data)}, the size of {name}_bytes")
    if (np.diff(offsets) < 0).any():
        raise DataError(f"{name}_offsets must not decrease")
    if (data >= 0x80).any():
        try:
            data.tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}_bytes is not UTF-8 at byte {error.start}") from None
        inner = offsets[offsets < len(data)]
        if ((data[inner] & 0xC0) == 0x80).any():
            raise DataError(f"{name}_offsets must not point inside a character")
    return StringArray(data, offsets)


def _read_vote_matrix(arrays: Mapping[str, Array], where: str, options: ReadOptions, issues: Issues) -> LabeledData:
    """Return the dataset of an external archive."""
    votes = _label_array(arrays, ("votes", "L"), 2, ABSTAIN, where)
    if votes is None:
        array_names = ", ".join(arrays) or "none"
        raise DataError(f"{where}: expected an array 'votes' or 'L', got {array_names}")
    num_tokens, num_sources = votes.shape
    gold = _label_array(arrays, ("gold", "Y"), 1, 0, where)
    if gold is not None and len(gold) != num_tokens:
        raise DataError(f"{where}: expected {num_tokens} gold labels, got {len(gold)}")
    if ignored := [name for name in arrays if name not in EXTERNAL_ARRAYS]:
        issues.add("ignored", where, "arrays", ", ".join(ignored))
    sources = _string_list(arrays, "sources", num_sources, where)
    tokens = _string_list(arrays, "tokens", num_tokens, where)
    offsets = _sentence_offsets(arrays, num_tokens, where)
    with error_location(where):
        data = Dataset(
            tags=_tag_set(arrays, votes, gold, options, where),
            tokens=StringArray.from_list(["_"] * num_tokens if tokens is None else tokens),
            offsets=offsets,
            sources=tuple(sources or (f"source-{number}" for number in range(num_sources))),
            votes=votes,
            unmarked=("outside",) * num_sources,
            gold=gold,
        )
    data = _repair_labels(data, where, options, issues)
    return apply_read_options(data, options, where)


def _find_array(arrays: Mapping[str, Array], names: tuple[str, ...], where: str) -> tuple[str, Array | None]:
    """Return name and array of the alternative that is present, (first name, None) if there is none."""
    present = [name for name in names if name in arrays]
    if len(present) > 1:
        raise DataError(f"{where}: expected only one of {' and '.join(present)}, got both")
    return (present[0], arrays[present[0]]) if present else (names[0], None)


def _label_array(
    arrays: Mapping[str, Array], names: tuple[str, ...], ndim: int, min_label: int, where: str
) -> NDArray[np.int16] | None:
    """Return an array of label ids of at least `min_label`; None if it is missing."""
    name, array = _find_array(arrays, names, where)
    if array is None:
        return None
    if array.ndim != ndim:
        shape = "(tokens, sources)" if ndim == 2 else "(tokens,)"
        raise DataError(f"{where}: {name} must have shape {shape}, got {array.shape}")
    integers = _check_integers(array, name, where)
    if integers.size and (integers.min() < min_label or integers.max() > MAX_LABEL):
        bounds = f"{min_label} to {MAX_LABEL}"
        raise DataError(f"{where}: {name} must be label ids from {bounds}, got {integers.min()} to {integers.max()}")
    return integers.astype(np.int16)


def _check_integers(array: Array, name: str, where: str) -> Array:
    """Return an array of integers, or of floats that are all integers."""
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind != "f":
        raise DataError(f"{where}: {name} must contain whole numbers, got {array.dtype}")
    non_integer = ~(np.isfinite(array) & (array == np.trunc(array)))
    if non_integer.any():
        raise DataError(f"{where}: {name} must contain whole numbers, got {array[non_integer][0]}")
    return array


def _string_list(arrays: Mapping[str, Array], name: str, count: int | None, where: str) -> list[str] | None:
    if name not in arrays:
        return None
    array = arrays[name]
    if array.dtype.kind != "U" or array.ndim != 1:
        raise DataError(
            f"{where}: {name} must be a list of strings (dtype U), got {array.dtype} of shape {array.shape}"
        )
    if count is not None and len(array) != count:
        raise DataError(f"{where}: expected {count} {name}, got {len(array)}")
    return [str(item) for item in array.tolist()]


def _sentence_offsets(arrays: Mapping[str, Array], num_tokens: int, where: str) -> NDArray[np.int64]:
    """Return the sentence offsets; by default each row is a sentence.  -> (M+1,)"""
    name, array = _find_array(arrays, ("offsets", "lengths"), where)
    if array is None:
        return np.arange(num_tokens + 1, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{where}: {name} must be a list of whole numbers, got {array.dtype}")
    values = array.astype(np.int64)
    if name == "lengths":
        if (values < 0).any() or values.sum() != num_tokens:
            problem = f"lengths must be non-negative and sum to the {num_tokens} rows of votes"
            raise DataError(f"{where}: {problem}, got a sum of {values.sum()}")
        return lengths_to_offsets(values)
    if not len(values) or values[0] != 0 or values[-1] != num_tokens or (np.diff(values) < 0).any():
        raise DataError(f"{where}: offsets must increase from 0 to {num_tokens}, the number of rows of votes")
    return values


def _tag_set(
    arrays: Mapping[str, Array],
    votes: NDArray[np.int16],
    gold: NDArray[np.int16] | None,
    options: ReadOptions,
    where: str,
) -> TagSet:
    """Return the types of the file or of the options, else as many numbered types as the labels need."""
    max_label = max(int(votes.max(initial=0)), 0 if gold is None else int(gold.max(initial=0)))
    types = _string_list(arrays, "types", None, where) or options.types
    if types is not None:
        return TagSet(tuple(types))
    if max_label == 0 or max_label % 2:
        raise DataError(
            f"the largest label is {max_label}: expected BIO ids (0 = O, then B-x and I-x for each type), "
            "so an even number of at least 2; pass types=[...]"
        )
    return TagSet(tuple(f"TYPE-{number}" for number in range(max_label // 2)))


def _repair_labels(data: Dataset, where: str, options: ReadOptions, issues: Issues) -> Dataset:
    """Return the data with legal labels; every repair is added to the issues."""
    repair = TagRepair(options.on_illegal, issues)

    def repair_column(labels: NDArray[np.int16], name: str) -> NDArray[np.int16]:
        return repair.legal_labels(
            *from_bio(labels),
            data.offsets,
            source=name,
            tag=lambda row: data.tags.names[labels[row]],
            where=lambda row: f"{where}: row {row}",
        )

    columns = [repair_column(data.votes[:, column], name) for column, name in enumerate(data.sources)]
    votes = np.stack(columns, axis=1) if columns else data.votes
    repaired = data.with_sources(data.sources, votes, data.unmarked)
    return repaired if data.gold is None else repaired.with_gold(repair_column(data.gold, "gold"))


FORMAT = Format(
    name="npz",
    summary="NumPy archive: stores everything exactly; also reads a vote matrix",
    suffixes=(".npz",),
    capabilities=frozenset(CAPABILITIES),
    read=read,
    write=write,
    recognizes=lambda path: path.is_file() and path.suffix.lower() in (".npz", ".npy"),
)
