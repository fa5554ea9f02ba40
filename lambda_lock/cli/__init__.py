"""The command line `lambda-lock`. It needs the extra `cli`; the package itself has no dependencies."""

from __future__ import annotations

import os
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
    from .exits import NOT_WRITTEN, say

    try:
        if sys.stdout is None:  # it was closed when we were started: nobody reads the output
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        app(prog_name="lambda-lock")
    except OSError as error:
        say(f"input or output failed: {error}", "red")
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)  # what is left in the buffer would fail once more when Python ends
        sys.exit(NOT_WRITTEN)
