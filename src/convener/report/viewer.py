"""Viewer: serves the report from disk, for corpora too large for one HTML file.

Only two resources exist: the page and the query for sentences. Nothing is served by path, and nothing is
written. On an interface other than loopback every URL starts with a token. On loopback the Host header
must name this machine, which prevents DNS rebinding.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import secrets
import shutil
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from convener.cache import CACHE_METADATA_FILE, REPORTS_DIR
from convener.errors import ConfigError, ConvenerWarning, DataError, UnknownNameError
from convener.report.html import render_report
from convener.report.run_summary import RunSummary
from convener.report.sentence_index import Query, SentenceIndex
from convener.storage import atomic_write

INDEX_FILE = "index.html"
MAX_RECORDS = 500
"""Sentences in one response."""
MAX_DIGITS = 15
"""Digits of a number in a query."""


class Viewer(ThreadingHTTPServer):
    """HTTP server of a prepared view; `address` is the URL of the page."""

    daemon_threads = True

    def __init__(self, folder: Path, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.page = (folder / INDEX_FILE).read_bytes()
        self.sentence_index = SentenceIndex.open(folder)
        self.is_local = is_loopback(host)
        self.prefix = "/" if self.is_local else f"/{secrets.token_urlsafe(24)}/"
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        self.port: int = self.server_address[1]
        url_host = f"[{host}]" if ":" in host else host
        self.address = f"http://{url_host}:{self.port}{self.prefix}"

    def handle_error(self, *args: Any) -> None:
        """Ignore clients that close the connection early, as browsers do while the user types."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*args)

    def query_sentences(self, query: str) -> dict[str, Any]:
        """Response to a query string: the number of matches and the requested records."""
        params = {name: values[-1] for name, values in parse_qs(query).items()}
        start, count = (_parse_int(params.pop(name, "0"), name) for name in ("start", "count"))
        if unknown := sorted(set(params) - set(Query._fields)):
            raise UnknownNameError(f"unknown parameter {', '.join(unknown)}")
        matches = self.sentence_index.find(Query(**params))
        selected = matches[start : start + min(count, MAX_RECORDS)].tolist()
        return {"total": len(matches), "records": [self.sentence_index.record(n) for n in selected]}


class _Handler(BaseHTTPRequestHandler):
    server: Viewer
    server_version, sys_version = "convener", ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the page or the sentences of a query."""
        prefix = self.server.prefix
        try:
            url = urlsplit(self.path)
        except ValueError:
            self._send_text(HTTPStatus.BAD_REQUEST, "bad request")
            return
        if not hmac.compare_digest(url.path[: len(prefix)].encode(), prefix.encode()):
            self._send_text(HTTPStatus.FORBIDDEN, "the URL lacks the token")
        elif self.server.is_local and not _is_own_name(self.headers.get("Host", "")):
            self._send_text(HTTPStatus.FORBIDDEN, "this viewer serves only this machine")
        elif url.path == prefix:
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif url.path == f"{prefix}sentences":
            try:
                body = json.dumps(self.server.query_sentences(url.query), separators=(",", ":"))
            except (UnknownNameError, ConfigError) as error:
                self._send_text(HTTPStatus.BAD_REQUEST, str(error))
                return
            self._send(HTTPStatus.OK, body.encode(), "application/json")
        else:
            self._send_text(HTTPStatus.NOT_FOUND, "not found")

    do_HEAD = do_GET  # noqa: N815

    def _send_text(self, status: HTTPStatus, text: str) -> None:
        self._send(status, text.encode(), "text/plain; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: a URL may contain the token."""


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be reached from this machine.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_own_name(host: str) -> bool:
    """Whether a Host header names this machine."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _parse_int(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        raise ConfigError(f"{name} must be a whole number, got {text[:20]!r}")
    return int(text)


# Views in the cache


def view_dir(cache_dir: Path, key: str) -> Path:
    """Folder of a view in the cache."""
    return cache_dir / REPORTS_DIR / key[:32]


def prepare_view(folder: Path, summarize: Callable[[], RunSummary]) -> Path:
    """Write the folder that a viewer serves, unless a valid one exists; returns the folder."""
    if (folder / INDEX_FILE).is_file():
        try:
            SentenceIndex.open(folder)
        except DataError as error:
            warnings.warn(f"{error}; preparing again", ConvenerWarning, stacklevel=2)
            shutil.rmtree(folder, ignore_errors=True)  # may contain files of an older format
        else:
            _touch(folder)
            return folder
    summary = summarize()
    with atomic_write(folder) as draft:
        draft.mkdir()
        summary.sentence_index.save(draft)
        metadata = {"label": summary.title, "sentences": len(summary.data)}
        (draft / CACHE_METADATA_FILE).write_text(json.dumps(metadata), encoding="utf-8")
        (draft / INDEX_FILE).write_text(render_report(summary, remote=True), encoding="utf-8")
    return folder


def _touch(view: Path) -> None:
    """Record that a view is used now; a read-only view is left unchanged."""
    with suppress(OSError):
        os.utime(view / CACHE_METADATA_FILE)
