"""Models on a hub: one that responds, one that times out, one that is unreachable."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from convener.encoders import download
from convener.encoders.download import fetch_hub_folder
from convener.errors import ConfigError, UnknownNameError

SHA = "0123456789" * 4
CODE = """
import sys
import convener as cv
from convener.encoders import download, get_encoder
download.HUB_TIMEOUT = 0.5
for name in sys.argv[1:]:
    try:
        encoder = get_encoder(name)
        print(name, encoder.dim, encoder.folder)
    except cv.ConvenerError as error:
        print(name, type(error).__name__, error)
"""


class Hub(ThreadingHTTPServer):
    """A hub with one model, `lab/tiny`; requests for `lab/silent` time out."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.asked, self.over = folder, [], Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, body: bool = True) -> None:
        path = self.path.split("?")[0]
        self.server.asked.append(path)
        files = [file for file in sorted(self.server.folder.iterdir()) if file.is_file()]
        if "lab/silent" in path:
            self.server.over.wait(20)
        elif "lab/tiny" not in path:
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif "/resolve/" in path:
            raw = (self.server.folder / path.rpartition("/")[2]).read_bytes()
            digest = hashlib.sha256(raw).hexdigest()
            self.answer(200, raw, {"ETag": f'"{digest}"', "X-Repo-Commit": SHA}, body=body)
        elif "/tree/" in path:
            rows = [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": SHA} for f in files]
            self.answer(200, json.dumps(rows).encode())
        else:
            names = [{"rfilename": file.name} for file in files]
            metadata = {"id": "lab/tiny", "modelId": "lab/tiny", "sha": SHA, "siblings": names}
            self.answer(200, json.dumps(metadata).encode())

    def answer(self, code: int, raw: bytes, headers: dict[str, str] | None = None, body: bool = True) -> None:
        self.send_response(code)
        headers = {"Content-Type": "application/json"} | (headers or {})
        for name, value in (headers | {"Content-Length": str(len(raw))}).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(raw)


@pytest.fixture
def server(tiny: Callable[[str], Path], tmp_path: Path) -> Iterator[Hub]:
    folder = tmp_path / "repository"
    folder.mkdir()
    for file in tiny("distilbert").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "modeling.py").write_text("print('code')")
    with Hub(folder) as found:
        Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.over.set()
        found.shutdown()


def ask(tmp_path: Path, address: str, *names: str, **more: str) -> list[str]:
    """The output of a new process that uses only this hub."""
    env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    env |= {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, *names],
        env=env | more,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_model_is_downloaded_once_and_without_code(server: Hub, tmp_path: Path) -> None:
    names = ("lab/tiny", "lab/tiny", "lab/nothing", "lab/silent")
    first, second, nothing, timed_out = ask(tmp_path, server.address, *names)
    name, width, folder = first.split()
    assert (name, width) == ("lab/tiny", "24")
    assert second == first
    assert sorted(file.name for file in Path(folder).iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    weights = [path for path in server.asked if path.endswith("model.safetensors")]
    assert 1 <= len(weights) <= 2  # asked about, and fetched
    assert nothing.startswith("lab/nothing UnknownNameError unknown encoder 'lab/nothing': neither a ")
    assert "installed: hashing" in nothing
    assert timed_out.startswith("lab/silent ConfigError encoder 'lab/silent' is not installed and the hub")
    assert "Timeout" in timed_out
    asked = len(server.asked)
    assert ask(tmp_path, "http://127.0.0.1:9", "lab/tiny") == [first]  # no hub is needed any more
    assert len(server.asked) == asked
    Path(folder, "model.safetensors").unlink()  # as a download that was stopped leaves it
    for path in Path(folder).parents[1].iterdir():  # old versions of the hub's library know no more
        if path.name not in ("refs", "blobs", "snapshots"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert ask(tmp_path, server.address, "lab/tiny") == [first]
    assert Path(folder, "model.safetensors").is_file()


@pytest.fixture
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreachable hub and an empty model cache."""
    import huggingface_hub.hf_api as api
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(api.api, "endpoint", "http://127.0.0.1:9")


def test_an_unreachable_hub_is_reported_with_alternatives(no_hub: None) -> None:
    begin = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        fetch_hub_folder("google-bert/bert-base-cased", kind="encoder", hint="; installed: hashing, minilm")
    assert time.monotonic() - begin < 10
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(
        "encoder 'google-bert/bert-base-cased' is not installed and the hub is unreachable ("
    )
    assert str(caught.value).endswith("; installed: hashing, minilm")


def test_offline_mode_is_respected(no_hub: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="the hub is unreachable"):
        fetch_hub_folder("lab/tiny", kind="encoder", hint="; installed: hashing")


@pytest.mark.parametrize("name", ["a--b", "lab/..", "x" * 200])
def test_an_invalid_hub_name_is_unknown(no_hub: None, name: str) -> None:
    with pytest.raises(UnknownNameError, match="neither a folder nor on the hub"):
        fetch_hub_folder(name, kind="encoder", hint="; installed: hashing")


def test_requests_to_a_hub_time_out() -> None:
    """huggingface_hub itself has no time limit."""
    assert 1 <= download.HUB_TIMEOUT <= 10


@pytest.mark.parametrize(
    ("files", "whole"),
    [
        ({"config.json": "{}"}, False),
        ({"model.safetensors": ""}, False),
        ({"config.json": "{}", "model.safetensors": ""}, True),
        ({"config.json": "{}", "a-1.safetensors": "", "m.safetensors.index.json": "["}, True),
        ({"config.json": "{}", "a-1.safetensors": "", "a-2.safetensors": "", "index": ""}, True),
        ({"config.json": "{}", "a-1.safetensors": "", "index": ""}, False),
    ],
)
def test_a_model_is_complete_with_all_its_weights(tmp_path: Path, files: dict[str, str], whole: bool) -> None:
    for name, content in files.items():
        if name == "index":
            name = "model.safetensors.index.json"
            content = json.dumps({"weight_map": {"a": "a-1.safetensors", "b": "a-2.safetensors"}})
        (tmp_path / name).write_text(content)
    assert download._is_complete(tmp_path) is whole
