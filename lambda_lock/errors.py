"""Every error of lambda_lock.

All derive from LockError, so ``except LockError`` catches what the library itself raises and nothing else. Each one
carries its state as attributes, can be pickled (multiprocessing and Step Functions workers pass them on), says in its
message what to do next, and is raised ``from`` its cause where there is one.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs about 5 ms of a cold start: only checkers read what stands under this name
if TYPE_CHECKING:
    from typing import Any


_LONGEST = 8_000  # characters of an error or a log line: a key has 2,048 bytes, a value in a row may have 400 KB


def printable(text: str) -> str:
    """``text`` with all escaped that could break a line or move a terminal's cursor: keys and owners are other people's
    data, and a line break in them could forge a line of the log. A text that is too long for a line is cut."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 40]}… ({len(text)} characters)"  # which is not cut a second time
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


class LockError(Exception):
    """The base of all errors here. ``key`` is the lock's key, or None where no single lock is concerned."""

    def __init__(self, message: str = "", *, key: str | None = None) -> None:
        super().__init__(printable(message))
        self.key = key

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors of the subclasses take keywords; pickle's default would call them with positions.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(kind: type[LockError], args: tuple[Any, ...]) -> LockError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class LockNotGrantedError(LockError):
    """Somebody else holds the lock (contention), or too little time is left to hold it for a second.

    holder: the owner who holds it, where a reply named one. waited: seconds spent. retry_after: seconds after which
    the holder's lease ends if it is not renewed, where that is known. too_late: it was not contention but the
    invocation's deadline.
    """

    def __init__(
        self,
        message: str = "",
        *,
        key: str | None = None,
        holder: str | None = None,
        waited: float = 0.0,
        retry_after: float | None = None,
        too_late: bool = False,
    ) -> None:
        super().__init__(message, key=key)
        self.holder = holder
        self.waited = waited
        self.retry_after = retry_after
        self.too_late = too_late


class LockTimeoutError(LockNotGrantedError):
    """A wait above zero ran out, or was cancelled, before the lock was granted."""


class LockLostError(LockError):
    """The lock is no longer ours: its validity ended, or a write was refused. ``holder``: who has it now, if known."""

    def __init__(self, message: str = "", *, key: str | None = None, holder: str | None = None) -> None:
        super().__init__(message, key=key)
        self.holder = holder


class LockAlreadyReleasedError(LockError):
    """The handle was released before; a handle is released once."""


class OwnerMismatchError(LockError):
    """The handle belongs to another client or process (a forked child never releases its parent's locks)."""


class SessionMonitorNotSetError(LockError):
    """A question about ``safe_time`` was asked of a lock that was acquired without one."""


class ClientClosedError(LockError):
    """The client was closed; build a new one."""


class LockConfigurationError(LockError):
    """The table, the Region, the credentials, a permission or an argument is not right. Nothing stays held."""


class LockArgumentError(LockConfigurationError, ValueError):
    """An argument is out of its range. Raised before anything is sent; a ValueError too, as Python has it."""


class KeyTemplateError(LockError):
    """A key cannot be built from this call's arguments. ``field`` names the part of the template that failed."""

    def __init__(self, message: str = "", *, key: str | None = None, field: str | None = None) -> None:
        super().__init__(message, key=key)
        self.field = field


class LockFormatError(LockError):
    """A row of the table, or a string handed over, cannot be read. The row is left alone, never taken over."""


class DuplicateEventError(LockError):
    """The event was completed before. ``result`` is what is stored; ``completed_until`` epoch seconds."""

    def __init__(
        self, message: str = "", *, key: str | None = None, result: object = None, completed_until: float | None = None
    ) -> None:
        super().__init__(message, key=key)
        self.result = result
        self.completed_until = completed_until


class CommitRefusedError(LockError):
    """A transaction was refused by the application's own conditions. ``reasons`` has one entry for each item."""

    def __init__(self, message: str = "", *, key: str | None = None, reasons: tuple[object, ...] = ()) -> None:
        super().__init__(message, key=key)
        self.reasons = reasons


class TransportError(LockError):
    """A request got no usable answer. ``ambiguous``: it may have been carried out all the same."""

    def __init__(self, ambiguous: bool, message: str | None = None, *, key: str | None = None) -> None:
        super().__init__(
            message
            or ("no answer: the request may have been carried out" if ambiguous else "the request was not sent"),
            key=key,
        )
        self.ambiguous = ambiguous
