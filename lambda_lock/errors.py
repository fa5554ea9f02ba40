"""Every error of lambda_lock.

All errors derive from LockError, so ``except LockError`` catches what the library itself raises and nothing else.

- An error carries its state as attributes.
- It can be pickled, because multiprocessing and Step Functions workers pass errors on.
- Its message says what to do next.
- It is raised ``from`` its cause if there is one.

Example::

    try:
        with client.acquire("nightly-report", wait=10):
            build_report()
    except LockNotGrantedError as error:
        print(f"{error.key} is held by {error.holder}")
"""

from __future__ import annotations

from collections import namedtuple  # the Lambda runtime has it loaded

TYPE_CHECKING = False  # importing typing adds about 5 ms to a cold start, so only type checkers enter such blocks
if TYPE_CHECKING:
    from typing import Any, NamedTuple, Self


_LONGEST = 8_000  # characters in an error or a log line; a key may have 2,048 bytes, and a value in a row 400 KB


def printable(text: str) -> str:
    """Return ``text`` on one line: characters that could break a line or move a terminal's cursor are escaped.

    Keys and owners are other people's data, and a line break in one could forge a log line. A text that is too long
    for a line is cut.
    """
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 40]}… ({len(text)} characters)"  # short enough not to be cut a second time
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


if TYPE_CHECKING:

    class _Holder(NamedTuple):
        owner: str | None
        expires_at: float | None
        fencing_token: int | None
else:
    _Holder = namedtuple("_Holder", ("owner", "expires_at", "fencing_token"))  # without the import of typing


class Holder(_Holder):
    """Who holds a lock, or one permit of a semaphore.

    owner: ``prefix#nonce``; None if the row names none.
    expires_at: the stored expiry in epoch seconds; None for a row that another client library wrote.
    fencing_token: the token of the grant; None if it is absent or cannot be read.
    take: how many permits of a semaphore it has taken; 1 for a lock.

    Example: ``owners = [holder.owner for holder in record.holders]``
    """

    take = 1  # not in the tuple: callers unpack three

    def __new__(cls, owner: str | None, expires_at: float | None, fencing_token: int | None, take: int = 1) -> Self:
        made = super().__new__(cls, owner, expires_at, fencing_token)
        if take != 1:
            made.take = take
        return made


