"""Statistics of the data sets, and how good each source is on test, beside the paper's tables."""

from __future__ import annotations

import sys

import convener as cv
from benchmarks import pages
from benchmarks.jobs import Options, splits
from benchmarks.paper import figures


def page(options: Options) -> None:
    """Part `statistics`: no fits."""
    blocks: list[pages.Block] = [_statistics(options)]
    for data in options.data:
        table, line = _sources(data)
        blocks += [table, line]
    print("OntoNotes: not to be had here; skipped", file=sys.stderr)
    pages.write("paper/statistics", "Data sets and their sources", blocks)


def _statistics(options: Options) -> cv.Table:
    """Sizes; the paper's in brackets."""
    rows = []
    for data in options.data:
        parts = splits(data)
        sizes = [*map(len, parts), len(parts.train.tags.types), len(parts.train.sources)]
        theirs = figures.STATISTICS[data]
        cells = [f"{ours:,} ({paper:,})" for ours, paper in zip(sizes, theirs, strict=True)]
        tokens = [len(part.tokens) for part in parts]
        rows.append((data, *cells, *tokens))
    return cv.Table(
        title="Statistics; in brackets the paper's",
        columns=(
            *("data", "train", "valid", "test", "entity types", "sources"),
            *("train tokens", "valid tokens", "test tokens"),
        ),
        rows=rows,
        notes=(
            "CoNLL comes without its training file here: train is the first 80 % of its validation "
            "file, valid the rest. NCBI-Disease and BC5CDR count abstracts.",
        ),
    )


def _sources(data: str) -> tuple[cv.Table, str]:
    """Precision, recall and F1 of every source, and whether they are the paper's."""
    rows, differ = [], []
    paper = figures.SOURCES[data]
    for source in cv.analyze(splits(data).test).sources:
        score = source.score
        ours = [100 * value for value in (score.precision, score.recall, score.f1)]
        theirs = paper.get(source.name, (None, None, None))
        rows.append((source.name, *ours, *theirs, source.types))
        if [f"{value:.2f}" for value in ours] != [f"{value or 0:.2f}" for value in theirs]:
            differ.append(source.name)
    absent = sorted(set(paper) - {row[0] for row in rows})
    columns = ("precision", "recall", "F1")
    theirs = tuple(f"paper {name}" for name in columns)
    table = cv.Table(
        title=f"Sources of {data}, on test",
        columns=("source", *columns, *theirs, "types"),
        rows=rows,
        formats=dict.fromkeys((*columns, *theirs), ".2f"),
    )
    said = f"differ: {', '.join(differ)}" if differ else "all are the paper's, to the last digit"
    return table, f"{data}: {said}" + (f"; not here: {', '.join(absent)}" if absent else "") + "."
