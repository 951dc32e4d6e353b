"""The command line of benchmarks in parts: what is asked for, reduced to what is there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.jobs import Options, code
from benchmarks.paper import recipes
from benchmarks.paper.figures import NAMES
from benchmarks.record import DATA
from convener.encoders import list_encoders

ENCODERS = ("minilm", "mpnet")
Part = Callable[[Options], None]


def options_from(
    title: str, about: str | None, parts: Mapping[str, Part], words: Sequence[str] | None = None
) -> tuple[list[str], Options]:
    """The parts that are asked for, and what they are to work on."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{title}", description=about)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--seeds", type=int, help="how many; by default what each part takes")
    parser.add_argument("--encoder", choices=(*ENCODERS, "both"), default="both")
    parser.add_argument("--data", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME")
    parser.add_argument("--recipe", choices=recipes.NAMES, default="ours", help="for ablations")
    parser.add_argument("--tables", action="store_true", help="fit nothing, show what there is")
    parser.add_argument("--fresh", action="store_true", help="make fits again that are there")
    chosen = parser.parse_args(words)
    if unknown := sorted(set(chosen.parts) - set(parts)):
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(parts)}")
    if chosen.seeds is not None and chosen.seeds < 1:
        parser.error(f"--seeds must be 1 or more, got {chosen.seeds}")
    encoders = ENCODERS if chosen.encoder == "both" else (chosen.encoder,)
    return chosen.parts or list(parts), Options(
        data=there(chosen.data, lambda name: (DATA / name).is_dir(), f"not in {DATA}"),
        encoders=there(encoders, list_encoders().__contains__, "this encoder is not installed"),
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


def run(title: str, about: str | None, parts: Mapping[str, Part]) -> int:
    """Part by part; 1 if a fit has failed."""
    names, options = options_from(title, about, parts)
    code()  # of what is about to be imported, whatever is edited later
    for name in names:
        parts[name](options)
    if options.failed:
        print(f"failed: {', '.join(options.failed)}", file=sys.stderr)
    return int(bool(options.failed))
