"""The possible outcomes of one request: what a transport tells the core.

A transport returns a Reply, or raises one of the other classes here or errors.TransportError. ``date`` is the Date
header of the reply in whole epoch seconds, or None if there was none. The core judges time by it. So a transport passes
it on whenever it has one, also with a refusal.

Not an outcome is an error of the application that comes in the midst of a request: see `is_interrupt`.
"""

from __future__ import annotations

import sys

from ..errors import LockConfigurationError, LockError, TransportError, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, TypeAlias, TypeVar

    E = TypeVar("E", bound=BaseException)

    #: An item, or part of one, as DynamoDB JSON: ``{"key": {"S": "a"}}``.
    Item: TypeAlias = dict[str, dict[str, Any]]
    #: The outcome of a send: a Reply, or one of the errors below.
    Outcome: TypeAlias = "Reply | Exception"

__all__ = ["ConditionFailed", "Reply", "ServiceError", "TransactionCanceled", "TransportError", "unusable"]

# What DynamoDB's error codes mean.

_NOT_NOW = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        # somebody else's transaction is using the row
        "TransactionConflictException",
        # the time in the signature differs from DynamoDB's; the next signature uses the Date of this reply
        "RequestTimeTooSkewed",
    }
)
#: Refused for now, so worth sending again. The codes for throttling are botocore's (botocore/retries/standard.py).
FOR_NOW = _NOT_NOW | {
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ReplicatedWriteConflictException",  # another Region writes the row. AWS does not say that this write was not made
    "SlowDown",
    "TransactionInProgressException",
    "RequestExpired",
    "RequestInTheFuture",
}
#: Certainly not carried out. After any other error that is worth sending again, the request may have been carried out.
NOT_DONE = _NOT_NOW | {"InvalidSignatureException", "ExpiredTokenException", "UnrecognizedClientException"}
#: The credentials have expired. New ones may be available by now.
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException"})
#: The credentials were refused.
CREDENTIALS = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "IncompleteSignatureException",
        "MissingAuthenticationTokenException",
        "MissingAuthenticationToken",
    }
)


class Reply:
    """The request was carried out.

    item: for a GetItem, the item (None if there is none). For a PutItem, UpdateItem or DeleteItem, the attributes that
        it returned (None if it returned none). For any other operation, the whole answer. All as DynamoDB JSON.
    date: the reply's Date header in whole epoch seconds; None if there was none.

    Example::

        Reply({"key": {"S": "a"}}, date=1_763_700_553)
    """

    __slots__ = ("date", "item")

    def __init__(self, item: Item | None, date: int | None) -> None:
        self.item = item
        self.date = date

    def __repr__(self) -> str:
        return f"Reply({None if self.item is None else list(self.item)!r}, date={self.date!r})"  # names only, no values


class ConditionFailed(Exception):
    """The request was not carried out because its condition did not hold.

    item: the item as it was (ALL_OLD), as DynamoDB JSON; None if there was none.
    date: as in Reply.

    Example::

        raise ConditionFailed(fields.get("Item"), date)
    """

    def __init__(self, item: Item | None, date: int | None) -> None:
        super().__init__("the condition did not hold")
        self.item = item
        self.date = date


class TransactionCanceled(Exception):
    """A transaction was not carried out.

    reasons: DynamoDB's cancellation code for each item of the transaction, in their order.
    items: the items as they were, in the same order; None for an item that did not exist.
    date: as in Reply.

    Example::

        raise TransactionCanceled(["None", "ConditionalCheckFailed"], [None, item], date)
    """

    def __init__(self, reasons: list[str], items: list[Item | None], date: int | None) -> None:
        super().__init__(f"the transaction was cancelled: {', '.join(reasons)}")
        self.reasons = reasons
        self.items = items
        self.date = date


def is_ambiguous(outcome: Outcome) -> bool:
    """Return whether a request with this outcome may have been carried out."""
    if isinstance(outcome, TransactionCanceled):
        return False
    if isinstance(outcome, ServiceError):
        return outcome.retryable and not is_throttled(outcome)
    return not isinstance(outcome, TransportError) or outcome.ambiguous


def may_pass(outcome: Outcome) -> bool:
    """Return whether sending again is worthwhile: there was no answer from DynamoDB, or one that it calls temporary."""
    if isinstance(outcome, ServiceError):
        return outcome.retryable
    return isinstance(outcome, TransportError)


def unusable(what: str) -> TransportError:
    """Return the error for an answer that did not come from DynamoDB. The request may have been carried out anyway."""
    return TransportError(True, f"no usable answer, the request may have been carried out: {what}")


def unknown(what: str, key: str | None, cause: Exception) -> TransportError:
    """Return the error for a last act that was sent, and may have been carried out or not."""
    error = TransportError(True, f"it is unknown whether {what}", key=key)
    error.__cause__ = cause
    return error


def is_throttled(outcome: Outcome | None) -> bool:
    """Return whether DynamoDB refused a request for now, and certainly did not carry it out."""
    return isinstance(outcome, ServiceError) and outcome.code in NOT_DONE


def another_answer(operation: str) -> TransportError:
    """Return the error for an answer that cannot belong to the request, because it has another row, for example."""
    return unusable(
        f"the answer to {operation} belongs to another request. This is not DynamoDB, or something in between changes "
        "its answers: check the endpoint and any proxy"
    )


