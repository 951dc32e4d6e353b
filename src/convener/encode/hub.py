"""Models by name: a folder, or a repository on the Hugging Face hub."""

from __future__ import annotations

import importlib
import json
import re
from contextlib import suppress
from pathlib import Path

from convener.errors import ConfigError, UnknownNameError, require

# Weights as safetensors only, and no code: nothing that is loaded can run.
ALLOW_PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/*.json"]
REPO_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
HUB_TIMEOUT = 6.0
"""Seconds until a hub must have answered: its own library would wait for ever, and spends three
more on a question of its own."""


def fetch_hub_folder(name: str, *, kind: str, hint: str = "") -> Path:
    """The folder of a model on the hub, fetched if it is not here yet.

    what: the kind of model, and instead: where else one may look; both for messages.
    """
    if not REPO_NAME.fullmatch(name):
        raise UnknownNameError(f"no {kind} {name!r}: neither a folder nor a name on a hub{hint}")
    hub = require("huggingface_hub", extra="encoders", purpose=f"the {kind} {name!r}")
    errors = importlib.import_module("huggingface_hub.errors")  # which it does not import itself
    try:
        with suppress(errors.LocalEntryNotFoundError):
            cached = Path(hub.snapshot_download(name, allow_patterns=ALLOW_PATTERNS, local_files_only=True))
            if _is_complete(cached):
                return cached
        hub.model_info(name, timeout=HUB_TIMEOUT)
        return Path(hub.snapshot_download(name, allow_patterns=ALLOW_PATTERNS))
    except (
        errors.RepositoryNotFoundError,
        errors.GatedRepoError,
        errors.HFValidationError,
    ) as error:
        reason = type(error).__name__
        raise UnknownNameError(f"no {kind} {name!r}: neither a folder nor on the hub ({reason}){hint}") from None
    except Exception as error:  # what a missing network raises differs from version to version
        raise ConfigError(
            f"{kind} {name!r} is not installed and no hub can be reached ({type(error).__name__}){hint}"
        ) from error


def _is_complete(folder: Path) -> bool:
    """Whether all of a model came: a stopped download, or one of its config only, leaves less."""
    weights = {file.name for file in folder.glob("*.safetensors")}
    expected: set[str] = set()
    for index in folder.glob("*.safetensors.index.json"):
        with suppress(OSError, ValueError, LookupError):
            expected |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return (folder / "config.json").is_file() and bool(weights) and expected <= weights
