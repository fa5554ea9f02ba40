"""The package as users have it: its wheel alone in a new virtual environment."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from rig.engine import ROOT, inherited_environment

_SECONDS = 240  # pip and venv take seconds, and beside other load minutes


def build_wheel(folder: Path) -> Path:
    """Build this checkout's wheel into ``folder``."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    finish(build, inherited_environment())
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_alone(folder: Path) -> Path:
    """Build the wheel and install it alone into a new environment in ``folder``. Returns the environment's Python."""
    wheel = build_wheel(folder / "dist")
    bare = folder / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    python = bare / "bin" / "python"
    install = ["install", "--quiet", "--no-index", "--disable-pip-version-check", wheel]  # no index, so no dependencies
    finish([sys.executable, "-m", "pip", "--python", python, *install], inherited_environment())
    return python


def finish(command: list[Any], environment: dict[str, str], **options: Any) -> str:
    """Run a command that must succeed. Returns what it printed."""
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = subprocess.run(command, env=environment, timeout=_SECONDS, check=False, **quiet, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
