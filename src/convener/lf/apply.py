"""Apply labeling functions to a dataset: one column of votes per function."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args

import numpy as np

from convener import progress
from convener.cache import resolve_cache_dir
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

OnError = Literal["abstain", "raise"]
Functions = Sequence[LabelingFunction]
D = TypeVar("D", Dataset, Corpus)
ISSUE_KINDS = (INVALID, "misaligned", "overlap", *FAILURES)
"""Kinds of issues that the table always shows; other kinds are shown where they occur."""


@dataclass(frozen=True)
class ApplyOptions:
    """Options of `apply_with_report`; `apply_lfs` describes them."""

    num_workers: int = 1
    timeout: float | None = None
    on_error: OnError = "abstain"
    cache: str | Path | bool = True
    keep_sources: bool = False

    def __post_init__(self) -> None:
        if self.num_workers < 1:
            raise ConfigError(f"num_workers must be at least 1, got {self.num_workers}")
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"timeout must be positive, got {self.timeout}")
        if self.on_error not in get_args(OnError):
            raise ConfigError(f"on_error must be abstain or raise, got {self.on_error!r}")


@dataclass(frozen=True, kw_only=True)
class LFStats:
    """Statistics of one labeling function."""

    name: str
    num_spans: int
    abstained_texts: int
    """Texts on which the function abstained."""
    seconds: float | None
    """Run time, summed over all processes; None if the function did not run."""
    status: str
    """Whether the votes were cached or computed and, if they were not stored, the reason."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ApplyResult:
    """The votes of labeling functions, with statistics and issues."""

    data: Dataset
    stats: Sequence[LFStats]
    issues: Issues
    """Every span that was adjusted or dropped and every failure, with location and function."""

    def table(self) -> Table:
        """Return one row per function: spans, abstentions, issues by kind, run time, status."""
        counts = Counter((issue.source, issue.kind) for issue in self.issues)
        kinds = [*ISSUE_KINDS, *sorted({kind for _, kind in counts} - set(ISSUE_KINDS))]
        return Table(
            title=f"Labeling functions on {len(self.data):,} sentences",
            columns=("function", "spans", "abstained texts", *kinds, "seconds", "status"),
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


def apply_lfs(
    lfs: Functions,
    data: D,
    *,
    num_workers: int = 1,
    timeout: float | None = None,
    on_error: OnError = "abstain",
    cache: str | Path | bool = True,
    keep_sources: bool = False,
) -> D:
    """Return the dataset, or each split of the corpus, with one source per labeling function.

    num_workers   number of processes; it does not change the votes
    timeout       time limit per text in seconds; a function that exceeds it abstains on that text
    on_error      "abstain": a function that raises abstains on that text and the error is reported;
                  "raise": the error is raised
    cache         cache folder; True uses the default folder, False stores nothing on disk
    keep_sources  keep the sources of the data as well

    Adjusted spans, dropped spans and failures are summarized in one warning;
    `apply_with_report` returns them in full.

    >>> from convener.lf import labeling_function
    >>> @labeling_function(["ORG"])
    ... def acronym(doc):
    ...     return ((i, i + 1, "ORG") for i, word in enumerate(doc) if word.isupper())
    >>> data = Dataset.from_spans(["ORG"], [["NASA", "flew"]], {})
    >>> apply_lfs([acronym], data).votes.tolist()
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


def apply_with_report(lfs: Functions, data: Dataset, options: ApplyOptions | None = None) -> ApplyResult:
    """Apply labeling functions and return the votes with statistics and issues."""
    options = options or ApplyOptions()
    lfs = _check_functions(lfs)
    data = _with_types(lfs, data)
    docs_by_scope = {scope: Docs.from_dataset(data, scope) for scope in dict.fromkeys(item.scope for item in lfs)}
    if "document" in docs_by_scope and data.doc_ids is None:
        lf_name = next(item.name for item in lfs if item.scope == "document")
        warnings.warn(
            f"{lf_name} has scope='document' but the data has no document ids; each sentence is treated as a document",
            ConvenerWarning,
            stacklevel=3,
        )
    cache_paths, statuses = _cache_paths(lfs, data, options.cache)
    columns = {
        number: column
        for number, path in cache_paths.items()
        if (column := caches.load_column(path, len(data.tokens))) is not None
    }
    statuses |= dict.fromkeys(columns, "cached")
    missing = [number for number in range(len(lfs)) if number not in columns]
    seconds = dict.fromkeys(missing, 0.0)
    # Functions of the main process (devices, connections) run last, one by one: the other columns are stored by then.
    batches = [[number for number in missing if not lfs[number].in_main_process]]
    batches += [[number] for number in missing if lfs[number].in_main_process]
    for indices in batches:
        for number, chunks in _run_functions(lfs, docs_by_scope, indices, options).items():
            columns[number] = build_column(lfs[number], docs_by_scope[lfs[number].scope], chunks)
            seconds[number] = sum(chunk.seconds for chunk in chunks)
            if any(issue.kind in FAILURES for issue in columns[number].issues):
                statuses.setdefault(number, "ran, not cached (failures)")
            elif number in cache_paths:
                caches.save_column(cache_paths[number], lfs[number].name, columns[number])
    return _build_result(lfs, data, docs_by_scope, columns, seconds, statuses, options)


def _check_functions(functions: Functions) -> list[LabelingFunction]:
    if isinstance(functions, LabelingFunction):
        raise ConfigError(f"expected a list of labeling functions, got a single one: {functions!r}")
    for function in functions:
        if not isinstance(function, LabelingFunction):
            raise ConfigError(f"expected labeling functions, got {function!r}; use @labeling_function")
    names = [function.name for function in functions]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"labeling functions must have unique names, got {name!r} twice")
    return list(functions)


def _with_types(functions: Functions, data: Dataset) -> Dataset:
    """Return the data with entity types for all labels of the functions.

    Data with gold or sources keeps its types, and an unknown label is an error: it may be a typo.
    Other data takes the types of the functions. Coarse labels are added.
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
    """Merge the coarse labels of all functions; conflicting definitions are an error."""
    merged: dict[str, CoarseSpec] = {}
    for function in functions:
        for name, spec in function.coarse.items():
            if merged.setdefault(name, spec) != spec:
                raise ConfigError(
                    f"labeling function {function.name}: coarse label {name!r} is {spec!r}, "
                    f"but another function defines it as {merged[name]!r}"
                )
    return merged


def _cache_paths(
    functions: Functions, data: Dataset, cache: str | Path | bool
) -> tuple[dict[int, Path], dict[int, str]]:
    """Return the cache path of each column by function index, and the reasons why others have none."""
    cache_dir = resolve_cache_dir(cache)
    if cache_dir is None:
        return {}, {}
    data_digest = caches.dataset_digest(data)
    paths, reasons = {}, {}
    for number, function in enumerate(functions):
        try:
            paths[number] = caches.column_path(cache_dir, function.fingerprint(), data_digest)
        except NotFingerprintable as error:
            reasons[number] = f"ran, not cached: {error}"
    return paths, reasons


def _run_functions(
    functions: list[LabelingFunction],
    docs_by_scope: Mapping[Scope, Docs],
    indices: list[int],
    options: ApplyOptions,
) -> dict[int, list[ChunkResult]]:
    """Run the functions with these indices and return their results in chunks."""
    chunks: dict[int, list[ChunkResult]] = {number: [] for number in indices}
    runner = TaskRunner(functions, docs_by_scope)
    # By shard, not by function: a worker keeps the documents of its last shard.
    tasks = sorted(
        (Task(number, *shard) for number in indices for shard in docs_by_scope[functions[number].scope].shards()),
        key=lambda task: (task.start, task.stop),
    )
    offsets_by_scope = {scope: docs.offsets for scope, docs in docs_by_scope.items()}
    total = sum(int(offsets_by_scope[functions[number].scope][-1]) for number in indices)
    in_main_process = all(functions[number].in_main_process for number in indices)
    results = _run_tasks(runner, tasks, ApplyOptions() if in_main_process else options)
    # Closed in any case, so that no worker process is left behind.
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
    """Yield the results of all tasks; worker processes serve several workers and time limits."""
    limited = options.num_workers > 1 or options.timeout is not None
    if limited and workers.can_fork():
        yield from workers.run_tasks(runner, tasks, num_workers=options.num_workers, timeout=options.timeout)
        return
    if limited:
        warnings.warn(
            "process forking is unavailable: using one process without a time limit",
            ConvenerWarning,
            stacklevel=5,
        )
    yield from map(runner.run, tasks)


def build_column(function: LabelingFunction, docs: Docs, chunks: Iterable[ChunkResult]) -> VoteColumn:
    """Assemble the results of all chunks into one label per token, over the function's own types."""
    chunks = sorted(chunks, key=lambda chunk: chunk.start)
    spans = np.concatenate([np.zeros((0, 4), np.int64), *(chunk.spans for chunk in chunks)])
    abstained = np.zeros(len(docs), bool)
    for chunk in chunks:
        abstained[chunk.abstained] = True
    labels = TagSet(function.labels).labels(Spans.from_array(spans), docs.offsets)
    labels[np.repeat(abstained, np.diff(docs.offsets))] = ABSTAIN
    if docs.token_order is not None:
        reordered = np.empty_like(labels)
        reordered[docs.token_order] = labels
        labels = reordered
    return VoteColumn(labels, tuple(issue for chunk in chunks for issue in chunk.issues))


def _build_result(
    functions: list[LabelingFunction],
    data: Dataset,
    docs_by_scope: Mapping[Scope, Docs],
    columns: dict[int, VoteColumn],
    seconds: dict[int, float],
    statuses: dict[int, str],
    options: ApplyOptions,
) -> ApplyResult:
    """Combine all columns into votes over the types of the data."""
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
    unmarked = tuple(function.unmarked for function in functions)
    precision = tuple(function.prior_precision for function in functions)
    if options.keep_sources:
        names, unmarked = (*data.sources, *names), (*data.unmarked, *unmarked)
        precision = (*data.prior_precision, *precision)
        votes = np.concatenate([data.votes, votes], axis=1)
    voted = data.with_sources(names, votes, unmarked, precision)
    return ApplyResult(data=voted, stats=stats, issues=issues)
