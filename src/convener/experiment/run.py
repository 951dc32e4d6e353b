"""Runs: one fitted label model or tagger with its settings, stored as a folder.

The folder contains the model (`convener.load_model` reads it), `config.toml` with every setting after
resolution (`convener fit --config` reads it back), and `run.json` with time, duration and versions.
"""

from __future__ import annotations

import json
import platform
import shutil
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from convener import storage
from convener.config import config_from_dict, config_to_dict, read_toml, to_toml
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.errors import ConfigError, DataError, UnknownNameError
from convener.models import get_model, load_model
from convener.models.base import LabelModel
from convener.storage import atomic_write
from convener.taggers import is_tagger, load_tagger
from convener.taggers.base import Tagger

CONFIG_FILE, RUN_INFO_FILE = "config.toml", "run.json"
RECORDED_PACKAGES = ("convener", "numpy", "torch")
"""Packages whose versions `run.json` records."""
DEFAULT_MODEL = "auto"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Top-level settings of a run, without the tables `model_settings` and `read_options`."""

    model: str = DEFAULT_MODEL
    """Name of the label model."""
    encoder: str | None = None
    """Encoder for models that use features; None: the model's default."""
    use_valid_gold: bool = False
    """Use gold labels of the validation split for early stopping."""
    train_split: str | None = None
    """SPLIT:SHARE, for data without a train split: train on the first share of SPLIT, keep the rest as SPLIT."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(RunOptions):
    """Complete configuration of a label-model run, without the data."""

    model_settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the model."""
    read_options: dict[str, Any] = field(default_factory=dict)
    """Keywords of `convener.read` that were given."""

    @classmethod
    def resolve(cls, file: Path | None, **overrides: Any) -> RunConfig:
        """Merge a TOML file, if any, with overrides; overrides win, defaults of the model are filled in."""
        from_file = {} if file is None else read_toml(file)
        model_settings, read_options = (
            {**_check_table(from_file.pop(name, {}), name, file), **overrides.pop(name, {})}
            for name in ("model_settings", "read_options")
        )
        explicit = {name: value for name, value in overrides.items() if value is not None}
        kind = f"setting in {file or 'the options'}"
        options = config_from_dict(RunOptions, from_file | explicit, kind=kind)
        if options.encoder is not None and get_model(options.model).needs_features:
            model_settings["encoder"] = options.encoder
        config = cls(**config_to_dict(options), model_settings=model_settings, read_options=read_options)
        return replace(config, model_settings=config_to_dict(config.build().config))

    def build(self) -> LabelModel:
        """The configured model, not yet fitted."""
        return get_model(self.model)(**self.model_settings)


@dataclass(frozen=True, kw_only=True)
class TaggerRunConfig:
    """Complete configuration of a tagger run, without the data."""

    tagger: str
    """Name of the tagger."""
    labels_path: str
    """Path of the run or file that provided the training labels."""
    targets: Literal["soft", "hard"]
    """Whether it is trained on label probabilities or on labels."""
    tagger_settings: dict[str, Any]
    """Settings of the tagger."""
    read_options: dict[str, Any] = field(default_factory=dict)
    """Keywords of `convener.read` that were given."""


AnyRunConfig = RunConfig | TaggerRunConfig


def config_toml(config: AnyRunConfig) -> str:
    """The content of `config.toml`; values that are None and empty tables are left out."""
    return to_toml({name: value for name, value in config_to_dict(config).items() if value != {}})


@dataclass(frozen=True)
class Run:
    """A saved label model or tagger with its configuration; each part is read on first access.

    `config` and `info` are empty for a folder written by `save` instead of a command.
    """

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> Run:
        """The run in a folder; an error if the folder contains no saved model."""
        if not is_run(folder):
            raise DataError(f"{folder}: not a saved model ({storage.METADATA_FILE} expected)")
        return cls(folder)

    @cached_property
    def label_model(self) -> LabelModel:
        """The label model; an error if the folder contains a tagger."""
        return load_model(self.folder)

    @cached_property
    def model(self) -> LabelModel | Tagger[Any]:
        """The label model or tagger."""
        return load_tagger(self.folder) if is_tagger(self.folder) else self.label_model

    @cached_property
    def config(self) -> dict[str, Any]:
        """Content of `config.toml`."""
        file = self.folder / CONFIG_FILE
        return read_toml(file) if file.is_file() else {}

    @cached_property
    def info(self) -> dict[str, Any]:
        """Content of `run.json`."""
        file = self.folder / RUN_INFO_FILE
        if not file.is_file():
            return {}
        content = storage.read_json(file)
        if not isinstance(content, dict):
            raise DataError(f"{file}: expected an object, found {type(content).__name__}")
        return content

    @property
    def train_split(self) -> str | None:
        """SPLIT:SHARE that the training data was taken from; None if the data had a train split."""
        train_split = self.config.get("train_split")
        return None if train_split is None else str(train_split)

    @property
    def read_options(self) -> dict[str, Any]:
        """Options the training data was read with; a label model reads its own sources.

        If a file names no entity types and contains no spans, it has those of the model.
        """
        table = _check_table(self.config.get("read_options", {}), "read_options", self.folder / CONFIG_FILE)
        options = {**table, "default_types": self.model.fitted.types}
        if isinstance(self.model, LabelModel):
            options["sources"] = self.model.fitted.sources
        else:
            options.pop("sources", None)
        return options

    @property
    def data_path(self) -> Path:
        """Recorded path of the training data; an error if none is recorded or nothing is there."""
        recorded = self.info.get("data_path")
        if recorded is None:
            raise ConfigError(f"{self.folder}: the run does not record its data path; pass --data")
        if not Path(recorded).exists():
            raise DataError(f"{recorded}: the data of {self.folder} does not exist any more; pass --data")
        return Path(recorded)


