"""`python -m benchmarks.crowd`: F1 and the rating of workers on generated crowds, five seeds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import convener as cv
from benchmarks.crowd.generator import STATISTICS, Crowd, crowd
from benchmarks.record import save

MODELS = ("majority-vote", "dawid-skene", "snorkel", "bsc")
NOTE = (
    "F1 by span against the generated gold, fit and predicted on the same documents, gold unseen. "
    "Rank: Spearman's correlation, over the workers, of the true F1 by span with the F1 that "
    "reliability() implies (2PR / (P + R), mean over types). Spammers found: share of the true "
    f"spammers among as many workers rated worst. Crowd: {STATISTICS}."
)


def rated(model: cv.LabelModel) -> np.ndarray:
    """The F1 of each worker as the model sees it, mean over types; 0 where it is not known."""
    by_worker: dict[str, list[float]] = {}
    for row in model.reliability().to_records():
        precision, recall = row["precision"] or 0.0, row["recall"] or 0.0
        f1 = 2 * precision * recall / max(precision + recall, 1e-12)
        by_worker.setdefault(row["source"], []).append(f1)
    return np.array([np.mean(values) for values in by_worker.values()])


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's: the correlation of the ranks; equal values share their mean rank."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group]


def measured(people: Crowd, name: str) -> tuple[float, float, float]:
    """F1, rank correlation and share of the spammers found."""
    model = cv.get_model(name)().fit(people.data)
    f1 = cv.evaluate(model.predict(people.data), people.data).f1
    rating = rated(model)
    worst = np.argsort(rating, kind="stable")[: people.spammer.sum()]
    return f1, rank_correlation(rating, people.f1), float(people.spammer[worst].mean())


def table(title: str, format: str, seeds: Sequence[int], values: np.ndarray) -> cv.Table:
    """One row a seed, one column a model; values (seeds, models)."""
    rows = [[str(seed), *row] for seed, row in zip(seeds, values.tolist(), strict=True)]
    rows += [["mean", *values.mean(axis=0).tolist()]]
    return cv.Table(title=title, columns=("seed", *MODELS), rows=rows, formats=dict.fromkeys(MODELS, format))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many crowds")
    parser.add_argument("--dry", action="store_true", help="print only")
    options = parser.parse_args()
    seeds = range(options.seeds)
    crowds = [crowd(seed) for seed in seeds]
    found = np.array([[measured(people, name) for name in MODELS] for people in crowds])
    tables = [
        table("F1", ".3f", seeds, found[..., 0]),
        table("Rank correlation of estimated and true worker F1", ".3f", seeds, found[..., 1]),
        table("Share of the spammers found", ".2f", seeds, found[..., 2]),
    ]
    for each in tables:
        print(each, end="\n\n")
    if not options.dry:
        print(save("crowd", tables, seed=0, packages=["numba"], note=NOTE))


if __name__ == "__main__":
    main()
