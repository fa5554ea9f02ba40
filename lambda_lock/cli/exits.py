"""How a process ends: exit codes, errors as one message with its remedy on stderr, and a child that ends with us."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
from typing import IO, Any

import click

from .. import errors

NO = 1  # no such lock, or not released
USAGE = 2  # what click uses for a wrong option
# The rest are from sysexits.h, so a command seldom uses them itself.
UNAVAILABLE = 69
NOT_WRITTEN = 74
NOT_GRANTED = 75
LOST = 76
CONFIGURATION = 78
# As in shells.
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128

_PR_SET_PDEATHSIG = 1

_CODES: dict[type[errors.LockError], int] = {
    errors.LockNotGrantedError: NOT_GRANTED,
    errors.LockLostError: LOST,
    errors.TransportError: UNAVAILABLE,
    errors.LockArgumentError: USAGE,  # before its base class
    errors.LockConfigurationError: CONFIGURATION,
    errors.LockFormatError: CONFIGURATION,
}


#: What messages of the library say for Python, and what that is on the command line.
_WORDS = (
    ("Pass permits= to acquire as well (a list of keys takes locks only)", "Pass --permits N, as the others do"),
    (
        "Pass shared=False to acquire to be the only one, or permits= and take= as the others do (a list of keys takes "
        "locks only)",
        "Pass --exclusive to be the only one, or --permits N --take K as the others do",
    ),
    ("needs permits=:", "needs --permits:"),
    ("Pass permits=N, or leave take out", "Pass --permits N, or leave --take out"),
    ("shared=True", "--shared"),
    ("shared=False", "--exclusive"),
    ("permits=.", "--permits."),
    ("shared=.", "--shared."),
    ("permits= ", "--permits "),
    (", without take=,", ", without --take,"),
    ("pass wait=seconds", "use --wait SECONDS"),
)


class Failure(click.ClickException):
    """Ends the command with a message on stderr and an exit code."""

    def __init__(self, message: str, code: int = NO) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # a class variable only by click's annotation

    def show(self, file: IO[Any] | None = None) -> None:
        say(self.message, "red")


def failure(error: errors.LockError) -> Failure:
    """The failure that ends a command with an error of the library."""
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), NO)
    if not isinstance(error, errors.LockNotGrantedError) or error.holder is None:
        return Failure(in_words_of_options(str(error)), code)
    said = in_words_of_options(str(error).rpartition(". ")[0])  # without the remedy, which is one for Python
    left = "" if error.retry_after is None else f". It may be free in about {error.retry_after} s"
    return Failure(f"{said}{left}. To wait longer, use --wait SECONDS", code)


def in_words_of_options(text: str) -> str:
    """A message of the library, with options instead of arguments."""
    for python, option in _WORDS:
        text = text.replace(python, option)
    return text


def ask_for(text: str, question: str, otherwise: str) -> None:
    """Have ``text`` typed. Raises Failure that says what is so ``otherwise``."""
    try:
        typed = click.prompt(question, prompt_suffix=": ", err=True)
    except click.Abort:
        raise Failure(f"{otherwise}: {text!r} was not typed. In a script, use --yes") from None
    if typed != text:
        raise Failure(f"{otherwise}: {typed!r} is not {text!r}")


def say(message: str, colour: str | None = None) -> None:
    """Print a message of our own on stderr. stdout belongs to the result of the command, or to the child.

    A message that cannot be written is dropped: it must not keep `run` from ending a command whose lock is lost.
    """
    if sys.__stderr__ is None:  # it was closed when we were started
        return
    prefix, text = "lambda-lock:", errors.printable(message)
    if sys.stderr.isatty():  # wrapped between words on a terminal; one line in a log
        if colour and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":  # see no-color.org
            prefix = click.style(prefix, fg=colour, bold=True)
        text = textwrap.fill(f"lambda-lock: {text}", shutil.get_terminal_size().columns, break_on_hyphens=False)[13:]
    with contextlib.suppress(OSError):
        click.echo(f"{prefix} {text}", err=True, color=True)


def end_with_parent(parent: int, number: int) -> None:
    """Have Linux send this process the signal ``number`` when its parent dies. Does nothing on other systems.

    For the child, between fork and exec. The signal comes when the parent's thread that forked ends, so that must be
    its main thread. The kernel forgets the request if the child executes a file with set-user-ID or capabilities.
    """
    if sys.platform != "linux":
        return
    import ctypes  # only here: nothing else on the command line needs it

    ctypes.CDLL(None).prctl(*map(ctypes.c_ulong, (_PR_SET_PDEATHSIG, number, 0, 0, 0)))
    if os.getppid() != parent:  # it died before this request, and no signal will come
        os._exit(SIGNALLED + number)
