"""LAMBDA_LOCK_LOG_KEYS: the keys of locks in the log, in metrics and in traces, as they are, as a hash, or not at all.

A key may be personal data, and a log is kept for longer than a row, and by others. Loaded if the variable is set.
"""

from __future__ import annotations

from hashlib import sha256  # already loaded for signing requests

from ..errors import LockError, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_YES, _HASH, _NO = "yes", "hash", "no"
_HIDDEN = "(hidden)"
_DIGITS = 16
_SHORT = 6  # characters of a key that is looked for only where it is quoted: it may be a part of other words


def mode_of(asked: str) -> str | None:
    """yes, hash or no, as the variable says. None: it says none of these, and keys are hidden, as if it said no."""
    word = asked.strip().lower()
    return word if word in (_YES, _HASH, _NO) else None


def shown_key(asked: str, key: str) -> str | None:
    """The key as it may be shown. None: not at all. asked: what the variable says."""
    mode = mode_of(asked)
    if mode == _HASH:
        return f"sha256:{sha256(key.encode(errors='surrogatepass')).hexdigest()[:_DIGITS]}"
    return key if mode == _YES else None


def line_of(
    asked: str, message: str, arguments: Sequence[object], cause: BaseException | None, key: object
) -> tuple[str, BaseException | None]:
    """The message of a line with its arguments, and its cause, without keys that may not be shown.

    key: of the lock; or several, with ", " between them. Also gone are the keys of the errors among the arguments. The
    texts of other errors are the application's, and may have anything in them: only their types are left.
    """
    if mode_of(asked) == _YES:
        return (message % tuple(arguments) if arguments else message), cause
    shown = tuple(
        type(argument).__name__ if isinstance(argument, Exception) and not isinstance(argument, LockError) else argument
        for argument in arguments
    )
    errors = [each for each in (cause, *arguments) if isinstance(each, LockError)]
    texts = [text for text in (key, *(error.key for error in errors)) if isinstance(text, str) and text]
    text = message % shown if shown else message
    for one in sorted({part for each in texts for part in (each, *each.split(", ")) if part}, key=len, reverse=True):
        instead = shown_key(asked, one) or _HIDDEN
        text = text.replace(repr(one), repr(instead))
        if len(one) >= _SHORT:
            text = text.replace(one, instead).replace(printable(one), instead)
    if cause is not None:
        named = f"{type(cause).__name__} (its text is not logged, because keys are hidden)"
        cause = RuntimeError(named).with_traceback(cause.__traceback__)
    return text, cause
