"""Readers and writers of annotation formats."""

from convener.io.api import (
    load_content,
    load_corpus,
    load_dataset,
    load_predictions,
    read,
    read_corpus,
    read_predictions,
    write,
)
from convener.io.formats import Format, ReadOptions, WriteOptions, list_formats
from convener.io.splits import canonical_split, find_split_files

__all__ = [
    "Format",
    "ReadOptions",
    "WriteOptions",
    "canonical_split",
    "find_split_files",
    "list_formats",
    "load_content",
    "load_corpus",
    "load_dataset",
    "load_predictions",
    "read",
    "read_corpus",
    "read_predictions",
    "write",
]
