"""`python -m benchmarks.worlds`: models on corpora with known truth, and on parts of real ones.

Every model is compared with the better of two simple votes. By default all kinds of cases with the classic models; the
development seed is 1. Seed 3 is for the final figures only. Rows are stored case by case: a run that was stopped
continues where it ended. Networks are fitted if they are named: `--models neural-segment auto`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from filelock import FileLock

import convener as cv
from benchmarks.harness.cli import ENCODERS, SMOKE_ENCODER, simple_parser
from benchmarks.harness.results import RESULTS, code_digest, machine, versions, write_rows
from benchmarks.worlds import page
from benchmarks.worlds.cases import KINDS, Case, make_cases, shortened
from benchmarks.worlds.scoring import fit_and_score, mark_statistics, score_votes
from convener.cache import cache_dir

MODELS = ("segment", "hmm", "dawid-skene", "snorkel", "bsc", "linked-hmm")
SMOKE_MODELS = ("segment", "dawid-skene")
SMOKE_SENTENCES = 30
PACKAGES = ("torch", "numba")
Row = dict[str, Any]


class CaseFile:
    """Rows of cases in a JSON Lines file, sorted: seed and name, properties, votes, and a result for each model."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[tuple[int, str], Row]:
        """All rows by seed and name; empty where there is no file."""
        if not self.path.is_file():
            return {}
        rows = map(json.loads, self.path.read_text(encoding="utf-8").splitlines())
        return {(row["seed"], row["name"]): row for row in rows}

    def add(self, row: Row) -> None:
        """Add a row; results of models that are not in it are kept."""
        digest = hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:16]
        lock = cache_dir() / "benchmarks" / f"{digest}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            rows = self.read()
            key = row["seed"], row["name"]
            stored = rows.get(key, {"models": {}})["models"]
            rows[key] = row | {"models": dict(sorted((stored | row["models"]).items()))}
            write_rows(self.path, ((str(name), each) for name, each in sorted(rows.items())))


def run_case(case: Case, models: Sequence[str], encoder: str) -> Row:
    """Fit these models on a case. Only those that need features get any."""
    needy = {name for name in models if cv.get_model(name).needs_features}
    data = case.load()
    row: Row = {
        "name": case.name,
        "kind": case.kind,
        "seed": case.seed,
        "properties": case.properties(data) | mark_statistics(data.train),
        "votes": score_votes(data),
        "models": {name: fit_and_score(name, data) for name in models if name not in needy},
    }
    if needy:
        data = case.load(features=True, encoder=encoder)
        row["models"] |= {name: fit_and_score(name, data) for name in models if name in needy}
    return row | {"machine": machine()["cpu"], "versions": versions(PACKAGES)}


def missing_models(row: Row | None, models: Iterable[str]) -> list[str]:
    """The models that a stored row does not have."""
    return [name for name in models if row is None or name not in row["models"]]


def run_cases(cases: Sequence[Case], models: Sequence[str], file: CaseFile, *, encoder: str, jobs: int) -> None:
    """Make the fits that are not stored."""
    stored = file.read()
    todo = [(case, names) for case in cases if (names := missing_models(stored.get((case.seed, case.name)), models))]
    if not todo:
        return
    tasks = ([case for case, _ in todo], [names for _, names in todo], [encoder] * len(todo))
    if jobs == 1:
        rows: Iterable[Row] = map(run_case, *tasks)
        _store(rows, len(todo), file)
        return
    with ProcessPoolExecutor(jobs) as pool:
        _store(pool.map(run_case, *tasks), len(todo), file)


def _store(rows: Iterable[Row], count: int, file: CaseFile) -> None:
    for number, row in enumerate(rows, start=1):
        file.add(row)
        vote = max(row["votes"][name] for name in ("io", "span"))
        scores = ", ".join(
            f"{name} {'failed' if result['f1'] is None else format(result['f1'] - vote, '+.1f')}"
            for name, result in row["models"].items()
        )
        print(f"{number}/{count} {row['name']}: vote {vote:.1f}; {scores}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line; 1 if a fit failed."""
    parser = simple_parser("worlds", __doc__)
    parser.add_argument("--models", nargs="+", choices=cv.list_models(), default=list(MODELS), metavar="MODEL")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=1, help="1 for development, 3 for the final figures")
    parser.add_argument("--limit", type=int, help="cases of each kind, by default all")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--encoder", choices=ENCODERS, default=ENCODERS[0], help="features of the real sets")
    parser.add_argument("--tables", action="store_true", help="make no fits, write the page from the stored ones")
    parser.add_argument("--fresh", action="store_true", help="make stored fits of these models again")
    args = parser.parse_args(argv)
    if args.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {args.jobs}")
    code_digest()  # of the code as it is imported, whatever is edited during the run
    file = CaseFile(results / "worlds/worlds.jsonl")
    models, encoder = args.models, args.encoder
    if args.smoke:
        models, encoder = SMOKE_MODELS, SMOKE_ENCODER
        cases = [shortened(case, SMOKE_SENTENCES) for case in make_cases(args.seed, KINDS[:3], 2)]
    else:
        cases = make_cases(args.seed, tuple(args.kind), args.limit)
    if not args.tables:
        if args.fresh:
            forget(file, cases, models)
        run_cases(cases, models, file, encoder=encoder, jobs=args.jobs)
    rows = [row for (seed, _), row in file.read().items() if seed == args.seed]
    page.write(rows, args.seed, results / "worlds")
    failed = [f"{row['name']}/{name}" for row in rows for name, each in row["models"].items() if each["f1"] is None]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def forget(file: CaseFile, cases: Sequence[Case], models: Sequence[str]) -> None:
    """Remove the stored results of these models on these cases."""
    names = {(case.seed, case.name) for case in cases}
    rows = file.read()
    for key in names & set(rows):
        rows[key]["models"] = {name: each for name, each in rows[key]["models"].items() if name not in models}
    write_rows(file.path, ((str(key), row) for key, row in sorted(rows.items())))
