"""The figures of an account, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from convener.data import Dataset
from convener.evaluate import Calibration
from convener.insides import Floats
from convener.kernels.priors import move_counts
from convener.report.account import Account
from convener.report.figures import Diagram, Figure, Heat, Lines, Point, Range, Ranges, Scatter

MOST_LABELS = 11
"""With more labels, emissions are shown by type."""
STAGES = ("start", "final", "truth")


def reliability(account: Account) -> Ranges:
    """What each source is worth for each type, with the doubt about it."""
    return Ranges(
        title="F1 of each source, by type",
        says="Dots: F1 as the model sees it; lines: 95 % intervals"
        + ("; diamonds: true F1 by gold." if account.data.gold is not None else "."),
        x_title="F1",
        rows=[
            Range(
                item.source,
                item.type,
                *_ends(item.f1),
                None if item.true is None else item.true.f1,
            )
            for item in account.estimates
        ],
    )


def agreement(account: Account) -> Scatter | None:
    """Estimated against true F1 of sources; None without gold."""
    points = [
        Point(item.true.f1, item.f1.value, f"{item.source}, {item.type}", item.type)
        for item in account.estimates
        if item.true is not None
    ]
    if not points:
        return None
    found = correlation(account)
    says = "" if found is None else f"Pearson correlation {found:.3f} over {len(points)} pairs. "
    return Scatter(
        title="Estimated and true F1",
        says=f"{says}Every dot is a source and a type; on the line they are the same.",
        points=points,
        x_title="true F1",
        y_title="estimated F1",
    )


def correlation(account: Account) -> float | None:
    """Pearson's, of estimated and true F1; None where it is not defined."""
    pairs = [(item.f1.value, item.true.f1) for item in account.estimates if item.true is not None]
    values = np.array(pairs).reshape(-1, 2)
    if len(values) < 3 or (values.std(axis=0) == 0).any():
        return None
    return float(np.corrcoef(values.T)[0, 1])


def pairs(account: Account) -> Heat | None:
    """How alike sources are, two by two; None where there are no two."""
    names = account.data.sources
    if len(names) < 2:
        return None
    values = account.analysis.pairwise["span_f1"].copy()
    np.fill_diagonal(values, np.nan)
    return Heat(
        title="How alike the sources are",
        says="F1 of one source's spans against another's: 1 is a copy.",
        rows=names,
        columns=names,
        values=values,
    )


def emissions(account: Account) -> list[tuple[str, list[Heat]]]:
    """Of each source that is heard: what it says where the truth is known, up to three times."""
    seen, fine = account.insides, account.data.fine()
    learned = seen.emissions
    if learned is None:
        shares = account.answer.probabilities
        learned = None if shares is None else _counted(fine, seen.sources, np.asarray(shares))
    truth = None
    if fine.gold is not None:
        truth = _counted(fine, seen.sources, np.eye(len(fine.tags))[fine.gold])
    found = []
    for number, source in enumerate(seen.sources):
        maps = [
            _emission_map(stage, array[number], fine)
            for stage, array in zip(STAGES, (seen.start, learned, truth), strict=True)
            if array is not None
        ]
        found.append((source, maps))
    return found


def moves(account: Account) -> list[Heat]:
    """How labels follow one another: by the model and, where there is gold, in truth."""
    data, tags = account.data, account.data.fine_tags
    labels = {"final": account.answer.labels, "truth": data.gold}
    found = []
    for stage, path in labels.items():
        if path is None:
            continue
        counts = move_counts(path, data.offsets, len(tags))
        total = counts.sum(axis=1, keepdims=True)
        values = np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
        found.append(
            Heat(
                title=f"Moves: {stage}",
                says="Share of the moves from the row's label that lead to the column's.",
                rows=tags.names,
                columns=tags.names,
                values=values,
                row_title="from",
                column_title="to",
            )
        )
    return found


