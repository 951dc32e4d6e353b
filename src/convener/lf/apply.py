"""Labeling functions become columns of votes."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from convener import progress, storage
from convener.data.coarse import CoarseSpec
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.spans import Spans
from convener.data.tables import Table
from convener.data.tags import ABSTAIN, TagSet
from convener.errors import ConfigError, ConvenerWarning, DataError, unknown_name_message
from convener.lf import cache as caches
from convener.lf import workers
from convener.lf.cache import VoteColumn
from convener.lf.doc import Docs, Scope
from convener.lf.fingerprint import NotFingerprintable
from convener.lf.function import LabelingFunction
from convener.lf.validation import INVALID
from convener.lf.workers import FAILURES, ChunkResult, Task, TaskRunner


def build_column(function: LabelingFunction, docs: Docs, chunks: Iterable[ChunkResult]) -> VoteColumn:
    """One label of the function's own types for each token of the dataset."""
    chunks = sorted(chunks, key=lambda chunk: chunk.start)
    spans = np.concatenate([np.zeros((0, 4), np.int64), *(piece.spans for piece in chunks)])
    abstained = np.zeros(len(docs), bool)
    for piece in chunks:
        abstained[piece.abstained] = True
    labels = TagSet(function.labels).labels(Spans.from_array(spans), docs.offsets)
    labels[np.repeat(abstained, np.diff(docs.offsets))] = ABSTAIN
    if docs.token_order is not None:
        reordered = np.empty_like(labels)
        reordered[docs.token_order] = labels
        labels = reordered
    return VoteColumn(labels, tuple(issue for piece in chunks for issue in piece.issues))


ISSUE_KINDS = (INVALID, "misaligned", "overlap", *FAILURES)
"""What is counted of every function; others are counted where they occur."""


@dataclass(frozen=True, kw_only=True)
class LFStats:
    """How one function fared."""

    name: str
    num_spans: int
    abstained_texts: int
    """Texts on which it abstains."""
    seconds: float | None
    """Time it took, of all processes together; None where it did not run."""
    status: str
    """Whether it ran, and if it was not kept, why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ApplyResult:
    """The votes of labeling functions, and a report of what happened."""

    data: Dataset
    stats: Sequence[LFStats]
    issues: Issues
    """Every span that was mended or left out, every failure: with its place and function."""

    def table(self) -> Table:
        """One row a function: what it marked, and how often what happened."""
        counts = Counter((issue.source, issue.kind) for issue in self.issues)
        kinds = [*ISSUE_KINDS, *sorted({kind for _, kind in counts} - set(ISSUE_KINDS))]
        return Table(
            title=f"Labeling functions on {len(self.data):,} sentences",
            columns=("function", "spans", "abstains", *kinds, "seconds", "how"),
            rows=[
                (
                    entry.name,
                    entry.num_spans,
                    entry.abstained_texts,
                    *(counts[entry.name, kind] for kind in kinds),
                    entry.seconds,
                    entry.status,
                )
                for entry in self.stats
            ],
            formats={"seconds": ".2f"},
        )

    def __str__(self) -> str:
        return str(self.table())


OnError = Literal["report", "raise"]
Functions = Sequence[LabelingFunction]
D = TypeVar("D", Dataset, Corpus)


def apply_lfs(
    lfs: Functions,
    data: D,
    *,
    num_workers: int = 1,
    timeout: float | None = None,
    on_error: OnError = "report",
    cache: str | Path | bool = True,
    keep_sources: bool = False,
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
    >>> apply_lfs([shouting], data).votes.tolist()
    [[1], [0]]
    """
    options = ApplyOptions(num_workers, timeout, on_error, cache, keep_sources)
    if isinstance(data, Corpus):
        results = {name: apply_with_report(lfs, dataset, options) for name, dataset in data.splits.items()}
        for result in results.values():
            result.issues.warn()
        return Corpus(splits={name: result.data for name, result in results.items()})
    result = apply_with_report(lfs, data, options)
    result.issues.warn()
    return result.data


