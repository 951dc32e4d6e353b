"""Labeling functions become columns of votes."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from convener import caching, progress
from convener.coarse import Meaning
from convener.corpus import Corpus
from convener.data import Dataset
from convener.errors import ConfigError, ConvenerWarning, DataError, unknown_name
from convener.io.report import Report
from convener.lf import cache as caches
from convener.lf import crew
from convener.lf.columns import Column, column_of
from convener.lf.function import LabelingFunction, Scope
from convener.lf.report import Applied, Run
from convener.lf.texts import Texts
from convener.lf.version import Unversioned
from convener.lf.work import FAILURES, Job, Piece, Worker
from convener.tags import TagSet

OnError = Literal["report", "raise"]
Functions = Sequence[LabelingFunction]
D = TypeVar("D", Dataset, Corpus)


def apply(
    functions: Functions,
    data: D,
    *,
    workers: int = 1,
    seconds: float | None = None,
    on_error: OnError = "report",
    cache: str | Path | bool = True,
    keep: bool = False,
) -> D:
    """The same text with one source for each function; a corpus split by split.

    workers   processes to share the work; the votes are the same for any number of them
    seconds   longest time for one text: beyond it a function is stopped and abstains there
    on_error  "report": a function that fails abstains on that text, and that is noted; "raise"
    cache     a folder instead of the usual one; False to keep nothing on disk
    keep      keep the sources that the data has, too

    What had to be mended, left out or given up is said as a warning; `applied` gives the report.

    >>> from convener.lf import labeling_function
    >>> @labeling_function(["ORG"])
    ... def shouting(words):
    ...     return ((i, i + 1, "ORG") for i, word in enumerate(words) if word.isupper())
    >>> data = Dataset.from_spans(["ORG"], [["NASA", "flew"]], {})
    >>> apply([shouting], data).votes.tolist()
    [[1], [0]]
    """
    settings = Settings(workers, seconds, on_error, cache, keep)
    if isinstance(data, Corpus):
        found = {name: applied(functions, part, settings) for name, part in data.splits.items()}
        for result in found.values():
            result.report.warn()
        return Corpus(splits={name: result.data for name, result in found.items()})
    result = applied(functions, data, settings)
    result.report.warn()
    return result.data


@dataclass(frozen=True)
class Settings:
    """How functions are applied; see `apply`."""

    workers: int = 1
    seconds: float | None = None
    on_error: OnError = "report"
    cache: str | Path | bool = True
    keep: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"workers must be at least 1, got {self.workers}")
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigError(f"seconds must be positive, got {self.seconds}")
        if self.on_error not in ("report", "raise"):
            raise ConfigError(f"on_error must be report or raise, got {self.on_error!r}")


def applied(functions: Functions, data: Dataset, settings: Settings | None = None) -> Applied:
    """The votes of all functions, and a report of what happened."""
    settings = settings or Settings()
    functions = _checked(functions)
    data = _with_types(functions, data)
    texts = {
        scope: Texts.of(data, scope) for scope in dict.fromkeys(item.scope for item in functions)
    }
    if "document" in texts and data.documents is None:
        named = next(item.name for item in functions if item.scope == "document")
        warnings.warn(
            f"{named} sees documents, but the data names none: each sentence is taken for one",
            ConvenerWarning,
            stacklevel=3,
        )
    places, hows = _places(functions, data, settings.cache)
    columns = {
        number: column
        for number, path in places.items()
        if (column := caches.kept(path, len(data.tokens))) is not None
    }
    hows |= dict.fromkeys(columns, "from the cache")
    missing = [number for number in range(len(functions)) if number not in columns]
    seconds = dict.fromkeys(missing, 0.0)
    # What is done is kept before functions with a device or a connection begin, one by one.
    rounds = [[number for number in missing if not functions[number].alone]]
    rounds += [[number] for number in missing if functions[number].alone]
    for wanted in rounds:
        for number, found in _found(functions, texts, wanted, settings).items():
            columns[number] = column_of(functions[number], texts[functions[number].scope], found)
            seconds[number] = sum(piece.seconds for piece in found)
            if any(event.kind in FAILURES for event in columns[number].events):
                hows.setdefault(number, "not kept: it failed")
            elif number in places:
                caches.keep(places[number], functions[number].name, columns[number])
    return _joined(functions, data, texts, columns, seconds, hows, settings)


def _checked(functions: Functions) -> list[LabelingFunction]:
    if isinstance(functions, LabelingFunction):
        raise ConfigError(f"expected a list of labeling functions, got {functions!r} alone")
    for function in functions:
        if not isinstance(function, LabelingFunction):
            raise ConfigError(
                f"expected labeling functions, got {function!r}; see @labeling_function"
            )
    names = [function.name for function in functions]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"labeling functions must have different names, got {name!r} twice")
    return list(functions)


def _with_types(functions: Functions, data: Dataset) -> Dataset:
    """The data with types for all labels: its own, or those of the functions if it has no labels.

    Where gold or sources use its types, another label is an error: it may be a slip. Coarse labels
    are added.
    """
    types, coarse = data.tags.types, _coarse(functions)
    labels = dict.fromkeys(label for item in functions for label in item.labels)
    fine = [label for label in labels if label not in coarse]
    for function in functions:
        for label in function.labels:
            if label not in (*types, *coarse) and (data.gold is not None or data.sources):
                problem = unknown_name("entity type", label, types)
                raise DataError(f"labeling function {function.name}: {problem}")
    data = data if set(fine) <= set(types) else data.with_types(fine)
    return data.with_coarse(coarse)


def _coarse(functions: Functions) -> dict[str, Meaning]:
    """What all coarse labels of the functions allow."""
    found: dict[str, Meaning] = {}
    for function in functions:
        for name, meant in function.coarse.items():
            if found.setdefault(name, meant) != meant:
                raise ConfigError(
                    f"labeling function {function.name}: coarse label {name!r} allows {meant!r}, "
                    f"but {found[name]!r} elsewhere"
                )
    return found


def _places(
    functions: Functions, data: Dataset, cache: str | Path | bool
) -> tuple[dict[int, Path], dict[int, str]]:
    """Where columns are kept, by the number of the function, and why others are not."""
    folder = caching.chosen(cache)
    if folder is None:
        return {}, {}
    corpus = caches.corpus_digest(data)
    places, hows = {}, {}
    for number, function in enumerate(functions):
        try:
            places[number] = caches.place_of(folder, function.digest(), corpus)
        except Unversioned as error:
            hows[number] = f"not kept: {error}"
    return places, hows


def _found(
    functions: list[LabelingFunction],
    texts: Mapping[Scope, Texts],
    wanted: list[int],
    settings: Settings,
) -> dict[int, list[Piece]]:
    """What the wanted functions say, piece by piece."""
    found: dict[int, list[Piece]] = {number: [] for number in wanted}
    worker = Worker(functions, texts)
    # By shard, not by function: a worker keeps the views of its last texts.
    jobs = sorted(
        (
            Job(number, *shard)
            for number in wanted
            for shard in texts[functions[number].scope].shards()
        ),
        key=lambda job: (job.start, job.stop),
    )
    sizes = {scope: some.offsets for scope, some in texts.items()}
    total = sum(int(sizes[functions[number].scope][-1]) for number in wanted)
    here = all(functions[number].alone for number in wanted)
    work = _pieces(worker, jobs, Settings() if here else settings)
    # Closed whatever happens, so that no process is left.
    with progress.bar("applying", total, unit="tokens") as advance, closing(work) as pieces:
        for piece in pieces:
            function = functions[piece.function]
            failed = [event for event in piece.events if event.kind in FAILURES]
            if failed and settings.on_error == "raise":
                text, kind, detail = failed[0]
                where = texts[function.scope].where(text)
                raise DataError(f"labeling function {function.name}: {where}: {kind}: {detail}")
            found[piece.function].append(piece)
            offsets = sizes[function.scope]
            advance(function.name, by=int(offsets[piece.stop] - offsets[piece.start]))
    return found


def _pieces(worker: Worker, jobs: list[Job], settings: Settings) -> Generator[Piece, None, None]:
    """The pieces of all jobs, from workers if there are to be several or a limit of time."""
    limited = settings.workers > 1 or settings.seconds is not None
    if limited and crew.can_fork():
        yield from crew.pieces(worker, jobs, workers=settings.workers, seconds=settings.seconds)
        return
    if limited:
        warnings.warn(
            "this system cannot fork processes: one worker, and no limit of time",
            ConvenerWarning,
            stacklevel=5,
        )
    yield from map(worker.done, jobs)


def _joined(
    functions: list[LabelingFunction],
    data: Dataset,
    texts: Mapping[Scope, Texts],
    columns: dict[int, Column],
    seconds: dict[int, float],
    hows: dict[int, str],
    settings: Settings,
) -> Applied:
    report, runs = Report(), []
    votes = np.empty((len(data.tokens), len(functions)), np.int16)
    for number, function in enumerate(functions):
        some, column, tags = texts[function.scope], columns[number], TagSet(function.labels)
        votes[:, number] = tags.translate(column.labels, data.tags)
        for event in column.events:
            report.add(event.kind, some.where(event.text), function.name, event.detail)
        runs.append(
            Run(
                name=function.name,
                spans=column.spans,
                abstains=column.abstains(some),
                seconds=seconds.get(number),
                how=hows.get(number, "ran"),
            )
        )
    names = tuple(function.name for function in functions)
    silence = tuple(function.on_silence for function in functions)
    precision = tuple(function.precision for function in functions)
    if settings.keep:
        names, silence = (*data.sources, *names), (*data.silence, *silence)
        precision = (*data.precision, *precision)
        votes = np.concatenate([data.votes, votes], axis=1)
    voted = data.with_sources(names, votes, silence, precision)
    return Applied(data=voted, runs=runs, report=report)
