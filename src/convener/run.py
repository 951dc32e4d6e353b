"""A run: one fit with its resolved settings, kept as a folder.

The folder holds the model (`convener.load` reads it), `config.toml` with every setting as it was
resolved (`convener fit --config` reads it back), and `run.json` with date, time and versions.
"""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from convener import toml
from convener.corpus import Corpus
from convener.data import Dataset
from convener.errors import ConfigError, DataError, UnknownNameError
from convener.io import checkpoint
from convener.io.files import whole
from convener.models import LabelModel, get, load
from convener.settings import from_mapping, to_mapping

__all__ = [
    "RunConfig",
    "Work",
    "facts",
    "fit",
    "has_facts",
    "is_complete",
    "is_run",
    "load",
    "reading",
    "train_from",
    "training_data",
]

CONFIG, FACTS = "config.toml", "run.json"
DEFAULT_MODEL = "auto"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What is said of a run in a word each."""

    model: str = DEFAULT_MODEL
    encoder: str | None = None
    use_gold: bool = False
    train_from: str | None = None
    """SPLIT:SHARE, where there is no train: its first share is train, the rest stays."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(RunOptions):
    """All that decides a run, besides the data."""

    settings: dict[str, Any] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def resolve(cls, file: Path | None, **given: Any) -> RunConfig:
        """Settings from a TOML file, then from what was given; the latter wins."""
        written = {} if file is None else toml.read(file)
        settings, reading = (
            {**_table(written.pop(name, {}), name, file), **given.pop(name, {})}
            for name in ("settings", "reading")
        )
        chosen = {name: value for name, value in given.items() if value is not None}
        what = f"setting in {file or 'the options'}"
        options = from_mapping(RunOptions, written | chosen, what=what)
        if options.encoder is not None and get(options.model).needs_features:
            settings["encoder"] = options.encoder
        config = cls(**to_mapping(options), settings=settings, reading=reading)
        return replace(config, settings=to_mapping(config.build().config))

    def build(self) -> LabelModel:
        """The model, set up and not fitted."""
        return get(self.model)(**self.settings)

    def text(self) -> str:
        """As TOML."""
        return toml.text(to_mapping(self))


def training_data(corpus: Corpus, config: RunConfig, where: str) -> tuple[Dataset, Dataset | None]:
    """The data to learn from and, where there is some, the data held out."""
    splits = dict(corpus.splits)
    if config.train_from is not None:
        name, _, share = config.train_from.partition(":")
        try:
            first = float(share or 1)
        except ValueError:
            raise ConfigError(
                f"train_from must be SPLIT:SHARE such as valid:0.8, got {config.train_from!r}"
            ) from None
        if "train" in splits:
            raise ConfigError(f"{where}: has a train split; train_from is for data without one")
        splits["train"], splits[name] = corpus[name].split(first)
        if not len(splits[name]):
            del splits[name]
    if "train" not in splits:
        raise UnknownNameError(
            f"{where}: no train split (there is {', '.join(splits)}); make one of the first 80 % "
            "of another with --train-from valid:0.8"
        )
    if not len(splits["train"]):
        raise DataError(f"{where}: train is empty")
    return splits["train"], splits.get("valid")


def fit(
    model: LabelModel,
    train: Dataset,
    valid: Dataset | None,
    config: RunConfig,
    folder: Path,
    *,
    resume: bool = False,
    told: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fit the model and write the run, whole or not at all; returns its facts.

    While it trains, a journal lies beside the folder; to resume is to go on from there. What is
    `told` besides, such as where the data lies, is noted with the rest.
    """
    work = Work(folder, config, resume=resume)
    model.fit(train, valid, use_gold=config.use_gold, journal=work.journal)
    facts = {
        "model": model.name,
        "sentences": len(train),
        "tokens": len(train.tokens),
        "sources": list(train.sources),
        "used_valid_gold": bool(
            config.use_gold
            and model.uses_valid_gold
            and valid is not None
            and valid.gold is not None
        ),
        "supervised": model.supervised,
        "why": list(model.why()),
        **(told or {}),
    }
    return work.keep(lambda draft: checkpoint.write(draft, *model.state()), facts)


class Described(Protocol):
    """All that decides some work, besides the data."""

    def text(self) -> str:
        """As TOML."""


class Work:
    """Training whose result will be a folder; a journal lies beside it meanwhile."""

    def __init__(self, folder: Path, config: Described, *, resume: bool) -> None:
        self.folder, self.config, self.begin = folder, config, time.perf_counter()
        self.journal = folder.with_name(f".{folder.name}.training")
        if not resume:
            shutil.rmtree(self.journal, ignore_errors=True)

    def keep(self, write: Callable[[Path], None], facts: Mapping[str, Any]) -> dict[str, Any]:
        """Write the folder, whole or not at all: what `write` does, settings and facts.

        Returns the facts, with seconds, date and versions.
        """
        noted = {
            **facts,
            "seconds": round(time.perf_counter() - self.begin, 3),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {name: version(name) for name in ("convener", "numpy")},
            "python": platform.python_version(),
        }
        with whole(self.folder) as draft:
            draft.mkdir()
            write(draft)
            (draft / CONFIG).write_text(self.config.text(), encoding="utf-8")
            (draft / FACTS).write_text(json.dumps(noted, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(self.journal, ignore_errors=True)
        return noted


def train_from(folder: Path) -> str | None:
    """Of what a run's train was made, where the data have none."""
    file = folder / CONFIG
    found = toml.read(file).get("train_from") if file.is_file() else None
    return None if found is None else str(found)


def reading(folder: Path) -> dict[str, Any]:
    """How a run's data was read, sources apart: the model names those itself."""
    file = folder / CONFIG
    table = _table(toml.read(file).get("reading", {}), "reading", file) if file.is_file() else {}
    return {name: value for name, value in table.items() if name != "sources"}


def facts(folder: Path) -> dict[str, Any]:
    """What was noted of a complete run."""
    noted: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    return noted


def has_facts(folder: Path) -> bool:
    """Whether anything was noted of a run: a model saved by hand has no notes."""
    return (folder / FACTS).is_file()


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a saved model."""
    return (path / checkpoint.FACTS).is_file()


def is_complete(folder: Path, config: Described, *, resume: bool, overwrite: bool) -> bool:
    """Whether the run is there already; an error if another one is in the way."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not folder.is_dir():
        raise DataError(f"{folder}: is a file; a run is a folder")
    if overwrite and is_run(folder):
        return False
    if not resume or not is_run(folder):
        hint = "--resume or --overwrite" if is_run(folder) else "choose another folder"
        raise DataError(f"{folder}: exists already; {hint}")
    if not (folder / CONFIG).is_file():
        raise DataError(f"{folder}: a model without {CONFIG}, not a run; --overwrite replaces it")
    written = (folder / CONFIG).read_text(encoding="utf-8")
    if written != config.text():
        raise DataError(f"{folder / CONFIG}: that run has other settings; --overwrite replaces it")
    return True


def _table(value: Any, name: str, file: Path | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: {name} must be a table, got {value!r}")
    return value
