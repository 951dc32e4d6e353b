"""What sources that run a model share: many texts at once, and types under other names."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from convener.data.alignment import MisalignmentPolicy, OverlapPolicy
from convener.data.coarse import CoarseSpec
from convener.data.tags import TagSet
from convener.data.validation import SILENCES, Silence
from convener.errors import ConfigError, ConvenerWarning, DataError, check_known
from convener.lf.doc import Doc, Scope
from convener.lf.fingerprint import fingerprint
from convener.lf.validation import Span, validate_spans

RawOutput = Iterable[Span] | int | None
"""What is found in a text: spans, nothing (None), or ABSTAIN."""
LabelFunc = Callable[[Doc], RawOutput]
BatchLabelFunc = Callable[[Sequence[Doc]], Iterable[RawOutput]]
Offsets = Literal["tokens", "chars"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelingFunction:
    """A source of votes: called with a text, it gives spans of entities.

    Calling it with a `View`, a list of words or a text gives the spans that count, in words and
    in the order of the text, or None where it abstains; what had to be mended is warned of.

    >>> def find(view):
    ...     return [(4, 8, "LOC")] if view.text == "to  Oslo" else None
    >>> places = LabelingFunction(name="places", labels=("LOC",), func=find, offsets="chars")
    >>> places("to  Oslo"), places(["to", "Rome"])
    ([(1, 2, 'LOC')], [])
    """

    name: str
    labels: tuple[str, ...]
    """The entity types it can give."""
    coarse: Mapping[str, CoarseSpec] = field(default_factory=dict)
    """What those of its labels allow that are no types of their own: {"ENT": "any"} is some entity,
    {"NOT-PER": "not PER"} anything but a person, {"NAME": ("PER", "ORG")} one of two; "O" in the
    list is no entity."""
    func: LabelFunc = None  # type: ignore[assignment]
    """Gives (start, end, label) with end exclusive, nothing, or ABSTAIN; may be left out where
    there is `find_all`."""
    batch_func: BatchLabelFunc | None = None
    """The same for many texts at once, one answer each, in order: for what is faster so. Where it
    fails, `find` is asked text by text, so that the others are not lost."""
    offsets: Offsets = "tokens"
    """Whether spans count words or characters of `View.text`."""
    scope: Scope = "sentence"
    """Whether it sees one sentence at a time, or one document."""
    on_silence: Silence = "O"
    """Where it marks nothing it has mostly no opinion ("O"), or it has one ("abstain");
    see `Dataset.silence`."""
    on_overlap: OverlapPolicy = "longest"
    """Which of two overlapping spans stays; the other is counted and listed."""
    on_misaligned: MisalignmentPolicy = "expand"
    """What becomes of characters that cut through a word; it is counted and listed."""
    prior_precision: float | None = None
    """How often a span of it is presumed right, for models that can use it."""
    version: str | None = None
    """A digest of all that decides its spans, for the cache; None derives it from its code and
    all that the code refers to."""
    in_main_process: bool = False
    """Run it in the calling process, not in workers: for functions that bring threads, a device
    or connections of their own."""

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            raise ConfigError(f"{self.name}: labels are a list of types, got {self.labels!r}")
        object.__setattr__(self, "labels", TagSet(tuple(self.labels)).types)
        check_known(f"label of {self.name} to be coarse", self.coarse, self.labels)
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"a labeling function needs a name, got {self.name!r}")
        for setting, allowed in _ALLOWED_VALUES.items():
            if getattr(self, setting) not in allowed:
                raise ConfigError(
                    f"{self.name}: {setting} must be one of {', '.join(allowed)}; got {getattr(self, setting)!r}"
                )
        if self.prior_precision is not None and not 0 < self.prior_precision < 1:
            raise ConfigError(f"{self.name}: precision must be in (0, 1), got {self.prior_precision}")
        if self.func is None:
            if self.batch_func is None:
                raise ConfigError(f"{self.name}: give find, find_all or both")
            object.__setattr__(self, "func", _single_from_batch(self.batch_func))

    def __call__(self, content: Doc | Sequence[str] | str) -> list[Span] | None:
        """The spans it finds in one text."""
        doc = Doc.from_input(content)
        num_before = len(doc.issues)
        spans = self.label(doc)
        if issues := doc.issues[num_before:]:
            message = "; ".join(f"{issue.kind}: {issue.detail}" for issue in issues)
            warnings.warn(f"{self.name}: {message}", ConvenerWarning, stacklevel=2)
        return spans

    def __repr__(self) -> str:
        return f"LabelingFunction({self.name!r}, labels={', '.join(self.labels)})"

    def label(self, doc: Doc) -> list[Span] | None:
        """The spans that count, in words; what had to be mended is noted on the view."""
        return self._validate(self.func(doc), doc)

    def label_batch(self, docs: Sequence[Doc]) -> list[list[Span] | None]:
        """The spans that count in each of the texts."""
        if self.batch_func is None:
            return [self.label(doc) for doc in docs]
        outputs = list(self.batch_func(docs))
        if len(outputs) != len(docs):
            raise DataError(f"expected an answer for each of {len(docs)} texts, got {len(outputs)}")
        return [self._validate(output, view) for output, view in zip(outputs, docs, strict=True)]

    def _validate(self, output: RawOutput, doc: Doc) -> list[Span] | None:
        """Spans as they were found, as they count: see `convener.lf.settle`."""
        return validate_spans(
            output,
            doc,
            labels=self.labels,
            in_chars=self.offsets == "chars",
            on_overlap=self.on_overlap,
            on_misaligned=self.on_misaligned,
        )

    def fingerprint(self) -> str:
        """What decides its spans, as one word; `Unversioned` where that cannot be told."""
        settings = [getattr(self, name) for name in _FINGERPRINT_FIELDS]
        return fingerprint(self.version or (self.func, self.batch_func), settings)


_ALLOWED_VALUES: dict[str, tuple[str, ...]] = {
    "offsets": get_args(Offsets),
    "scope": get_args(Scope),
    "on_silence": SILENCES,
    "on_overlap": get_args(OverlapPolicy),
    "on_misaligned": get_args(MisalignmentPolicy),
}
_FINGERPRINT_FIELDS = ("labels", "offsets", "scope", "on_overlap", "on_misaligned")


def _single_from_batch(batch_func: BatchLabelFunc) -> LabelFunc:
    def func(doc: Doc) -> RawOutput:
        (output,) = batch_func([doc])
        return output

    return func


def labeling_function(
    labels: Sequence[str], *, name: str | None = None, **settings: Any
) -> Callable[[LabelFunc], LabelingFunction]:
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
    setting_names = [item.name for item in fields(LabelingFunction) if item.name not in _DECORATOR_FIELDS]
    check_known("setting of a labeling function", settings, setting_names)

    def decorator(func: LabelFunc) -> LabelingFunction:
        lf_name = str(name or getattr(func, "__name__", ""))
        return LabelingFunction(name=lf_name, labels=tuple(labels), func=func, **settings)

    return decorator


_DECORATOR_FIELDS = ("name", "labels", "func")
LabelMapping = Mapping[str, str] | Sequence[str]
"""Which of a model's types are used: a list of them, or a mapping to the names they get."""


