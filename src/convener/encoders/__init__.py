"""Encoders: tokens become features, once.

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

from convener import storage
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
    "list_encoders",
]

LOG = logging.getLogger(__name__)
AUTO, HASHING = "auto", "hashing"
PREFERRED_ENCODERS = ("mpnet", "minilm")
"""Which of the encoders in packages is best, first."""
REQUIRED_MODULES = ("torch", "transformers")
D = TypeVar("D", Dataset, Corpus)


def list_encoders() -> dict[str, Path | None]:
    """Encoders with names of their own that work here, and where their models lie.

    >>> "hashing" in list_encoders()
    True
    """
    installed: dict[str, Path | None] = {HASHING: None}
    if all(find_spec(name) for name in REQUIRED_MODULES):
        for name, packaged in PACKAGED.items():
            if folder := packaged.folder(storage.cache_dir()):
                installed[name] = folder
    return installed


def get_encoder(name: str = AUTO, **settings: Any) -> Encoder:
    """The encoder of that name: auto, hashing, minilm, mpnet, a folder, or a name on a hub.

    >>> get_encoder("hashing", width=64).dim
    64
    >>> get_encoder("hashign")
    Traceback (most recent call last):
    convener.errors.UnknownNameError: no encoder 'hashign'; did you mean 'hashing'?
    """
    installed = list_encoders()
    if name == AUTO:
        name = _best_installed(installed)
    if name == HASHING:
        return HashingEncoder(**settings)
    if name in installed:
        return TransformerEncoder(name, Path(str(installed[name])), **settings)
    if name in PACKAGED:
        missing = [module for module in REQUIRED_MODULES if not find_spec(module)]
        command = "pip install 'convener[encoders]'" if missing else PACKAGED[name].command
        raise ConfigError(f"encoder {name!r} is not installed: {command} (installed: {', '.join(installed)})")
    if _is_folder(name):
        # By its whole path: a saved model must find it again from wherever it is loaded.
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
    """The same data with features, computed or from the cache; a corpus split by split.

    encoder: a name (see `get`) with its settings, or an encoder. dtype: how the numbers are
    stored. cache: a folder instead of the usual one; False to keep nothing on disk.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if isinstance(encoder, str):
        encoder = get_encoder(encoder, **settings)
    elif settings:
        raise ConfigError(f"settings of an encoder that is set up: {', '.join(settings)}")
    if isinstance(data, Corpus):
        splits = data.splits.items()
        encoded = {name: _encode_dataset(dataset, encoder, dtype, cache) for name, dataset in splits}
        return Corpus(splits=encoded)
    return _encode_dataset(data, encoder, dtype, cache)


def restore_encoder(spec: EncoderSpec) -> Encoder:
    """The encoder that made features once, to make more; an error where it is another by now."""
    try:
        encoder = get_encoder(spec.name, **spec.settings)
    except (ConfigError, UnknownNameError) as error:
        raise ConfigError(
            f"data without features, and {spec}, which made the others, cannot be had: {error}"
        ) from error
    if encoder.spec != spec:
        raise ConfigError(f"the encoder {spec.name!r} is another one now: {spec} was used, {encoder.spec} is here")
    return encoder


def ensure_features(data: Dataset, encoder: str, spec: EncoderSpec | None, *, owner: str) -> Dataset:
    """The data with features, as `encoding` has them or, where that is None, by this encoder.

    whose: who was fitted on that encoding, for the message where data have other features.
    """
    if data.features is None:
        return encode(data, restore_encoder(spec) if spec else get_encoder(encoder))
    if spec is not None and data.features.encoder_spec != spec:
        raise MismatchError(f"{owner} was fitted on features of {spec}; these are of {data.features.encoder_spec}")
    return data


def _encode_dataset(data: Dataset, encoder: Encoder, dtype: Dtype, cache: str | Path | bool) -> Dataset:
    cache_dir = storage.resolve_cache_dir(cache)
    if cache_dir is None:
        words, sentences = encoder.encode(data.tokens, data.offsets)
        stored = from_float32(words, dtype), from_float32(sentences, dtype)
        return data.with_features(Features(*stored, encoder.spec))
    return data.with_features(caches.load_or_encode(data, encoder, dtype, cache_dir))


def _best_installed(installed: dict[str, Path | None]) -> str:
    """The best encoder that is installed; says which, and how to get a better one."""
    name = next((name for name in PREFERRED_ENCODERS if name in installed), HASHING)
    better = (
        PREFERRED_ENCODERS[: PREFERRED_ENCODERS.index(name)] if name in PREFERRED_ENCODERS else PREFERRED_ENCODERS[::-1]
    )
    reason = "the best of them"
    if better:
        reason = f"{better[0]} would be better: {PACKAGED[better[0]].command}"
    LOG.info("encoder %s (%s)", name, reason)
    return name


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except OSError:  # a name that no file can have
        return False


def _hint(name: str) -> str:
    return unknown_name_message("encoder", name, [AUTO, HASHING, *PACKAGED])
