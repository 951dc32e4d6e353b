"""NumPy archives: the native format, whole and fast, and the way in for a vote matrix.

Our own archives hold the arrays of a dataset as they are, strings as UTF-8 buffers with offsets,
and `convener`, the facts as JSON. Nothing is pickled. Archives of others hold `votes` or `L`
(tokens x sources, -1 = abstain), and may hold `offsets` or `lengths` of sentences, `tokens`,
`gold` or `Y`, `sources` and `types`; a `.npy` file holds the matrix alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset, Text
from convener.errors import DataError
from convener.io.facts import Facts, as_asked
from convener.io.files import decoded
from convener.io.formats import PARTS, Content, Format, data_of
from convener.io.mending import Mending
from convener.io.messages import placed, readable, shown
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report
from convener.packed import Array, Strings, offsets_of
from convener.predictions import Predictions
from convener.schemes import places
from convener.tags import TagSet

FOREIGN = ("votes", "L", "offsets", "lengths", "tokens", "gold", "Y", "sources", "types")
MOST = np.iinfo(np.int16).max


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """An archive of ours, exactly; or a vote matrix."""
    where = str(path)
    with readable(where, "NumPy file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of what becomes an error here
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            arrays: dict[str, Array] = {"votes": loaded}
        else:
            with loaded as archive:
                arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # a member that is no .npy comes as bytes
            raise DataError(f"{where}: {name}: expected a NumPy array, got {shown(array)}")
    if "convener" not in arrays:
        return _foreign(arrays, where, options, report)
    raw = _part(arrays, "convener", np.uint8, 1, where).tobytes()
    facts = Facts.parse(decoded(raw, where), where)
    with placed(where):
        content = facts.restored(_own(arrays, facts, where))
    return as_asked(content, options, where)


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """All arrays, uncompressed."""
    data = data_of(content)
    facts = Facts.of(content).to_json()
    arrays: dict[str, Array] = {
        "convener": np.frombuffer(facts.encode(), np.uint8),
        "votes": data.votes,
        "offsets": data.offsets,
        **_buffers("tokens", data.tokens),
    }
    if data.gold is not None:
        arrays["gold"] = data.gold
    if data.text is not None:
        arrays |= _buffers("text", data.text.text)
        arrays |= {"chars": data.text.chars, "starts": data.text.starts}
    if data.documents is not None:
        arrays |= _buffers("documents", data.documents)
    if isinstance(content, Predictions):
        arrays["labels"] = content.labels
        for name in ("probabilities", "scores"):
            if (values := getattr(content, name)) is not None:
                arrays[name] = values
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle


def _buffers(name: str, strings: Strings) -> dict[str, Array]:
    compact = strings.compact()
    return {f"{name}_bytes": compact.data, f"{name}_offsets": compact.offsets}


def _own(arrays: Mapping[str, Array], facts: Facts, where: str) -> Content:
    def part(name: str, dtype: Any, ndim: int = 1) -> Array:
        return _part(arrays, name, dtype, ndim, where)

    def strings(name: str) -> Strings:
        return _checked(part(f"{name}_bytes", np.uint8), part(f"{name}_offsets", np.int64), name)

    text = None
    if "text" in facts.holds:
        text = Text(strings("text"), part("chars", np.int32, 2), part("starts", np.int64))
    data = Dataset(
        tags=TagSet(facts.types or ()),
        tokens=strings("tokens"),
        offsets=part("offsets", np.int64),
        sources=facts.sources or (),
        votes=part("votes", np.int16, 2),
        silence=facts.silences(facts.sources or (), ReadOptions()),
        coarse=facts.coarse,
        gold=part("gold", np.int16) if "gold" in facts.holds else None,
        text=text,
        documents=strings("documents") if "documents" in facts.holds else None,
    )
    if facts.model is None:
        return data
    return Predictions(
        data=data,
        labels=part("labels", np.int16),
        probabilities=part("probabilities", np.float32, 2)
        if "probabilities" in facts.holds
        else None,
        scores=part("scores", np.float32) if "scores" in facts.holds else None,
        model=facts.model,
        settings=facts.settings,
    )


def _part(arrays: Mapping[str, Array], name: str, dtype: Any, ndim: int, where: str) -> Array:
    """One of our own arrays, which must be of the type it was written with."""
    array = arrays.get(name)
    expected = f"{name} of {np.dtype(dtype)} and {ndim} dimensions"
    if array is None:
        raise DataError(f"{where}: expected {expected}, got none")
    if array.dtype != dtype or array.ndim != ndim:
        raise DataError(f"{where}: expected {expected}, got {array.dtype} and {array.ndim}")
    return array


def _checked(data: NDArray[np.uint8], offsets: NDArray[np.int64], name: str) -> Strings:
    """Strings whose buffer is UTF-8 and whose offsets fall between its characters."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data):
        raise DataError(f"{name}_offsets must run from 0 to the {len(data)} bytes")
    if (np.diff(offsets) < 0).any():
        raise DataError(f"{name}_offsets must not decrease")
    if (data >= 0x80).any():
        try:
            data.tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}_bytes are not UTF-8 at byte {error.start}") from None
        inner = offsets[offsets < len(data)]
        if ((data[inner] & 0xC0) == 0x80).any():
            raise DataError(f"{name}_offsets cut through characters")
    return Strings(data, offsets)


