"""CoNLL: a token and its tags per line, columns side by side, a blank line between sentences.

Our own files begin with a comment that says what the columns are. Of other files the first
column is the token and the last the gold tag, unless `columns` says otherwise. Columns are
separated by tabs if the first line with a token has one, else by runs of spaces.
"""

from __future__ import annotations

from convener.io.conll.reader import read
from convener.io.conll.writer import write
from convener.io.formats import Format

FORMAT = Format(
    name="conll",
    summary="CoNLL columns: a token and its tags per line, in BIO, IO, IOBES or BILUO",
    suffixes=(".conll", ".bio", ".iob", ".iob2", ".tsv", ".txt"),
    capabilities=frozenset({"abstain within a sentence", "documents", "empty sentences", "scores", "model"}),
    read=read,
    write=write,
)