@dataclass(frozen=True)
class ApplyOptions:
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


def apply_with_report(lfs: Functions, data: Dataset, options: ApplyOptions | None = None) -> ApplyResult:
    """The votes of all functions, and a report of what happened."""
    options = options or ApplyOptions()
    lfs = _check_functions(lfs)
    data = _with_types(lfs, data)
    docs_by_scope = {scope: Docs.from_dataset(data, scope) for scope in dict.fromkeys(item.scope for item in lfs)}
    if "document" in docs_by_scope and data.doc_ids is None:
        lf_name = next(item.name for item in lfs if item.scope == "document")
        warnings.warn(
            f"{lf_name} sees documents, but the data names none: each sentence is taken for one",
            ConvenerWarning,
            stacklevel=3,
        )
    cache_paths, statuses = _cache_paths(lfs, data, options.cache)
    columns = {
        number: column
        for number, path in cache_paths.items()
        if (column := caches.load_column(path, len(data.tokens))) is not None
    }
    statuses |= dict.fromkeys(columns, "from the cache")
    missing = [number for number in range(len(lfs)) if number not in columns]
    seconds = dict.fromkeys(missing, 0.0)
    # What is done is kept before functions with a device or a connection begin, one by one.
    batches = [[number for number in missing if not lfs[number].in_main_process]]
    batches += [[number] for number in missing if lfs[number].in_main_process]
    for indices in batches:
        for number, chunks in _run_functions(lfs, docs_by_scope, indices, options).items():
            columns[number] = build_column(lfs[number], docs_by_scope[lfs[number].scope], chunks)
            seconds[number] = sum(chunk.seconds for chunk in chunks)
            if any(issue.kind in FAILURES for issue in columns[number].issues):
                statuses.setdefault(number, "not kept: it failed")
            elif number in cache_paths:
                caches.save_column(cache_paths[number], lfs[number].name, columns[number])
    return _build_result(lfs, data, docs_by_scope, columns, seconds, statuses, options)


def _check_functions(functions: Functions) -> list[LabelingFunction]:
    if isinstance(functions, LabelingFunction):
        raise ConfigError(f"expected a list of labeling functions, got {functions!r} alone")
    for function in functions:
        if not isinstance(function, LabelingFunction):
            raise ConfigError(f"expected labeling functions, got {function!r}; see @labeling_function")
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
    types, coarse = data.tags.types, _merge_coarse(functions)
    labels = dict.fromkeys(label for item in functions for label in item.labels)
    fine = [label for label in labels if label not in coarse]
    for function in functions:
        for label in function.labels:
            if label not in (*types, *coarse) and (data.gold is not None or data.sources):
                problem = unknown_name_message("entity type", label, types)
                raise DataError(f"labeling function {function.name}: {problem}")
    data = data if set(fine) <= set(types) else data.with_types(fine)
    return data.with_coarse(coarse)


def _merge_coarse(functions: Functions) -> dict[str, CoarseSpec]:
    """What all coarse labels of the functions allow."""
    merged: dict[str, CoarseSpec] = {}
    for function in functions:
        for name, spec in function.coarse.items():
            if merged.setdefault(name, spec) != spec:
                raise ConfigError(
                    f"labeling function {function.name}: coarse label {name!r} allows {spec!r}, "
                    f"but {merged[name]!r} elsewhere"
                )
    return merged


def _cache_paths(
    functions: Functions, data: Dataset, cache: str | Path | bool
) -> tuple[dict[int, Path], dict[int, str]]:
    """Where columns are kept, by the number of the function, and why others are not."""
    cache_dir = storage.resolve_cache_dir(cache)
    if cache_dir is None:
        return {}, {}
    data_digest = caches.dataset_digest(data)
    paths, reasons = {}, {}
    for number, function in enumerate(functions):
        try:
            paths[number] = caches.column_path(cache_dir, function.fingerprint(), data_digest)
        except NotFingerprintable as error:
            reasons[number] = f"not kept: {error}"
    return paths, reasons


