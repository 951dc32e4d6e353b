"""The viewer: the same page, served page by page from disk, for corpora too large for one file.

Nothing is served by path: there is the page, and there are sentences that one asks for. It reads
and never writes. Where another interface than loopback is asked for, all addresses begin with a
token; on loopback the name that a browser asks for must be the machine's own, so that no page of
somebody else's can read along.
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
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from convener import storage
from convener.errors import ConfigError, ConvenerWarning, DataError, UnknownNameError
from convener.report.html import render_report
from convener.report.run_summary import RunSummary
from convener.report.sentence_index import Query, SentenceIndex
from convener.storage import atomic_write

VIEWS_DIR, METADATA_FILE = "views", "view.json"
HOUR = 3600.0


def view_dir(folder: Path, key: str) -> Path:
    """The folder that a view has in a cache."""
    return folder / VIEWS_DIR / key[:32]


def write_metadata(view: Path, title: str, sentences: int) -> None:
    """Write what a view says of itself."""
    metadata = {"title": title, "sentences": sentences}
    (view / METADATA_FILE).write_text(json.dumps(metadata), encoding="utf-8")


def touch(view: Path) -> None:
    """Note that a view is used now; one that may only be read is fine."""
    with suppress(OSError):
        os.utime(view / METADATA_FILE)


@dataclass(frozen=True)
class ViewEntry:
    """One view in the cache."""

    folder: Path
    title: str
    sentences: int | None
    size: int
    last_used: float
    """When it was last used, in seconds since 1970."""

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return self.folder.name

    @property
    def finished(self) -> bool:
        """Whether it is whole."""
        return not self.folder.name.startswith(".")


def entries(folder: Path) -> list[ViewEntry]:
    """All views in the cache, the last used first."""
    return sorted(_entries(folder / VIEWS_DIR), key=lambda entry: -entry.last_used)


def entries_to_prune(
    candidates: Iterable[ViewEntry],
    *,
    older_than: float | None = None,
    keep_bytes: float | None = None,
    unfinished: bool = False,
) -> list[ViewEntry]:
    """Which views to remove: see `caching.prunable`; unfinished: drafts that nobody writes on."""
    candidates = list(candidates)
    selected = storage.entries_to_prune(candidates, older_than=older_than, max_bytes=keep_bytes)
    if unfinished:
        threshold = time.time() - HOUR
        selected += [x for x in candidates if not x.finished and x.last_used < threshold and x not in selected]
    return selected


def remove(selected: Iterable[ViewEntry]) -> None:
    """Delete views; one that is being served is served on, from what is still open."""
    for entry in selected:
        try:
            shutil.rmtree(entry.folder)
        except FileNotFoundError:  # another process was faster
            continue
        except OSError as error:
            raise DataError(f"{entry.folder}: cannot be removed: {error.strerror}") from error


def _entries(folder: Path) -> Iterator[ViewEntry]:
    for view in folder.iterdir() if folder.is_dir() else ():
        if not view.is_dir():
            continue
        content: Any = None
        with suppress(OSError, ValueError):
            content = json.loads((view / METADATA_FILE).read_text(encoding="utf-8"))
        metadata = content if isinstance(content, dict) else {}
        with suppress(FileNotFoundError):  # finished or removed while one looks
            files = [file.stat() for file in view.rglob("*") if file.is_file()]
            yield ViewEntry(
                folder=view,
                title=str(metadata.get("title", "?")),
                sentences=metadata.get("sentences"),
                size=sum(file.st_size for file in files),
                last_used=max((file.st_mtime for file in files), default=view.stat().st_mtime),
            )


INDEX_FILE = "index.html"
MAX_RECORDS = 500
"""Sentences in one answer."""
MAX_DIGITS = 15
QUERY_PARAMS = {"text": "text", "odd": "filter", "type": "type", "source": "source", "order": "order"}
"""What an address may ask for, and the field of a query it is."""


def prepare_view(folder: Path, summarize: Callable[[], RunSummary]) -> Path:
    """A folder that can be served; told and written only if it is not there yet."""
    if (folder / INDEX_FILE).is_file():
        try:
            SentenceIndex.open(folder)
        except DataError as error:
            warnings.warn(f"{error}; preparing again", ConvenerWarning, stacklevel=2)
        else:
            touch(folder)
            return folder
    summary = summarize()
    with atomic_write(folder) as draft:
        draft.mkdir()
        summary.sentence_index.save(draft)
        write_metadata(draft, summary.title, len(summary.data))
        (draft / INDEX_FILE).write_text(render_report(summary, remote=True), encoding="utf-8")
    return folder


class Viewer(ThreadingHTTPServer):
    """Serves a prepared folder. `address` is what to open."""

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

    def handle_error(self, *about: Any) -> None:
        """Nothing where somebody did not wait for the answer, as browsers do while one types."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*about)

    def query_sentences(self, query: str) -> dict[str, Any]:
        """The sentences asked for, as the page understands it."""
        params = {name: values[-1] for name, values in parse_qs(query).items()}
        start, count = (_parse_int(params.pop(name, "0"), name) for name in ("start", "count"))
        if unknown := sorted(set(params) - set(QUERY_PARAMS)):
            raise UnknownNameError(f"nothing is called {', '.join(unknown)}")
        matches = self.sentence_index.find(Query(**{QUERY_PARAMS[name]: value for name, value in params.items()}))
        selected = matches[start : start + min(count, MAX_RECORDS)].tolist()
        return {"total": len(matches), "records": [self.sentence_index.record(n) for n in selected]}


class _Handler(BaseHTTPRequestHandler):
    server: Viewer
    server_version, sys_version = "convener", ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The page, or some sentences."""
        prefix = self.server.prefix
        try:
            parts = urlsplit(self.path)
        except ValueError:
            self._send_text(HTTPStatus.BAD_REQUEST, "this is no address")
            return
        if not hmac.compare_digest(parts.path[: len(prefix)].encode(), prefix.encode()):
            self._send_text(HTTPStatus.FORBIDDEN, "this address lacks the token")
        elif self.server.is_local and not _is_own_name(self.headers.get("Host", "")):
            self._send_text(HTTPStatus.FORBIDDEN, "this viewer is for this machine only")
        elif parts.path == prefix:
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif parts.path == f"{prefix}sentences":
            try:
                body = json.dumps(self.server.query_sentences(parts.query), separators=(",", ":"))
            except (UnknownNameError, ConfigError) as error:
                self._send_text(HTTPStatus.BAD_REQUEST, str(error))
                return
            self._send(HTTPStatus.OK, body.encode(), "application/json")
        else:
            self._send_text(HTTPStatus.NOT_FOUND, "there is nothing here")

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
        """Nothing: an address may hold the token."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a name or number of it.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_own_name(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _parse_int(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        raise ConfigError(f"{name} must be a whole number, got {text[:20]!r}")
    return int(text)
