"""spaCy's DocBin: one Doc for each sentence, one span group for each source.

`doc.ents` are the gold of a dataset, or the aggregated labels of predictions, which also stand in
`doc.spans["convener"]` with their scores in its attrs, as spaCy's span categorizer keeps them.
What spaCy has no place for stands in `doc.user_data["convener"]`, and in the attrs of groups, as
plain values; the first Doc says there which it is, gold or labels, and the other facts.
"""

from __future__ import annotations

from convener.io.formats import CAPABILITIES, Format
from convener.io.spacy.reader import read
from convener.io.spacy.writer import write

FORMAT = Format(
    name="spacy",
    summary="spaCy DocBin: ready for training, sources as span groups",
    suffixes=(".spacy",),
    capabilities=frozenset(CAPABILITIES),
    read=read,
    write=write,
)