def _run_functions(
    functions: list[LabelingFunction],
    docs_by_scope: Mapping[Scope, Docs],
    indices: list[int],
    options: ApplyOptions,
) -> dict[int, list[ChunkResult]]:
    """What the wanted functions say, piece by piece."""
    chunks: dict[int, list[ChunkResult]] = {number: [] for number in indices}
    runner = TaskRunner(functions, docs_by_scope)
    # By shard, not by function: a worker keeps the views of its last texts.
    tasks = sorted(
        (Task(number, *shard) for number in indices for shard in docs_by_scope[functions[number].scope].shards()),
        key=lambda task: (task.start, task.stop),
    )
    offsets_by_scope = {scope: docs.offsets for scope, docs in docs_by_scope.items()}
    total = sum(int(offsets_by_scope[functions[number].scope][-1]) for number in indices)
    in_main_process = all(functions[number].in_main_process for number in indices)
    results = _run_tasks(runner, tasks, ApplyOptions() if in_main_process else options)
    # Closed whatever happens, so that no process is left.
    with (
        progress.progress_bar("applying", total, unit="tokens") as advance,
        closing(results) as chunk_results,
    ):
        for chunk in chunk_results:
            function = functions[chunk.lf_index]
            failed = [issue for issue in chunk.issues if issue.kind in FAILURES]
            if failed and options.on_error == "raise":
                doc_index, kind, detail = failed[0]
                location = docs_by_scope[function.scope].location(doc_index)
                raise DataError(f"labeling function {function.name}: {location}: {kind}: {detail}")
            chunks[chunk.lf_index].append(chunk)
            offsets = offsets_by_scope[function.scope]
            advance(function.name, by=int(offsets[chunk.stop] - offsets[chunk.start]))
    return chunks


def _run_tasks(runner: TaskRunner, tasks: list[Task], options: ApplyOptions) -> Generator[ChunkResult, None, None]:
    """The pieces of all jobs, from workers if there are to be several or a limit of time."""
    limited = options.workers > 1 or options.seconds is not None
    if limited and workers.can_fork():
        yield from workers.run_tasks(runner, tasks, num_workers=options.workers, timeout=options.seconds)
        return
    if limited:
        warnings.warn(
            "this system cannot fork processes: one worker, and no limit of time",
            ConvenerWarning,
            stacklevel=5,
        )
    yield from map(runner.run, tasks)


def _build_result(
    functions: list[LabelingFunction],
    data: Dataset,
    docs_by_scope: Mapping[Scope, Docs],
    columns: dict[int, VoteColumn],
    seconds: dict[int, float],
    statuses: dict[int, str],
    options: ApplyOptions,
) -> ApplyResult:
    issues, stats = Issues(), []
    votes = np.empty((len(data.tokens), len(functions)), np.int16)
    for number, function in enumerate(functions):
        docs, column, tags = docs_by_scope[function.scope], columns[number], TagSet(function.labels)
        votes[:, number] = tags.remap(column.labels, data.tags)
        for issue in column.issues:
            issues.add(issue.kind, docs.location(issue.doc_index), function.name, issue.detail)
        stats.append(
            LFStats(
                name=function.name,
                num_spans=column.num_spans,
                abstained_texts=column.count_abstained(docs),
                seconds=seconds.get(number),
                status=statuses.get(number, "ran"),
            )
        )
    names = tuple(function.name for function in functions)
    silence = tuple(function.on_silence for function in functions)
    precision = tuple(function.prior_precision for function in functions)
    if options.keep:
        names, silence = (*data.sources, *names), (*data.silence, *silence)
        precision = (*data.prior_precision, *precision)
        votes = np.concatenate([data.votes, votes], axis=1)
    voted = data.with_sources(names, votes, silence, precision)
    return ApplyResult(data=voted, stats=stats, issues=issues)