def curves(account: Account) -> list[Lines]:
    """Loss and held-out score, stage by stage."""
    found = []
    for stage, points in account.insides.curves.items():
        for column, what in enumerate(("loss", "held-out score")):
            steps = np.flatnonzero(np.isfinite(points[:, column]))
            if len(steps) > 1:
                line = list(zip(steps.tolist(), points[steps, column].tolist(), strict=True))
                found.append(
                    Lines(
                        title=f"{stage}: {what}",
                        says=f"From {line[0][1]:.4g} to {line[-1][1]:.4g}.",
                        curves={what: line},
                        x_title="step" if stage == "EM" else "epoch",
                        y_title=what,
                    )
                )
    return found


def calibration(account: Account) -> Diagram | None:
    """How often labels of some confidence are right; None without gold."""
    kinds = {"tokens": "tokens", "spans": "spans"}
    parts = {
        kinds[name]: part for name, part in account.evaluation.calibration.items() if name in kinds
    }
    if not parts:
        return None
    errors = ", ".join(
        f"{part.ece:.3f} for {name}" for name, part in parts.items() if part.ece is not None
    )
    return Diagram(
        title="Calibration",
        says=f"Expected calibration error {errors}. On the line, 80 % sure is right 4 times of 5.",
        curves={name: bins_of(part) for name, part in parts.items()},
    )


def confusion(account: Account) -> Heat | None:
    """Which types are taken for which; None without gold."""
    found = account.evaluation.breakdown
    if found is None:
        return None
    counts = found.confusion.astype(np.float64)
    total = counts.sum(axis=1, keepdims=True)
    return Heat(
        title="Types confused",
        says="Shares of each row: what the entities of a true type became.",
        rows=(*found.types, "(spurious)"),
        columns=(*found.types, "(missed)"),
        values=np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0),
        row_title="gold",
        column_title="predicted",
    )


ALL: dict[str, Callable[[Account], Figure | Sequence[Figure] | None]] = {
    "reliability": reliability,
    "agreement": agreement,
    "pairs": pairs,
    "emissions": lambda account: [
        replace(heat, title=f"{source}: {heat.title}")
        for source, maps in emissions(account)
        for heat in maps
    ],
    "moves": moves,
    "curves": curves,
    "calibration": calibration,
    "confusion": confusion,
}
"""Every kind of figure; one, several or none come of it."""


def _ends(interval: tuple[float, float, float]) -> tuple[float, float, float]:
    value, low, high = interval
    return low, value, high


def bins_of(part: Calibration) -> list[tuple[float, float, int]]:
    """Confidence, share right and number of every bin that holds any."""
    full = part.count > 0
    columns = (part.confidence[full], part.accuracy[full], part.count[full])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _counted(data: Dataset, sources: Sequence[str], truth: Floats) -> Floats:
    """What each source says where the truth is as likely as this.  truth (N, L) -> (K, L, L)"""
    size = truth.shape[1]
    found = np.zeros((len(sources), size, size))
    for number, name in enumerate(sources):
        if name not in data.sources:  # a source that the model has added
            continue
        column = data.votes[:, data.source_number(name)]
        for said in range(size):
            found[number, :, said] = truth[column == said].sum(axis=0)
    total = found.sum(axis=2, keepdims=True)
    np.divide(found, total, out=found, where=total > 0)
    found[np.broadcast_to(total == 0, found.shape)] = np.nan
    return found


def _emission_map(title: str, matrix: Floats, data: Dataset) -> Heat:
    names: Sequence[str] = data.tags.names
    if len(names) > MOST_LABELS:
        names, matrix = ("O", *data.tags.types), _by_type(matrix)
    return Heat(
        title=title,
        says="",
        rows=names,
        columns=names,
        values=matrix,
        row_title="truth",
        column_title="said",
    )


def _by_type(matrix: Floats) -> Floats:
    """Rows of B- and I- averaged, of those that are known; columns added.  (L, L) -> (1+E, 1+E)"""
    wide = np.concatenate([matrix[:, :1], matrix[:, 1::2] + matrix[:, 2::2]], axis=1)
    rows = np.stack([wide[1::2], wide[2::2]])
    known = np.count_nonzero(~np.isnan(rows), axis=0)
    mean = np.full(known.shape, np.nan)
    np.divide(np.nansum(rows, axis=0), known, out=mean, where=known > 0)
    return np.concatenate([wide[:1], mean])
