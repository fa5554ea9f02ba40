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
    from .exits import ending_if_refused

    with ending_if_refused():
        if sys.stdout is None:  # it was closed when we were started: nobody reads the output
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        app(prog_name="lambda-lock")
