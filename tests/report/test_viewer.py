"""The viewer: requests to a running server."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest

from convener.errors import ConfigError, ConvenerWarning
from convener.report.html import render_report
from convener.report.run_summary import RunSummary
from convener.report.sentence_index import FILTERS, ORDERS, Query
from convener.report.viewer import INDEX_FILE, MAX_RECORDS, Viewer, is_loopback, prepare_view


@contextmanager
def serving(viewer: Viewer) -> Iterator[Viewer]:
    thread = threading.Thread(target=viewer.serve_forever, kwargs={"poll_interval": 0.02})
    with viewer:
        thread.start()
        try:
            yield viewer
        finally:
            viewer.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def folder(vote: RunSummary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_view(tmp_path_factory.mktemp("views") / "view", lambda: vote)


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[Viewer]:
    with serving(Viewer(folder)) as server:
        yield server


def sentences(server: Viewer, **query: object) -> Any:
    with urlopen(f"{server.address}sentences?{urlencode(query)}") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        return json.load(answer)


Response = tuple[int, dict[str, str], bytes]


def raw(server: Viewer, path: str, method: str = "GET", host: str | None = None) -> Response:
    """One request without any normalisation of its path."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    connection.close()
    return found


# Responses


def test_the_page(viewer: Viewer, vote: RunSummary) -> None:
    with urlopen(viewer.address) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.read().decode() == render_report(vote, remote=True)


def test_loopback_is_the_default_and_needs_no_token(viewer: Viewer) -> None:
    assert viewer.address == f"http://127.0.0.1:{viewer.port}/"
    assert viewer.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["", *FILTERS])
def test_sentences_are_those_of_the_index(viewer: Viewer, vote: RunSummary, name: str, order: str) -> None:
    source, kind = vote.data.sources[0], vote.data.tags.types[-1]
    for query in (Query(filter=name, order=order), Query("of", name, kind, source, order)):
        found = vote.sentence_index.find(query).tolist()
        answer = sentences(viewer, start=1, count=20, **query._asdict())
        assert answer["total"] == len(found)
        assert answer["records"] == [vote.sentence_index.record(number) for number in found[1:21]]


def test_pages_of_sentences(viewer: Viewer, vote: RunSummary) -> None:
    assert sentences(viewer) == {"total": len(vote.data), "records": []}
    assert [r["n"] for r in sentences(viewer, start=3, count=2)["records"]] == [3, 4]
    assert sentences(viewer, start=10**14, count=5)["records"] == []
    assert sentences(viewer, text="no such words")["total"] == 0


def test_the_size_of_a_response_is_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convener.report.viewer.MAX_RECORDS", 3)
    with serving(Viewer(folder)) as server:
        assert len(sentences(server, count=10**9)["records"]) == 3
    assert MAX_RECORDS == 500


def test_the_last_of_several_values_counts(viewer: Viewer, vote: RunSummary) -> None:
    with urlopen(f"{viewer.address}sentences?count=1&start=0&start=2") as answer:
        assert [record["n"] for record in json.load(answer)["records"]] == [2]


def test_queries_with_special_characters(viewer: Viewer) -> None:
    for text in ("<script>", "é🙂", "%00", "a&b=c", "\n"):
        sentences(viewer, text=text)


def test_head_requests_have_no_body(viewer: Viewer) -> None:
    for path in ("/", "/sentences?count=2"):
        status, headers, body = raw(viewer, path, "HEAD")
        full = raw(viewer, path)
        assert (status, body) == (200, b"")
        assert headers["content-length"] == str(len(full[2]))
        assert headers["content-type"] == full[1]["content-type"]


def test_one_connection_for_many_requests(viewer: Viewer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=10)
    for path, status in (("/", 200), ("/nothing", 404), ("/sentences?count=1", 200)):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, len(answer.read()) > 0) == (status, True)
    connection.close()


