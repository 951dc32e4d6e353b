"""The contract of a labeling function, the decorator, and the base class of sources that run a model."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict, get_args, overload

from convener.data.alignment import MisalignmentPolicy, OverlapPolicy
from convener.data.coarse import CoarseSpec
from convener.data.tags import TagSet
from convener.data.validation import UNMARKED, Unmarked
from convener.errors import ConfigError, ConvenerWarning, DataError, check_known
from convener.lf.doc import Doc, Scope
from convener.lf.fingerprint import fingerprint
from convener.lf.marked_text import MarkedText
from convener.lf.validation import Span, validate_spans

RawOutput = Iterable[Span] | int | None
"""Output for one text: spans, None (no spans), or ABSTAIN."""
LabelFunc = Callable[[Doc], RawOutput]
BatchLabelFunc = Callable[[Sequence[Doc]], Iterable[RawOutput]]
Offsets = Literal["tokens", "chars"]
LabelMapping = Mapping[str, str] | Sequence[str]
"""The entity types of a model to use: a list, or a mapping from the model's types to labels."""
_ALLOWED_VALUES: dict[str, tuple[str, ...]] = {
    "offsets": get_args(Offsets),
    "scope": get_args(Scope),
    "unmarked": UNMARKED,
    "on_overlap": get_args(OverlapPolicy),
    "on_misaligned": get_args(MisalignmentPolicy),
}
_FINGERPRINT_FIELDS = ("labels", "offsets", "scope", "on_overlap", "on_misaligned")


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelingFunction:
    """A source of votes: marks spans of entities in a text.

    Calling it with a text shows what it marks: a list of spans with text and label. Calling it with
    a `Doc` or a list of tokens returns tuples (start, end, label), in tokens. Spans are validated and
    in text order; None means that the function abstains. A warning reports spans that were adjusted
    or dropped.

    >>> def find(doc):
    ...     return [(4, 8, "LOC")] if doc.text == "to  Oslo" else None
    >>> places = LabelingFunction(name="places", labels=("LOC",), func=find, offsets="chars")
    >>> places("to  Oslo")
    to  [Oslo](LOC)
    >>> places("to  Oslo")[0].text, places(["to", "Rome"])
    ('Oslo', [])
    """

    name: str
    labels: tuple[str, ...]
    """The labels it can assign."""
    coarse: Mapping[str, CoarseSpec] = field(default_factory=dict)
    """The entity types that its coarse labels allow: {"ENT": "any"} is an entity of any type,
    {"NOT-PER": "not PER"} anything but a person, {"NAME": ("PER", "ORG")} one of two types; "O" in
    the list allows no entity."""
    func: LabelFunc = None  # type: ignore[assignment]
    """Returns or yields (start, end, label) with end exclusive, or returns None or ABSTAIN. Optional
    if `batch_func` is given."""
    batch_func: BatchLabelFunc | None = None
    """The same for a batch of texts, one output per text in order. If it fails, `func` is called
    on each text, so that only the failing text is lost."""
    offsets: Offsets = "tokens"
    """Whether spans are in tokens or in characters of `Doc.text`."""
    scope: Scope = "sentence"
    """Whether it receives single sentences or documents."""
    unmarked: Unmarked = "abstain"
    """Meaning of a token that it does not mark: almost no information ("abstain") or a vote for O ("outside");
    see `Dataset.unmarked`."""
    on_overlap: OverlapPolicy = "longest"
    """Which of two overlapping spans is kept; the other is reported as an issue."""
    on_misaligned: MisalignmentPolicy = "expand"
    """How spans are treated that start or end inside a token; reported as an issue."""
    prior_precision: float | None = None
    """Prior estimate of its precision, in (0, 1), for models that use it; None is unknown."""
    version: str | None = None
    """Cache key that must change when the spans change; None derives it from the code and
    everything the code refers to."""
    in_main_process: bool = False
    """Run it in the calling process, not in workers: for functions that use threads, a device or
    connections."""

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            raise ConfigError(f"{self.name}: labels must be a list of labels, got the string {self.labels!r}")
        object.__setattr__(self, "labels", TagSet(tuple(self.labels)).types)
        check_known(f"coarse label of {self.name}", self.coarse, self.labels)
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"a labeling function needs a name, got {self.name!r}")
        for setting, allowed in _ALLOWED_VALUES.items():
            if getattr(self, setting) not in allowed:
                raise ConfigError(
                    f"{self.name}: {setting} must be one of {', '.join(allowed)}; got {getattr(self, setting)!r}"
                )
        if self.prior_precision is not None and not 0 < self.prior_precision < 1:
            raise ConfigError(f"{self.name}: prior_precision must be in (0, 1), got {self.prior_precision}")
        if self.func is None:
            if self.batch_func is None:
                raise ConfigError(f"{self.name}: expected func, batch_func or both, got neither")
            object.__setattr__(self, "func", _single_from_batch(self.batch_func))

    @overload
    def __call__(self, content: str) -> MarkedText | None: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, content: Doc | Sequence[str]) -> list[Span] | None: ...
    def __call__(self, content: Doc | Sequence[str] | str) -> MarkedText | list[Span] | None:
        """Return the validated spans of one text, or None if the function abstains."""
        doc = Doc.from_input(content)
        num_before = len(doc.issues)
        spans = self.label(doc)
        if issues := doc.issues[num_before:]:
            message = "; ".join(f"{issue.kind}: {issue.detail}" for issue in issues)
            warnings.warn(f"{self.name}: {message}", ConvenerWarning, stacklevel=2)
        return MarkedText(doc, spans) if isinstance(content, str) and spans is not None else spans

    def __repr__(self) -> str:
        return f"LabelingFunction({self.name!r}, labels={', '.join(self.labels)})"

    def label(self, doc: Doc) -> list[Span] | None:
        """Return the validated spans, in tokens; issues are recorded in the document."""
        return self._validate(self.func(doc), doc)

    def label_batch(self, docs: Sequence[Doc]) -> list[list[Span] | None]:
        """Return the validated spans of each document."""
        if self.batch_func is None:
            return [self.label(doc) for doc in docs]
        outputs = list(self.batch_func(docs))
        if len(outputs) != len(docs):
            raise DataError(f"expected one output for each of {len(docs)} texts, got {len(outputs)}")
        return [self._validate(output, doc) for output, doc in zip(outputs, docs, strict=True)]

    def _validate(self, output: RawOutput, doc: Doc) -> list[Span] | None:
        """Validate the output of the function; see `convener.lf.validation`."""
        return validate_spans(
            output,
            doc,
            labels=self.labels,
            in_chars=self.offsets == "chars",
            on_overlap=self.on_overlap,
            on_misaligned=self.on_misaligned,
        )

    def fingerprint(self) -> str:
        """Return a digest of everything that determines the spans.

        Raises `NotFingerprintable` if that cannot be determined.
        """
        settings = [getattr(self, name) for name in _FINGERPRINT_FIELDS]
        return fingerprint(self.version or (self.func, self.batch_func), settings)


