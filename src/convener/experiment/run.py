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

from convener import storage
from convener.config import config_from_dict, config_to_dict, read_toml, to_toml
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.errors import ConfigError, DataError, UnknownNameError
from convener.models import get_model
from convener.models.base import LabelModel
from convener.storage import atomic_write

CONFIG_FILE, RUN_INFO_FILE = "config.toml", "run.json"
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
    def resolve(cls, file: Path | None, **overrides: Any) -> RunConfig:
        """Settings from a TOML file, then from what was given; the latter wins."""
        from_file = {} if file is None else read_toml(file)
        settings, reading = (
            {**_check_table(from_file.pop(name, {}), name, file), **overrides.pop(name, {})}
            for name in ("settings", "reading")
        )
        explicit = {name: value for name, value in overrides.items() if value is not None}
        what = f"setting in {file or 'the options'}"
        options = config_from_dict(RunOptions, from_file | explicit, kind=what)
        if options.encoder is not None and get_model(options.model).needs_features:
            settings["encoder"] = options.encoder
        config = cls(**config_to_dict(options), settings=settings, reading=reading)
        return replace(config, settings=config_to_dict(config.build().config))

    def build(self) -> LabelModel:
        """The model, set up and not fitted."""
        return get_model(self.model)(**self.settings)

    def to_toml(self) -> str:
        """As TOML."""
        return to_toml(config_to_dict(self))


def select_training_data(corpus: Corpus, config: RunConfig, where: str) -> tuple[Dataset, Dataset | None]:
    """The data to learn from and, where there is some, the data held out."""
    splits = dict(corpus.splits)
    if config.train_from is not None:
        name, _, share = config.train_from.partition(":")
        try:
            fraction = float(share or 1)
        except ValueError:
            raise ConfigError(f"train_from must be SPLIT:SHARE such as valid:0.8, got {config.train_from!r}") from None
        if "train" in splits:
            raise ConfigError(f"{where}: has a train split; train_from is for data without one")
        splits["train"], splits[name] = corpus[name].split(fraction)
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
    extra_info: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fit the model and write the run, whole or not at all; returns its facts.

    While it trains, a journal lies beside the folder; to resume is to go on from there. What is
    `told` besides, such as where the data lies, is noted with the rest.
    """
    writer = RunWriter(folder, config, resume=resume)
    model.fit(train, valid, use_valid_gold=config.use_gold, checkpoint_dir=writer.checkpoint_dir)
    run_info = {
        "model": model.name,
        "sentences": len(train),
        "tokens": len(train.tokens),
        "sources": list(train.sources),
        "used_valid_gold": bool(
            config.use_gold and model.uses_valid_gold and valid is not None and valid.gold is not None
        ),
        "supervised": model.supervised,
        "why": list(model.explain()),
        **(extra_info or {}),
    }
    return writer.finish(lambda draft: storage.write_model_files(draft, *model.to_state()), run_info)


class RunDescription(Protocol):
    """All that decides some work, besides the data."""

    def to_toml(self) -> str:
        """As TOML."""


class RunWriter:
    """Training whose result will be a folder; a journal lies beside it meanwhile."""

    def __init__(self, folder: Path, config: RunDescription, *, resume: bool) -> None:
        self.folder, self.config, self.start_time = folder, config, time.perf_counter()
        self.checkpoint_dir = folder.with_name(f".{folder.name}.training")
        if not resume:
            shutil.rmtree(self.checkpoint_dir, ignore_errors=True)

    def finish(self, write_files: Callable[[Path], None], run_info: Mapping[str, Any]) -> dict[str, Any]:
        """Write the folder, whole or not at all: what `write` does, settings and facts.

        Returns the facts, with seconds, date and versions.
        """
        full_info = {
            **run_info,
            "seconds": round(time.perf_counter() - self.start_time, 3),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {name: version(name) for name in ("convener", "numpy")},
            "python": platform.python_version(),
        }
        with atomic_write(self.folder) as draft:
            draft.mkdir()
            write_files(draft)
            (draft / CONFIG_FILE).write_text(self.config.to_toml(), encoding="utf-8")
            (draft / RUN_INFO_FILE).write_text(json.dumps(full_info, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(self.checkpoint_dir, ignore_errors=True)
        return full_info


def saved_train_split(folder: Path) -> str | None:
    """Of what a run's train was made, where the data have none."""
    file = folder / CONFIG_FILE
    train_split = read_toml(file).get("train_from") if file.is_file() else None
    return None if train_split is None else str(train_split)


def saved_read_options(folder: Path) -> dict[str, Any]:
    """How a run's data was read, sources apart: the model names those itself."""
    file = folder / CONFIG_FILE
    table = _check_table(read_toml(file).get("reading", {}), "reading", file) if file.is_file() else {}
    return {name: value for name, value in table.items() if name != "sources"}


def read_run_info(folder: Path) -> dict[str, Any]:
    """What was noted of a complete run."""
    run_info: dict[str, Any] = json.loads((folder / RUN_INFO_FILE).read_text(encoding="utf-8"))
    return run_info


def has_run_info(folder: Path) -> bool:
    """Whether anything was noted of a run: a model saved by hand has no notes."""
    return (folder / RUN_INFO_FILE).is_file()


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a saved model."""
    return (path / storage.METADATA_FILE).is_file()


def is_complete(folder: Path, config: RunDescription, *, resume: bool, overwrite: bool) -> bool:
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
    if not (folder / CONFIG_FILE).is_file():
        raise DataError(f"{folder}: a model without {CONFIG_FILE}, not a run; --overwrite replaces it")
    written = (folder / CONFIG_FILE).read_text(encoding="utf-8")
    if written != config.to_toml():
        raise DataError(f"{folder / CONFIG_FILE}: that run has other settings; --overwrite replaces it")
    return True


def _check_table(value: Any, name: str, file: Path | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: {name} must be a table, got {value!r}")
    return value
