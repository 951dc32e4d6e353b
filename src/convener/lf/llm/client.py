"""A server that speaks OpenAI's protocol: asked politely, again if need be, and not for ever."""

from __future__ import annotations

import json
import os
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from convener.config import check_min
from convener.errors import ConfigError, ConvenerWarning, DataError, require
from convener.storage import atomic_write, compute_digest

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


Request = Mapping[str, Any]
OnResponse = Callable[[Request, Response], None]
BASE_URL_ENV = "OPENAI_BASE_URL"
PLACEHOLDER_KEY = "none"
"""Said where no key is set: servers of one's own want none, the client wants something."""
RETRYABLE_STATUS = (408, 409, 429)
"""Errors below 500 that may pass."""
QUOTA_ERROR_CODE = "insufficient_quota"
"""A rate limit that does not."""
SKIPPED = "not asked: too many failures in a row"
NO_CONTENT = "an answer without content"


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Where a model is asked, and how patiently."""

    base_url: str | None = None
    """The server; by default what OPENAI_BASE_URL says, or OpenAI's own."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key. The key itself is never a setting."""
    concurrency: int = 4
    """Requests under way at the same time, at most."""
    timeout: float = 60.0
    """Seconds that the server may be silent."""
    max_attempts: int = 5
    """Requests for one text, at most: rate limits, errors of the server and silence may pass."""
    backoff: float = 1.0
    """Seconds before the second request, twice as many before each further one; where the server
    says when to come back, that is kept to."""
    max_wait: float = 60.0
    """Seconds before any request, at most; a server that wants more time is given up for the
    text."""
    max_consecutive_failures: int = 10
    """So many texts in a row without an answer, and the others are not asked for."""

    def __post_init__(self) -> None:
        check_min(self, 1, "concurrency", "max_attempts", "max_consecutive_failures")
        check_min(self, 0, "backoff", "max_wait")
        if not self.timeout > 0:
            raise ConfigError(f"timeout must be above 0, got {self.timeout}")


class RequestResult(NamedTuple):
    """An answer, or why there is none, and how many requests it took."""

    response: Response | None
    num_requests: int
    error: str = ""


class RequestFailure(NamedTuple):
    """Why there is no answer, whether that may pass, and when the server wants to be asked."""

    reason: str
    retryable: bool = False
    retry_after: float | None = None


class Client:
    """Asks an endpoint many things at once.

    After `give_up` failures in a row the rest is not asked for; each further call of `ask` begins
    with requests that are not repeated, to see whether the endpoint is back.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._consecutive_failures = 0
        self._lock = threading.Lock()

    def send(self, requests: Sequence[Request], on_response: OnResponse) -> Iterator[RequestResult]:
        """Replies in the order of the requests; nothing that a server does raises.

        `keep` is called with each answer as it comes: who stops the run has what was paid for.
        """
        if not requests:
            return
        openai = require("openai", extra="llm", purpose="a language model as a source")
        self._consecutive_failures = min(self._consecutive_failures, self.config.max_consecutive_failures - 1)
        with (
            _make_openai_client(openai, self.config) as openai_client,
            ThreadPoolExecutor(self.config.concurrency) as pool,
        ):
            yield from pool.map(partial(self._send_one, openai, openai_client, on_response), requests)

    def _send_one(self, openai: Any, openai_client: Any, on_response: OnResponse, request: Request) -> RequestResult:
        max_failures = self.config.max_consecutive_failures
        if self._consecutive_failures >= max_failures:
            return RequestResult(None, 0, SKIPPED)
        # The last one before the rest is given up decides quickly.
        attempts = self.config.max_attempts if self._consecutive_failures < max(1, max_failures - 1) else 1
        result = self._send_with_retries(openai, openai_client, request, attempts)
        with self._lock:
            self._consecutive_failures = self._consecutive_failures + 1 if result.response is None else 0
        if result.response is not None:
            on_response(request, result.response)
        return result

    def _send_with_retries(self, openai: Any, openai_client: Any, request: Request, attempts: int) -> RequestResult:
        attempt, failure = 0, RequestFailure("")
        while attempt < attempts:
            attempt += 1
            try:
                return _parse_completion(openai_client.chat.completions.create(**_request_arguments(request)), attempt)
            except Exception as error:  # of any kind: what was sent may be no HTTP at all
                failure = _classify_error(openai, error)
            delay = self._retry_delay(attempt, failure)
            if not failure.retryable or delay > self.config.max_wait:
                break
            if attempt < attempts:
                time.sleep(delay)
        return RequestResult(None, attempt, failure.reason)

    def _retry_delay(self, attempt: int, failure: RequestFailure) -> float:
        """Seconds until the next request: as asked, or longer each time.

        Never quite the same, so that requests that failed together do not return together.
        """
        if failure.retry_after is not None:
            return failure.retry_after
        delay = self.config.backoff * 2.0 ** min(attempt - 1, 30)
        return min(delay, self.config.max_wait) * random.uniform(0.5, 1)  # noqa: S311


def _make_openai_client(openai: Any, config: ClientConfig) -> Any:
    """A client; what it does of its own about failures is switched off, so that all is counted."""
    url = config.base_url or os.environ.get(BASE_URL_ENV)
    key = os.environ.get(config.api_key_env, "").strip()
    if not key and not url:
        raise ConfigError(
            f"no key: set the environment variable {config.api_key_env}, or base_url to a server that wants none"
        )
    return openai.OpenAI(base_url=url, api_key=key or PLACEHOLDER_KEY, timeout=config.timeout, max_retries=0)


def _request_arguments(request: Request) -> dict[str, Any]:
    """A request as the client takes it: fields it may not know go as they are."""
    standard = {name: request[name] for name in ("model", "messages")}
    return {
        **standard,
        "extra_body": {name: request[name] for name in request if name not in standard},
    }


def _parse_completion(completion: Any, num_requests: int) -> RequestResult:
    """What a server said; anything may stand where an answer should."""
    choices = getattr(completion, "choices", None) or [None]
    content = getattr(getattr(choices[0], "message", None), "content", None)
    if not isinstance(content, str):
        return RequestResult(None, num_requests, NO_CONTENT)
    usage = getattr(completion, "usage", None)
    prompt_tokens, completion_tokens = (
        count if isinstance(count := getattr(usage, name, 0), int) else 0
        for name in ("prompt_tokens", "completion_tokens")
    )
    return RequestResult(Response(content, prompt_tokens, completion_tokens), num_requests)


def _classify_error(openai: Any, error: Exception) -> RequestFailure:
    """Why there was no answer; not in the server's words, which may repeat the key."""
    if isinstance(error, openai.APIStatusError):
        retryable = error.status_code in RETRYABLE_STATUS or error.status_code >= 500
        return RequestFailure(
            f"HTTP {error.status_code}",
            retryable=retryable and error.code != QUOTA_ERROR_CODE,
            retry_after=_retry_after(error.response.headers),
        )
    if isinstance(error, openai.APITimeoutError):
        return RequestFailure("timeout", retryable=True)
    if isinstance(error, openai.APIConnectionError):
        return RequestFailure("no connection", retryable=True)
    return RequestFailure(type(error).__name__)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server wants to be left alone, if it says so: as a number or as a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            return max(0.0, float(headers[name]) / unit)
    with suppress(KeyError, ValueError, TypeError, OverflowError):
        when = parsedate_to_datetime(headers["retry-after"]).timestamp()
        return max(0.0, when - time.time())
    return None
