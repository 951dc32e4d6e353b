"""How far sources agree: counts over pairs of sources, Cohen's kappa, Krippendorff's alpha.

Tokens. A vote counts where it is an opinion (`Dataset.opinions`), and says its entity type, or O:
B-x and I-x are the same. Two sources overlap at a token where both have an opinion, and conflict
where the types differ; a coarse label conflicts with another only where they allow nothing in
common.

Spans. The units of kappa and alpha are the distinct (sentence, start, end) that any source marked.
A source's category on a unit is the type if it marked exactly that span, else "none"; a coarse
label is a category of its own. It is missing where the source abstained on the whole sentence.
Units that nobody marked cannot be listed, so "none" is rarer here than in the text, and both
figures are on the low side.

Nothing here is larger than tokens x sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.evaluate.metrics import span_keys
from convener.spans import Spans

NO_OPINION = -1
Matrix = NDArray[np.float64]


def opinion_kinds(data: Dataset) -> NDArray[np.int16]:
    """What each source says of each token: 0 = O, 1 + the number of the type, -1 = no opinion.

    -> (K, N)
    """
    kinds = ((data.votes.T + np.int16(1)) // np.int16(2)).astype(np.int16, order="C")
    kinds[~data.opinions().T] = NO_OPINION
    return kinds


def in_common(data: Dataset) -> NDArray[np.bool_] | None:
    """Which kinds, as `opinion_kinds` numbers them, allow something in common.  -> (1+E, 1+E)

    None where no label is coarse: then none but the same do.
    """
    if not data.coarse:
        return None
    allowed = data.allowed()
    allowed = np.concatenate([allowed[:1], allowed[1::2] | allowed[2::2]]).astype(np.int64)
    common: NDArray[np.bool_] = allowed @ allowed.T > 0
    return common


def differ(
    left: NDArray[np.int16], right: NDArray[np.int16], common: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Where two opinions conflict.  left, right (N,), common as `in_common` -> (N,)"""
    return left != right if common is None else ~common[left, right]