class RunWriter:
    """Writes the folder of a run after training; checkpoints are kept beside the folder until then."""

    def __init__(self, folder: Path, config: AnyRunConfig, *, resume: bool) -> None:
        self.folder, self.config, self.start_time = folder, config, time.perf_counter()
        self.checkpoint_dir = folder.with_name(f".{folder.name}.checkpoint")
        if not resume:
            shutil.rmtree(self.checkpoint_dir, ignore_errors=True)

    def finish(self, write_files: Callable[[Path], None], run_info: Mapping[str, Any]) -> dict[str, Any]:
        """Write model files, configuration and run information atomically, then remove the checkpoints.

        `write_files` writes the files of the model into an existing folder. Returns the content of `run.json`:
        `run_info` with duration, time and versions.
        """
        full_info = {
            **run_info,
            "fit_seconds": round(time.perf_counter() - self.start_time, 3),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in RECORDED_PACKAGES}},
        }
        with atomic_write(self.folder) as draft:
            draft.mkdir()
            write_files(draft)
            (draft / CONFIG_FILE).write_text(config_toml(self.config), encoding="utf-8")
            (draft / RUN_INFO_FILE).write_text(json.dumps(full_info, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(self.checkpoint_dir, ignore_errors=True)
        return full_info


def fit_run(
    model: LabelModel,
    train: Dataset,
    valid: Dataset | None,
    config: RunConfig,
    folder: Path,
    *,
    resume: bool = False,
    extra_info: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Fit the model and write the run atomically; returns the content of `run.json`.

    `resume` continues from the checkpoints of an interrupted fit. `extra_info`, such as the path of the data,
    is added to `run.json`.
    """
    writer = RunWriter(folder, config, resume=resume)
    model.fit(train, valid, use_valid_gold=config.use_valid_gold, checkpoint_dir=writer.checkpoint_dir)
    run_info = {
        "model": model.name,
        "sentences": len(train),
        "tokens": len(train.tokens),
        "sources": list(train.sources),
        "uses_gold": model.fitted.uses_gold,
        "explanation": list(model.explain()),
        **(extra_info or {}),
    }
    return writer.finish(model.save_files, run_info)


def select_training_data(corpus: Corpus, train_split: str | None, where: str) -> tuple[Dataset, Dataset | None]:
    """Training data and, if there is any, validation data.

    `train_split` is SPLIT:SHARE for a corpus without a train split; `where` names the corpus in errors.
    """
    splits = dict(corpus.splits)
    if train_split is not None:
        name, _, share = train_split.partition(":")
        try:
            fraction = float(share or 1)
        except ValueError:
            raise ConfigError(f"train_split must be SPLIT:SHARE such as valid:0.8, got {train_split!r}") from None
        if "train" in splits:
            raise ConfigError(f"{where}: has a train split; train_split is for data without one")
        splits["train"], splits[name] = corpus[name].split(fraction)
        if not len(splits[name]):
            del splits[name]
    if "train" not in splits:
        raise UnknownNameError(
            f"{where}: no train split, only {', '.join(splits)}; use the first 80% of another split "
            "with --train-split valid:0.8"
        )
    if not len(splits["train"]):
        raise DataError(f"{where}: the train split is empty")
    return splits["train"], splits.get("valid")


def is_run(path: Path) -> bool:
    """Whether a path is the folder of a saved label model or tagger."""
    return (path / storage.METADATA_FILE).is_file()


def is_complete(folder: Path, config: AnyRunConfig, *, resume: bool, overwrite: bool) -> bool:
    """Whether the folder already contains this run; an error if it contains anything that must not be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not folder.is_dir():
        raise DataError(f"{folder}: is a file; expected a folder for the run")
    if overwrite and is_run(folder):
        return False
    if not resume or not is_run(folder):
        hint = "pass --resume or --overwrite" if is_run(folder) else "choose another folder"
        raise DataError(f"{folder}: already exists; {hint}")
    if not (folder / CONFIG_FILE).is_file():
        raise DataError(f"{folder}: a model without {CONFIG_FILE}, not a run; replace it with --overwrite")
    if read_toml(folder / CONFIG_FILE) != tomllib.loads(config_toml(config)):
        raise DataError(f"{folder / CONFIG_FILE}: the existing run has other settings; replace it with --overwrite")
    return True


def _check_table(value: Any, name: str, file: Path | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: {name} must be a table, got {value!r}")
    return value
