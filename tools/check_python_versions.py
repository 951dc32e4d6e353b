"""Check statically that the project supports Python versions other than the running one.

For each version named in the classifiers of pyproject.toml:

- mypy, with --python-version;
- ruff check, with --target-version;
- dependencies: pip resolves the core and all extras to wheels for that version, on this platform.

    python tools/check_python_versions.py            every version in pyproject.toml but this one
    python tools/check_python_versions.py 3.13       only the versions named

The exit status is 0 if every check passed, 1 if one failed, 2 if the arguments are wrong. Needs the
dev extra and access to a package index. Nothing is installed into the environment: pip works in a
temporary directory, and reads only the metadata of a wheel where the index allows that.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
CLASSIFIER = "Programming Language :: Python :: 3."

# pip 25 resolves a dry run from metadata alone. The pip that a virtual environment comes with may
# be older and would download every wheel, so the script takes a newer one into its own directory.
PIP = "pip>=25.1"

# Rules that ask for syntax or arguments which the oldest supported Python does not have.
IGNORED_RULES = {
    "UP": "rewrites to the newest syntax",
    "B912": "map(strict=) exists from 3.14 on",
}

NO_WHEEL = "no wheel for "

MAX_ROUNDS = 10
"""Most resolutions per version; each adds at least one requirement to those before."""


@dataclass(frozen=True, kw_only=True)
class SourceOnly:
    """A dependency that has no wheels, and why that is acceptable."""

    reason: str
    requires: tuple[str, ...]
    """Its own dependencies, which are resolved in its place."""


ALLOWED_WITHOUT_WHEEL = {
    "seqeval": SourceOnly(
        reason="pure Python; published only as a source archive; dev extra, an oracle in tests",
        requires=("numpy>=1.14.0", "scikit-learn>=0.21.3"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that pip chose."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The outcome for one Python version."""

    packages: Mapping[str, Package]
    """By normalized name; only those that the version needs."""
    problems: tuple[str, ...]
    """Reasons for failure; empty if all packages have wheels."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks, print what they found, return the exit status."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parser = argparse.ArgumentParser(description="Check the support of Python versions statically.")
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="for example 3.13")
    versions = parser.parse_args(arguments).versions or other_versions(project["classifiers"])
    for version in versions:
        if not re.fullmatch(r"3\.\d+", version):
            parser.error(f"expected a version such as 3.13, found {version!r}")

    rows, failures, resolutions = [], [], {}
    with tempfile.TemporaryDirectory(prefix="convener-versions-") as directory:
        pip = Pip(Path(directory))
        requirements = all_requirements(project)
        for version in versions:
            checks = {
                "mypy": run("mypy", "--python-version", version),
                "ruff": run(
                    "ruff",
                    "check",
                    "--quiet",
                    f"--target-version=py{version.replace('.', '')}",
                    f"--extend-ignore={','.join(IGNORED_RULES)}",
                    ".",
                ),
            }
            found = resolve(pip, requirements, version)
            resolutions[version] = found
            failures += [
                f"Python {version}, {name}:\n{done.stdout}{done.stderr}".rstrip()
                for name, done in checks.items()
                if done.returncode
            ]
            failures += [f"Python {version}, dependencies: {problem}" for problem in found.problems]
            states = ["failed" if done.returncode else "ok" for done in checks.values()]
            states.append("failed" if found.problems else "ok")
            rows.append([version, *states, str(len(found.packages))])
            print(f"checked Python {version}", file=sys.stderr)

    print(table(["python", "mypy", "ruff", "wheels", "packages"], rows))
    for line in differences(resolutions):
        print(line)
    for name, entry in ALLOWED_WITHOUT_WHEEL.items():
        print(f"allowed without a wheel: {name} ({entry.reason})")
    for failure in failures:
        print(f"\n{failure}")
    return 1 if failures else 0


def other_versions(classifiers: Iterable[str]) -> list[str]:
    """Python versions that the classifiers name, without the running one.

    >>> other_versions(["Programming Language :: Python :: 3.99", "Typing :: Typed"])
    ['3.99']
    """
    running = f"3.{sys.version_info.minor}"
    named = [
        line.removeprefix("Programming Language :: Python :: ") for line in classifiers if line.startswith(CLASSIFIER)
    ]
    return [version for version in named if version != running]


def all_requirements(project: Mapping[str, Any]) -> list[str]:
    """Requirements of the core and of every extra, without the project itself.

    >>> project = {"name": "toy", "dependencies": ["numpy>=1"]}
    >>> extras = {"a": ["numpy>=2"], "all": ["toy[a]", "rich"]}
    >>> all_requirements({**project, "optional-dependencies": extras})
    ['numpy>=1', 'numpy>=2', 'rich']
    """
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    listed = [text for group in groups for text in group]
    own = canonicalize_name(project["name"])
    return sorted({text for text in listed if canonicalize_name(Requirement(text).name) != own})


def target_environment(version: str) -> dict[str, str]:
    """Marker variables of a Python version on this platform.

    >>> Requirement("x; python_version >= '3.13'").marker.evaluate(target_environment("3.14"))
    True
    """
    full = f"{version}.0"
    return {
        **{key: str(value) for key, value in default_environment().items()},
        "python_version": version,
        "python_full_version": full,
        "implementation_version": full,
    }


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module in the project's directory."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


class PipError(Exception):
    """pip failed; the message is what it reported, without addresses."""


class Pip:
    """A recent pip in a directory of its own, with the configuration of the user."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        home = directory / "pip"
        done = run("pip", "install", "--quiet", "--no-deps", "--target", str(home), PIP)
        if done.returncode:
            raise SystemExit(f"cannot install {PIP}: {errors_of(done.stderr)}")
        # A __main__.py inside the package makes it runnable by path, ahead of the older pip.
        self.command = [sys.executable, str(home / "pip")]

    def resolve(self, requirements: Iterable[str], version: str) -> dict[str, Package]:
        """Packages that pip would install for a Python version, wheels only."""
        listing, report = self.directory / "requirements.txt", self.directory / "report.json"
        listing.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        self._run(
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--use-feature=fast-deps",
            *target_options(version),
            f"--target={self.directory / 'target'}",
            f"--report={report}",
            f"--requirement={listing}",
        )
        items = json.loads(report.read_text(encoding="utf-8"))["install"]
        packages = [
            Package(
                name=item["metadata"]["name"],
                version=item["metadata"]["version"],
                requires=tuple(item["metadata"].get("requires_dist", ())),
            )
            for item in items
        ]
        return {canonicalize_name(package.name): package for package in packages}

    def versions_of(self, name: str, version: str, *, wheels: bool) -> list[str]:
        """Versions of a package in the index for a Python version."""
        options = target_options(version) if wheels else [f"--python-version={version}"]
        try:
            found = json.loads(self._run("index", "versions", "--pre", "--json", *options, name))
        except PipError:
            return []
        return [str(text) for text in found["versions"]]

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self.command, *arguments, "--no-input", "--disable-pip-version-check"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PipError(errors_of(done.stderr))
        return done.stdout


