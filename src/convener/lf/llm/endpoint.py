"""A server that speaks OpenAI's protocol: asked politely, again if need be, and not for ever."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, NamedTuple

from convener.errors import ConfigError, require
from convener.lf.llm.answers import Answer
from convener.settings import at_least

Request = Mapping[str, Any]
Keep = Callable[[Request, Answer], None]
BASE_URL = "OPENAI_BASE_URL"
NO_KEY = "none"
"""Said where no key is set: servers of one's own want none, the client wants something."""
PASSING = (408, 409, 429)
"""Errors below 500 that may pass."""
QUOTA = "insufficient_quota"
"""A rate limit that does not."""
GIVEN_UP = "not asked: too many failures in a row"
NO_CONTENT = "an answer without content"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a model is asked, and how patiently."""

    base_url: str | None = None
    """The server; by default what OPENAI_BASE_URL says, or OpenAI's own."""
    key_variable: str = "OPENAI_API_KEY"
    """The environment variable that holds the key. The key itself is never a setting."""
    concurrency: int = 4
    """Requests under way at the same time, at most."""
    timeout: float = 60.0
    """Seconds that the server may be silent."""
    attempts: int = 5
    """Requests for one text, at most: rate limits, errors of the server and silence may pass."""
    backoff: float = 1.0
    """Seconds before the second request, twice as many before each further one; where the server
    says when to come back, that is kept to."""
    longest_wait: float = 60.0
    """Seconds before any request, at most; a server that wants more time is given up for the
    text."""
    give_up: int = 10
    """So many texts in a row without an answer, and the others are not asked for."""

    def __post_init__(self) -> None:
        at_least(self, 1, "concurrency", "attempts", "give_up")
        at_least(self, 0, "backoff", "longest_wait")
        if not self.timeout > 0:
            raise ConfigError(f"timeout must be above 0, got {self.timeout}")


class Reply(NamedTuple):
    """An answer, or why there is none, and how many requests it took."""

    answer: Answer | None
    requests: int
    reason: str = ""


class Refusal(NamedTuple):
    """Why there is no answer, whether that may pass, and when the server wants to be asked."""

    reason: str
    may_pass: bool = False
    wait: float | None = None


class Line:
    """Asks an endpoint many things at once.

    After `give_up` failures in a row the rest is not asked for; each further call of `ask` begins
    with requests that are not repeated, to see whether the endpoint is back.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._in_a_row = 0
        self._lock = threading.Lock()

    def ask(self, requests: Sequence[Request], keep: Keep) -> Iterator[Reply]:
        """Replies in the order of the requests; nothing that a server does raises.

        `keep` is called with each answer as it comes: who stops the run has what was paid for.
        """
        if not requests:
            return
        openai = require("openai", extra="llm", purpose="a language model as a source")
        self._in_a_row = min(self._in_a_row, self.endpoint.give_up - 1)
        with (
            _client(openai, self.endpoint) as client,
            ThreadPoolExecutor(self.endpoint.concurrency) as pool,
        ):
            yield from pool.map(partial(self._reply, openai, client, keep), requests)

    def _reply(self, openai: Any, client: Any, keep: Keep, request: Request) -> Reply:
        limit = self.endpoint.give_up
        if self._in_a_row >= limit:
            return Reply(None, 0, GIVEN_UP)
        # The last one before the rest is given up decides quickly.
        attempts = self.endpoint.attempts if self._in_a_row < max(1, limit - 1) else 1
        reply = self._patiently(openai, client, request, attempts)
        with self._lock:
            self._in_a_row = self._in_a_row + 1 if reply.answer is None else 0
        if reply.answer is not None:
            keep(request, reply.answer)
        return reply

    def _patiently(self, openai: Any, client: Any, request: Request, attempts: int) -> Reply:
        number, refusal = 0, Refusal("")
        while number < attempts:
            number += 1
            try:
                return _reply_of(client.chat.completions.create(**_arguments(request)), number)
            except Exception as error:  # of any kind: what was sent may be no HTTP at all
                refusal = _refusal_of(openai, error)
            wait = self._wait(number, refusal)
            if not refusal.may_pass or wait > self.endpoint.longest_wait:
                break
            if number < attempts:
                time.sleep(wait)
        return Reply(None, number, refusal.reason)

    def _wait(self, number: int, refusal: Refusal) -> float:
        """Seconds until the next request: as asked, or longer each time.

        Never quite the same, so that requests that failed together do not return together.
        """
        if refusal.wait is not None:
            return refusal.wait
        doubled = self.endpoint.backoff * 2.0 ** min(number - 1, 30)
        return min(doubled, self.endpoint.longest_wait) * random.uniform(0.5, 1)  # noqa: S311


def _client(openai: Any, endpoint: Endpoint) -> Any:
    """A client; what it does of its own about failures is switched off, so that all is counted."""
    url = endpoint.base_url or os.environ.get(BASE_URL)
    key = os.environ.get(endpoint.key_variable, "").strip()
    if not key and not url:
        raise ConfigError(
            f"no key: set the environment variable {endpoint.key_variable}, or base_url to a "
            "server that wants none"
        )
    return openai.OpenAI(
        base_url=url, api_key=key or NO_KEY, timeout=endpoint.timeout, max_retries=0
    )


def _arguments(request: Request) -> dict[str, Any]:
    """A request as the client takes it: fields it may not know go as they are."""
    known = {name: request[name] for name in ("model", "messages")}
    return {**known, "extra_body": {name: request[name] for name in request if name not in known}}


def _reply_of(completion: Any, requests: int) -> Reply:
    """What a server said; anything may stand where an answer should."""
    choices = getattr(completion, "choices", None) or [None]
    content = getattr(getattr(choices[0], "message", None), "content", None)
    if not isinstance(content, str):
        return Reply(None, requests, NO_CONTENT)
    usage = getattr(completion, "usage", None)
    read, written = (
        count if isinstance(count := getattr(usage, name, 0), int) else 0
        for name in ("prompt_tokens", "completion_tokens")
    )
    return Reply(Answer(content, read, written), requests)


def _refusal_of(openai: Any, error: Exception) -> Refusal:
    """Why there was no answer; not in the server's words, which may repeat the key."""
    if isinstance(error, openai.APIStatusError):
        passes = error.status_code in PASSING or error.status_code >= 500
        return Refusal(
            f"HTTP {error.status_code}",
            may_pass=passes and error.code != QUOTA,
            wait=_retry_after(error.response.headers),
        )
    if isinstance(error, openai.APITimeoutError):
        return Refusal("timeout", may_pass=True)
    if isinstance(error, openai.APIConnectionError):
        return Refusal("no connection", may_pass=True)
    return Refusal(type(error).__name__)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server wants to be left alone, if it says so: as a number or as a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            return max(0.0, float(headers[name]) / unit)
    with suppress(KeyError, ValueError, TypeError, OverflowError):
        when = parsedate_to_datetime(headers["retry-after"]).timestamp()
        return max(0.0, when - time.time())
    return None
