"""Votes of generated sources, and the truth about them.

Whether source k detects a span, misnames it or marks a false place is decided by a standard normal score

    z = sqrt(a) world + sqrt((1 - a) b) family + sqrt((1 - a)(1 - b)) own

of a unit: a lexicon entry for a dictionary, else a single mention. a is the share of the world, b that of the family.
The units of highest score are taken until the configured share is reached: of the lexicon, weighted by frequency, or of
the mentions of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchmarks.worlds.config import SourceConfig, WorldConfig
from benchmarks.worlds.text import COMMON_WORDS, FUNCTION_WORDS, Corpus, draw_lengths
from convener.data.alignment import resolve_overlaps
from convener.data.ragged import concat_ranges
from convener.data.spans import Spans
from convener.data.tags import TagSet

POOL = 3
"""Size of a pool of tempting places, in false marks of its largest user."""
LIKED = 1.5
"""Added to the score of a common word that a dictionary knows as an entity."""
ALL, TRUE, FALSE, NAMED = 0, 1, 2, 3
"""Streams of shared scores: detection, true and false places, type confusion."""


@dataclass(frozen=True, eq=False)
class SourceTruth:
    """Expected quality of K sources for C types, given the text; NaN where a source never gives a type.

    recall, precision        (K, C) as configured: a span is met, whatever type and bounds it is given
    exact_recall             (K, C) a span is marked with its type and bounds
    exact_precision          (K, C) a mark has type and bounds of a true span
    family                   (K,)
    spammer                  (K,)
    """

    recall: np.ndarray
    precision: np.ndarray
    exact_recall: np.ndarray
    exact_precision: np.ndarray
    family: np.ndarray
    spammer: np.ndarray


class SharedScores:
    """Scores that the sources of a world or family have in common, made where they are first asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._scores: dict[tuple[int, ...], np.ndarray] = {}

    def get(self, size: int, *key: int) -> np.ndarray:
        """Standard normal scores; equal for equal keys."""
        if key not in self._scores:
            self._scores[key] = np.random.default_rng([self._seed, *key]).standard_normal(size)
        return self._scores[key]


