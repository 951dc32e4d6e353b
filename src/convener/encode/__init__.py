"""Encoders: tokens become features, once.

>>> import convener as cv
>>> data = cv.encode(cv.demo.corpus().test, "hashing", cache=False)
>>> data.features.width
256
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from convener import caching
from convener.corpus import Corpus
from convener.data import Dataset
from convener.encode import cache as caches
from convener.encode.base import Encoded, Encoder
from convener.encode.hashing import Hashing
from convener.encode.hub import hub_folder
from convener.encode.packages import PACKAGED
from convener.encode.transformer import Transformer
from convener.errors import ConfigError, MismatchError, UnknownNameError, unknown_name
from convener.features import DTYPES, Dtype, Encoding, Features, as_stored

__all__ = ["Encoded", "Encoder", "Hashing", "Transformer", "available", "encode", "get"]

LOG = logging.getLogger(__name__)
AUTO, HASHING = "auto", "hashing"
BEST = ("mpnet", "minilm")
"""Which of the encoders in packages is best, first."""
NEEDED = ("torch", "transformers")
D = TypeVar("D", Dataset, Corpus)


def available() -> dict[str, Path | None]:
    """Encoders with names of their own that work here, and where their models lie.

    >>> "hashing" in available()
    True
    """
    found: dict[str, Path | None] = {HASHING: None}
    if all(find_spec(name) for name in NEEDED):
        for name, packaged in PACKAGED.items():
            if folder := packaged.folder(caching.root()):
                found[name] = folder
    return found


def get(name: str = AUTO, **settings: Any) -> Encoder:
    """The encoder of that name: auto, hashing, minilm, mpnet, a folder, or a name on a hub.

    >>> get("hashing", width=64).width
    64
    >>> get("hashign")
    Traceback (most recent call last):
    convener.errors.UnknownNameError: no encoder 'hashign'; did you mean 'hashing'?
    """
    there = available()
    if name == AUTO:
        name = _best(there)
    if name == HASHING:
        return Hashing(**settings)
    if name in there:
        return Transformer(name, Path(str(there[name])), **settings)
    if name in PACKAGED:
        missing = [module for module in NEEDED if not find_spec(module)]
        how = "pip install 'convener[encoders]'" if missing else PACKAGED[name].command
        raise ConfigError(
            f"encoder {name!r} is not installed: {how} (installed: {', '.join(there)})"
        )
    if _is_folder(name):
        # By its whole path: a saved model must find it again from wherever it is loaded.
        return Transformer(str(Path(name).absolute()), Path(name), **settings)
    if "/" not in name and "did you mean" in (hint := _hint(name)):
        raise UnknownNameError(hint)
    instead = f"; installed: {', '.join(there)}"
    return Transformer(name, hub_folder(name, what="encoder", instead=instead), **settings)


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
        encoder = get(encoder, **settings)
    elif settings:
        raise ConfigError(f"settings of an encoder that is set up: {', '.join(settings)}")
    if isinstance(data, Corpus):
        splits = data.splits.items()
        parts = {name: _encoded(part, encoder, dtype, cache) for name, part in splits}
        return Corpus(splits=parts)
    return _encoded(data, encoder, dtype, cache)


def again(encoding: Encoding) -> Encoder:
    """The encoder that made features once, to make more; an error where it is another by now."""
    try:
        encoder = get(encoding.name, **encoding.settings)
    except (ConfigError, UnknownNameError) as error:
        raise ConfigError(
            f"data without features, and {encoding}, which made the others, cannot be had: {error}"
        ) from error
    if encoder.encoding != encoding:
        raise ConfigError(
            f"the encoder {encoding.name!r} is another one now: {encoding} was used, "
            f"{encoder.encoding} is here"
        )
    return encoder


def ensured(data: Dataset, encoder: str, encoding: Encoding | None, *, whose: str) -> Dataset:
    """The data with features, as `encoding` has them or, where that is None, by this encoder.

    whose: who was fitted on that encoding, for the message where data have other features.
    """
    if data.features is None:
        return encode(data, again(encoding) if encoding else get(encoder))
    if encoding is not None and data.features.encoding != encoding:
        raise MismatchError(
            f"{whose} was fitted on features of {encoding}; these are of {data.features.encoding}"
        )
    return data


def _encoded(data: Dataset, encoder: Encoder, dtype: Dtype, cache: str | Path | bool) -> Dataset:
    folder = caching.chosen(cache)
    if folder is None:
        words, sentences = encoder.encode(data.tokens, data.offsets)
        stored = as_stored(words, dtype), as_stored(sentences, dtype)
        return data.with_features(Features(*stored, encoder.encoding))
    return data.with_features(caches.features_of(data, encoder, dtype, folder))


def _best(there: dict[str, Path | None]) -> str:
    """The best encoder that is installed; says which, and how to get a better one."""
    name = next((name for name in BEST if name in there), HASHING)
    better = BEST[: BEST.index(name)] if name in BEST else BEST[::-1]
    why = "the best of them"
    if better:
        why = f"{better[0]} would be better: {PACKAGED[better[0]].command}"
    LOG.info("encoder %s (%s)", name, why)
    return name


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except OSError:  # a name that no file can have
        return False


def _hint(name: str) -> str:
    return unknown_name("encoder", name, [AUTO, HASHING, *PACKAGED])
