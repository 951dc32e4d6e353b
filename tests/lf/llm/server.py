"""A local OpenAI-compatible HTTP server with responses chosen by the test."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Response:
    """The response of the server to a request."""

    content: str | None = "[]"
    """Content of the message."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent instead of a completion."""
    after: float = 0.0
    """Seconds to wait before responding."""
    hangs_up: bool = False


Behaviour = Callable[[str, int], Response]
"""Maps a text and the number of requests for it so far, from 1, to a response."""


def quotes_response(*pairs: tuple[str, str]) -> Response:
    """A valid response with these quotes."""
    return Response(json.dumps([{"text": text, "type": kind} for text, kind in pairs]))


class Server:
    """Serves inside a `with` block and records the requests."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.times: list[float] = []
        self.asked: Counter[str] = Counter()
        self.at_once = 0
        self._under_way = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def requests(self) -> int:
        return len(self.bodies)

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _note(self, body: dict[str, Any], key: str | None) -> Response:
        text = body["messages"][-1]["content"].removeprefix("Text:\n")
        with self._lock:
            self.bodies.append(body)
            self.keys.add(key)
            self.times.append(time.monotonic())
            self.asked[text] += 1
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
        return self.behaviour(text, self.asked[text])

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/chat/completions"
                raw = self.rfile.read(int(self.headers["content-length"]))
                response = server._note(json.loads(raw), self.headers["authorization"])
                try:
                    time.sleep(response.after)
                finally:
                    with server._lock:
                        server._under_way -= 1
                if response.hangs_up:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                body = _completion(response) if response.body is None else response.body
                with suppress(ConnectionError):  # a client that did not wait
                    self.send_response(response.status)
                    for name, value in {
                        "content-type": "application/json",
                        "content-length": str(len(body)),
                        **response.headers,
                    }.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def _completion(response: Response) -> bytes:
    """A chat completion or an error in the format of the API."""
    if response.status >= 400:
        return json.dumps({"error": {"message": "no", "type": "error", "code": None}}).encode()
    content = response.content
    message = {"role": "assistant", "content": content}
    return json.dumps(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "toy",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
    ).encode()