def target_options(version: str) -> list[str]:
    """Options of pip that select wheels of CPython for a version and this platform."""
    return ["--only-binary=:all:", f"--python-version={version}", "--implementation=cp"]


def errors_of(output: str) -> str:
    """The cause that pip's output names, without the addresses of indexes.

    >>> errors_of("ERROR: No matching distribution found for toy>=2")
    'no wheel for toy>=2'
    """
    missing = re.search(r"^ERROR: No matching distribution found for (.+)$", output, re.MULTILINE)
    if missing is not None:
        return NO_WHEEL + missing[1]
    lines = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    text = "; ".join(line.removeprefix("ERROR: ") for line in lines) or output.strip()
    return re.sub(r"\w+://\S+", "<address>", text)


def resolve(pip: Pip, requirements: Sequence[str], version: str) -> Resolution:
    """Resolve requirements to wheels for a Python version, or find out what is missing.

    pip evaluates environment markers for the running interpreter. So the result is checked against
    the markers of the target version, and what they ask for in addition is resolved in a new round.
    """
    environment = target_environment(version)
    wanted, problems = substituted(pip, applicable(requirements, environment), version)
    for _ in range(MAX_ROUNDS):
        try:
            packages = pip.resolve(wanted, version)
        except PipError as error:
            problems.append(str(error))
            culprit = direct_culprit(str(error), wanted)
            if culprit is None:
                return Resolution(packages={}, problems=tuple(dict.fromkeys(problems)))
            wanted.remove(culprit)  # go on without it, to report all that are missing
            continue
        needed, unmet = closure(wanted, packages, environment)
        if not unmet:
            chosen = {name: packages[name] for name in sorted(needed)}
            return Resolution(packages=chosen, problems=tuple(dict.fromkeys(problems)))
        wanted += unmet
    problems.append(f"no resolution after {MAX_ROUNDS} rounds")
    return Resolution(packages={}, problems=tuple(dict.fromkeys(problems)))


