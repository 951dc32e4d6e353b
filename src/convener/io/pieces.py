"""What the text formats share: strict JSON read item by item, a file's head, rows of tags."""

from __future__ import annotations

import codecs
import json
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from reprlib import Repr
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from convener.data import SILENCES, Silence, Text
from convener.errors import DataError, FormatError, UnknownNameError, unknown_name
from convener.io.formats import Content
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.packed import Strings
from convener.predictions import Predictions
from convener.schemes import Place, Repair, bio_labels, parse_tag
from convener.tags import TagSet

CHUNK = 1 << 20
LISTED = 1000
"""So many illegal tags of one column are listed one by one."""
MOST_TYPES = 16_383
"""More would not fit the 16 bits of a label."""
_SPACE = re.compile(r"[ \t\n\r]*")
_brief = Repr()
_brief.maxstring = _brief.maxother = 60


def shown(value: object) -> str:
    """A value as a message shows it: its repr, cut short."""
    return _brief.repr(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def parsed(text: str, where: str) -> Any:
    """The value of a JSON text; NaN, repeated keys and bottomless nesting are errors.

    >>> parsed('{"a": NaN}', "x.jsonl:3")
    Traceback (most recent call last):
    convener.errors.DataError: x.jsonl:3: not JSON: NaN is not a JSON number
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON at character {error.pos}: {error.msg}") from None
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from None
    except RecursionError:
        raise DataError(f"{where}: not JSON: nested too deep") from None


def dumped(value: object, where: str) -> str:
    """The JSON of a value on one line, plain UTF-8 unless it holds lone surrogates."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{where}: cannot be written as JSON: {error}") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def json_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Names and values of the object that a JSON file holds, decoded one at a time."""
    with path.open("rb") as file:
        window = _Window(file, str(path))
        if window.peek() == "":
            raise DataError(f"{path}: is empty: expected a JSON object of items")
        window.expect("{")
        seen = _Seen()
        while seen.count or window.peek() != "}":
            name = window.name()
            window.expect(":")
            value = window.value(name)
            if not seen.add(name):
                raise DataError(f"{path}: item {name!r} occurs twice")
            yield name, value
            if window.expect(",", "}") == "}":
                break
        else:
            window.expect("}")
        window.expect("")


class _Seen:
    """Names seen so far; running numbers cost no memory."""

    def __init__(self) -> None:
        self.count = 0
        self._names: set[str] | None = None

    def add(self, name: str) -> bool:
        """Whether the name is new."""
        if self._names is None and name != str(self.count):
            self._names = {str(number) for number in range(self.count)}
        self.count += 1
        if self._names is None:
            return True
        self._names.add(name)
        return len(self._names) == self.count


class _Window:
    """The part of a JSON file that is being decoded."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file, self._where = file, where
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._before, self._size = "", 0, 0, CHUNK
        self._ended = False

    def _more(self) -> bool:
        """Read on; False at the end of the file."""
        if self._ended:
            return False
        raw = self._file.read(self._size)
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            byte = self._file.tell() - len(raw) - pending + error.start
            raise DataError(
                f"{self._where}: byte {byte}: not UTF-8 text ({error.object[error.start]:#04x})"
            ) from None
        self._ended = not raw
        self._before += self._at
        self._text, self._at = self._text[self._at :] + text, 0
        return True

    def peek(self) -> str:
        """The next character that is not white space; "" at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def expect(self, *wanted: str) -> str:
        """Step over one of these characters; "" is the end of the file."""
        found = self.peek()
        if found not in wanted:
            listed = " or ".join(repr(sign) if sign else "the end" for sign in wanted)
            got = repr(found) if found else "the end of the file"
            place = f"{self._where}: character {self._before + self._at}"
            raise DataError(f"{place}: expected {listed}, got {got}")
        self._at += len(found)
        return found

    def name(self) -> str:
        """The next name of the object."""
        self.expect('"')
        found: str = self._taken(lambda text, at: scanstring(text, at, True), "")
        return found

    def value(self, name: str) -> Any:
        """The next value."""
        self.peek()
        return self._taken(_DECODER.raw_decode, f" item {name!r}:")

    def _taken(self, decode: Callable[[str, int], tuple[Any, int]], item: str) -> Any:
        self._size = CHUNK
        while True:
            try:
                value, end = decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # Cut off by the end of the window, not wrong: read on and try again.
                cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - 16
                if cut and self._more():
                    self._size *= 2
                    continue
                place = f"{self._where}:{item} not JSON at character {self._before + error.pos}"
                raise DataError(f"{place}: {error.msg}") from None
            except ValueError as error:
                raise DataError(f"{self._where}:{item} not JSON: {error}") from None
            except RecursionError:
                raise DataError(f"{self._where}:{item} not JSON: nested too deep") from None
            if end < len(self._text) or not self._more():
                self._at = end
                return value


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a file says about itself; None where it does not say."""

    types: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    silence: Mapping[str, Silence] = field(default_factory=dict)
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    holds: tuple[str, ...] = ()
    """What it holds though no sentence shows it."""

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any],
        where: str,
        *,
        types: str = "types",
        sources: str = "sources",
    ) -> Head:
        """The head in a JSON object; types and sources are its names for them."""
        silence, settings = values.get("silence") or {}, values.get("settings") or {}
        model = values.get("model")
        if not isinstance(silence, dict) or not all(
            isinstance(word, str) and word in SILENCES for word in silence.values()
        ):
            raise DataError(
                f"{where}: expected 'silence' as O or abstain by source, got {shown(silence)}"
            )
        if not isinstance(settings, dict):
            raise DataError(f"{where}: expected 'settings' as an object, got {shown(settings)}")
        if not isinstance(model, str | None):
            raise DataError(f"{where}: expected 'model' as a string, got {shown(model)}")
        kinds = names_in(values, types, where)
        if kinds is not None:
            checked_types(kinds, where)
        return cls(
            types=kinds,
            sources=names_in(values, sources, where),
            silence=silence,
            model=model,
            settings=settings,
            holds=names_in(values, "holds", where) or (),
        )

    def restored(self, content: Content) -> Content:
        """The content with those columns that it holds and that have nothing in them."""
        empty = np.zeros(0, np.float32)
        if isinstance(content, Predictions) and "scores" in self.holds and not len(content.spans):
            content = replace(content, scores=empty)
        if len(content) or not self.holds:
            return content
        if isinstance(content, Predictions) and "probabilities" in self.holds:
            content = replace(content, probabilities=empty.reshape(0, len(content.data.tags)))
        columns = {
            "gold": np.zeros(0, np.int16),
            "text": Text(Strings.of([]), np.zeros((0, 2), np.int32), np.zeros(0, np.int64)),
            "documents": Strings.of([]),
        }
        return with_data(content, **{name: columns[name] for name in _PARTS if name in self.holds})

    def silences(self, sources: Sequence[str], options: ReadOptions) -> tuple[Silence, ...]:
        """What silence means for each of these sources."""
        return tuple(options.silence or self.silence.get(name, "O") for name in sources)


