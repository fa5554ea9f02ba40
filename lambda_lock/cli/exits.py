"""Exit codes, and how an expected error is told: one message with its remedy on stderr, no traceback."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import IO, Any

import click

from ..errors import (
    LockArgumentError,
    LockConfigurationError,
    LockError,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    TransportError,
)

NO = 1  # no such lock, or not released
USAGE = 2  # what click gives for a wrong option
# The rest as sysexits.h has them, so that they are seldom a command's own.
UNAVAILABLE = 69
NOT_GRANTED = 75
LOST = 76
CONFIGURATION = 78
# As shells have them.
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128

_CODES: tuple[tuple[type[LockError], int], ...] = (
    (LockNotGrantedError, NOT_GRANTED),
    (LockLostError, LOST),
    (TransportError, UNAVAILABLE),
    (LockArgumentError, USAGE),
    (LockConfigurationError, CONFIGURATION),
    (LockFormatError, CONFIGURATION),
)


class Failure(click.ClickException):
    """Ends the command with a message on stderr and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # a class variable only by click's annotation

    def show(self, file: IO[Any] | None = None) -> None:
        say(self.message, "red")


def failure(error: LockError) -> Failure:
    """The library's error as a failure of the command."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), NO)
    return Failure(_not_granted(error) if isinstance(error, LockNotGrantedError) else str(error), code)


def _not_granted(error: LockNotGrantedError) -> str:
    if error.holder is None:
        return str(error)
    left = "" if error.retry_after is None else f", whose lease ends in {error.retry_after:.0f} s unless renewed"
    waited = f" after {error.waited:.1f} s" if error.waited >= 0.1 else ""
    return f"lock {error.key!r} was not granted{waited}: {error.holder} holds it{left}. Wait longer: --wait SECONDS"


def say(message: str, colour: str | None = None) -> None:
    """A message of our own on stderr: stdout is the command's result, or the child's."""
    from ..errors import printable
    from .show import wants_colour

    prefix = click.style("lambda-lock:", fg=colour, bold=True) if colour and wants_colour() else "lambda-lock:"
    text = printable(message)
    if sys.stderr.isatty():  # broken between words; in a log a message stays one line
        text = textwrap.fill(f"lambda-lock: {text}", shutil.get_terminal_size().columns, break_on_hyphens=False)[13:]
    click.echo(f"{prefix} {text}", err=True, color=True)
