"""Statistics of the data sets and scores of the sources on test, compared with the paper's tables."""

from __future__ import annotations

import sys

import convener as cv
from benchmarks.harness.data import splits
from benchmarks.harness.jobs import Options
from benchmarks.harness.results import Block
from benchmarks.paper import published


def page(options: Options) -> None:
    """Part `statistics`: no fits."""
    blocks: list[Block] = [_statistics(options)]
    for data in options.data:
        table, line = _sources(data)
        blocks += [table, line]
    print("OntoNotes: not available here; skipped", file=sys.stderr)
    options.write_page("paper/statistics", "Data sets and their sources", blocks)


def _statistics(options: Options) -> cv.Table:
    """Sizes; the paper's in parentheses."""
    rows = []
    for data in options.data:
        parts = splits(data)
        sizes = [*map(len, parts), len(parts.train.tags.types), len(parts.train.sources)]
        theirs = published.STATISTICS.get(data)
        cells = [f"{size:,}" + (f" ({theirs[n]:,})" if theirs else "") for n, size in enumerate(sizes)]
        tokens = [len(part.tokens) for part in parts]
        rows.append((data, *cells, *tokens))
    return cv.Table(
        title="Statistics; in parentheses the paper's",
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
    """Precision, recall and F1 of every source, and whether they equal the paper's."""
    rows, differ = [], []
    paper = published.SOURCES.get(data, {})
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
    if not paper:
        return table, f"{data} is not in the paper."
    line = f"different: {', '.join(differ)}" if differ else "all scores equal the paper's to the last digit"
    return table, f"{data}: {line}" + (f"; missing here: {', '.join(absent)}" if absent else "") + "."
