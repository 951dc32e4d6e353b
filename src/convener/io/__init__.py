"""Readers and writers of annotation formats."""

from convener.data.issues import Issue, Issues
from convener.io import formats
from convener.io.api import find_split_files, read, read_content, read_predictions, write
from convener.io.formats import ReadOptions, WriteOptions

__all__ = [
    "Issue",
    "Issues",
    "ReadOptions",
    "WriteOptions",
    "find_split_files",
    "formats",
    "read",
    "read_content",
    "read_predictions",
    "write",
]
