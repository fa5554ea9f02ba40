"""The command line `lambda-lock`. It needs the extra `cli`; the package itself has no dependencies."""

from __future__ import annotations

import sys

_EXTRA = frozenset({"click", "rich"})


def main() -> None:
    """The entry point. Runs the command in ``sys.argv`` and exits with its exit code."""
    try:
        from .app import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        sys.stderr.write(f"lambda-lock: {package} is missing. Install the extra: pip install 'lambda-lock[cli]'\n")
        sys.exit(2)
    app(prog_name="lambda-lock")