def _foreign(
    arrays: Mapping[str, Array], where: str, options: ReadOptions, report: Report
) -> Content:
    """A vote matrix and what came with it."""
    votes = _labels(arrays, ("votes", "L"), 2, ABSTAIN, where)
    if votes is None:
        listed = ", ".join(arrays) or "none"
        raise DataError(f"{where}: expected an array 'votes' or 'L', got {listed}")
    count, width = votes.shape
    gold = _labels(arrays, ("gold", "Y"), 1, 0, where)
    if gold is not None and len(gold) != count:
        raise DataError(f"{where}: expected {count} gold labels, got {len(gold)}")
    if ignored := [name for name in arrays if name not in FOREIGN]:
        report.add("ignored", where, "arrays", ", ".join(ignored))
    sources = _names(arrays, "sources", width, where)
    tokens = _names(arrays, "tokens", count, where)
    offsets = _offsets(arrays, count, where)
    with placed(where):
        data = Dataset(
            tags=_tags(arrays, votes, gold, options, where),
            tokens=Strings.of(["_"] * count if tokens is None else tokens),
            offsets=offsets,
            sources=tuple(sources or (f"source-{number}" for number in range(width))),
            votes=votes,
            silence=("abstain",) * width,
            gold=gold,
        )
    data = _repaired(data, where, options, report)
    return as_asked(data, options, where)


def _one_of(
    arrays: Mapping[str, Array], names: tuple[str, ...], where: str
) -> tuple[str, Array | None]:
    present = [name for name in names if name in arrays]
    if len(present) > 1:
        raise DataError(f"{where}: expected one of {' and '.join(present)}, got both")
    return (present[0], arrays[present[0]]) if present else (names[0], None)


def _labels(
    arrays: Mapping[str, Array], names: tuple[str, ...], ndim: int, low: int, where: str
) -> NDArray[np.int16] | None:
    name, array = _one_of(arrays, names, where)
    if array is None:
        return None
    if array.ndim != ndim:
        shape = "tokens x sources" if ndim == 2 else "one label a token"
        raise DataError(f"{where}: {name} must be {shape}, got shape {array.shape}")
    whole = _whole_numbers(array, name, where)
    if whole.size and (whole.min() < low or whole.max() > MOST):
        raise DataError(
            f"{where}: {name} must be labels from {low}, got {whole.min()} to {whole.max()}"
        )
    return whole.astype(np.int16)


def _whole_numbers(array: Array, name: str, where: str) -> Array:
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind != "f":
        raise DataError(f"{where}: {name} must hold whole numbers, got {array.dtype}")
    wrong = ~(np.isfinite(array) & (array == np.trunc(array)))
    if wrong.any():
        raise DataError(f"{where}: {name} must hold whole numbers, got {array[wrong][0]}")
    return array


def _names(
    arrays: Mapping[str, Array], name: str, count: int | None, where: str
) -> list[str] | None:
    if name not in arrays:
        return None
    array = arrays[name]
    if array.dtype.kind != "U" or array.ndim != 1:
        raise DataError(
            f"{where}: {name} must be a list of strings (dtype U), got {array.dtype} of shape "
            f"{array.shape}"
        )
    if count is not None and len(array) != count:
        raise DataError(f"{where}: expected {count} {name}, got {len(array)}")
    return [str(item) for item in array.tolist()]


def _offsets(arrays: Mapping[str, Array], count: int, where: str) -> NDArray[np.int64]:
    """Where sentences begin; without any word of it each row is its own sentence."""
    name, array = _one_of(arrays, ("offsets", "lengths"), where)
    if array is None:
        return np.arange(count + 1, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{where}: {name} must be a list of whole numbers, got {array.dtype}")
    numbers = array.astype(np.int64)
    if name == "lengths":
        if (numbers < 0).any() or numbers.sum() != count:
            raise DataError(
                f"{where}: lengths must add up to the {count} rows of votes, got {numbers.sum()}"
            )
        return offsets_of(numbers)
    if not len(numbers) or numbers[0] != 0 or numbers[-1] != count or (np.diff(numbers) < 0).any():
        raise DataError(f"{where}: offsets must rise from 0 to the {count} rows of votes")
    return numbers


def _tags(
    arrays: Mapping[str, Array],
    votes: NDArray[np.int16],
    gold: NDArray[np.int16] | None,
    options: ReadOptions,
    where: str,
) -> TagSet:
    """The types by the options' word, by the file's, or as many as the labels need."""
    most = max(int(votes.max(initial=0)), 0 if gold is None else int(gold.max(initial=0)))
    types = _names(arrays, "types", None, where) or options.types
    if types is not None:
        return TagSet(tuple(types))
    if most == 0 or most % 2:
        raise DataError(
            f"labels run to {most}: expected BIO ids (0 = O, then B-x and I-x for each type), so "
            "an even number of labels beside O; give types=..."
        )
    return TagSet(tuple(f"TYPE-{number}" for number in range(most // 2)))


def _repaired(data: Dataset, where: str, options: ReadOptions, report: Report) -> Dataset:
    """The data with legal labels, each repair noted."""
    mending = Mending(options.on_illegal, report)

    def legal(labels: NDArray[np.int16], name: str) -> NDArray[np.int16]:
        return mending.labels(
            *places(labels),
            data.offsets,
            source=name,
            tag=lambda row: data.tags.names[labels[row]],
            where=lambda row: f"{where}: row {row}",
        )

    columns = [legal(data.votes[:, k], name) for k, name in enumerate(data.sources)]
    votes = np.stack(columns, axis=1) if columns else data.votes
    mended = data.with_sources(data.sources, votes, data.silence)
    return mended if data.gold is None else mended.with_gold(legal(data.gold, "gold"))


FORMAT = Format(
    name="npz",
    summary="NumPy archive: everything, exactly and fast; also a bare vote matrix",
    suffixes=(".npz",),
    carries=frozenset(PARTS),
    read=read,
    write=write,
    recognises=lambda path: path.is_file() and path.suffix.lower() in (".npz", ".npy"),
)
