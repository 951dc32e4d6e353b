"""Data in memory: texts, data frames, datasets of Hugging Face, docs of spaCy, and splits of them.

pandas, polars, datasets and spaCy are never imported here; values are recognised by what they offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard

from convener.data.issues import Issues, short_repr
from convener.errors import DataError
from convener.io import arrow
from convener.io.arrow import HFTable
from convener.io.formats import FileContent, ReadOptions
from convener.io.huggingface_import import read_external
from convener.io.raw_text import read_texts
from convener.io.splits import canonical_split

ACCEPTED = (
    "a path, a list of texts, texts by document id, a data frame of pandas or polars, "
    "a datasets.Dataset, or a list of spaCy docs"
)
"""What `read` accepts, as messages describe it."""
DATA_FRAME, HF_DATASET, DOCS, TEXTS = "DataFrame", "datasets.Dataset", "list of docs", "list of texts"
"""Names of values in messages, where files have their path."""


class DataFrame(Protocol):
    """A data frame of pandas or polars, or an Arrow table: anything that Arrow's C stream interface exports."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, as the interface defines."""


class HFDataset(Protocol):
    """A `datasets.Dataset`."""

    @property
    def column_names(self) -> Any:
        """Names of the columns."""

    def with_format(self, type: str | None = None) -> Any:
        """The same rows in another format."""


class SpacyDoc(Protocol):
    """A `Doc` of spaCy."""

    @property
    def ents(self) -> Any:
        """Entities."""

    @property
    def spans(self) -> Any:
        """Groups of spans."""


InMemory: TypeAlias = DataFrame | HFDataset | Iterable[SpacyDoc] | Iterable[str] | Mapping[str, str]
"""Data that `read` accepts beside a path. A string is a path, a list of strings are texts."""
InMemorySplits: TypeAlias = Mapping[str, DataFrame | HFDataset | Iterable[SpacyDoc] | Iterable[str]]
"""Data of each split, by its name; a `datasets.DatasetDict` is one."""


def read(value: InMemory, options: ReadOptions, issues: Issues) -> FileContent:
    """Read data in memory as the reader of its format does."""
    if _is_hf_dataset(value):
        table = value.with_format("arrow")[:]
        return _read_table(table, HF_DATASET, options, issues)
    if _is_data_frame(value):
        return _read_table(_to_arrow(value), DATA_FRAME, options, issues)
    if isinstance(value, Mapping):
        return read_texts(_checked_texts(value), options, issues)
    if isinstance(value, Iterable) and not hasattr(value, "with_format"):  # the rows of a stream are no texts
        items = list(value)
        if items and all(map(_is_spacy_doc, items)):
            from convener.io import spacy  # the module is loaded only if it is used

            return spacy.read_docs(items, Path(DOCS), options, issues)
        return read_texts(_checked_texts({str(number): text for number, text in enumerate(items)}), options, issues)
    raise DataError(f"expected {ACCEPTED}; got {_describe(value)}")


def splits(value: InMemory | InMemorySplits) -> dict[str, InMemory]:
    """Return the data of each split by its canonical name; empty if the value is one dataset."""
    if not isinstance(value, Mapping) or any(isinstance(item, str) for item in value.values()):
        return {}
    found: dict[str, InMemory] = {}
    for name, item in value.items():
        split = canonical_split(str(name))
        if split in found:
            raise DataError(f"two of the splits {', '.join(map(str, value))} are {split!r}")
        found[split] = item
    return found


def describe(value: InMemory | InMemorySplits) -> str:
    """Return the name of a value in messages."""
    if isinstance(value, Mapping):
        return "mapping of splits" if splits(value) else TEXTS
    if _is_hf_dataset(value):
        return HF_DATASET
    if _is_data_frame(value):
        return DATA_FRAME
    return DOCS if isinstance(value, list) and value and _is_spacy_doc(value[0]) else TEXTS


def _read_table(table: Any, where: str, options: ReadOptions, issues: Issues) -> FileContent:
    """Read lists of tokens, one row per sentence, or the rows of a long table."""
    if "tokens" in table.column_names and "source" not in table.column_names:
        return FileContent(read_external(HFTable(table, where), options, issues))
    from convener.io.table.convert import rows_to_dataset  # the modules are loaded only if they are used
    from convener.io.table.parquet import read_arrow

    return FileContent(rows_to_dataset(read_arrow(table, where, issues), options, issues))


def _to_arrow(frame: Any) -> Any:
    """Return a data frame as an Arrow table, without the index that pandas adds to it."""
    pa = arrow.import_pyarrow()
    try:
        if type(frame).__module__.split(".")[0] == "pandas":
            table = pa.Table.from_pandas(frame, preserve_index=False)
        else:
            table = pa.table(frame)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"{DATA_FRAME}: cannot be converted to Arrow: {error}") from error
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    fields = [field.with_type(views.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))


def _is_hf_dataset(value: object) -> TypeGuard[HFDataset]:
    return hasattr(value, "with_format") and hasattr(value, "column_names") and hasattr(value, "__len__")


def _is_data_frame(value: object) -> TypeGuard[DataFrame]:
    exports_arrow = hasattr(value, "__arrow_c_stream__") or type(value).__module__.split(".")[0] == "pandas"
    return exports_arrow and hasattr(value, "columns")  # a column alone is a list of texts


def _is_spacy_doc(value: object) -> bool:
    return hasattr(value, "ents") and hasattr(value, "spans") and hasattr(value, "user_data")


def _checked_texts(texts: Mapping[str, Any]) -> dict[str, str]:
    for name, text in texts.items():
        if not isinstance(text, str):
            raise DataError(f"expected {ACCEPTED}; got {_describe(text)} as item {name}")
    return {str(name): text for name, text in texts.items()}


def _describe(value: object) -> str:
    return f"{type(value).__name__} {short_repr(value)}"
