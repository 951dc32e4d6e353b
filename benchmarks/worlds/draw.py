"""The distribution of generated corpora: `draw_config(seed, number)`.

Of 16 worlds 9 have labeling functions, 3 mixed sources, 4 a crowd: 90, 30 and 40 of 160. The ranges are those of
corpora that users have; `benchmarks/results/worlds` compares statistics of the worlds with those of six real sets.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.worlds.config import SIGNALS, Kind, SourceConfig, WorldConfig

WORLDS = 160
KINDS: tuple[Kind, ...] = (
    *("functions", "crowd", "functions", "mixed", "functions", "crowd", "functions", "functions"),
    *("functions", "crowd", "mixed", "functions", "functions", "crowd", "functions", "mixed"),
)
"""Kinds of consecutive worlds, repeated."""
SIGNAL_SHARES = (0.3, 0.25, 0.2, 0.25)
MAX_TOKENS = 320_000
MAX_CELLS = 6_000_000
"""Tokens times sources."""
MIN_SPANS, MIN_CROWD_SPANS, MIN_TEST_SPANS = 30, 60, 300
"""True spans to expect at least in train, in a crowd and in test, as far as the limits allow."""
FAMILIES = ("none", "twins", "parts")


def draw_config(seed: int, number: int) -> WorldConfig:
    """The settings of a world; equal for equal arguments."""
    rng = np.random.default_rng([seed, number])
    kind = KINDS[number % len(KINDS)]
    num_types = _choose_range(rng, ((0.25, 1, 1), (0.33, 2, 4), (0.26, 5, 9), (0.16, 10, 20)))
    shares = np.arange(1, num_types + 1) ** -rng.uniform(0.2, 1.5)
    density = _log_uniform(rng, 0.01, 0.4)
    length = 180.0 if rng.random() < 0.07 else _log_uniform(rng, 8, 35)
    if kind == "crowd":
        num_sources = _choose_range(rng, ((0.3, 5, 15), (0.5, 15, 60), (0.2, 60, 200)))
        sentences = _choose_range(rng, ((0.15, 40, 150), (0.65, 150, 1500), (0.2, 1500, 4000)))
    else:
        num_sources = _choose_range(rng, ((0.22, 2, 5), (0.48, 6, 20), (0.22, 21, 60), (0.08, 61, 200)))
        sentences = _choose_range(rng, ((0.1, 20, 100), (0.75, 100, 3000), (0.1, 3000, 8000), (0.05, 8000, 20000)))
    spans = density * length / 1.6  # about so many in a sentence
    sentences = max(sentences, round((MIN_CROWD_SPANS if kind == "crowd" else MIN_SPANS) / spans))
    test = 0 if kind == "crowd" else max(400, min(sentences, 1500), round(MIN_TEST_SPANS / spans))
    limit = int(min(MAX_TOKENS, MAX_CELLS / num_sources) / length)
    test = min(test, limit // 2)
    sentences = max(20, min(sentences, limit - test))
    confused = tuple((c + int(rng.integers(1, max(2, num_types)))) % num_types for c in range(num_types))
    style = _Style(rng, kind, num_types, num_sources)
    draw = _crowd_sources if kind == "crowd" else _function_sources
    sources = draw(rng, style, num_sources)
    return WorldConfig(
        name=f"{kind}-{number:03d}",
        kind=kind,
        seed=int(rng.integers(2**31)),
        sentences=sentences,
        valid_sentences=max(20, min(200, sentences // 5)),
        test_sentences=test,
        sentence_length=length,
        document_length=1 if length > 100 else int(rng.integers(1, 12)),
        type_shares=tuple(float(share) for share in shares / shares.sum()),
        density=density,
        span_lengths=tuple(float(value) for value in 1 + rng.gamma(2.0, rng.uniform(0.1, 0.6), num_types).clip(0, 3)),
        adjacent=float(rng.choice([0.0, 0.01, 0.04])),
        burstiness=float(rng.uniform(0.2, 0.9)),
        lexicon=int(_log_uniform(rng, 40, 3000)),
        zipf=float(rng.uniform(0.4, 1.0)),
        ambiguous=float(rng.uniform(0.0, 0.3)),
        homonyms=float(rng.uniform(0.0, 0.08)),
        difficulty=style.difficulty,
        popularity=float(rng.uniform(0, 0.8)),
        shared_false=style.shared_false,
        shared_confusion=style.shared_confusion,
        confused_with=confused if num_types > 1 else (),
        sources=tuple(sources),
        answers=style.answers if kind == "crowd" else 0,
        features=SIGNALS[int(rng.choice(4, p=SIGNAL_SHARES))],
        feature_dim=int(rng.choice([48, 64, 96])),
    )


class _Style:
    """What the sources of a world have in common."""

    def __init__(self, rng: np.random.Generator, kind: Kind, num_types: int, num_sources: int) -> None:
        self.kind = kind
        self.num_types = num_types
        self.lexical = kind != "crowd" and bool(rng.random() < 0.55)
        self.difficulty = float(rng.uniform(0.2, 0.7)) if self.lexical or rng.random() < 0.3 else 0.0
        self.shared_false = float(rng.uniform(0.05, 0.5)) if self.lexical or rng.random() < 0.3 else 0.0
        self.shared_confusion = float(rng.choice([0.0, 0.3, 0.7]))
        # The more functions there are, the fewer entities each knows, and the more carefully they were made.
        many = 0.0 if kind == "crowd" else float(np.log(num_sources / 8))
        self.recall = rng.normal(0.9, 0.6) if kind == "crowd" else rng.normal(-0.9 - 0.35 * many, 0.8)
        """Logit of the usual recall."""
        self.precision = rng.normal(1.9, 0.5) if kind == "crowd" else rng.normal(2.1 + 0.4 * max(0.0, many), 0.6)
        self.noise = min(0.35, rng.exponential(0.10))
        """Usual probability of wrong bounds."""
        self.confusion = min(0.4, rng.exponential(0.06))
        self.families = str(rng.choice(FAMILIES, p=[0.4, 0.3, 0.3])) if kind != "crowd" else "none"
        self.unmarked = "abstain" if kind == "functions" and rng.random() < 0.75 else "mixed"
        self.partial = kind == "mixed" or rng.random() < 0.1
        self.spammers = float(rng.choice([0.0, 0.15, 0.35])) if kind == "crowd" else 0.0
        self.narrow = bool(rng.random() < 0.35)
        self.answers = int(rng.integers(1, 8)) if kind == "crowd" else 0


def _function_sources(rng: np.random.Generator, style: _Style, count: int) -> list[SourceConfig]:
    """Dictionaries and patterns that know one or some types, and models that know all."""
    covered: set[int] = set()
    sources: list[SourceConfig] = []
    family = 0
    while len(sources) < count:
        model = bool(rng.random() < (0.3 if style.kind == "functions" else 0.55))
        types = _types_of_function(rng, style, model, count - len(sources), covered)
        covered.update(types)
        members = [_source(rng, style, len(sources), types, model, family)]
        if style.families != "none" and rng.random() < 0.45:
            members = _relatives(rng, style, members[0], len(sources))
        sources += members[: count - len(sources)]
        family += 1
    return sources


def _types_of_function(rng: np.random.Generator, style: _Style, model: bool, left: int, covered: set[int]) -> list[int]:
    """Models know most types; other functions few, those first that nobody knows yet."""
    num_types = style.num_types
    if model:
        known = np.flatnonzero(rng.random(num_types) < rng.choice([0.6, 1.0], p=[0.3, 0.7]))
        return known.tolist() or [int(rng.integers(num_types))]
    open_types = [c for c in range(num_types) if c not in covered]
    size = 1 if rng.random() < 0.65 else int(rng.integers(1, min(num_types, 5) + 1))
    size = max(size, math.ceil(len(open_types) / left))
    first = open_types[: max(size, 1)] if rng.random() < 0.9 else []
    rest = rng.permutation([c for c in range(num_types) if c not in first]).tolist()
    return sorted((first + rest)[:size])


def _source(
    rng: np.random.Generator, style: _Style, number: int, types: list[int], model: bool, family: int
) -> SourceConfig:
    lexical = style.lexical and not model
    recall = style.recall + (0.9 if model else -0.5) + rng.normal(0, 0.8)
    precision = style.precision + rng.normal(0, 1.0)
    considered = style.unmarked == "mixed" and rng.random() < (0.85 if model else 0.25)
    short, long, split = _bounds(rng, style)
    return SourceConfig(
        name=f"{'model' if model else 'dictionary' if lexical else 'function'}-{number}",
        recall=_by_type(rng, style.num_types, types, recall, 0.5),
        precision=_by_type(rng, style.num_types, types, precision, 0.5),
        confusion=_confusion(rng, style),
        leak=float(min(0.5, 0.5 * rng.exponential(style.confusion))),
        short=short,
        long=long,
        split=split,
        lexical=lexical,
        family=family,
        unmarked="outside" if considered else "abstain",
        coverage=float(rng.uniform(0.2, 0.8)) if style.partial and rng.random() < 0.4 else 1.0,
    )


def _relatives(rng: np.random.Generator, style: _Style, first: SourceConfig, number: int) -> list[SourceConfig]:
    """A family: twins of nearly the same quality, or parts of one dictionary."""
    twins = style.families == "twins"
    share = float(rng.uniform(0.93, 0.998)) if twins else float(rng.uniform(0.4, 0.9))
    change = 0.1 if twins else 0.5
    first = replace(first, family_share=share)
    family = [first]
    for n in range(int(rng.integers(1, 2 if twins else 4))):
        recall, precision = (
            tuple(_sigmoid(_logit(value) + rng.normal(0, change)) if value else 0.0 for value in values)
            for values in (first.recall, first.precision)
        )
        name = f"{first.name.partition('-')[0]}-{number + n + 1}"
        family.append(replace(first, name=name, recall=recall, precision=precision))
    return family


def _crowd_sources(rng: np.random.Generator, style: _Style, count: int) -> list[SourceConfig]:
    """Workers: their O is an opinion; some are spammers, in some crowds all know only some types."""
    sources = []
    for number in range(count):
        types = list(range(style.num_types))
        if style.narrow and style.num_types > 1:
            size = int(rng.integers(1, max(2, style.num_types // 2 + 1)))
            types = sorted(rng.choice(style.num_types, size, replace=False).tolist())
        spammer = bool(rng.random() < style.spammers)
        recall = rng.normal(-1.8, 0.6) if spammer else style.recall + rng.normal(0, 0.7)
        precision = rng.normal(-1.2, 0.6) if spammer else style.precision + rng.normal(0, 0.7)
        short, long, split = _bounds(rng, style)
        sources.append(
            SourceConfig(
                name=f"worker-{number}",
                recall=_by_type(rng, style.num_types, types, recall, 0.3),
                precision=_by_type(rng, style.num_types, types, precision, 0.3),
                confusion=_confusion(rng, style),
                short=short,
                long=long,
                split=split,
                family=number,
                unmarked="outside",
                spammer=spammer,
            )
        )
    return sources


def _bounds(rng: np.random.Generator, style: _Style) -> tuple[float, float, float]:
    """Probabilities of too short, too long and split marks."""
    wrong = min(0.7, style.noise * rng.lognormal(0, 0.6))
    short, long, split = wrong * rng.dirichlet([2.5, 2.0, 0.6])
    return float(short), float(long), float(split)


def _confusion(rng: np.random.Generator, style: _Style) -> tuple[float, ...]:
    return tuple(float(v) for v in np.minimum(0.6, style.confusion * rng.lognormal(0, 0.7, style.num_types)))


def _by_type(
    rng: np.random.Generator, num_types: int, types: list[int], logit: float, spread: float
) -> tuple[float, ...]:
    """A probability for each of these types, 0 for the others."""
    values = np.zeros(num_types)
    for c in types:
        values[c] = _sigmoid(logit + rng.normal(0, spread))
    return tuple(float(value) for value in values)


def _sigmoid(x: float) -> float:
    return float(min(0.99, max(0.01, 1 / (1 + math.exp(-x)))))


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _choose_range(rng: np.random.Generator, ranges: tuple[tuple[float, int, int], ...]) -> int:
    """An integer, uniform in its logarithm, from a range chosen by its probability."""
    _, low, high = ranges[int(rng.choice(len(ranges), p=[share for share, _, _ in ranges]))]
    return round(_log_uniform(rng, low, high))
