"""Answers on disk: what was paid for once is not asked again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from convener.caching import compute_digest
from convener.errors import ConvenerWarning, DataError
from convener.io.files import atomic_write

RESPONSES_DIR = "answers"
VERSION = "1"


class Response(NamedTuple):
    """What a model said, and how many tokens were read and written for it."""

    content: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ResponseCache:
    """One file for each answer, under a digest of the whole request.

    The request holds the model's name, what it is told and how it is set, and the text; neither
    the endpoint nor the key to it.
    """

    def __init__(self, cache_dir: Path) -> None:
        self.cache_dir = cache_dir

    def path(self, request: Mapping[str, Any]) -> Path:
        """The file of a request's answer, there or not."""
        key = compute_digest(VERSION, request)[:32]
        return self.cache_dir / RESPONSES_DIR / key[:2] / f"{key}.json"

    def get(self, request: Mapping[str, Any]) -> Response | None:
        """The answer, if it is there and whole."""
        try:
            response = Response(**json.loads(self.path(request).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return response if isinstance(response.content, str) else None

    def put(self, request: Mapping[str, Any], response: Response) -> None:
        """Keep an answer; a disk that takes none is no reason to lose it."""
        try:
            with atomic_write(self.path(request)) as draft:
                # Escaped: an answer may hold halves of characters, which no file can.
                draft.write_text(json.dumps(response._asdict()), encoding="utf-8")
        except DataError as error:
            warnings.warn(f"answer not kept: {error}", ConvenerWarning, stacklevel=2)