class BatchedSource(ABC):
    """Finds spans in many texts at once. Holds settings only, so that a process can be sent it."""

    @abstractmethod
    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """What is found in each text."""

    @abstractmethod
    def fingerprint(self) -> str:
        """All that decides what is found, as one word."""

    def find(self, doc: Doc) -> RawOutput:
        """What is found in one text."""
        (output,) = self.find_batch([doc])
        return output

    def as_function(self, name: str, labels: Iterable[str], settings: Mapping[str, Any]) -> LabelingFunction:
        """The labeling function; settings are the fields of `LabelingFunction`."""
        label_names = tuple(dict.fromkeys(labels))
        lf_fields = {"batch_func": self.find_batch, "offsets": "tokens"}
        return labeling_function(label_names, name=name, **lf_fields, **settings)(self.find)


def absolute_path(model: str | Path) -> str:
    """A model's name, or the whole path of its folder, wherever one goes from here."""
    return str(Path(model).absolute() if Path(model).is_dir() else model)


def to_label_map(labels: LabelMapping) -> dict[str, str]:
    """A model's types and what they are called here.

    >>> to_label_map(["PER"]), to_label_map({"GPE": "LOC", "LOC": "LOC"})
    ({'PER': 'PER'}, {'GPE': 'LOC', 'LOC': 'LOC'})
    """
    if isinstance(labels, str) or not labels:
        raise ConfigError(f"labels are a list or a mapping of entity types, got {labels!r}")
    return dict(labels) if isinstance(labels, Mapping) else {name: name for name in labels}