def undated(key: str) -> LockConfigurationError:
    """Return the error for an answer without DynamoDB's time."""
    return LockConfigurationError(
        f"the answer for lock {key!r} has no Date header: this is not DynamoDB, and its time cannot be trusted. "
        "Check the endpoint and any proxy in between",
        key=key,
    )


class ServiceError(Exception):
    """DynamoDB answered with an error.

    code: the error's name without its namespace, such as "ThrottlingException".
    message: DynamoDB's own text.
    retryable: whether the request is worth sending again.
    date: as in Reply.
    operation: the operation that was sent. Errors about permissions name it. `answers` sets it.
    region: the Region that was asked; None if that is not known. `answers` sets it.
    signed_with: where the credentials are from, for an error about them; "" if that is not known. `answers` sets it.

    Example::

        raise ServiceError("ThrottlingException", "Rate exceeded", retryable=True, date=date)
    """

    operation = ""
    region: str | None = None
    signed_with = ""

    def __init__(self, code: str, message: str, retryable: bool = False, date: int | None = None) -> None:
        super().__init__(printable(f"{code}: {message}" if message else code))
        self.code = code
        self.message = message
        self.retryable = retryable
        self.date = date

    def answers(self, operation: str, region: str | None = None, signed_with: str = "") -> ServiceError:
        """Note what this is the answer to. The driver of the protocol calls it, for every transport."""
        self.operation = operation
        self.region = region
        self.signed_with = signed_with
        return self


# -- errors of the application that come in the midst of an operation

_VARIADIC = 0x04  # flag of a code object with *args, as inspect names it
#: The packages whose code sends a request. They raise no OSError without saying why.
_SENDERS = frozenset({__name__.partition(".")[0], "boto3", "botocore", "urllib3", "http", "ssl", "socket"})


class Interrupted(BaseException):
    """Carries an interrupt that is an Exception through the steps of an operation. No step takes it for an outcome."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is the application's, which came in the midst of an operation, whatever its class is.

    That is everything but an Exception; an Exception that a signal handler has raised; and one that the code where it
    was raised does not raise, so it came from another thread, by PyThreadState_SetAsyncExc.
    """
    if not isinstance(error, Exception):
        return True
    trace, frame = error.__traceback__, None
    while trace is not None:
        frame = trace.tb_frame
        if _is_handler(frame):
            return True
        trace = trace.tb_next
    raised_in = "" if frame is None else _package(frame.f_globals.get("__name__"))
    if isinstance(error, OSError) and not error.args and raised_in in _SENDERS:
        return True
    is_ours = isinstance(error, LockError)  # also one that a transport of the application derives from ours
    return _is_known(raised_in) and not is_ours and not _is_known(_package(type(error).__module__))


def expected(*kinds: type[E]) -> tuple[type[E], ...]:
    """Return the kinds for an ``except`` clause that lets interrupts pass: ``except expected(OSError) as error:``."""
    error = sys.exception()
    return () if error is not None and is_interrupt(error) else kinds


def interrupt_within(error: BaseException | None, handled: BaseException | None) -> BaseException | None:
    """Return the interrupt that came during a call, and that ``error`` may only wrap. None: none.

    handled: what the application handled when the call began. It is behind ``error`` too, but older than the call.
    """
    found, behind, seen = None, [error], {id(handled)}
    while behind:
        error = behind.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        if is_interrupt(error):
            found = error
            if _package(type(error).__module__) not in _SENDERS:  # one of urllib3's may wrap it, with its traceback
                break
        behind += error.__context__, error.__cause__, getattr(error, "kwargs", {}).get("error")  # as botocore keeps it
    return found


def _is_handler(frame: FrameType) -> bool:
    """Whether a frame is that of a signal handler: Python has passed the frame that it has interrupted."""
    code, back = frame.f_code, frame.f_back
    # Not of our own frames: reading f_locals keeps what they refer to, and with it a lock that the application dropped.
    if back is None or _package(frame.f_globals.get("__name__")) in _SENDERS:
        return False
    count = code.co_argcount + code.co_kwonlyargcount
    given, names = frame.f_locals, code.co_varnames[:count]
    arguments = [given.get(name) for name in names]
    if code.co_flags & _VARIADIC:
        more = given.get(code.co_varnames[count])
        arguments += more if isinstance(more, tuple) else ()
    if any(argument is back for argument in arguments):
        return True
    return any(given.get(name) is None for name in names) and _is_registered(code)  # `del signum, frame`, as many write


def _is_registered(code: CodeType) -> bool:
    """Whether this is the code of a function that handles a signal."""
    if "signal" not in sys.modules:
        return False
    import signal

    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while handler is not None:
            if getattr(handler, "__code__", None) is code:
                return True
            # That of a partial, a bound method, a decorated function; or a class's, if an object is called.
            inner = [getattr(handler, name, None) for name in ("func", "__func__", "__wrapped__")]
            inner.append(vars(type(handler)).get("__call__"))
            handler = next((each for each in inner if hasattr(each, "__code__") or hasattr(each, "func")), None)
    return False


def _package(module: object) -> str:
    return str(module).partition(".")[0]


def _is_known(package: str) -> bool:
    return package in _SENDERS or package in sys.stdlib_module_names
