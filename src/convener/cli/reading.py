"""Reading data for commands: prints the issues of readers and chooses a split where none is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from convener import io
from convener.cli import console
from convener.cli.options import ReadArgs
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.errors import DataError
from convener.experiment.run import Run
from convener.io.formats import ReadOptions

TEST_FIRST = ("test", "valid")
"""Splits that scores are computed on by default, in order of preference."""
TRAIN_FIRST = ("train",)
"""The split that sources and models are described on by default."""


def read_dataset(args: ReadArgs, *, run: Run | None = None, issues: Issues | None = None) -> Dataset:
    """Read a file or one split; with a run, with the read options of its training data. Issues are also collected."""
    files = io.find_split_files(args.path)
    if files and args.split is None:
        raise DataError(f"{args.path}: is a folder of splits; choose one with --split {{{','.join(files)}}}")
    found = Issues()
    with console.spinner(f"reading {args.path}"):
        data = io.load_dataset(
            args.path, args.split, format=args.format, options=_read_options(args, run), issues=found
        )
    console.print_issues(found)
    if issues is not None:
        issues.items += found.items
    return data


def read_corpus(args: ReadArgs, *, run: Run | None = None) -> Corpus:
    """Read all splits of a folder; a single file is the train split."""
    content = read_splits(args, run=run)
    return content if isinstance(content, Corpus) else Corpus(splits={"train": content})


def read_splits(args: ReadArgs, *, run: Run | None = None) -> Dataset | Corpus:
    """Read a file or one split as a Dataset, or all splits of a folder as a Corpus."""
    if args.split is not None or not io.find_split_files(args.path):
        return read_dataset(args, run=run)
    issues = Issues()
    with console.spinner(f"reading {args.path}"):
        corpus = io.load_corpus(args.path, format=args.format, options=_read_options(args, run), issues=issues)
    console.print_issues(issues)
    return corpus


def read_content(args: ReadArgs, issues: Issues) -> Dataset | Predictions | Corpus:
    """Read everything that a path contains, predictions included."""
    options = _read_options(args, None)
    with console.spinner(f"reading {args.path}"):
        if args.split is not None:
            return io.load_dataset(args.path, args.split, format=args.format, options=options, issues=issues)
        load = io.load_corpus if io.find_split_files(args.path) else io.load_content
        return load(args.path, format=args.format, options=options, issues=issues)


def choose_split(args: ReadArgs, preferred: Sequence[str]) -> ReadArgs:
    """The arguments with a split: the given one, else the first preferred one of the folder, which is printed.

    A file, or a folder without such a split, is left without one.
    """
    files = io.find_split_files(args.path)
    split = next((name for name in preferred if name in files), None)
    if args.split is not None or split is None:
        return args
    console.print_note(f"split: {split}")
    return replace(args, split=split)


def _read_options(args: ReadArgs, run: Run | None) -> ReadOptions:
    """The options of the command line, which take precedence over those of the run."""
    return ReadOptions.from_dict({**({} if run is None else run.read_options), **args.options})
