"""Makes a virtual environment with exactly the packages of a requirements file, each with its hash.

    python -m rig.environment .venv requirements/dev.txt

uv installs them, in a tenth of the processor time that pip takes. `make` has pip install uv before, into ``.venv-uv``.
uv reads no settings of pip's, as of certificates. So where uv cannot install, pip does.

uv installs packages side by side. Where two of them have the same file, pip keeps that of the one which needs the
other, and uv that of the slower one. So what has such a file is installed once more, when the others are there.

Nothing is compiled: Python compiles what is imported, which is little of what the CDK alone has, 3 million lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from .engine import ROOT

_UV = ROOT / ".venv-uv" / "bin"
_LAST = "aws-cdk-lib"  # with aws-cdk.cloud-assembly-schema it has a module of one name, of which it needs its own
_INDEX = re.compile(r"^[\w:]+\.index-url='(.*)'$", re.MULTILINE)


def install(folder: Path, pins: Path, program: str = sys.executable) -> Path:
    """Make the environment anew. Return its Python.

    program: the Python that it shall have.
    """
    sys.stdout.write(f"Installing {pins.relative_to(ROOT)} into {folder.relative_to(ROOT)}\n")
    sys.stdout.flush()
    subprocess.run([program, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    options = ["install", "--quiet", "--require-hashes", "-r", str(pins)]
    uv, environment = [str(_UV / "uv"), "pip", *options, "--python", str(python)], os.environ | _index()
    done = subprocess.run(uv, env=environment, check=False)
    if not done.returncode and f"\n{_LAST}==" in pins.read_text():
        done = subprocess.run([*uv, "--reinstall-package", _LAST], env=environment, check=False)
    if done.returncode:
        sys.stdout.write("pip installs them instead, which takes longer.\n")
        sys.stdout.flush()
        subprocess.run([_UV / "pip", "--python", python, *options, "--no-input", "--no-compile"], check=True)
    return python


def _index() -> dict[str, str]:
    """The index that pip has been told to ask."""
    told = subprocess.run([_UV / "pip", "config", "list"], capture_output=True, text=True, check=True)
    found = _INDEX.search(told.stdout)  # pip lists the environment first, which wins
    return {"UV_DEFAULT_INDEX": found[1]} if found and "UV_DEFAULT_INDEX" not in os.environ else {}


if __name__ == "__main__":
    install(ROOT / sys.argv[1], ROOT / sys.argv[2])
