"""The contract of a labeling function: a text in, spans out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from convener.coarse import Meaning
from convener.data import ABSTAIN, SILENCES, Silence
from convener.errors import ConfigError, ConvenerWarning, DataError, check_known
from convener.io.options import Misaligned, Overlap
from convener.lf.settle import Span, settled
from convener.lf.version import version_of
from convener.lf.view import View
from convener.tags import TagSet

__all__ = ["ABSTAIN", "Find", "FindAll", "Found", "LabelingFunction", "Span", "labeling_function"]

Found = Iterable[Span] | int | None
"""What is found in a text: spans, nothing (None), or ABSTAIN."""
Find = Callable[[View], Found]
FindAll = Callable[[Sequence[View]], Iterable[Found]]
Offsets = Literal["tokens", "chars"]
Scope = Literal["sentence", "document"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelingFunction:
    """A source of votes: called with a text, it gives spans of entities.

    Calling it with a `View`, a list of words or a text gives the spans that count, in words and
    in the order of the text, or None where it abstains; what had to be mended is warned of.

    >>> def find(view):
    ...     return [(4, 8, "LOC")] if view.text == "to  Oslo" else None
    >>> places = LabelingFunction(name="places", labels=("LOC",), find=find, offsets="chars")
    >>> places("to  Oslo"), places(["to", "Rome"])
    ([(1, 2, 'LOC')], [])
    """

    name: str
    labels: tuple[str, ...]
    """The entity types it can give."""
    coarse: Mapping[str, Meaning] = field(default_factory=dict)
    """What those of its labels allow that are no types of their own: {"ENT": "any"} is some entity,
    {"NOT-PER": "not PER"} anything but a person, {"NAME": ("PER", "ORG")} one of two; "O" in the
    list is no entity."""
    find: Find = None  # type: ignore[assignment]
    """Gives (start, end, label) with end exclusive, nothing, or ABSTAIN; may be left out where
    there is `find_all`."""
    find_all: FindAll | None = None
    """The same for many texts at once, one answer each, in order: for what is faster so. Where it
    fails, `find` is asked text by text, so that the others are not lost."""
    offsets: Offsets = "tokens"
    """Whether spans count words or characters of `View.text`."""
    scope: Scope = "sentence"
    """Whether it sees one sentence at a time, or one document."""
    on_silence: Silence = "O"
    """Where it marks nothing it has mostly no opinion ("O"), or it has one ("abstain");
    see `Dataset.silence`."""
    on_overlap: Overlap = "longest"
    """Which of two overlapping spans stays; the other is counted and listed."""
    on_misaligned: Misaligned = "expand"
    """What becomes of characters that cut through a word; it is counted and listed."""
    precision: float | None = None
    """How often a span of it is presumed right, for models that can use it."""
    version: str | None = None
    """A digest of all that decides its spans, for the cache; None derives it from its code and
    all that the code refers to."""
    alone: bool = False
    """Run it in the calling process, not in workers: for functions that bring threads, a device
    or connections of their own."""

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            raise ConfigError(f"{self.name}: labels are a list of types, got {self.labels!r}")
        object.__setattr__(self, "labels", TagSet(tuple(self.labels)).types)
        check_known(f"label of {self.name} to be coarse", self.coarse, self.labels)
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"a labeling function needs a name, got {self.name!r}")
        for setting, allowed in _CHOICES.items():
            if getattr(self, setting) not in allowed:
                raise ConfigError(
                    f"{self.name}: {setting} must be one of {', '.join(allowed)}; "
                    f"got {getattr(self, setting)!r}"
                )
        if self.precision is not None and not 0 < self.precision < 1:
            raise ConfigError(f"{self.name}: precision must be in (0, 1), got {self.precision}")
        if self.find is None:
            if self.find_all is None:
                raise ConfigError(f"{self.name}: give find, find_all or both")
            object.__setattr__(self, "find", _one_of(self.find_all))

    def __call__(self, words: View | Sequence[str] | str) -> list[Span] | None:
        """The spans it finds in one text."""
        view = View.of(words)
        before = len(view.notes)
        spans = self.spans(view)
        if said := view.notes[before:]:
            listed = "; ".join(f"{note.kind}: {note.detail}" for note in said)
            warnings.warn(f"{self.name}: {listed}", ConvenerWarning, stacklevel=2)
        return spans

    def __repr__(self) -> str:
        return f"LabelingFunction({self.name!r}, labels={', '.join(self.labels)})"

    def spans(self, view: View) -> list[Span] | None:
        """The spans that count, in words; what had to be mended is noted on the view."""
        return self.settled(self.find(view), view)

    def answers(self, views: Sequence[View]) -> list[list[Span] | None]:
        """The spans that count in each of the texts."""
        if self.find_all is None:
            return [self.spans(view) for view in views]
        found = list(self.find_all(views))
        if len(found) != len(views):
            raise DataError(f"expected an answer for each of {len(views)} texts, got {len(found)}")
        return [self.settled(item, view) for item, view in zip(found, views, strict=True)]

    def settled(self, found: Found, view: View) -> list[Span] | None:
        """Spans as they were found, as they count: see `convener.lf.settle`."""
        return settled(
            found,
            view,
            labels=self.labels,
            in_chars=self.offsets == "chars",
            on_overlap=self.on_overlap,
            on_misaligned=self.on_misaligned,
        )

    def digest(self) -> str:
        """What decides its spans, as one word; `Unversioned` where that cannot be told."""
        settings = [getattr(self, name) for name in _DECISIVE]
        return version_of(self.version or (self.find, self.find_all), settings)


_CHOICES: dict[str, tuple[str, ...]] = {
    "offsets": get_args(Offsets),
    "scope": get_args(Scope),
    "on_silence": SILENCES,
    "on_overlap": get_args(Overlap),
    "on_misaligned": get_args(Misaligned),
}
_DECISIVE = ("labels", "offsets", "scope", "on_overlap", "on_misaligned")


def _one_of(find_all: FindAll) -> Find:
    def find(view: View) -> Found:
        (found,) = find_all([view])
        return found

    return find


def labeling_function(
    labels: Sequence[str], *, name: str | None = None, **settings: Any
) -> Callable[[Find], LabelingFunction]:
    """Makes a labeling function of a plain one, named after it.

    The plain function takes a `View`, a sequence of words that knows its text, and yields or
    returns (start, end, label), end exclusive, in words, or in characters of `view.text` with
    `offsets="chars"`. It may return nothing, or ABSTAIN. Settings are the fields of
    `LabelingFunction`.

    >>> @labeling_function(["ORG"])
    ... def shouting(words):
    ...     for i, word in enumerate(words):
    ...         if word.isupper():
    ...             yield i, i + 1, "ORG"
    >>> shouting(["NASA", "flew"])
    [(0, 1, 'ORG')]
    """
    known = [item.name for item in fields(LabelingFunction) if item.name not in _OWN]
    check_known("setting of a labeling function", settings, known)

    def decorated(find: Find) -> LabelingFunction:
        called = str(name or getattr(find, "__name__", ""))
        return LabelingFunction(name=called, labels=tuple(labels), find=find, **settings)

    return decorated


_OWN = ("name", "labels", "find")
