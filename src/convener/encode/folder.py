"""A model's folder: what must be in it, what tells it from another, how it is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from convener.caching import digest_of_file
from convener.errors import DataError, first_line

CONFIG, WEIGHTS = "config.json", "*.safetensors"
TOKENIZERS = ("tokenizer.json", "vocab*", "*.model")
POOLING = Path("1_Pooling") / CONFIG
DECISIVE = (
    *(CONFIG, str(POOLING), WEIGHTS),
    *("tokenizer*", "vocab*", "merges*", "*.model", "special_tokens*", "added_tokens*"),
)
"""Files that decide the numbers."""


def check_folder(folder: Path) -> None:
    """Say what is missing for a model, before anything heavy is loaded."""
    if not (folder / CONFIG).is_file():
        raise DataError(f"{folder}: no model in this folder ({CONFIG} expected)")
    read_json(folder / CONFIG)
    if not any(folder.glob(WEIGHTS)):
        pickled = [file.name for file in sorted(folder.glob("*.bin"))]
        hint = f"; {pickled[0]} is a pickle, which could run code: convert it" if pickled else ""
        raise DataError(f"{folder}: no weights ({WEIGHTS} expected){hint}")
    if not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        raise DataError(f"{folder}: no tokenizer ({TOKENIZERS[0]} expected)")


def digests_of(folder: Path) -> dict[str, str]:
    """Digests of the files that decide the numbers, by name."""
    return {
        file.relative_to(folder).as_posix(): digest_of_file(file)
        for pattern in DECISIVE
        for file in folder.glob(pattern)
        if file.is_file()
    }


@contextmanager
def silent(transformers: Any) -> Iterator[None]:
    """Without the bars and remarks of the library."""
    said = transformers.utils.logging
    shown, level = said.is_progress_bar_enabled(), said.get_verbosity()
    said.disable_progress_bar()
    said.set_verbosity_error()
    try:
        yield
    finally:
        said.set_verbosity(level)
        if shown:
            said.enable_progress_bar()


def from_folder(
    transformers: Any, folder: Path, kind: str, *, tags: Sequence[str] | None = None
) -> tuple[Any, Any]:
    """Tokenizer and model of a folder, silently; `kind`: the class of transformers' to make.

    tags: what a head that is still to be trained will tell apart; it need not be in the folder.
    """
    # No code of a model's is run, nor is the user asked whether to run it.
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        with silent(transformers):
            facts = transformers.AutoConfig.from_pretrained(folder, **safe, **_head(tags))
            # Tokenizers that tell a word from its continuation by the space before it need one.
            options = {"add_prefix_space": True} if _spaced(folder) else {}
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, use_fast=True, **safe, **options
            )
            model, found = getattr(transformers, kind).from_pretrained(
                folder,
                config=facts,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # so that they are told, below
                output_loading_info=True,
                **safe,
            )
    except Exception as error:  # of all kinds: safetensors, tokenizers and torch have their own
        raise DataError(f"{folder}: the model cannot be loaded: {first_line(error)}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(f"{folder}: has no fast tokenizer (tokenizer.json), which words need")
    both = hasattr(model, "encoder") and hasattr(model, "decoder")
    encoder = model.get_encoder() if both else model
    _check_weights(folder, model, encoder if tags is None else model.base_model, found)
    return tokenizer, encoder


def _head(tags: Sequence[str] | None) -> dict[str, Any]:
    """What a model's config says of a head for these tags."""
    if tags is None:
        return {}
    names = dict(enumerate(tags))
    return {"id2label": names, "label2id": {tag: number for number, tag in names.items()}}


def _check_weights(folder: Path, model: Any, encoder: Any, found: dict[str, Any]) -> None:
    """Refuse weights that do not fit the model: what is missing would be random numbers."""
    used = {id(weight) for weight in encoder.parameters()}
    # What stands over the last layer is not read, and many folders have none.
    needed = {
        name
        for name, weight in model.named_parameters()
        if id(weight) in used and "pooler" not in name
    }
    wrong = {*found["missing_keys"], *(item[0] for item in found["mismatched_keys"])} & needed
    if wrong:
        raise DataError(
            f"{folder}: the weights are not those of config.json: {len(wrong)} of {len(needed)} "
            f"do not fit, such as {min(wrong)}"
        )


def _spaced(folder: Path) -> bool:
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