class VoteMaker:
    """Makes the votes of one source after another."""

    def __init__(self, config: WorldConfig, corpus: Corpus) -> None:
        self.config = config
        self.corpus = corpus
        self.shared = SharedScores(config.seed)
        self.num_types = len(config.type_shares)
        self.mentions = np.bincount(corpus.type, minlength=self.num_types)
        self._open = np.flatnonzero(corpus.label == 0)
        self._largest_pool = self._pool_sizes()
        length = corpus.end - corpus.start
        self._several = length > 1
        before = np.maximum(corpus.start - 1, 0)
        after = np.minimum(corpus.end, len(corpus.label) - 1)
        sentence_start, sentence_end = corpus.offsets[corpus.sentence], corpus.offsets[corpus.sentence + 1]
        self._room_left = (corpus.start > sentence_start) & (corpus.label[before] == 0)
        self._room_right = (corpus.end < sentence_end) & (corpus.label[after] == 0)

    def detection(self, source: SourceConfig) -> np.ndarray:
        """P(detected | true span of a type): recall, or leak for unknown types.  -> (C,)"""
        rates = np.array(source.recall)
        for c in self._leaking(source):
            rates[c] = source.leak
        return rates

    def _leaking(self, source: SourceConfig) -> list[int]:
        """Unknown types that the source takes for known ones."""
        if not source.leak or not self.config.confused_with:
            return []
        return [c for c, u in enumerate(self.config.confused_with) if source.recall[c] == 0 and source.recall[u] > 0]

    def naming(self, source: SourceConfig) -> np.ndarray:
        """P(named type | detected span of a type).  -> (C, C), rows of types that are not detected are 0"""
        rows = np.zeros((self.num_types, self.num_types))
        for c in self._leaking(source):
            rows[c, self.config.confused_with[c]] = 1.0
        for c in source.types:
            rest = [u for u in source.types if u != c]
            wrong = source.confusion[c] if rest else 0.0
            rows[c, c] = 1 - wrong
            if rest:
                usual = self.config.confused_with[c]
                share = 0.7 if usual in rest else 0.0
                rows[c, rest] += wrong * (1 - share) / len(rest)
                rows[c, usual] += wrong * share
        return rows

    def bounds(self, source: SourceConfig) -> np.ndarray:
        """Probabilities of exact, short, long and split marks of each true span.  -> (S, 4)"""
        several = self._several
        room = self._room_left | self._room_right
        wrong = np.stack([source.short * several, source.long * room, source.split * several], axis=1)
        return np.concatenate([1 - wrong.sum(axis=1, keepdims=True), wrong], axis=1)

    def false_marks(self, source: SourceConfig) -> np.ndarray:
        """Expected false marks in all of the text.  -> (C,)"""
        met = (self.mentions * self.detection(source)) @ self.naming(source)
        precision = np.array(source.precision)
        return met * (1 - precision) / np.maximum(precision, 1e-3)

    def truth(self) -> SourceTruth:
        """Expected quality of all sources."""
        sources, num_types = self.config.sources, self.num_types
        exact_recall = np.full((len(sources), num_types), np.nan)
        exact_precision = exact_recall.copy()
        for k, source in enumerate(sources):
            names, bounds, false = self.naming(source), self.bounds(source), self.false_marks(source)
            by_type = [bounds[self.corpus.type == c].mean(axis=0) if n else None for c, n in enumerate(self.mentions)]
            exact = np.array([1.0 if b is None else b[0] for b in by_type])
            split = np.array([0.0 if b is None else b[3] for b in by_type])
            recall = np.array(source.recall) * np.diag(names) * exact
            marks = ((1 + split) * self.mentions * self.detection(source)) @ names + false
            known = np.array(source.recall) > 0
            exact_recall[k, known] = recall[known]
            seen = known & (marks > 0)
            exact_precision[k, seen] = (recall * self.mentions)[seen] / marks[seen]
        known = np.array([source.recall for source in sources]) > 0
        return SourceTruth(
            np.where(known, [source.recall for source in sources], np.nan),
            np.where(known, [source.precision for source in sources], np.nan),
            exact_recall,
            exact_precision,
            np.array([source.family for source in sources]),
            np.array([source.spammer for source in sources]),
        )

    def votes(self, number: int, tags: TagSet) -> np.ndarray:
        """Votes of a source on all of the text, as if it read all of it.  -> (N,) int16"""
        source = self.config.sources[number]
        rng = np.random.default_rng([self.config.seed, 1000 + number])
        known = self._known_entries(source, rng) if source.lexical else None
        found = self._detected(source, known, rng)
        marks = [
            self._with_bounds(source, found, self._named(source, found, rng), rng),
            self._false(source, known, rng),
        ]
        start, end, kind = (np.concatenate(column) for column in zip(*marks, strict=True))
        return to_labels(start, end, kind, self.corpus.offsets, tags)

    def _score(
        self, rng: np.random.Generator, source: SourceConfig, size: int, world_share: float, *key: int
    ) -> np.ndarray:
        """Scores of units that other sources know by the same key.  -> (size,)"""
        family = source.family_share
        world = self._world_score(size, *key) if world_share else 0.0
        common = self.shared.get(size, *key, 1 + source.family) if family else 0.0
        rest = (1 - world_share) * (1 - family)
        return (
            np.sqrt(world_share) * world
            + np.sqrt((1 - world_share) * family) * common
            + np.sqrt(rest) * rng.standard_normal(size)
        )

    def _world_score(self, size: int, *key: int) -> np.ndarray:
        """The share of the world; mentions of an entry are alike in part where there are dictionaries."""
        score = self.shared.get(size, *key, 0)
        if key == (TRUE,) and self.config.lexical:
            by_entry = self.shared.get(len(self.corpus.lexicon.type), ALL, 0)[self.corpus.entry]
            score = np.sqrt(0.5) * score + np.sqrt(0.5) * by_entry
        return score

    def _known_entries(self, source: SourceConfig, rng: np.random.Generator) -> np.ndarray:
        """Entries in a dictionary: of each type as many as make up its recall.  -> (E,) bool"""
        lexicon = self.corpus.lexicon
        score = self._score(rng, source, len(lexicon.type), self.config.difficulty, ALL)
        known = np.zeros(len(lexicon.type), bool)
        for c, rate in enumerate(self.detection(source)):
            rows = np.flatnonzero(lexicon.type == c)
            frequency = np.log(lexicon.mass[rows])
            liked = self.config.popularity * (frequency - frequency.mean()) / max(frequency.std(), 1e-9)
            known[rows] = take_mass(score[rows] + liked, lexicon.mass[rows], rate)
        return known

    def _detected(self, source: SourceConfig, known: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        """Indices of the true spans that the source marks."""
        if known is not None:
            return np.flatnonzero(known[self.corpus.entry])
        score = self._score(rng, source, len(self.corpus.type), self.config.difficulty, TRUE)
        chosen = [np.zeros(0, int)]
        for c, rate in enumerate(self.detection(source)):
            rows = np.flatnonzero(self.corpus.type == c)
            count = int(rate * len(rows) + rng.random())
            chosen.append(rows[np.argsort(-score[rows], kind="stable")[:count]])
        return np.sort(np.concatenate(chosen))

    def _named(self, source: SourceConfig, found: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Types that the source gives to the spans."""
        types, names = self.corpus.type[found], self.naming(source)
        size = len(self.corpus.lexicon.type) if source.lexical else len(self.corpus.type)
        unit = self.corpus.entry[found] if source.lexical else found
        score = self._score(rng, source, size, self.config.shared_confusion, NAMED, int(source.lexical))[unit]
        wrong = score > np.array([quantile(value) for value in np.diag(names)])[types]
        named = types.copy()
        for c in np.unique(types[wrong]):
            chosen = np.flatnonzero(wrong & (types == c))
            others = names[c].copy()
            others[c] = 0
            if others.sum() > 0:
                # The same entry is misnamed alike by a dictionary.
                draw = np.random.default_rng([self.config.seed, 77, int(c)]).random(size)[unit[chosen]]
                named[chosen] = np.searchsorted(np.cumsum(others / others.sum()), draw).clip(max=self.num_types - 1)
        return named

    def _with_bounds(
        self, source: SourceConfig, found: np.ndarray, named: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Marks of the detected spans: starts, ends, types."""
        start, end = self.corpus.start[found].copy(), self.corpus.end[found].copy()
        length = end - start
        size = len(self.corpus.lexicon.type) if source.lexical else len(self.corpus.type)
        unit = self.corpus.entry[found] if source.lexical else found
        draw = rng.random(size)[unit]
        left = (rng.random(size) < rng.choice([0.15, 0.85]))[unit]  # a source has its habit
        how = (draw[:, None] > np.cumsum(self.bounds(source)[found], axis=1)[:, :3]).sum(axis=1)
        shorter = how == 1
        by = 1 + (rng.random(len(found)) * np.minimum(length - 1, 2)).astype(int) * shorter
        start[shorter & left] += by[shorter & left]
        end[shorter & ~left] -= by[shorter & ~left]
        longer = how == 2
        at_left = self._room_left[found] & (left | ~self._room_right[found])
        start[longer & at_left] -= 1
        end[longer & ~at_left] += 1
        pieces = np.flatnonzero(how == 3)
        cut = start[pieces] + 1 + (rng.random(len(pieces)) * (length[pieces] - 1)).astype(int)
        last = end[pieces].copy()
        end[pieces] = cut
        return np.append(start, cut), np.append(end, last), np.append(named, named[pieces])

    def _pool_sizes(self) -> np.ndarray:
        """Most false marks of a source of each family, and of any.  -> (families + 1, C)"""
        sizes = np.zeros((2 + max(source.family for source in self.config.sources), self.num_types))
        for source in self.config.sources:
            false = self.false_marks(source)
            sizes[source.family + 1] = np.maximum(sizes[source.family + 1], false)
            sizes[0] = np.maximum(sizes[0], false)
        return np.ceil(sizes).astype(int)

    def _false(
        self, source: SourceConfig, known: np.ndarray | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """False marks: starts, ends, types."""
        expected = self.false_marks(source)
        rows = [np.zeros((3, 0), int)]
        for c in source.types:
            missing = expected[c]
            if known is not None:
                places = self._word_places(source, c, known, missing, rng)
                rows.append(places)
                missing = max(0.0, missing - places.shape[1])
                if missing < 0.1 * expected[c]:
                    continue
            rows.append(self._random_places(source, c, int(rng.poisson(missing)), rng))
        start, end, kind = np.concatenate(rows, axis=1)
        return start, end, kind

    def _word_places(
        self, source: SourceConfig, c: int, known: np.ndarray, expected: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Every O occurrence of the common words that a dictionary takes for entities.  -> (3, n)"""
        lexicon, corpus = self.corpus.lexicon, self.corpus
        score = self._score(rng, source, COMMON_WORDS, self.config.shared_false, FALSE, c, 1)
        own = lexicon.words[known & (lexicon.type == c) & (lexicon.length == 1), 0]
        score[own[own < COMMON_WORDS]] += LIKED
        score[:FUNCTION_WORDS] = -np.inf
        mass = lexicon.common * len(self._open)
        score[mass > 0.5 * expected] = -np.inf  # no single word makes up most of it
        wrong = take_mass(score, mass, expected)
        start = self._open[(corpus.words[self._open] < COMMON_WORDS)]
        start = start[wrong[corpus.words[start]]]
        # A wrong entry has a length, the same everywhere.
        lengths = draw_lengths(
            np.random.default_rng([self.config.seed, 99, c]), self.config.span_lengths[c], COMMON_WORDS
        )
        return self._places(start, lengths[corpus.words[start]], c)

    def _random_places(self, source: SourceConfig, c: int, count: int, rng: np.random.Generator) -> np.ndarray:
        """So many O places: some tempt all sources, some only those of the family.  -> (3, n)"""
        common = int(rng.binomial(count, self.config.shared_false))
        pools = []
        for owner, wanted in ((-1, common), (source.family, count - common)):
            if not wanted:
                continue
            alone = owner >= 0 and source.family_share == 0
            size = wanted if alone else POOL * (int(self._largest_pool[owner + 1, c]) + 3)
            place_rng = rng if alone else np.random.default_rng([self.config.seed, 500 + owner, c])
            if not len(self._open):
                continue
            start = self._open[place_rng.integers(len(self._open), size=size)]
            lengths = draw_lengths(place_rng, self.config.span_lengths[c], size)
            share = 0.5 if owner < 0 else source.family_share
            score = np.sqrt(share) * place_rng.standard_normal(size) + np.sqrt(1 - share) * rng.standard_normal(size)
            chosen = np.argsort(-score, kind="stable")[:wanted]
            pools.append(self._places(start[chosen], lengths[chosen], c))
        return np.concatenate([np.zeros((3, 0), int), *pools], axis=1)

    def _places(self, start: np.ndarray, length: np.ndarray, c: int) -> np.ndarray:
        end = start + np.minimum(length, self.corpus.free[start])
        return np.stack([start, end, np.full(len(start), c)])


def quantile(probability: float) -> float:
    """Quantile of the standard normal distribution; infinite at 0 and 1."""
    if not 0 < probability < 1:
        return -np.inf if probability <= 0 else np.inf
    return NormalDist().inv_cdf(probability)


def take_mass(score: np.ndarray, mass: np.ndarray, target: float) -> np.ndarray:
    """The units of highest score whose mass sums to the target; those that would exceed it are passed over.  -> bool

    >>> take_mass(np.array([3.0, 2.0, 1.0]), np.array([0.5, 0.4, 0.1]), 0.6).tolist()
    [True, False, True]
    """
    order = np.argsort(-score, kind="stable")
    order = order[np.isfinite(score[order])]
    chosen = np.zeros(len(score), bool)
    left = target
    while len(order):
        order = order[mass[order] <= left * (1 + 1e-9)]
        fits = int((np.cumsum(mass[order]) <= left * (1 + 1e-9)).sum())
        if not fits:
            break
        chosen[order[:fits]] = True
        left -= float(mass[order[:fits]].sum())
        order = order[fits:]
    return chosen


def to_labels(start: np.ndarray, end: np.ndarray, kind: np.ndarray, offsets: np.ndarray, tags: TagSet) -> np.ndarray:
    """Labels of marks, which may overlap: earlier ones come first.  -> (N,) int16"""
    order = np.argsort(start, kind="stable")
    sentence = np.searchsorted(offsets, start, side="right") - 1
    first = offsets[sentence]
    kept = resolve_overlaps(sentence, start - first, end - first, np.arange(len(start))) < 0
    order = order[kept[order]]
    rows = np.stack([sentence, start - first, end - first, kind], axis=1)[order]
    return tags.labels(Spans.from_array(rows.astype(np.int64)), offsets)


def read_documents(config: WorldConfig, num_sentences: int, rng: np.random.Generator) -> np.ndarray:
    """Which sentences each source reads.  -> (M, K) bool"""
    document = np.arange(num_sentences) // config.document_length
    documents, num_sources = int(document[-1]) + 1, len(config.sources)
    if config.answers:
        activity = rng.pareto(1.5, num_sources) + 0.3
        keys = rng.exponential(size=(documents, num_sources)) / activity
        reads = np.zeros((documents, num_sources), bool)
        chosen = np.argsort(keys, axis=1)[:, : config.answers]
        reads[np.arange(documents)[:, None], chosen] = True
    else:
        coverage = np.array([source.coverage for source in config.sources])
        reads = rng.random((documents, num_sources)) < coverage
    return reads[document]


def token_mask(reads: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The mask of sentences for their tokens.  (M,) -> (N,)"""
    mask = np.zeros(int(offsets[-1]), bool)
    mask[concat_ranges(offsets[:-1][reads], np.diff(offsets)[reads])] = True
    return mask
