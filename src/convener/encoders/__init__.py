"""Encoders: compute features of tokens and sentences, with an on-disk cache.

>>> import convener as cv
>>> data = cv.encode(cv.demo.load_corpus().test, "hashing", cache=False)
>>> data.features.dim
256
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from convener.cache import cache_dir, resolve_cache_dir
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.features import DTYPES, Dtype, EncoderSpec, Features, from_float32
from convener.encoders import store as caches
from convener.encoders.base import EncodedBatch, Encoder
from convener.encoders.download import PACKAGED, fetch_hub_folder
from convener.encoders.hashing import HashingEncoder
from convener.encoders.transformer import TransformerEncoder
from convener.errors import ConfigError, MismatchError, UnknownNameError, unknown_name_message

__all__ = [
    "EncodedBatch",
    "Encoder",
    "HashingEncoder",
    "TransformerEncoder",
    "encode",
    "get_encoder",
    "installed_encoders",
    "list_encoders",
]

LOG = logging.getLogger(__name__)
AUTO, HASHING = "auto", "hashing"
PREFERRED_ENCODERS = ("mpnet", "minilm")
"""Packaged encoders in order of preference."""
REQUIRED_MODULES = ("torch", "transformers")
D = TypeVar("D", Dataset, Corpus)


def list_encoders(*, installed_only: bool = True) -> tuple[str, ...]:
    """Return the names of the installed encoders, or of all named encoders.

    >>> "hashing" in list_encoders()
    True
    """
    return tuple(installed_encoders()) if installed_only else (HASHING, *PACKAGED)


def installed_encoders() -> dict[str, Path | None]:
    """Return the installed encoders and the folders of their models; None for encoders without a model."""
    installed: dict[str, Path | None] = {HASHING: None}
    if all(find_spec(name) for name in REQUIRED_MODULES):
        for name, packaged in PACKAGED.items():
            if folder := packaged.folder(cache_dir()):
                installed[name] = folder
    return installed


def get_encoder(name: str = AUTO, **settings: Any) -> Encoder:
    """Return an encoder by name: auto, hashing, minilm, mpnet, a model folder, or a name on the Hugging Face hub.

    >>> get_encoder("hashing", width=64).dim
    64
    >>> get_encoder("hashign")
    Traceback (most recent call last):
    convener.errors.UnknownNameError: no encoder 'hashign'; did you mean 'hashing'?
    """
    installed = installed_encoders()
    if name == AUTO:
        name = _best_installed(installed)
    if name == HASHING:
        return HashingEncoder(**settings)
    if name in installed:
        return TransformerEncoder(name, Path(str(installed[name])), **settings)
    if name in PACKAGED:
        missing = [module for module in REQUIRED_MODULES if not find_spec(module)]
        command = "pip install 'convener[encoders]'" if missing else PACKAGED[name].command
        raise ConfigError(f"encoder {name!r} is not installed; run {command} (installed: {', '.join(installed)})")
    if _is_folder(name):
        # Absolute path: a saved model must find the encoder from any working directory.
        return TransformerEncoder(str(Path(name).absolute()), Path(name), **settings)
    if "/" not in name and "did you mean" in (hint := _hint(name)):
        raise UnknownNameError(hint)
    installed_hint = f"; installed: {', '.join(installed)}"
    return TransformerEncoder(name, fetch_hub_folder(name, kind="encoder", hint=installed_hint), **settings)


def encode(
    data: D,
    encoder: str | Encoder = AUTO,
    *,
    dtype: Dtype = "float16",
    cache: str | Path | bool = True,
    **settings: Any,
) -> D:
    """Return the dataset, or each split of the corpus, with features.

    encoder   a name (see `get_encoder`) or an encoder
    dtype     data type of the stored features
    cache     cache folder; True uses the default folder, False stores nothing on disk
    settings  settings of the encoder, if it is given by name
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if isinstance(encoder, str):
        encoder = get_encoder(encoder, **settings)
    elif settings:
        raise ConfigError(f"settings need an encoder name, not an instance; got {', '.join(settings)}")
    if isinstance(data, Corpus):
        splits = data.splits.items()
        encoded = {name: _encode_dataset(dataset, encoder, dtype, cache) for name, dataset in splits}
        return Corpus(splits=encoded)
    return _encode_dataset(data, encoder, dtype, cache)


def restore_encoder(spec: EncoderSpec) -> Encoder:
    """Return the encoder that a model was fitted with; an error if it is missing or has changed."""
    try:
        encoder = get_encoder(spec.name, **spec.settings)
    except (ConfigError, UnknownNameError) as error:
        raise ConfigError(
            f"the data has no features, and the encoder used in fitting ({spec}) is not available: {error}"
        ) from error
    if encoder.spec != spec:
        raise ConfigError(f"encoder {spec.name!r} has changed since fitting: expected {spec}, found {encoder.spec}")
    return encoder


def ensure_features(data: Dataset, encoder: str, spec: EncoderSpec | None, *, owner: str) -> Dataset:
    """Return the data with features; data without features is encoded.

    encoder  name of the encoder to use if `spec` is None
    spec     the encoder used in fitting; data with features of another one is an error
    owner    name of the fitted model, for messages
    """
    if data.features is None:
        return encode(data, restore_encoder(spec) if spec else get_encoder(encoder))
    if spec is not None and data.features.encoder_spec != spec:
        raise MismatchError(f"{owner} was fitted on features of {spec}; these are of {data.features.encoder_spec}")
    return data


def _encode_dataset(data: Dataset, encoder: Encoder, dtype: Dtype, cache: str | Path | bool) -> Dataset:
    folder = resolve_cache_dir(cache)
    if folder is None:
        tokens, sentences = encoder.encode(data.tokens, data.offsets)
        stored = from_float32(tokens, dtype), from_float32(sentences, dtype)
        return data.with_features(Features(*stored, encoder.spec))
    return data.with_features(caches.load_or_encode(data, encoder, dtype, folder))


def _best_installed(installed: dict[str, Path | None]) -> str:
    """Return the most accurate installed encoder; log the choice and how to install a better one."""
    name = next((name for name in PREFERRED_ENCODERS if name in installed), HASHING)
    better = (
        PREFERRED_ENCODERS[: PREFERRED_ENCODERS.index(name)] if name in PREFERRED_ENCODERS else PREFERRED_ENCODERS[::-1]
    )
    hint = f"; more accurate: {better[0]} (install: {PACKAGED[better[0]].command})" if better else ""
    LOG.info("using encoder %s%s", name, hint)
    return name


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except OSError:  # not a valid file name
        return False


def _hint(name: str) -> str:
    return unknown_name_message("encoder", name, [AUTO, *list_encoders(installed_only=False)])
