"""Asks the advisory services of PyPI and npm about every pinned package: `make audit`, which `make check` runs.

A mirror of a registry often has no such service, and then answers "nothing is known" or nothing at all. So each service
is first asked about a package whose vulnerabilities are known for years. Only a service that reports them is believed.
Otherwise the pins are reported as not audited, which is an error only with --required.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .engine import ROOT

_TIMEOUT = 240.0  # seconds for one program
_KNOWN = ("urllib3", "1.24.1")  # PYSEC-2019-132, PYSEC-2019-133 and others
_KNOWN_NPM = ("lodash", "4.17.4")  # GHSA-jf85-cpcp-j695 and others


class NotAudited(Exception):
    """A service cannot be reached, or does not know what it must know."""


@dataclass
class Audit:
    """What was asked of one service.

    asked: how many packages it was asked about.
    found: what is vulnerable, one line each.
    left_out: what it does not know.
    """

    asked: int = 0
    found: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def python(files: Sequence[Path], *options: str) -> Audit:
    """Ask about the pins of requirements files. ``options`` are for pip-audit, such as another service.

    Raises NotAudited.
    """
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder, "known.txt")
        known.write_text("==".join(_KNOWN) + "\n")
        (answer,) = _pip_audit(known, "--no-deps", *options)
    if not answer.get("vulns"):
        raise NotAudited(f"it knows no vulnerability of {' '.join(_KNOWN)}")
    audit, seen = Audit(), set()
    for file in files:
        for answer in _pip_audit(file, "--require-hashes", *options):
            pin = f"{answer['name']} {answer.get('version', '')}".strip()
            seen.add(pin)
            if "skip_reason" in answer:
                audit.left_out.append(f"{file.name}: {answer['skip_reason']}")
            for one in answer.get("vulns", ()):
                remedy = ", ".join(one["fix_versions"]) or "no version yet"
                audit.found.append(f"{file.name}: {pin} has {one['id']}, corrected in {remedy}")
    audit.asked = len(seen)
    return audit


def npm(folder: Path, *options: str) -> Audit:
    """Ask about the pins of a folder's package-lock.json. ``options`` are for npm, such as another registry.

    Raises NotAudited.
    """
    if shutil.which("npm") is None:
        raise NotAudited("npm is not installed")
    name, version = _KNOWN_NPM
    with tempfile.TemporaryDirectory() as made:
        package = {"name": "known", "version": "1.0.0", "dependencies": {name: version}}
        packages = {"": package, f"node_modules/{name}": {"version": version}}
        lock = {"name": "known", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": packages}
        Path(made, "package.json").write_text(json.dumps(package))
        Path(made, "package-lock.json").write_text(json.dumps(lock))
        if not _npm_audit(Path(made), *options)["vulnerabilities"]:
            raise NotAudited(f"it knows no vulnerability of {name} {version}")
    said = _npm_audit(folder, *options)
    found = [f"{one} has {', '.join(_titles(about))}" for one, about in said["vulnerabilities"].items()]
    return Audit(said["metadata"]["dependencies"]["total"], [f"package-lock.json: {line}" for line in found])


def _pip_audit(file: Path, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(file), "--disable-pip", "--format", "json"]
    done = _run([*command, "--progress-spinner", "off", *options], file.parent)
    try:
        dependencies: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        raise NotAudited(_last_line(done.stderr)) from None
    return dependencies


def _npm_audit(folder: Path, *options: str) -> dict[str, Any]:
    done = _run(["npm", "audit", "--json", "--package-lock-only", *options], folder)
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = {}
    if not {"vulnerabilities", "metadata"} <= said.keys():
        raise NotAudited(f"HTTP {said['statusCode']}" if "statusCode" in said else _last_line(done.stderr))
    return said


def _titles(about: dict[str, Any]) -> Iterator[str]:
    """The advisories of a package, or the packages through which it is vulnerable."""
    for via in about["via"]:
        yield via if isinstance(via, str) else f"{via['url']} ({via['title']})"


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotAudited(f"no answer within {_TIMEOUT:.0f} s") from None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines() or ["it printed nothing"]
    return lines[-1].strip()[:200]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was found. Returns 1 if a pin is vulnerable, or with --required also if one was not audited."""
    parser = argparse.ArgumentParser(prog="python -m rig.audit", description=__doc__)
    parser.add_argument("--required", action="store_true", help="fail if a service cannot be reached")
    wanted = parser.parse_args(arguments)
    failed = False
    lines: list[str] = []
    files = sorted((ROOT / "requirements").glob("*.txt"))
    asks: dict[str, Callable[[], Audit]] = {
        "requirements/*.txt": lambda: python(files),
        "package-lock.json": lambda: npm(ROOT),
    }
    for what, ask in asks.items():
        try:
            audit = ask()
        except NotAudited as error:
            lines.append(f"{what}: NOT AUDITED, because the advisory service cannot be used ({error})")
            failed |= wanted.required
            continue
        lines += audit.found
        lines += [f"not audited: {one}" for one in audit.left_out]
        lines.append(f"{what}: {audit.asked} packages audited, {len(audit.found)} vulnerabilities")
        failed |= bool(audit.found) or (wanted.required and bool(audit.left_out))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
