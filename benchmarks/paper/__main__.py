"""`python -m benchmarks.paper [PART ...]`: the tables and figures of the Sparse-CHMM paper.

All parts by default. Every fit is kept in a file of its own under `benchmarks/results/paper`:
a run that was stopped goes on where it ended, and what is there is not made again unless its
settings have changed. See `docs/reproduction.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

# Two pools of threads that take turns must not wait for each other awake.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from benchmarks.paper import (
    ablation,
    curves,
    datasets,
    efficiency,
    emissions,
    exponents,
    recipes,
    reliability,
    results,
)
from benchmarks.paper.figures import NAMES
from benchmarks.paper.jobs import Options, code
from benchmarks.record import DATA
from convener.encode import available

ENCODERS = ("minilm", "mpnet")
PARTS: dict[str, Callable[[Options], None]] = {
    "statistics": datasets.page,
    "curves": curves.page,
    "main": results.page,
    "recall": results.recall_page,
    "epochs": efficiency.epochs_page,
    "reliability": reliability.page,
    "ablation": ablation.page,
    "emissions": emissions.page,
    "efficiency": efficiency.page,
    "exponents": exponents.page,
}


def options_from(words: Sequence[str] | None = None) -> tuple[list[str], Options]:
    """The parts that are asked for, and what they are to work on."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, help="how many; by default what each part takes")
    parser.add_argument("--encoder", choices=(*ENCODERS, "both"), default="both")
    parser.add_argument("--data", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME")
    parser.add_argument("--recipe", choices=recipes.NAMES, default="ours", help="for ablations")
    parser.add_argument("--tables", action="store_true", help="fit nothing, show what there is")
    parser.add_argument("--fresh", action="store_true", help="make fits again that are there")
    chosen = parser.parse_args(words)
    if unknown := sorted(set(chosen.parts) - set(PARTS)):
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if chosen.seeds is not None and chosen.seeds < 1:
        parser.error(f"--seeds must be 1 or more, got {chosen.seeds}")
    encoders = ENCODERS if chosen.encoder == "both" else (chosen.encoder,)
    return chosen.parts or list(PARTS), Options(
        data=there(chosen.data, lambda name: (DATA / name).is_dir(), f"not in {DATA}"),
        encoders=there(encoders, available().__contains__, "this encoder is not installed"),
        seeds=chosen.seeds,
        recipe=chosen.recipe,
        fits=not chosen.tables,
        fresh=chosen.fresh,
    )


def there(names: Sequence[str], is_there: Callable[[str], bool], why: str) -> tuple[str, ...]:
    """Those that are there; the others are named."""
    for name in names:
        if not is_there(name):
            print(f"{name}: {why}; skipped", file=sys.stderr)
    return tuple(name for name in dict.fromkeys(names) if is_there(name))


def main() -> int:
    """Part by part; 1 if a fit has failed."""
    parts, options = options_from()
    code()  # of what is about to be imported, whatever is edited later
    for name in parts:
        PARTS[name](options)
    if options.failed:
        print(f"failed: {', '.join(options.failed)}", file=sys.stderr)
    return int(bool(options.failed))


if __name__ == "__main__":
    sys.exit(main())
