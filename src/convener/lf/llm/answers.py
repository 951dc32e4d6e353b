"""Answers on disk: what was paid for once is not asked again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from convener.caching import digest_of
from convener.errors import ConvenerWarning, DataError
from convener.io.files import whole

FOLDER = "answers"
VERSION = "1"


class Answer(NamedTuple):
    """What a model said, and how many tokens were read and written for it."""

    content: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Answers:
    """One file for each answer, under a digest of the whole request.

    The request holds the model's name, what it is told and how it is set, and the text; neither
    the endpoint nor the key to it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, request: Mapping[str, Any]) -> Path:
        """The file of a request's answer, there or not."""
        key = digest_of(VERSION, request)[:32]
        return self.root / FOLDER / key[:2] / f"{key}.json"

    def get(self, request: Mapping[str, Any]) -> Answer | None:
        """The answer, if it is there and whole."""
        try:
            answer = Answer(**json.loads(self.place(request).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return answer if isinstance(answer.content, str) else None

    def put(self, request: Mapping[str, Any], answer: Answer) -> None:
        """Keep an answer; a disk that takes none is no reason to lose it."""
        try:
            with whole(self.place(request)) as draft:
                # Escaped: an answer may hold halves of characters, which no file can.
                draft.write_text(json.dumps(answer._asdict()), encoding="utf-8")
        except DataError as error:
            warnings.warn(f"answer not kept: {error}", ConvenerWarning, stacklevel=2)