_PARTS = ("gold", "text", "documents")


def heading(content: Content) -> dict[str, Any]:
    """The head of a file with this content, as `Head.of` reads it."""
    data = content.data if isinstance(content, Predictions) else content
    values: dict[str, Any] = {
        "types": list(data.tags.types),
        "sources": list(data.sources),
        "silence": dict(zip(data.sources, data.silence, strict=True)),
    }
    if isinstance(content, Predictions):
        values |= {"model": content.model, "settings": dict(content.settings)}
    hidden = [] if len(data) else [name for name in _PARTS if getattr(data, name) is not None]
    if isinstance(content, Predictions):
        if content.probabilities is not None and not len(data):
            hidden.append("probabilities")
        if content.scores is not None and not len(content.scores):
            hidden.append("scores")
    if hidden:
        values["holds"] = hidden
    return values


def with_data(content: Content, **changes: Any) -> Content:
    """The same content with some fields of its dataset replaced."""
    if isinstance(content, Predictions):
        return replace(content, data=replace(content.data, **changes))
    return replace(content, **changes)


def names_in(values: Mapping[str, Any], key: str, where: str) -> tuple[str, ...] | None:
    """The list of different names under a key; None if there is none."""
    names = values.get(key)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"{where}: expected {key!r} as a list of names, got {shown(names)}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where}: {key!r} names {twice!r} twice")
    return tuple(names)


def checked_types(types: Sequence[str], where: str) -> TagSet:
    """The tag set of these types, or an error that says where they come from."""
    if not types:
        raise DataError(f"{where}: no entity types: none are named and none occur; give types=...")
    if len(types) > MOST_TYPES:
        raise DataError(f"{where}: expected at most {MOST_TYPES} entity types, got {len(types)}")
    try:
        return TagSet(tuple(types))
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def chosen(
    known: Sequence[str],
    options: ReadOptions,
    where: str,
    recommended: Sequence[str] | None = None,
) -> list[int]:
    """Positions of the sources that the options ask for, in the order asked for."""
    names: Sequence[str] = options.sources
    if isinstance(names, str):
        names = recommended if names == "recommended" and recommended is not None else known
    for name in names:
        if name not in known:
            raise UnknownNameError(f"{where}: {unknown_name('source', name, known)}")
    return [list(known).index(name) for name in names]