class LFSettings(TypedDict, total=False):
    """Settings that every ready-made labeling function accepts: fields of `LabelingFunction`, which explains them."""

    coarse: Mapping[str, CoarseSpec]
    scope: Scope
    unmarked: Unmarked
    on_overlap: OverlapPolicy
    on_misaligned: MisalignmentPolicy
    prior_precision: float | None
    version: str | None
    in_main_process: bool


def labeling_function(
    labels: Sequence[str],
    *,
    name: str | None = None,
    coarse: Mapping[str, CoarseSpec] | None = None,
    batch_func: BatchLabelFunc | None = None,
    offsets: Offsets = "tokens",
    scope: Scope = "sentence",
    unmarked: Unmarked = "abstain",
    on_overlap: OverlapPolicy = "longest",
    on_misaligned: MisalignmentPolicy = "expand",
    prior_precision: float | None = None,
    version: str | None = None,
    in_main_process: bool = False,
) -> Callable[[LabelFunc], LabelingFunction]:
    """Decorator that turns a function into a labeling function, by default of the same name.

    The function takes a `Doc` (a sequence of tokens with their text) and returns or yields
    (start, end, label) with end exclusive, in tokens, or in characters of `doc.text` with
    `offsets="chars"`. It may return None or ABSTAIN. The other keywords are the fields of
    `LabelingFunction`, which explains them.

    >>> @labeling_function(["ORG"])
    ... def acronym(doc):
    ...     for i, word in enumerate(doc):
    ...         if word.isupper():
    ...             yield i, i + 1, "ORG"
    >>> acronym(["NASA", "flew"])
    [(0, 1, 'ORG')]
    """

    def decorator(func: LabelFunc) -> LabelingFunction:
        return LabelingFunction(
            name=str(name or getattr(func, "__name__", "")),
            labels=tuple(labels),
            coarse=coarse or {},
            func=func,
            batch_func=batch_func,
            offsets=offsets,
            scope=scope,
            unmarked=unmarked,
            on_overlap=on_overlap,
            on_misaligned=on_misaligned,
            prior_precision=prior_precision,
            version=version,
            in_main_process=in_main_process,
        )

    return decorator


class BatchedSource(ABC):
    """Base class of sources that process texts in batches. Holds only settings; models are loaded on first use."""

    @abstractmethod
    def find_batch(self, docs: Sequence[Doc]) -> list[RawOutput]:
        """Return the output for each text."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of everything that determines the output."""

    def find(self, doc: Doc) -> RawOutput:
        """Return the output for one text."""
        (output,) = self.find_batch([doc])
        return output

    def as_function(self, name: str, labels: Iterable[str], settings: LFSettings) -> LabelingFunction:
        """Return a labeling function with these settings."""
        check_known("setting of a labeling function", settings, LFSettings.__annotations__)
        label_names = tuple(dict.fromkeys(labels))
        return labeling_function(label_names, name=name, batch_func=self.find_batch, **settings)(self.find)


def absolute_path(model: str | Path) -> str:
    """Return the absolute path of a model folder, or the name unchanged if it is not a folder."""
    return str(Path(model).absolute() if Path(model).is_dir() else model)


def to_label_map(labels: LabelMapping) -> dict[str, str]:
    """Return a mapping from the model's types to labels.

    >>> to_label_map(["PER"]), to_label_map({"GPE": "LOC", "LOC": "LOC"})
    ({'PER': 'PER'}, {'GPE': 'LOC', 'LOC': 'LOC'})
    """
    if isinstance(labels, str) or not labels:
        raise ConfigError(f"labels must be a list or a mapping of entity types, got {labels!r}")
    return dict(labels) if isinstance(labels, Mapping) else {name: name for name in labels}


def _single_from_batch(batch_func: BatchLabelFunc) -> LabelFunc:
    def func(doc: Doc) -> RawOutput:
        (output,) = batch_func([doc])
        return output

    return func
