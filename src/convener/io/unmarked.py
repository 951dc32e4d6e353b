"""What unmarked tokens mean: the same in all splits, and inferred for sources of which no file states it.

A file that contains both sentences without an entry of a source and sentences with an entry but no span tells "did not
look" from "looked and marked nothing". The source has then read the text, and its unmarked tokens are votes for O.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convener.data.issues import Issues
from convener.data.tags import ABSTAIN
from convener.data.validation import Unmarked
from convener.io.formats import FileContent, LabeledData, get_dataset
from convener.io.metadata import replace_dataset_fields


def resolve_unmarked(files: Sequence[FileContent], where: str, issues: Issues) -> list[LabeledData]:
    """Return the contents of the splits of a folder, or of one file, with one meaning of unmarked tokens per source.

    The first split that states a meaning decides; otherwise it is inferred from all splits, see `_infer_outside`.
    Contradictions and inferred meanings are added to the issues.
    """
    meanings: dict[str, Unmarked] = {}
    contradictory: dict[str, Unmarked] = {}
    for file in files:
        data = get_dataset(file.content)
        for name, unmarked in zip(data.sources, data.unmarked, strict=True):
            if name not in file.undecided and meanings.setdefault(name, unmarked) != unmarked:
                contradictory[name] = unmarked
    for name, unmarked in contradictory.items():
        detail = f"one split states {meanings[name]}, a later one {unmarked}; all are read as {meanings[name]}"
        issues.add("unmarked", where, name, detail)
    undecided = list(dict.fromkeys(name for file in files for name in file.undecided if name not in meanings))
    outside = _infer_outside(files, undecided)
    if outside:
        sources = outside[0] if len(outside) == 1 else f"{len(outside)} of {len(undecided)} sources"
        detail = "read as votes for O, because the data has sentences without an entry and entries without a span"
        issues.add("unmarked", where, sources, f"{detail}; the option unmarked overrides this")
    meanings |= dict.fromkeys(undecided, "abstain")
    meanings |= dict.fromkeys(outside, "outside")
    return [_with_meanings(file, meanings) for file in files]


def _infer_outside(files: Sequence[FileContent], names: Sequence[str]) -> list[str]:
    """Return the sources among `names` whose unmarked tokens are votes for O, as far as the files show it.

    These are the sources that abstain on some sentences and have an empty entry, one without a span, for others. All
    sources are returned if more than half of them abstain on some sentences and the empty entries are not confined to
    few of these: at least half as many have one as if each entry were empty with the same probability.
    """
    abstentions, entries, empty = _count_sentences(files, names)
    abstains = abstentions > 0
    distinguished = abstains & (empty > 0)
    share_empty = empty[abstains].sum() / max(entries[abstains].sum(), 1)
    expected = (1 - (1 - share_empty) ** entries[abstains]).sum()
    if distinguished.any() and 2 * abstains.sum() > len(names) and 2 * distinguished.sum() >= expected:
        return list(names)
    return [names[source] for source in np.flatnonzero(distinguished).tolist()]


def _count_sentences(files: Sequence[FileContent], names: Sequence[str]) -> NDArray[np.int64]:
    """Count the sentences where each source abstains, has an entry, and has one without a span.  -> (3, K)"""
    counts = np.zeros((3, len(names)), np.int64)
    for file in files:
        data = get_dataset(file.content)
        non_empty = data.lengths > 0
        indices = [index for index, name in enumerate(names) if name in data.sources]
        if not indices or not non_empty.any():
            continue
        largest_votes = np.maximum.reduceat(data.votes, data.offsets[:-1][non_empty], axis=0)
        largest_votes = largest_votes[:, [data.source_index(names[index]) for index in indices]]
        for row, selected in enumerate((largest_votes == ABSTAIN, largest_votes >= 0, largest_votes == 0)):
            counts[row, indices] += selected.sum(axis=0)
    return counts


def _with_meanings(file: FileContent, meanings: dict[str, Unmarked]) -> LabeledData:
    """Return the content of a file with these meanings of unmarked tokens."""
    data = get_dataset(file.content)
    votes = data.votes
    unmarked_sentences = {name: rows for name, rows in file.missing_entries.items() if meanings[name] == "abstain"}
    if unmarked_sentences:
        votes = votes.copy()
    for name, sentences in unmarked_sentences.items():
        is_missing = np.zeros(len(data), bool)
        is_missing[sentences] = True
        votes[np.repeat(is_missing, data.lengths), data.source_index(name)] = 0
    unmarked = tuple(meanings[name] for name in data.sources)
    if votes is data.votes and unmarked == data.unmarked:
        return file.content
    return replace_dataset_fields(file.content, votes=votes, unmarked=unmarked)