def applicable(requirements: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Requirements whose markers hold in an environment, without the markers.

    >>> applicable(["toy>=1; python_version < '3.14'", "rich"], target_environment("3.14"))
    ['rich']
    >>> applicable(["toy>=1; python_version < '3.14'"], target_environment("3.13"))
    ['toy>=1']
    """
    found = []
    for requirement in map(Requirement, requirements):
        marker, requirement.marker = requirement.marker, None
        if marker is None or marker.evaluate({**environment, "extra": ""}):
            found.append(str(requirement))
    return found


def substituted(pip: Pip, requirements: Iterable[str], version: str) -> tuple[list[str], list[str]]:
    """Replace packages without wheels by their dependencies.  -> requirements, problems"""
    wanted, problems = [], []
    for text in requirements:
        requirement = Requirement(text)
        entry = ALLOWED_WITHOUT_WHEEL.get(canonicalize_name(requirement.name))
        if entry is None:
            wanted.append(text)
            continue
        allowed = requirement.specifier.contains
        if any(map(allowed, pip.versions_of(requirement.name, version, wheels=True))):
            problems.append(f"{text} has a wheel now: remove it from ALLOWED_WITHOUT_WHEEL")
        elif not any(map(allowed, pip.versions_of(requirement.name, version, wheels=False))):
            problems.append(f"{text}: no release for Python {version}")
        wanted += entry.requires
    return wanted, problems


def direct_culprit(message: str, requirements: Iterable[str]) -> str | None:
    """The direct requirement that lacks a wheel or brings a package that lacks one.

    >>> direct_culprit("no wheel for toy>=2", ["rich", "toy>=2"])
    'toy>=2'
    >>> direct_culprit("no wheel for colors>=1 (from rich>=13)", ["rich>=13", "toy>=2"])
    'rich>=13'
    """
    by_name = {canonicalize_name(Requirement(text).name): text for text in requirements}
    if not message.startswith(NO_WHEEL):
        return None
    words = re.findall(r"[A-Za-z0-9][\w.-]*", message.removeprefix(NO_WHEEL))
    return next((by_name[name] for name in map(canonicalize_name, words) if name in by_name), None)


def closure(
    requirements: Iterable[str], packages: Mapping[str, Package], environment: Mapping[str, str]
) -> tuple[set[str], list[str]]:
    """Follow dependencies by the markers of an environment.  -> names needed, requirements unmet

    >>> toy = Package(name="toy", version="1", requires=("numpy>=2.1; python_version >= '3.13'",))
    >>> numpy = Package(name="numpy", version="2.0")
    >>> needed, unmet = closure(["toy"], {"toy": toy, "numpy": numpy}, target_environment("3.13"))
    >>> sorted(needed), unmet
    (['numpy', 'toy'], ['numpy>=2.1'])
    """
    pending = [Requirement(text) for text in requirements]
    seen: set[tuple[str, str]] = set()
    needed: set[str] = set()
    unmet: list[str] = []
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        package = packages.get(name)
        if package is not None:
            needed.add(name)
        if package is None or not requirement.specifier.contains(package.version, prereleases=True):
            requirement.marker = None
            unmet.append(str(requirement))
            continue
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for line in package.requires:
                dependency = Requirement(line)
                marker = dependency.marker
                if marker is None or marker.evaluate({**environment, "extra": extra}):
                    pending.append(dependency)
    return needed, sorted(set(unmet))


def differences(resolutions: Mapping[str, Resolution]) -> list[str]:
    """Packages whose version depends on the Python version: a hint at missing wheels.

    >>> def of(version):
    ...     return Resolution(packages={"x": Package(name="x", version=version)}, problems=())
    >>> differences({"3.12": of("2"), "3.13": of("2"), "3.14": of("1")})
    ['differs: x 2 on 3.12, 3.13; 1 on 3.14']
    """
    chosen: dict[str, dict[str, list[str]]] = {}
    for python, resolution in resolutions.items():
        for name, package in resolution.packages.items():
            chosen.setdefault(name, {}).setdefault(package.version, []).append(python)
    return [
        f"differs: {name} "
        + "; ".join(
            f"{version} on {', '.join(pythons)}"
            for version, pythons in sorted(found.items(), key=lambda item: Version(item[0]), reverse=True)
        )
        for name, found in sorted(chosen.items())
        if len(found) > 1
    ]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns aligned with spaces.

    >>> print(table(["python", "mypy"], [["3.12", "ok"]]))
    python  mypy
    ------  ----
    3.12    ok
    """
    lines = [head, ["-" * len(cell) for cell in head], *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