class Evenness:
    """Holds that what one record has, all have."""

    def __init__(self) -> None:
        self._has: dict[str, bool] = {}

    def __call__(self, key: str, present: bool, where: str) -> bool:
        """Whether the key is present, the same for all records."""
        if self._has.setdefault(key, present) != present:
            what = "expected none, as before, got one" if present else "expected one, got none"
            raise DataError(f"{where}: {key!r} in some places but not in all: {what}")
        return present

    def has(self, key: str) -> bool:
        """Whether the records have it; False if there were none."""
        return self._has.get(key, False)


def shortest(values: NDArray[np.float32]) -> list[Any]:
    """The numbers with no more digits than tell them from other 32-bit numbers.

    >>> shortest(np.array([0.1, 1], np.float32))
    [0.1, 1.0]
    """
    if not np.isfinite(values).all():
        raise FormatError("a score or probability that is not a finite number cannot be written")
    found: list[Any] = values.astype(np.float32).astype("U32").astype(np.float64).tolist()
    return found


def score_tails(predictions: Predictions) -> Iterator[tuple[float, ...]]:
    """For each span the end of its row: its score, or nothing where there are no scores."""
    scores = predictions.spans.score
    return repeat(()) if scores is None else ((score,) for score in shortest(scores))


def spans_in(value: object, where: str, what: str) -> Iterator[tuple[int, int, str, float]]:
    """The spans [start, end, type] or [start, end, type, score] of a list; no score is NaN."""
    if not isinstance(value, list):
        raise DataError(f"{where}: expected a list of spans of {what}, got {shown(value)}")
    for item in value:
        if (
            not isinstance(item, list)
            or len(item) not in (3, 4)
            or type(item[0]) is not int
            or type(item[1]) is not int
            or not isinstance(item[2], str)
        ):
            raise DataError(
                f"{where}: expected a span [start, end, type] of {what}, got {shown(item)}"
            )
        yield item[0], item[1], item[2], finite(item[3], where) if len(item) == 4 else np.nan


def finite(value: object, where: str) -> float:
    """A number that fits 32 bits."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 3e38:
        return float(value)
    raise DataError(f"{where}: expected a score, got {shown(value)}")


def char_pairs(value: object, tokens: int, text: str, where: str) -> NDArray[np.int32]:
    """Start and end of each token in its text.  -> (T, 2)"""
    if (
        not isinstance(value, list)
        or len(value) != tokens
        or not all(
            isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is type(pair[1]) is int
            for pair in value
        )
    ):
        raise DataError(
            f"{where}: expected a [start, end] for each of {tokens} tokens, got {shown(value)}"
        )
    for start, end in value:
        if not 0 <= start <= end <= len(text):
            raise DataError(
                f"{where}: token at {start}-{end} is not a range of the text's "
                f"{len(text)} characters"
            )
    return np.array(value, np.int32).reshape(-1, 2)


class Probabilities:
    """Collects one row of probabilities per token."""

    def __init__(self) -> None:
        self._values = array("f")
        self._width = -1

    def extend(self, rows: object, tokens: int, where: str) -> None:
        """Add the rows of a sentence."""
        if not isinstance(rows, list) or len(rows) != tokens:
            raise DataError(
                f"{where}: expected probabilities of {tokens} tokens, got {shown(rows)}"
            )
        for row in rows:
            if not isinstance(row, list) or not {float, int} >= set(map(type, row)):
                raise DataError(f"{where}: expected a row of probabilities, got {shown(row)}")
            self._width = len(row) if self._width < 0 else self._width
            if len(row) != self._width:
                raise DataError(
                    f"{where}: expected {self._width} probabilities for a token, got {len(row)}"
                )
            for value in row:
                self._values.append(finite(value, where))

    def matrix(
        self, own: Sequence[str] | None, types: Sequence[str], where: str
    ) -> NDArray[np.float32]:
        """The rows with one column per label of `types`; the file's columns follow its own."""
        own = types if own is None else own
        size = 2 * len(own) + 1
        if self._width not in (-1, size):
            raise DataError(
                f"{where}: expected {size} probabilities for a token, got {self._width}"
            )
        left = [name for name in own if name not in types]
        if left:
            raise DataError(f"{where}: has probabilities of {left[0]!r}, which types= leaves out")
        given = np.array(self._values, np.float32).reshape(-1, size)
        found = np.zeros((len(given), 2 * len(types) + 1), np.float32)
        tags = TagSet(tuple(types))
        found[:, 0] = given[:, 0]
        for column, name in enumerate(own):
            target = 2 * tags.type_number(name)
            found[:, target + 1 : target + 3] = given[:, 2 * column + 1 : 2 * column + 3]
        return found