# Refused requests


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(viewer: Viewer, method: str) -> None:
    status, _, body = raw(viewer, "/", method)
    assert status in (405, 501)
    assert b"<script" not in body


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("name=x", "unknown parameter name"),
        ("filter=no_votes&b=1&a=2", "unknown parameter a, b"),
        ("filter=none", "no filter 'none'"),
        ("type=XYZ", "no type 'XYZ'"),
        ("source=nobody", "no source 'nobody'"),
        ("order=length", "no order 'length'"),
        ("start=-1", "start must be a whole number, got '-1'"),
        ("count=x", "count must be a whole number, got 'x'"),
        ("count=1.5", "count must be a whole number"),
        ("count=%C2%B2", "count must be a whole number"),
        ("start=" + "9" * 5000, "start must be a whole number"),
    ],
)
def test_bad_queries_are_400(viewer: Viewer, query: str, message: str) -> None:
    with pytest.raises(HTTPError) as error:
        urlopen(f"{viewer.address}sentences?{query}")
    assert error.value.code == 400
    assert error.value.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert message in error.value.read().decode()


SECRET = "Ada-and-nobody-else"


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/sentences/../index.html",
        "/sentences/..%2findex.html",
        "/index.html",
        "/sentences.json",
        "/view.json",
        "/tokens.data.npy",
        "/./sentences.json",
        "//etc/passwd",
        "/secret.txt",
        "/../secret.txt",
        "/sentences/",
        "http://127.0.0.1/etc/passwd",
        "http://elsewhere.example/sentences.json",
        "file:///etc/passwd",
        "*",
    ],
)
def test_nothing_is_served_by_path(folder: Path, viewer: Viewer, path: str) -> None:
    for view in (folder, folder.parent):
        (view / "secret.txt").write_text(SECRET)
    status, _, body = raw(viewer, path)
    assert status in (400, 403, 404)
    assert b"root:" not in body
    assert SECRET.encode() not in body
    assert len(body) < 400


