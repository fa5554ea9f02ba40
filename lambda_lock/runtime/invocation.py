"""The current Lambda invocation: how much time it has left, and its name.

The deadline is read from the context only once, because get_remaining_time_in_millis() uses the wall clock, which may
step when a frozen environment thaws. From then on, elapsed time is counted (timeline.py). The first reading fixes the
deadline for the whole invocation: nested decorators and later locks use the same one.

A context that says 0 or less has no time left. So has an invocation whose deadline passes while its calls run, because
Lambda may end it late. But the deadline is unknown once it has passed if another invocation may have begun since.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar  # cheap: a few lines on top of a built-in module

from ..observe.log import logger
from .timeline import elapsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextvars import Token

_INITIALIZATION = "AWS_LAMBDA_INITIALIZATION_TYPE"  # on-demand, provisioned-concurrency, snap-start, …
_SUSPENDED = (
    "what is decorated in a durable function, outside of its steps, ends at each suspension and begins again in each "
    "replay. Instead of a lock, write `with durable_lock(context, key, lease_duration=...)` (lambda_lock.durable). "
    "Instead of a rate limit, and for short work, decorate a function that runs inside one step; on a thread of its "
    "own there, pass it context.lambda_context"
)
# The modules of the durable functions' SDK that call functions which end within one invocation.
_STEPS = (
    "aws_durable_execution_sdk_python.operation.step",
    "aws_durable_execution_sdk_python.operation.wait_for_condition",
)
_OWNER_PREFIX_LENGTH = 200  # characters; a function's name has at most 64, a request id 36

# Apart from the ContextVar, plain module variables are enough. The Python runtime gives a process one invocation at a
# time, on Managed Instances too: awslambdaric starts a process for each concurrent one. All threads see the variables.
# A web server may serve several at once behind an adapter. Each is in the ContextVar only (web.py), and `_latest` then
# says no more than that there was one.
_enclosing: ContextVar[Invocation | None] = ContextVar("lambda_lock_invocation", default=None)
_latest: Invocation | None = None
_registered: tuple[Invocation, str | None] | None = None
_warned = False
OVER = float("-inf")  # the deadline of a context that says that no time is left


class Invocation:
    """One invocation.

    deadline: seconds on timeline.elapsed(); None if it is unknown, and OVER if there was no time left when it was read.
    calls: an entry for each call that has entered it and has not left it yet. Its length alone counts.
    """

    __slots__ = ("calls", "context", "deadline", "function_name", "request_id")

    def __init__(self, context: object, deadline: float | None) -> None:
        self.context = context
        self.deadline = deadline
        self.calls: list[None] = []  # not a number: threads append and pop, which needs no lock
        name, request_id = getattr(context, "function_name", None), getattr(context, "aws_request_id", None)
        self.function_name = name if name and isinstance(name, str) else os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")
        self.request_id = request_id if isinstance(request_id, str) else ""

    def remaining(self, now: float | None = None) -> float | None:
        """Return the seconds until the deadline, 0 if it has passed, or None if it is unknown.

        now: timeline.elapsed(), if it was just read.
        """
        if self.deadline is None:
            return None
        return max(self.deadline - (elapsed() if now is None else now), 0.0)


def find(args: Sequence[object], kwargs: Mapping[str, object], context: object = None) -> Invocation | None:
    """Return the invocation that a call belongs to, or None if none is found.

    These are tried in order: ``context``; the first argument that has ``get_remaining_time_in_millis``; inside a step
    of a durable function, an argument that is its context; the context of the enclosing decorator; the one registered
    with register_lambda_context. If none is found in Lambda, the first such call logs a warning, because the lock's
    lease then does not end with the invocation.

    Raises TypeError if ``context`` is not a Lambda context, and for a durable function's context outside of its steps:
    the call would be suspended and run again, each time under another lock.
    """
    global _warned
    if context is not None:
        return _given(context)
    arguments = (*args, *kwargs.values())
    for argument in arguments:
        found = read(argument)
        if found is not None:
            return found
    for argument in arguments:
        if is_durable(argument):
            frame = sys._getframe()
            while frame.f_globals.get("__name__") not in _STEPS:
                if frame.f_back is None:
                    raise TypeError(_SUSPENDED)
                frame = frame.f_back
            return read(getattr(argument, "lambda_context", None))
    found = enclosing()
    if found is None and _registered is not None and _registered[1] == _trace_id():  # else another invocation has begun
        found = _in_force(_registered[0], _registered[1] is not None)
    if found is None and os.environ.get("AWS_LAMBDA_FUNCTION_NAME") and not _warned:
        _warned = True
        logger.warning(
            "no Lambda context found: locks cannot end with the invocation's deadline, so they are renewed in the "
            "background. Pass the handler's context on, or begin the handler with "
            "lambda_lock.register_lambda_context(context), or wrap a web application in a middleware of lambda_lock.web"
            " (and if a middleware of yours takes locks, add yours first, so that it runs inside)"
        )
    return found


def register_lambda_context(context: object) -> None:
    """Tell lambda_lock the Lambda context, for helpers and resolvers that do not get it as an argument.

    context: the handler's second argument, also of a durable function, whose steps then find it. None forgets the
        registered context, so a handler that is called by hand may pass it on.

    It applies to the current invocation, in all threads of the process. Call it at the very start of the handler.

    Raises TypeError if ``context`` is neither None nor an object whose ``get_remaining_time_in_millis()`` returns a
    number.

    Example::

        def handler(event, context):
            register_lambda_context(context)
            process(event)
    """
    global _registered
    _registered = None if context is None else (_given(context), _trace_id())


def read(context: object) -> Invocation | None:
    """Return the invocation of a Lambda context, for enter(). None if it is not a context.

    The time left is read now, unless it was read before.
    """
    global _latest
    time_left = getattr(context, "get_remaining_time_in_millis", None)
    if not callable(time_left):
        return None
    # Outside Lambda, only the enclosing reading is reused, because tests pass one stand-in context to many calls.
    around = _enclosing.get()
    for known in (around, _latest):
        if known is None or known.context is not context or not known.remaining():
            continue
        if known is around or os.environ.get("AWS_LAMBDA_FUNCTION_NAME"):
            return known
    now = elapsed()  # before the context is read, so that the deadline may be too early but never too late
    milliseconds = time_left()
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, (int, float)):
        return None  # a mock that has every attribute
    deadline = OVER if milliseconds <= 0 else now + milliseconds / 1000 if milliseconds < float("inf") else None
    found = Invocation(context, deadline)
    _latest = found  # another thread may replace it at once
    return found


def enclosing() -> Invocation | None:
    """Return the invocation that this thread or task has entered."""
    found = _enclosing.get()
    return None if found is None else _in_force(found, bool(found.calls))


def enter(invocation: Invocation | None) -> Token[Invocation | None]:
    """Make an invocation the enclosing one for this thread or task. To end that, pass the returned token to leave()."""
    return replace(invocation or _enclosing.get())


def replace(invocation: Invocation | None) -> Token[Invocation | None]:
    """As enter(), but None means that there is no enclosing invocation from here on."""
    if invocation is not None:
        invocation.calls.append(None)
    return _enclosing.set(invocation)


def leave(token: Token[Invocation | None]) -> None:
    entered = _enclosing.get()
    _enclosing.reset(token)
    if entered is not None:
        entered.calls.pop()


def tenant_id() -> str | None:
    """Return the tenant of this invocation, in a function with tenant isolation. None in any other.

    In a thread without the context, it is that of the latest invocation: an environment serves one tenant for ever.
    """
    found = _enclosing.get() or (_latest if os.environ.get("AWS_LAMBDA_FUNCTION_NAME") else None)
    tenant = None if found is None else getattr(found.context, "tenant_id", None)
    return tenant if tenant and isinstance(tenant, str) else None


def initializing() -> bool:
    """Return whether this process is in Lambda's INIT: it has had no invocation yet.

    The runtime sets ``_X_AMZN_TRACE_ID`` for each invocation. A context that was seen also proves an invocation.
    """
    return bool(os.environ.get(_INITIALIZATION)) and _trace_id() is None and _latest is None


def snapstart_initializing() -> bool:
    """Return whether this process is a SnapStart function before its snapshot. Its memory will then be copied."""
    return os.environ.get(_INITIALIZATION) == "snap-start" and initializing()


def owner_prefix(invocation: Invocation | None) -> str:
    """Return the readable part of an owner's name: ``function/request id`` or ``host/process id``, at most 200
    characters."""
    if invocation is not None and invocation.request_id:
        name = f"{invocation.function_name or 'lambda'}/{invocation.request_id}"
    else:
        host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "host")
        name = f"{os.environ.get('AWS_LAMBDA_FUNCTION_NAME') or host}/{os.getpid()}"
    return name[:_OWNER_PREFIX_LENGTH]


def is_durable(context: object) -> bool:
    """Return whether an object is a DurableContext. Its class is asked: a mock has every attribute itself."""
    return hasattr(type(context), "run_in_child_context")


def _in_force(found: Invocation, is_running: bool) -> Invocation:
    """An enclosing or registered invocation, without a deadline if that may be over because the invocation is.

    is_running: whether it is known to go on. It is not in a thread or task that has outlived the call which started it,
    nor if it was registered where nothing tells invocations apart.
    """
    if is_running or found.deadline in (None, OVER) or found.remaining():
        return found
    return Invocation(found.context, None)


def _given(context: object) -> Invocation:
    found = read(getattr(context, "lambda_context", None) if is_durable(context) else context)
    if found is None:
        raise TypeError(
            "context= must be a Lambda context, whose get_remaining_time_in_millis() returns a number, "
            f"not {type(context).__name__}. Pass the handler's second argument"
        )
    return found


def _trace_id() -> str | None:
    return os.environ.get("_X_AMZN_TRACE_ID")
