"""TagSet: the meaning of label ids, and conversion between labels, tags and spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from convener.data import validation
from convener.data.ragged import concat_ranges, locate
from convener.data.schemes import RepairPolicy, Scheme, from_bio, parse_tag, scheme_codes, to_bio
from convener.data.spans import Spans
from convener.errors import DataError, unknown_name_message

ABSTAIN = -1
"""The label of an abstention."""
SpanList = Sequence[tuple[int, int, str]]
"""The spans of one sentence as (start, end, type)."""


@dataclass(frozen=True)
class TagSet:
    """The labels over some entity types: 0 is O, then B-x and I-x for each type in order.

    >>> tags = TagSet(("PER", "LOC"))
    >>> tags.names
    ('O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC')
    >>> labels = tags.encode(["B-PER", "I-PER", "O", "B-LOC"])
    >>> labels.tolist()
    [1, 2, 0, 3]
    >>> list(tags.spans(labels, np.array([0, 4])))
    [Span(sentence=0, start=0, end=2, type=0), Span(sentence=0, start=3, end=4, type=1)]
    """

    types: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.types, str):
            raise DataError(f"entity types are a list of names, got the string {self.types!r}")
        object.__setattr__(self, "types", tuple(self.types))
        if not self.types:
            raise DataError("a tag set needs at least one entity type")
        for name in self.types:
            if not isinstance(name, str) or not name or name != name.strip():
                raise DataError(f"entity types must be non-empty strings without surrounding space, got {name!r}")
        if len(set(self.types)) != len(self.types):
            raise DataError(f"entity types must have different names, got {', '.join(self.types)}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The tag of each label id."""
        return ("O", *(f"{prefix}-{name}" for name in self.types for prefix in "BI"))

    def __len__(self) -> int:
        return 2 * len(self.types) + 1

    @cached_property
    def _type_indices(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.types)}

    def type_index(self, name: str) -> int:
        """Index of an entity type.

        >>> TagSet(("PER", "LOC")).type_index("LOCC")
        Traceback (most recent call last):
        convener.errors.DataError: no entity type 'LOCC'; did you mean 'LOC'?
        """
        try:
            return self._type_indices[name]
        except (KeyError, TypeError):
            raise DataError(unknown_name_message("entity type", str(name), self.types)) from None

    @cached_property
    def legal_transitions(self) -> NDArray[np.bool_]:
        """Which transitions are legal in BIO.  -> (L, L) [previous label, label]"""
        size = len(self)
        allowed = np.ones((size, size), bool)
        allowed[:, 2::2] = False
        for b_label in range(1, size, 2):
            allowed[b_label : b_label + 2, b_label + 1] = True
        return allowed

    @property
    def legal_first(self) -> NDArray[np.bool_]:
        """Which labels may begin a sentence.  -> (L,)"""
        allowed: NDArray[np.bool_] = self.legal_transitions[0]
        return allowed

    def spans(
        self,
        labels: NDArray[np.int16],
        offsets: NDArray[np.int64],
        *,
        on_illegal: RepairPolicy = "start",
    ) -> Spans:
        """Spans of BIO labels; abstain counts as outside.

        labels (N,), offsets (M+1,). `on_illegal` is the policy for illegal I- labels, see `repair`.
        """
        labels, _ = self.repair(labels, offsets, on_illegal)
        # Repaired I- labels always continue a span of their sentence, so any other label ends a span.
        boundaries = np.append(np.flatnonzero((labels <= 0) | (labels % 2 == 1)), len(labels))
        start = np.flatnonzero((labels > 0) & (labels % 2 == 1))
        end = boundaries[np.searchsorted(boundaries, start, side="right")]
        sentence_offsets = offsets - offsets[0]
        sentence = np.searchsorted(sentence_offsets, start, side="right") - 1
        return Spans(
            sentence,
            (start - sentence_offsets[sentence]).astype(np.int32),
            (end - sentence_offsets[sentence]).astype(np.int32),
            ((labels[start] - 1) // 2).astype(np.int16),
        )

    def labels(self, spans: Spans, offsets: NDArray[np.int64]) -> NDArray[np.int16]:
        """BIO labels of non-overlapping spans, O elsewhere.  -> (N,)"""
        sentence_offsets = offsets - offsets[0]
        for what, numbers, count in (
            ("sentence", spans.sentence, len(sentence_offsets) - 1),
            ("entity type", spans.type, len(self.types)),
        ):
            out_of_range = (numbers < 0) | (numbers >= count)
            if out_of_range.any():
                raise DataError(f"expected {what} of a span in [0, {count}), found {numbers[out_of_range][0]}")
        start = sentence_offsets[spans.sentence] + spans.start
        length = spans.end.astype(np.int64) - spans.start
        invalid = (spans.start < 0) | (length <= 0) | (start + length > sentence_offsets[spans.sentence + 1])
        if invalid.any():
            sentence, first, last, _ = next(iter(spans.take(invalid)))
            raise DataError(f"sentence {sentence}: span {first}-{last} is not a range of tokens of the sentence")
        positions = concat_ranges(start, length)
        labels = np.zeros(int(sentence_offsets[-1]), np.int16)
        labels[positions] = np.repeat(2 * spans.type + 2, length)
        labels[start] = 2 * spans.type + 1
        if len(positions) != np.count_nonzero(labels):
            overlapping = np.bincount(positions, minlength=len(labels)) > 1
            sentence, position = locate(sentence_offsets, int(np.flatnonzero(overlapping)[0]))
            raise DataError(f"sentence {sentence}: spans overlap at token {position}")
        return labels

    def repair(
        self, labels: NDArray[np.int16], offsets: NDArray[np.int64], policy: RepairPolicy = "start"
    ) -> tuple[NDArray[np.int16], int]:
        """Legal labels, and the number of illegal tokens.

        An I- that continues no span is illegal. Policy "start": it starts a span. "drop": it and the tokens that
        continue it become O. "error": raise.
        """
        position, type_index = from_bio(labels)
        repaired, illegal = to_bio(position, type_index, offsets, policy)
        return repaired, len(illegal)

    def remap(self, labels: NDArray[np.int16], other: TagSet) -> NDArray[np.int16]:
        """The same labels as ids of another tag set, which must include the types in use.

        >>> TagSet(("PER", "LOC")).remap(np.array([3, 4, 0, -1]), TagSet(("LOC",))).tolist()
        [1, 2, 0, -1]
        """
        unmapped = -2
        ids = np.full(len(self) + 1, unmapped, np.int16)
        ids[[0, ABSTAIN]] = 0, ABSTAIN  # index -1 is the last entry
        for index, name in enumerate(self.types):
            if name in other._type_indices:
                target = 2 * other.type_index(name)
                ids[2 * index + 1 : 2 * index + 3] = target + 1, target + 2
        remapped: NDArray[np.int16] = ids[labels]
        if remapped.min(initial=0) == unmapped:
            name = self.types[(int(labels[remapped == unmapped][0]) - 1) // 2]
            raise DataError(unknown_name_message("entity type", name, other.types))
        return remapped

    def encode(
        self,
        tags: Sequence[str],
        offsets: NDArray[np.int64] | None = None,
        *,
        on_illegal: RepairPolicy = "start",
    ) -> NDArray[np.int16]:
        """Labels of tags in any scheme; without offsets they form one sentence.  -> (N,)"""
        parsed: dict[str, tuple[int, int]] = {}
        for tag in set(tags):
            position, name = parse_tag(tag)
            parsed[tag] = (position, self.type_index(name) if position else 0)
        pairs = np.array([parsed[tag] for tag in tags], np.int16).reshape(-1, 2)
        bounds = np.array([0, len(tags)]) if offsets is None else offsets
        return to_bio(pairs[:, 0].astype(np.int8), pairs[:, 1], bounds, on_illegal)[0]

    def decode(
        self,
        labels: NDArray[np.int16],
        offsets: NDArray[np.int64] | None = None,
        scheme: Scheme = "bio",
    ) -> list[str]:
        """Tags of legal labels in a scheme; without offsets they form one sentence.

        >>> TagSet(("PER",)).decode(np.array([1, 2, 0, 1], np.int16), scheme="iobes")
        ['B-PER', 'E-PER', 'O', 'S-PER']
        """
        bounds = np.array([0, len(labels)]) if offsets is None else offsets
        codes, names = scheme_codes(labels, bounds, self.types, scheme)
        return [names[code] for code in codes.tolist()]


def labels_from_lists(
    sentences: Sequence[SpanList | None], tags: TagSet, offsets: NDArray[np.int64]
) -> NDArray[np.int16]:
    """Labels of all tokens; abstain in sentences whose spans are None.  -> (N,)

    >>> labels_from_lists([[(0, 2, "PER")], None], TagSet(("PER",)), np.array([0, 3, 4])).tolist()
    [1, 2, 0, -1]
    """
    validation.check_shape("spans", (len(sentences),), (len(offsets) - 1,))
    rows = [
        (index, start, end, tags.type_index(name))
        for index, spans in enumerate(sentences)
        for start, end, name in spans or ()
    ]
    all_integers = all(isinstance(item, int | np.integer) for row in rows for item in row)
    validation.check(all_integers, "start and end of spans must be integers")
    labels = tags.labels(Spans.from_rows(rows), offsets)
    abstains = np.array([spans is None for spans in sentences], bool)
    labels[np.repeat(abstains, np.diff(offsets))] = ABSTAIN
    return labels
