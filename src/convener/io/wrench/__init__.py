"""Wrench: a JSON file of items per split beside a `meta.json`, read as spans or as tags.

An item is `{"label": gold, "data": {"text": tokens}, "weak_labels": votes}`. Votes are lists of
spans, one list per source, null where the source abstains; or, as Wrench itself publishes them,
tokens x sources of tags. What Wrench has no place for is added inside an item's `data` and in
the meta file, where other readers overlook it.
"""

from __future__ import annotations

from convener.io.formats import CAPABILITIES, Format
from convener.io.wrench.reader import read
from convener.io.wrench.writer import write

FORMAT = Format(
    name="wrench",
    summary="Wrench's JSON: one object of items beside a meta.json, votes as spans or tags",
    suffixes=(".json",),
    capabilities=frozenset(CAPABILITIES) - {"illegal votes"},  # they are kept, but reading repairs them
    read=read,
    write=write,
)
