"""Client of an OpenAI-compatible server: concurrent requests, retries, a circuit breaker and a response cache."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from convener.config import check_min
from convener.errors import ConfigError, ConvenerWarning, DataError, require
from convener.storage import atomic_write, compute_digest

RESPONSES_DIR = "llm_responses"
VERSION = "1"
BASE_URL_ENV = "OPENAI_BASE_URL"
PLACEHOLDER_KEY = "none"
"""Key sent if none is set: local servers need none, but the openai client requires one."""
RETRY_COUNT_HEADER = "x-stainless-retry-count"
"""Request header in which the openai client counts its retries."""
SKIPPED = "skipped after too many consecutive failures"
NO_CONTENT = "response without content"

Request = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Server, concurrency and error handling of a client."""

    base_url: str | None = None
    """URL of the server; default: the variable OPENAI_BASE_URL, else OpenAI's own server."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the API key. The key itself is never a setting."""
    concurrency: int = 4
    """Maximum number of concurrent requests."""
    timeout: float = 60.0
    """Seconds to wait for the server before a request fails."""
    max_attempts: int = 5
    """Maximum number of requests per text; 1 disables retries. The openai client repeats requests
    after rate limits, server errors, timeouts and connection errors. It waits as long as the server
    demands (Retry-After) or up to 8 seconds, and gives up if the server demands minutes."""
    max_consecutive_failures: int = 10
    """Circuit breaker: after this many failed texts in a row the remaining texts are skipped."""

    def __post_init__(self) -> None:
        check_min(self, 1, "concurrency", "max_attempts", "max_consecutive_failures")
        if not self.timeout > 0:
            raise ConfigError(f"timeout must be above 0, got {self.timeout}")


class Response(NamedTuple):
    """Text of a model's response, and the number of tokens read and written."""

    content: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


OnResponse = Callable[[Request, Response], None]


class RequestResult(NamedTuple):
    """A response, or the error if there is none, and the number of requests sent."""

    response: Response | None
    num_requests: int
    error: str = ""


class Client:
    """Sends requests concurrently.

    After `max_consecutive_failures` the remaining requests are skipped; each further call of `send`
    starts with requests that are not retried, to test whether the server is available again.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._consecutive_failures = 0
        self._lock = threading.Lock()

    def send(self, requests: Sequence[Request], on_response: OnResponse) -> Iterator[RequestResult]:
        """Yield results in the order of the requests; failures of the server do not raise.

        `on_response` is called with each response on arrival, so that an interrupted run keeps the
        responses it has paid for.
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
        # One failure before the circuit breaker opens, requests are not retried.
        if self._consecutive_failures >= max(1, max_failures - 1):
            openai_client = openai_client.with_options(max_retries=0)
        result = _complete(openai, openai_client, request)
        with self._lock:
            self._consecutive_failures = self._consecutive_failures + 1 if result.response is None else 0
        if result.response is not None:
            on_response(request, result.response)
        return result


class ResponseCache:
    """Stores one file per response, named by a digest of the request.

    The request holds the model's name, the messages and the sampling options, but neither the URL
    of the server nor the key.
    """

    def __init__(self, cache_dir: Path) -> None:
        self.cache_dir = cache_dir

    def path(self, request: Request) -> Path:
        """Return the file of a response, which need not exist."""
        key = compute_digest(VERSION, request)[:32]
        return self.cache_dir / RESPONSES_DIR / key[:2] / f"{key}.json"

    def get(self, request: Request) -> Response | None:
        """Return the stored response, or None if it is missing or damaged."""
        try:
            response = Response(**json.loads(self.path(request).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return response if isinstance(response.content, str) else None

    def put(self, request: Request, response: Response) -> None:
        """Store a response; a write error is only a warning, so that the response is still used."""
        try:
            with atomic_write(self.path(request)) as draft:
                # ASCII only: a response may contain lone surrogates, which UTF-8 cannot encode.
                draft.write_text(json.dumps(response._asdict()), encoding="utf-8")
        except DataError as error:
            warnings.warn(f"response not cached: {error}", ConvenerWarning, stacklevel=2)


def _make_openai_client(openai: Any, config: ClientConfig) -> Any:
    url = config.base_url or os.environ.get(BASE_URL_ENV)
    key = os.environ.get(config.api_key_env, "").strip()
    if not key and not url:
        raise ConfigError(
            f"no API key: set the environment variable {config.api_key_env}, or base_url for a server without keys"
        )
    return openai.OpenAI(
        base_url=url, api_key=key or PLACEHOLDER_KEY, timeout=config.timeout, max_retries=config.max_attempts - 1
    )


def _complete(openai: Any, openai_client: Any, request: Request) -> RequestResult:
    """Send one request, with the retries of the openai client."""
    num_requests = 1
    try:
        raw = openai_client.chat.completions.with_raw_response.create(**_request_arguments(request))
        num_requests += raw.retries_taken
        return _parse_completion(raw.parse(), num_requests)
    except Exception as error:  # of any kind: the server may not even be an HTTP server
        if isinstance(error, openai.APIError) and error.request is not None:
            num_requests = 1 + int(error.request.headers.get(RETRY_COUNT_HEADER, 0))
        return RequestResult(None, num_requests, _describe_failure(openai, error))


def _request_arguments(request: Request) -> dict[str, Any]:
    """Return the arguments of the openai client; fields it may not know go into `extra_body`."""
    standard = {name: request[name] for name in ("model", "messages")}
    return {
        **standard,
        "extra_body": {name: request[name] for name in request if name not in standard},
    }


def _parse_completion(completion: Any, num_requests: int) -> RequestResult:
    """Return the first choice of a completion; any part of it may be missing or of another type."""
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


def _describe_failure(openai: Any, error: Exception) -> str:
    """Describe a failure without the server's message, which may repeat the key."""
    if isinstance(error, openai.APIStatusError):
        return f"HTTP {error.status_code}"
    if isinstance(error, openai.APITimeoutError):
        return "timeout"
    if isinstance(error, openai.APIConnectionError):
        return "no connection"
    return type(error).__name__
