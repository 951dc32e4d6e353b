"""Settings of a generated corpus: `draw` draws them, `generate` makes the corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from convener.data.validation import Unmarked

Kind = Literal["functions", "mixed", "crowd"]
Signal = Literal["much", "some", "little", "nothing"]
SIGNALS: tuple[Signal, ...] = ("much", "some", "little", "nothing")


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """A source of C entity types.

    Sources of one family share `family_share` of the variance of what they detect, mark falsely and misname. The
    share of the world is `WorldConfig.difficulty`, the rest is a source's own.
    """

    name: str
    recall: tuple[float, ...]
    """(C,) probability that a true span of the type is detected, if the source reads it; 0 for an unknown type."""
    precision: tuple[float, ...]
    """(C,) share of the marks of a type that meet a true span of any type; a split mark counts once."""
    confusion: tuple[float, ...]
    """(C,) probability that a detected span is given another of the source's types."""
    leak: float = 0.0
    """Probability that it detects a span of a type it does not know, and takes it for one that it knows."""
    short: float = 0.0
    """Probability that a mark of a span of several tokens is too short."""
    long: float = 0.0
    """Probability that a mark is one token too long, where an O token is beside it."""
    split: float = 0.0
    """Probability that a span of several tokens is marked in two pieces."""
    lexical: bool = False
    """Whether all occurrences of a lexicon entry are treated alike, as a dictionary does."""
    family: int = 0
    family_share: float = 0.0
    """In [0, 1); about 0.95 for twins."""
    unmarked: Unmarked = "abstain"
    coverage: float = 1.0
    """Share of the documents that the source reads; it abstains (-1) elsewhere."""
    spammer: bool = False

    @property
    def types(self) -> tuple[int, ...]:
        """Indices of the types that the source knows."""
        return tuple(number for number, value in enumerate(self.recall) if value > 0)


@dataclass(frozen=True, kw_only=True)
class WorldConfig:
    """A corpus with C entity types and K sources."""

    name: str
    kind: Kind
    seed: int
    """Seed of the text, votes and features."""
    sentences: int
    """Sentences of train."""
    valid_sentences: int
    test_sentences: int
    """0 for crowds, which are evaluated on the sentences of the fit."""
    sentence_length: float
    """Mean number of tokens."""
    document_length: int
    """Sentences in a document."""
    type_shares: tuple[float, ...]
    """(C,) shares of the true spans, descending."""
    density: float
    """Share of the tokens in true spans."""
    span_lengths: tuple[float, ...]
    """(C,) mean number of tokens; lengths are 1 + a geometric variable, at most 8."""
    adjacent: float = 0.01
    """Probability that a true span begins where the last one ends."""
    burstiness: float = 0.5
    """Standard deviation of the logarithm of the density, and of the type shares, between documents."""
    lexicon: int = 500
    """Distinct entities of the most frequent type; others have fewer."""
    zipf: float = 0.8
    """Exponent of the frequencies of lexicon entries by rank."""
    ambiguous: float = 0.1
    """Share of the one-token entries that are also common words."""
    homonyms: float = 0.02
    """Share of the entries that are also entries of another type."""
    difficulty: float = 0.0
    """Share of the variance of detection that all sources have in common; 0 for independent sources."""
    popularity: float = 0.0
    """Weight of an entry's frequency in what dictionaries know."""
    shared_false: float = 0.0
    """Share of a source's false marks drawn from places that tempt all sources."""
    shared_confusion: float = 0.0
    """Share of the variance of type confusion that all sources have in common."""
    confused_with: tuple[int, ...] = ()
    """(C,) the type each type is most often taken for; () for one type."""
    sources: tuple[SourceConfig, ...]
    answers: int = 0
    """Workers who read a document of a crowd; 0 where sources have their own coverage."""
    features: Signal = "some"
    feature_dim: int = 64

    @property
    def lexical(self) -> bool:
        """Whether some source is a dictionary."""
        return any(source.lexical for source in self.sources)
