"""Models by name: a folder, or a repository on the Hugging Face hub."""

from __future__ import annotations

import importlib
import json
import re
from contextlib import suppress
from pathlib import Path

from convener.errors import ConfigError, UnknownNameError, require

# Weights as safetensors only, and no code: nothing that is loaded can run.
FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/*.json"]
NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
PATIENCE = 6.0
"""Seconds until a hub must have answered: its own library would wait for ever, and spends three
more on a question of its own."""


def hub_folder(name: str, *, what: str, instead: str = "") -> Path:
    """The folder of a model on the hub, fetched if it is not here yet.

    what: the kind of model, and instead: where else one may look; both for messages.
    """
    if not NAME.fullmatch(name):
        raise UnknownNameError(f"no {what} {name!r}: neither a folder nor a name on a hub{instead}")
    hub = require("huggingface_hub", extra="encoders", purpose=f"the {what} {name!r}")
    errors = importlib.import_module("huggingface_hub.errors")  # which it does not import itself
    try:
        with suppress(errors.LocalEntryNotFoundError):
            here = Path(hub.snapshot_download(name, allow_patterns=FILES, local_files_only=True))
            if _is_whole(here):
                return here
        hub.model_info(name, timeout=PATIENCE)
        return Path(hub.snapshot_download(name, allow_patterns=FILES))
    except (
        errors.RepositoryNotFoundError,
        errors.GatedRepoError,
        errors.HFValidationError,
    ) as error:
        reason = type(error).__name__
        raise UnknownNameError(
            f"no {what} {name!r}: neither a folder nor on the hub ({reason}){instead}"
        ) from None
    except Exception as error:  # what a missing network raises differs from version to version
        raise ConfigError(
            f"{what} {name!r} is not installed and no hub can be reached "
            f"({type(error).__name__}){instead}"
        ) from error


def _is_whole(folder: Path) -> bool:
    """Whether all of a model came: a stopped download, or one of its config only, leaves less."""
    weights = {file.name for file in folder.glob("*.safetensors")}
    wanted: set[str] = set()
    for index in folder.glob("*.safetensors.index.json"):
        with suppress(OSError, ValueError, LookupError):
            wanted |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return (folder / "config.json").is_file() and bool(weights) and wanted <= weights