def token_pairs(
    kinds: NDArray[np.int16], common: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """At how many tokens two sources both have an opinion, and at how many it differs.

    kinds (K, N), common as `in_common` -> (K, K), (K, K)
    """
    count = len(kinds)
    overlap = np.zeros((count, count), np.int64)
    conflict = np.zeros((count, count), np.int64)
    for i in range(count):
        where = np.flatnonzero(kinds[i] != NO_OPINION)
        mine = kinds[i][where]
        overlap[i, i] = len(where)
        for j in range(i + 1, count):
            theirs = kinds[j][where]
            shared = theirs != NO_OPINION
            overlap[i, j] = overlap[j, i] = np.count_nonzero(shared)
            conflict[i, j] = conflict[j, i] = np.count_nonzero(
                shared & differ(theirs, mine, common)
            )
    return overlap, conflict


@dataclass(frozen=True, eq=False)
class Units:
    """The spans that any source marked, and who marked them.

    sentence (U,) of each unit; seen (K, M): where a source did not abstain on the whole sentence;
    marked: for each source the units it marked, ascending, and the type it gave each.
    """

    sentence: NDArray[np.int64]
    seen: NDArray[np.bool_]
    marked: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    types: int


def units(data: Dataset, spans: Sequence[Spans]) -> Units:
    """Units of the spans of all sources, in the order of the text."""
    keys = span_keys(*spans, typed=False)
    everything = np.concatenate([np.zeros(0, np.int64), *keys])
    _, first, number = np.unique(everything, return_index=True, return_inverse=True)
    sentences = np.concatenate([np.zeros(0, np.int64), *(part.sentence for part in spans)])
    split = np.split(number.reshape(-1), np.cumsum([len(part) for part in spans])[:-1])
    seen = np.ones((len(data.sources), len(data)), bool)
    of_token = data.sentence_of_token()
    for source, column in enumerate(data.votes.T):
        if (column == ABSTAIN).any():
            seen[source] = False
            seen[source, of_token[column != ABSTAIN]] = True
    marked = [
        (numbers, part.type.astype(np.int64)) for numbers, part in zip(split, spans, strict=False)
    ]
    return Units(sentences[first], seen, marked, len(data.tags.types))


@dataclass(frozen=True, eq=False)
class SpanPairs:
    """Pairwise counts over the units of sentences that both sources saw; (K, K) unless said.

    shared: units; said (K, K, E): how often the first source gave each type where the second saw
    the sentence; same: units to which both gave the same type; both: units that both marked.
    """

    shared: NDArray[np.int64]
    said: NDArray[np.int64]
    same: NDArray[np.int64]
    both: NDArray[np.int64]

    def span_f1(self) -> Matrix:
        """F1 of one source's spans against the other's; NaN where both marked none."""
        marked = self.said.sum(axis=2)
        return _quotient((2 * self.same).astype(np.float64), marked + marked.T)

    def kappa(self) -> Matrix:
        """Cohen's kappa; NaN where chance alone gives full agreement."""
        marked = self.said.sum(axis=2)
        neither = self.shared - marked - marked.T + self.both
        total = self.shared.astype(np.float64)
        observed = _quotient((self.same + neither).astype(np.float64), total)
        by_type = np.einsum("ijt,jit->ij", self.said.astype(np.float64), self.said)
        by_none = (total - marked) * (total - marked.T)
        chance = _quotient(by_type + by_none, total * total)
        return _quotient(observed - chance, 1 - chance)


def span_pairs(table: Units) -> SpanPairs:
    """Counts for every pair of sources."""
    count, size = len(table.marked), len(table.sentence)
    weight = np.bincount(table.sentence, minlength=table.seen.shape[1])
    shared, same, both = (np.zeros((count, count), np.int64) for _ in range(3))
    said = np.zeros((count, count, table.types), np.int64)
    given = np.full(size, -1, np.int64)  # the type that source j gave each unit
    for j in range(count):
        given[table.marked[j][0]] = table.marked[j][1]
        seen = table.seen[j]
        for i in range(count):
            where, kind = table.marked[i]
            visible = seen[table.sentence[where]]
            said[i, j] = np.bincount(kind[visible], minlength=table.types)
            other = given[where]
            same[i, j] = np.count_nonzero(other == kind)
            both[i, j] = np.count_nonzero(other >= 0)
            shared[i, j] = weight[seen & table.seen[i]].sum()
        given[table.marked[j][0]] = -1
    return SpanPairs(shared, said, same, both)


def krippendorff_alpha(table: Units) -> float | None:
    """Alpha for nominal categories and missing values; None where nothing can disagree.

    1 - D_observed / D_expected over the units that at least two sources saw: with m sources on a
    unit, n_c of them for category c, the observed disagreement of the unit is
    (m^2 - sum n_c^2) / (m - 1), the expected one comes from the totals over all units.
    """
    size, types = len(table.sentence), table.types
    values = table.seen.sum(axis=0, dtype=np.int64)[table.sentence]
    usable = values > 1
    codes = [where * types + kind for where, kind in table.marked]
    cells, times = np.unique(np.concatenate([np.zeros(0, np.int64), *codes]), return_counts=True)
    unit, kind = cells // max(types, 1), cells % max(types, 1)
    silent = values - np.bincount(unit, weights=times, minlength=size).astype(np.int64)
    squares = np.bincount(unit, weights=times**2, minlength=size) + silent**2
    by_type = np.bincount(kind, weights=times * usable[unit], minlength=types)
    totals = np.append(by_type, silent[usable].sum())
    number = totals.sum()
    expected = number**2 - (totals**2).sum()
    if expected == 0:
        return None
    several = values[usable]
    observed = ((several**2 - squares[usable]) / (several - 1)).sum()
    return float(1 - (number - 1) * observed / expected)


def _quotient(part: Matrix, whole: NDArray[np.float64] | NDArray[np.int64]) -> Matrix:
    """Quotients, NaN where the divisor is 0."""
    result = np.full(np.shape(part), np.nan)
    np.divide(part, whole, out=result, where=np.asarray(whole) != 0)
    return result