class LockError(Exception):
    """The base class of all errors of lambda_lock.

    key: the lock's key; None if the error does not concern a single lock.

    Example::

        except LockError as error:
            logger.warning("no lock %s: %s", error.key, error)
    """

    def __init__(self, message: str = "", *, key: str | None = None) -> None:
        super().__init__(printable(message))
        self.key = key

    def about(self, key: str) -> None:
        """Set the key. For lambda_lock's own modules: a transport, for example, does not know the key."""
        self.key = key

    def add(self, advice: str) -> None:
        """Add a sentence to the message. For lambda_lock's own modules."""
        self.args = (f"{self}. {printable(advice)}", *self.args[1:])

    def __reduce__(self) -> tuple[Any, ...]:
        # The subclasses take keyword arguments, but by default pickle would pass positional ones.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(kind: type[LockError], args: tuple[Any, ...]) -> LockError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class LockNotGrantedError(LockError):
    """Somebody else holds the lock (contention), or the invocation has less than a second left to hold it.

    holder: the owner that holds the lock; None if no reply named one. For a semaphore, the first of ``holders``.
    holders: a tuple of Holder (owner, expires_at, fencing_token): who holds the lock, or the permits of a semaphore,
        the oldest grant first; () if no reply named one.
    waited: how long the call waited, in seconds.
    retry_after: an estimate of the seconds until it is this caller's turn, from how long the last holder held the lock
        and how many wait. If that is not known, the seconds until the holder's lease ends unless it is renewed. An int
        of 1 or more, as the header Retry-After and a visibility timeout take it. None if that is not known either.
    too_late: True if the invocation's deadline was the reason, not contention.
    ahead: the number of waiters that were before this one, 0 to 64; None if that is not known.

    Example::

        except LockNotGrantedError as error:
            return {"statusCode": 409, "headers": {"Retry-After": str(error.retry_after or 1)}}
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
        ahead: int | None = None,
        holders: tuple[Holder, ...] = (),
    ) -> None:
        super().__init__(message, key=key)
        self.holder = holder
        self.holders = holders
        self.waited = waited
        self.retry_after = retry_after
        self.too_late = too_late
        self.ahead = ahead


class LockTimeoutError(LockNotGrantedError):
    """The lock was not granted within ``wait`` (more than 0 seconds), or the wait was cancelled.

    The attributes are those of LockNotGrantedError.

    Example::

        except LockTimeoutError as error:
            logger.info("gave up after %.1f s", error.waited)
    """


class RateLimitedError(LockError):
    """A rate limit has no start within the wait. Nothing was taken.

    retry_after: the seconds until this start would have been free, rounded up: an int of 1 or more, as the header
        Retry-After and a visibility timeout take it. Others may come first.
    waited: how long the call waited, in seconds.
    every: the seconds from one start to the next at the limit; 0 if that is not known.

    Example::

        except RateLimitedError as error:
            return {"statusCode": 429, "headers": {"Retry-After": str(error.retry_after)}}
    """

    def __init__(
        self,
        message: str = "",
        *,
        key: str | None = None,
        retry_after: float = 1,
        waited: float = 0.0,
        every: float = 0.0,
    ) -> None:
        super().__init__(message, key=key)
        self.retry_after = max(1, int(-(-retry_after // 1)))
        self.waited = waited
        self.every = every


class LockLostError(LockError):
    """The lock is no longer ours: its validity ended, or DynamoDB refused a write.

    holder: the owner that has the lock now; None if that is not known.

    Example::

        try:
            lock.raise_if_lost()
        except LockLostError:
            return  # stop before the step that must not be done twice
    """

    def __init__(self, message: str = "", *, key: str | None = None, holder: str | None = None) -> None:
        super().__init__(message, key=key)
        self.holder = holder


class LockAlreadyReleasedError(LockError):
    """The handle was released before. A handle can be released only once.

    Example::

        lock.release()
        lock.release()  # raises LockAlreadyReleasedError
    """


class OwnerMismatchError(LockError):
    """The handle belongs to another client or process. A forked child never releases its parent's locks.

    Example::

        lock = client.acquire("a")
        if os.fork() == 0:
            lock.release()  # raises OwnerMismatchError
    """


class SessionMonitorNotSetError(LockError):
    """The call needs ``safe_time``, but the lock was acquired without it.

    Remedy: pass it, as in ``client.acquire("a", safe_time=5)``.
    """


class ClientClosedError(LockError):
    """The client was closed. Create a new one.

    Example::

        client.close()
        client.acquire("a")  # raises ClientClosedError
    """


class LockConfigurationError(LockError):
    """The table, the Region, the credentials, a permission or an argument is wrong. No lock stays held.

    Example::

        LockClient("no-such-table").acquire("a")  # raises LockConfigurationError: the table was not found
    """

    is_unsent = False  # True where a transport raises it and certainly has sent nothing of its request


class LockArgumentError(LockConfigurationError, ValueError):
    """An argument is out of range. It is raised before anything is sent, and is a ValueError too.

    Example::

        client.acquire("")  # raises LockArgumentError: the key is empty
    """


class KeyTemplateError(LockError):
    """The key cannot be built from the arguments of the call.

    field: the part of the template that failed; None if there is no single one.

    Example::

        @with_lock("order#{order_id}")
        def handler(event, context): ...

        handler({}, context)  # raises KeyTemplateError: the event has no order_id
    """

    def __init__(self, message: str = "", *, key: str | None = None, field: str | None = None) -> None:
        super().__init__(message, key=key)
        self.field = field


class LockFormatError(LockError):
    """A row of the table, or a string from ``hand_over()``, cannot be read. Such a row is left alone, not taken over.

    Example::

        client.adopt("garbage")  # raises LockFormatError
    """


class DuplicateEventError(LockError):
    """The event was completed before.

    result: the result that was stored with the event; None if there is none.
    completed_until: the time until which the event counts as done, in epoch seconds.
    remembered: whether this environment remembered that (``cache_size``), so that DynamoDB was not asked.

    Example::

        except DuplicateEventError as error:
            return error.result
    """

    def __init__(
        self,
        message: str = "",
        *,
        key: str | None = None,
        result: object = None,
        completed_until: float | None = None,
        remembered: bool = False,
    ) -> None:
        super().__init__(message, key=key)
        self.result = result
        self.completed_until = completed_until
        self.remembered = remembered

    def give(self, result: object) -> None:
        """Set the result for the application, in place of the stored text. For lambda_lock's own modules."""
        self.result = result


class PayloadMismatchError(LockError):
    """The event was completed before, with another payload: two different events have one key.

    completed_until: the time until which the event counts as done, in epoch seconds.

    Example::

        except PayloadMismatchError:
            return {"statusCode": 422, "body": "this idempotency key was used for another order"}
    """

    def __init__(self, message: str = "", *, key: str | None = None, completed_until: float | None = None) -> None:
        super().__init__(message, key=key)
        self.completed_until = completed_until


class CommitRefusedError(LockError):
    """A transaction was refused because of the application's own conditions. Nothing was written.

    reasons: DynamoDB's cancellation code for each item, in their order; "None" for an item that was not the reason.

    Example::

        try:
            lock.commit([{"Put": {...}}])
        except CommitRefusedError as error:
            failed = error.reasons.index("ConditionalCheckFailed")
    """

    def __init__(self, message: str = "", *, key: str | None = None, reasons: tuple[object, ...] = ()) -> None:
        super().__init__(message, key=key)
        self.reasons = reasons


class TransportError(LockError):
    """A request got no usable answer.

    ambiguous: True if the request may have been carried out all the same; False if it certainly was not.

    Example::

        except TransportError as error:
            if error.ambiguous:
                ...  # the write may have happened
    """

    answered = False  # True where DynamoDB did answer, though not as it should: it may be contention, but not an outage

    def __init__(self, ambiguous: bool, message: str | None = None, *, key: str | None = None) -> None:
        super().__init__(
            message
            or ("no answer: the request may have been carried out" if ambiguous else "the request was not sent"),
            key=key,
        )
        self.ambiguous = ambiguous
