"""Fixture: tiny encoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.encoders.toys import build


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folders of tiny models by architecture, built on first use."""
    folders: dict[str, Path] = {}

    def folder(architecture: str) -> Path:
        if architecture not in folders:
            folders[architecture] = build(architecture, tmp_path_factory.mktemp(architecture))
        return folders[architecture]

    return folder
