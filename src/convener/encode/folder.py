"""A model's folder: what must be in it, what tells it from another, how it is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from convener.caching import file_digest
from convener.errors import DataError, first_line

CONFIG, WEIGHTS = "config.json", "*.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "vocab*", "*.model")
POOLING_CONFIG = Path("1_Pooling") / CONFIG
FINGERPRINT_FILES = (
    *(CONFIG, str(POOLING_CONFIG), WEIGHTS),
    *("tokenizer*", "vocab*", "merges*", "*.model", "special_tokens*", "added_tokens*"),
)
"""Files that decide the numbers."""


def check_model_folder(folder: Path) -> None:
    """Say what is missing for a model, before anything heavy is loaded."""
    if not (folder / CONFIG).is_file():
        raise DataError(f"{folder}: no model in this folder ({CONFIG} expected)")
    read_json(folder / CONFIG)
    if not any(folder.glob(WEIGHTS)):
        pickled = [file.name for file in sorted(folder.glob("*.bin"))]
        hint = f"; {pickled[0]} is a pickle, which could run code: convert it" if pickled else ""
        raise DataError(f"{folder}: no weights ({WEIGHTS} expected){hint}")
    if not any(file for pattern in TOKENIZER_FILES for file in folder.glob(pattern)):
        raise DataError(f"{folder}: no tokenizer ({TOKENIZER_FILES[0]} expected)")


def model_file_digests(folder: Path) -> dict[str, str]:
    """Digests of the files that decide the numbers, by name."""
    return {
        file.relative_to(folder).as_posix(): file_digest(file)
        for pattern in FINGERPRINT_FILES
        for file in folder.glob(pattern)
        if file.is_file()
    }


@contextmanager
def suppress_transformers_logging(transformers: Any) -> Iterator[None]:
    """Without the bars and remarks of the library."""
    transformers_logging = transformers.utils.logging
    progress_enabled, level = (
        transformers_logging.is_progress_bar_enabled(),
        transformers_logging.get_verbosity(),
    )
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if progress_enabled:
            transformers_logging.enable_progress_bar()


def load_pretrained(
    transformers: Any, folder: Path, model_class: str, *, tags: Sequence[str] | None = None
) -> tuple[Any, Any]:
    """Tokenizer and model of a folder, silently; `kind`: the class of transformers' to make.

    tags: what a head that is still to be trained will tell apart; it need not be in the folder.
    """
    # No code of a model's is run, nor is the user asked whether to run it.
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        with suppress_transformers_logging(transformers):
            config = transformers.AutoConfig.from_pretrained(folder, **safe, **_label_config(tags))
            # Tokenizers that tell a word from its continuation by the space before it need one.
            options = {"add_prefix_space": True} if _is_byte_level(folder) else {}
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, **safe, **options)
            model, loading_info = getattr(transformers, model_class).from_pretrained(
                folder,
                config=config,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # so that they are told, below
                output_loading_info=True,
                **safe,
            )
    except Exception as error:  # of all kinds: safetensors, tokenizers and torch have their own
        raise DataError(f"{folder}: the model cannot be loaded: {first_line(error)}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(f"{folder}: has no fast tokenizer (tokenizer.json), which words need")
    is_encoder_decoder = hasattr(model, "encoder") and hasattr(model, "decoder")
    encoder = model.get_encoder() if is_encoder_decoder else model
    _check_weights(folder, model, encoder if tags is None else model.base_model, loading_info)
    return tokenizer, encoder


def _label_config(tags: Sequence[str] | None) -> dict[str, Any]:
    """What a model's config says of a head for these tags."""
    if tags is None:
        return {}
    names = dict(enumerate(tags))
    return {"id2label": names, "label2id": {tag: number for number, tag in names.items()}}


def _check_weights(folder: Path, model: Any, encoder: Any, loading_info: dict[str, Any]) -> None:
    """Refuse weights that do not fit the model: what is missing would be random numbers."""
    used = {id(weight) for weight in encoder.parameters()}
    # What stands over the last layer is not read, and many folders have none.
    needed = {name for name, weight in model.named_parameters() if id(weight) in used and "pooler" not in name}
    mismatched = {
        *loading_info["missing_keys"],
        *(item[0] for item in loading_info["mismatched_keys"]),
    } & needed
    if mismatched:
        raise DataError(
            f"{folder}: the weights are not those of config.json: {len(mismatched)} of {len(needed)} "
            f"do not fit, such as {min(mismatched)}"
        )


def _is_byte_level(folder: Path) -> bool:
    """Whether the tokenizer is of the byte-level kind, where words begin with a space."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return (folder / "merges.txt").is_file()
    return '"ByteLevel"' in json.dumps(read_json(file).get("pre_tokenizer"))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected an object, got {type(content).__name__}")
    return content