class TagRows(dict[str, int]):
    r"""Rows of tags, each different one kept once: `rows["O\0B-PER"]` is the row's number.

    A row is its tags with NUL between them. `labels` turns a column back into label ids. Rows
    repeat heavily, so reading costs about one look-up per token.

    columns  the names of the columns, for messages
    types    the entity types, if they are known beforehand
    abstain  what stands for abstain, in columns before `voting`

    >>> rows = TagRows(("a", "gold"), None, abstain=("-",), voting=1)
    >>> [rows["-\0O"], rows["S-PER\0B-PER"], rows["-\0O"]]
    [0, 1, 0]
    >>> list(rows.types)
    ['PER']
    """

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str] | None,
        *,
        abstain: Sequence[str] = (),
        voting: int = 0,
    ) -> None:
        super().__init__()
        self.columns, self._voting = tuple(columns), voting
        self._fixed = types is not None
        self.types = {name: position for position, name in enumerate(types or ())}
        self._abstain = frozenset(abstain)
        self._codes: dict[str, int] = {}
        self._table, self._places, self._kinds = array("i"), array("b"), array("h")

    def __missing__(self, key: str) -> int:
        row = key.split("\0") if self.columns else []
        if len(row) != len(self.columns):
            raise DataError(f"expected {len(self.columns)} tags, got {len(row)}")
        codes = [self._code(tag, column) for column, tag in enumerate(row)]
        self._table.extend(codes)
        self[key] = len(self)
        return len(self) - 1

    def _code(self, tag: str, column: int) -> int:
        if tag in self._abstain and column >= self._voting:
            raise DataError(f"expected a tag of {self.columns[column]}, got {tag!r}")
        if tag not in self._codes:
            place, kind = (Place.ABSTAIN, 0) if tag in self._abstain else self._spelled(tag, column)
            self._codes[tag] = len(self._codes)
            self._places.append(place)
            self._kinds.append(kind)
        return self._codes[tag]

    def _spelled(self, tag: str, column: int) -> tuple[Place, int]:
        place, name = parse_tag(tag)
        if place is Place.OUTSIDE:
            return place, 0
        if name not in self.types:
            if self._fixed:
                raise DataError(
                    f"{unknown_name('entity type', name, self.types)} ({self.columns[column]})"
                )
            checked_types([name], repr(tag))
            if len(self.types) == MOST_TYPES:
                raise DataError(f"expected at most {MOST_TYPES} entity types, got another: {tag!r}")
            self.types[name] = len(self.types)
        return place, self.types[name]

    def labels(
        self,
        column: int,
        numbers: NDArray[np.int32],
        offsets: NDArray[np.int64],
        tags: TagSet,
        *,
        policy: Repair,
        place: Callable[[int], str],
        report: Report,
    ) -> NDArray[np.int16]:
        """Label ids of one column: numbers (N,) of the tokens' rows, offsets (M+1,).  -> (N,)

        Illegal tags are settled by the policy and noted; `place` names the place of a token.
        """
        width = len(self.columns)
        codes = np.array(self._table, np.int32).reshape(-1, width)[:, column]
        order = np.array([tags.type_number(name) for name in self.types] or [0], np.int16)
        places = np.array(self._places, np.int8)[codes]
        kinds = order[np.array(self._kinds, np.int16)][codes]
        refuse = policy == "error"
        labels, illegal = bio_labels(
            places[numbers], kinds[numbers], offsets, "begin" if refuse else policy
        )
        spelled = list(self._codes)
        done = "dropped with what it belongs to" if policy == "drop" else "taken as a span's part"
        for token in illegal[:LISTED].tolist():
            tag = spelled[codes[numbers[token]]]
            if refuse:
                raise DataError(
                    f"{place(token)}: illegal tag {tag!r} of {self.columns[column]} "
                    f"({len(illegal)} in all)"
                )
            report.add("illegal tag", place(token), self.columns[column], f"{tag} {done}")
        if len(illegal) > LISTED:
            where = place(int(illegal[LISTED]))
            more = f"{len(illegal) - LISTED} more from here on {done}"
            report.add("illegal tag", where, self.columns[column], more)
        return labels
