"""JSON lines: one record per sentence, ours or as doccano, Prodigy, LightTag and others write it.

Offsets count characters of `text` where a record has text, tokens otherwise. The first record
of our own files also has `corpus`: types, sources, silence, and the model of predictions.
"""

from __future__ import annotations

from convener.io.formats import CAPABILITIES, Format
from convener.io.jsonl.reader import read
from convener.io.jsonl.writer import write

FORMAT = Format(
    name="jsonl",
    summary="JSON lines: one record per sentence; reads doccano, Prodigy and LightTag exports",
    suffixes=(".jsonl", ".ndjson"),
    capabilities=frozenset(CAPABILITIES) - {"abstain within a sentence", "illegal votes"},
    read=read,
    write=write,
)