def test_an_invalid_url(viewer: Viewer, capfd: pytest.CaptureFixture[str]) -> None:
    assert raw(viewer, "http://[::1/")[0] == 400
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "[::1",
        "",
        "@",
    ],
)
def test_other_names_are_refused_on_loopback(viewer: Viewer, host: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A foreign page cannot read the data by DNS rebinding."""
    for path in ("/", "/sentences?count=1"):
        status, _, body = raw(viewer, path, host=host)
        assert status == 403
        assert body == b"this viewer serves only this machine"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8000", "127.1.2.3"])
def test_own_names_are_accepted_on_loopback(viewer: Viewer, host: str) -> None:
    assert raw(viewer, "/", host=host)[0] == 200


def test_closed_connections_are_not_reported(viewer: Viewer, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        connection = socket.create_connection(("127.0.0.1", viewer.port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        connection.close()  # reset immediately
    time.sleep(0.2)
    assert raw(viewer, "/")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_other_errors_are_reported(
    viewer: Viewer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(query: str) -> None:
        raise RuntimeError("an internal error")

    monkeypatch.setattr(viewer, "query_sentences", broken)
    with pytest.raises(http.client.RemoteDisconnected):
        raw(viewer, "/sentences")
    assert "an internal error" in capfd.readouterr().err


# Other interfaces


@pytest.fixture(scope="module")
def public(folder: Path) -> Iterator[Viewer]:
    with serving(Viewer(folder, host="0.0.0.0")) as server:
        yield server


def test_another_interface_needs_the_token(public: Viewer, vote: RunSummary, capfd: pytest.CaptureFixture[str]) -> None:
    token = urlsplit(public.address).path.strip("/")
    assert len(token) >= 32
    wrong = ["/", "/sentences?count=1", f"/{token[:-1]}/", f"/x{token}/", f"/{token}", "/%2f/"]
    wrong += [f"/{token.swapcase()}/", f"/?{token}"]
    for path in wrong:
        status, headers, body = raw(public, path, host="anything.example")
        assert status == 403, path
        assert token.encode() not in body + json.dumps(headers).encode()
    status, headers, body = raw(public, f"/{token}/", host="my-server:80")
    assert (status, body.decode()) == (200, render_report(vote, remote=True))
    assert token not in json.dumps(headers)
    status, _, body = raw(public, f"/{token}/sentences?start=2&count=1")
    assert json.loads(body)["records"] == [vote.sentence_index.record(2)]
    assert raw(public, f"/{token}/index.html")[0] == 404
    assert token not in "".join(capfd.readouterr())


def test_every_viewer_has_its_own_token(folder: Path) -> None:
    with Viewer(folder, host="0.0.0.0") as one, Viewer(folder, host="0.0.0.0") as other:
        assert one.prefix != other.prefix
        assert one.address.startswith(f"http://0.0.0.0:{one.port}/")


def test_protocol_errors_do_not_show_the_token(public: Viewer) -> None:
    status, headers, body = raw(public, public.prefix, "POST")
    assert status == 501
    assert public.prefix.strip("/").encode() not in body + json.dumps(headers).encode()


def test_ipv6(folder: Path) -> None:
    try:
        server = Viewer(folder, host="::1")
    except ConfigError:
        pytest.skip("this machine has no IPv6")
    with serving(server):
        assert server.address == f"http://[::1]:{server.port}/"
        assert sentences(server)["total"] == len(server.sentence_index)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("localhost", True), ("::1", True)]
    + [(name, False) for name in ("0.0.0.0", "::", "10.0.0.1", "", "localhost.example", "::ffff:1")],
)
def test_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_a_port_in_use(folder: Path, viewer: Viewer) -> None:
    message = f"cannot listen on 127.0.0.1:{viewer.port}: Address already in use"
    with pytest.raises(ConfigError, match=message):
        Viewer(folder, port=viewer.port)


def test_an_unknown_host_name(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on no\.such\.invalid:0: "):
        Viewer(folder, host="no.such.invalid")


# Preparing views


def test_a_view_is_prepared_once(vote: RunSummary, tmp_path: Path) -> None:
    calls = []

    def summarize() -> RunSummary:
        calls.append(1)
        return vote

    view = tmp_path / "cache" / "views" / "abc"
    assert prepare_view(view, summarize) == view
    first = {file.name: file.read_bytes() for file in view.iterdir()}
    assert prepare_view(view, summarize) == view
    assert calls == [1]
    assert {file.name: file.read_bytes() for file in view.iterdir()} == first
    assert [path.name for path in view.parent.iterdir()] == ["abc"]


def test_an_interrupted_summary_leaves_nothing(tmp_path: Path) -> None:
    def summarize() -> RunSummary:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_view(tmp_path / "views" / "abc", summarize)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_nothing(vote: RunSummary, tmp_path: Path) -> None:
    broken = replace(vote, estimates=None)  # type: ignore[arg-type] # fails when the page is rendered
    with pytest.raises(TypeError):
        prepare_view(tmp_path / "views" / "abc", lambda: broken)
    assert list((tmp_path / "views").iterdir()) == []


def test_a_damaged_view_is_prepared_again(vote: RunSummary, tmp_path: Path) -> None:
    view = prepare_view(tmp_path / "abc", lambda: vote)
    (view / "filters.npy").write_bytes(b"")
    (view / "bounds.npy").write_bytes(b"a file of an older format")
    with pytest.warns(ConvenerWarning, match="damaged: .*; preparing again"):
        prepare_view(view, lambda: vote)
    with Viewer(view) as server:
        assert server.query_sentences("count=1")["records"] == [vote.sentence_index.record(0)]
    assert not (view / "bounds.npy").exists()
    (view / INDEX_FILE).unlink()
    prepare_view(view, lambda: vote)
    assert (view / INDEX_FILE).is_file()


def test_opening_a_view_updates_its_time_of_use(vote: RunSummary, tmp_path: Path) -> None:
    view = prepare_view(tmp_path / "abc", lambda: vote)
    for file in view.iterdir():
        os.utime(file, (1e9, 1e9))
    prepare_view(view, lambda: vote)
    assert max(file.stat().st_mtime for file in view.iterdir()) > time.time() - 60


def test_requests_are_not_logged(viewer: Viewer, capfd: pytest.CaptureFixture[str]) -> None:
    with urlopen(Request(f"{viewer.address}sentences?text=private", method="GET")):
        pass
    assert capfd.readouterr() == ("", "")
