"""The list of benchmarks, and the command line of those that consist of parts and fits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.data import ALL_NAMES, DATA, DEMO, NAMES, is_available
from benchmarks.harness.jobs import Options
from benchmarks.harness.results import code_digest
from convener.encoders import list_encoders

BENCHMARKS = {
    "paper": "benchmarks.paper.parts",
    "quality": "benchmarks.quality.parts",
    "worlds": "benchmarks.worlds.runs",
    "crowd": "benchmarks.crowd",
    **{
        name: f"benchmarks.speed.{name}"
        for name in ("chain", "step", "hmm", "segment", "read", "encode", "lf", "report")
    },
}
"""Modules by benchmark. Each has `main(argv, *, results) -> int` and an option `--smoke`."""
ENCODERS = ("minilm", "mpnet")
SMOKE_ENCODER = "hashing"
Part = Callable[[Options], None]


def simple_parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a few seconds on toy data, to see that it runs")
    return parser


def run_parts(
    name: str,
    about: str | None,
    parts: Mapping[str, Part],
    *,
    recipes: Sequence[str],
    smoke: Mapping[str, Any],
    argv: Sequence[str] | None,
    results: Path,
) -> int:
    """Parse the arguments and run the parts that are asked for; 1 if a fit failed.

    smoke: settings that make a fit short.
    """
    parser = simple_parser(name, about)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--seeds", type=int, help="number of seeds; by default what each part takes")
    parser.add_argument("--encoder", choices=(*ENCODERS, "both"), default="both")
    parser.add_argument("--data", nargs="+", choices=ALL_NAMES, default=list(NAMES), metavar="NAME")
    parser.add_argument("--recipe", choices=recipes, default=recipes[0], help="settings that ablations start from")
    parser.add_argument("--tables", action="store_true", help="make no fits, write pages from the stored ones")
    parser.add_argument("--fresh", action="store_true", help="make stored fits again")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.parts) - set(parts)):
        parser.error(f"unknown parts: {', '.join(unknown)}; expected {', '.join(parts)}")
    if args.seeds is not None and args.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {args.seeds}")
    encoders = ENCODERS if args.encoder == "both" else (args.encoder,)
    if args.smoke:
        options = Options(data=(DEMO,), encoders=(SMOKE_ENCODER,), results=results, seeds=1, smoke=smoke)
    else:
        installed = list_encoders()
        options = Options(
            data=available(args.data, is_available, f"not in {DATA}"),
            # Tables of stored fits need no encoder.
            encoders=available(encoders, lambda each: args.tables or each in installed, "not installed"),
            results=results,
            seeds=args.seeds,
            recipe=args.recipe,
            fit=not args.tables,
            refit=args.fresh,
        )
    code_digest()  # of the code as it is imported, whatever is edited during the run
    for part in args.parts or parts:
        parts[part](options)
    if options.failed:
        print(f"failed: {', '.join(options.failed)}", file=sys.stderr)
    return int(bool(options.failed))


def available(names: Sequence[str], check: Callable[[str], bool], reason: str) -> tuple[str, ...]:
    """The names that pass the check; the others are reported."""
    for name in names:
        if not check(name):
            print(f"{name}: {reason}; skipped", file=sys.stderr)
    return tuple(name for name in dict.fromkeys(names) if check(name))
