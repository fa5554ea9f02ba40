"""What a test passes in place of the runtime's: a clock that you move by hand, and a Lambda context."""

from __future__ import annotations

import math
import threading
import time
import uuid

from ..client import checks
from ..errors import LockArgumentError
from ..runtime.timeline import elapsed

_STARTED = 1_000.0  # seconds that the machine has been up; the number does not matter
_SHORTEST = 1e-6  # seconds: a shorter sleep would be lost in rounding, so code that sleeps until a moment would hang
_LONGEST = 900.0  # seconds: the longest timeout of a function (AWS Lambda Developer Guide, "Lambda quotas")
_REGION, _ACCOUNT = "us-east-1", "123456789012"


class ManualClock:
    """A clock that stands still until you move it. Use it as ``LockClient(clock=…)`` and ``in_memory(clock=…)``.

        clock = ManualClock()
        with in_memory(clock=clock), LockClient(clock=clock) as client:
            lock = client.acquire("order#42")
            clock.advance(60)       # the lease is over

    wall: the epoch seconds at which it starts; None: the machine's current time, in whole seconds.

    Sleeping on it does not take any time: `sleep` moves the clock on and returns. So two threads that sleep at the same
    time move it on by the sum of their sleeps. It may be used from any thread.

    Raises TypeError for a value that is not a number, and LockArgumentError for one that is not finite.
    """

    def __init__(self, wall: float | None = None) -> None:
        self._wall = float(int(time.time())) if wall is None else _number("wall", wall)
        self._monotonic = _STARTED
        self._guard = threading.Lock()

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment. `step_wall` does not change them."""
        return self._monotonic

    def boottime(self) -> float:
        """The same as `monotonic`, because this machine is never suspended."""
        return self._monotonic

    def wall(self) -> float:
        """Epoch seconds."""
        return self._wall

    def sleep(self, seconds: float) -> None:
        """Move the clock on by ``seconds``, 0 or more, and return at once. It moves by at least a microsecond.

        Raises LockArgumentError or TypeError for bad input.
        """
        self.advance(seconds)
        if seconds < _SHORTEST:
            self.advance(_SHORTEST)

    def advance(self, seconds: float) -> None:
        """Let ``seconds``, 0 or more, pass on the wall clock and on the monotonic clocks.

        Raises LockArgumentError or TypeError for bad input.

        Example: ``clock.advance(60)``
        """
        passed = _number("seconds", seconds)
        if passed < 0:
            raise LockArgumentError(
                f"seconds={seconds!r}: time does not go back. To set the wall clock back, call step_wall()"
            )
        with self._guard:
            self._monotonic += passed
            self._wall += passed

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward by ``seconds``, or back if they are negative. No time passes.

        Raises LockArgumentError or TypeError for bad input.

        Example: ``clock.step_wall(-120)``
        """
        step = _number("seconds", seconds)
        with self._guard:
            self._wall += step


def _number(name: str, value: object) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise LockArgumentError(f"{name}={value!r} is not a valid time: pass a finite number of seconds")
    return checks.seconds(name, value, least=-math.inf, most=math.inf)


class Identity:
    """The caller's Cognito identity. There is none."""

    cognito_identity_id: str | None = None
    cognito_identity_pool_id: str | None = None


class LambdaContext:
    """The second argument of a handler. Its names and types are those of the Python runtime."""

    function_version = "$LATEST"
    memory_limit_in_mb = "128"  # a str in the Python runtime too
    client_context: object = None

    def __init__(self, remaining: float, function_name: str, request_id: str, tenant_id: str | None) -> None:
        self.function_name = function_name
        self.aws_request_id = request_id
        self.tenant_id = tenant_id
        self.invoked_function_arn = f"arn:aws:lambda:{_REGION}:{_ACCOUNT}:function:{function_name}"
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = f"2026/01/01/[{self.function_version}]{uuid.uuid4().hex}"
        self.identity = Identity()
        self._deadline = elapsed() + remaining

    def get_remaining_time_in_millis(self) -> int:
        """Whole milliseconds until the invocation's timeout. 0 once it has passed."""
        return max(int((self._deadline - elapsed()) * 1000), 0)

    def __repr__(self) -> str:
        return f"<LambdaContext {self.function_name}/{self.aws_request_id}>"


def lambda_context(
    remaining: float = 30.0,
    *,
    function_name: str = "function",
    request_id: str | None = None,
    tenant_id: str | None = None,
) -> LambdaContext:
    """Create a Lambda context for calling a handler in a test.

        handler(event, lambda_context(remaining=5))

    remaining: seconds that the invocation has left from now on, 0 to 900 (AWS Lambda Developer Guide, "Lambda
        quotas"). They count down by the machine's clocks, as in Lambda. A ManualClock does not change them.
    function_name: the name of the function, not empty.
    request_id: the id of the request, not empty; None: a new one for each context.
    tenant_id: the id of the tenant, for a function with tenant isolation, not empty; None: a function without it.

    Raises LockArgumentError for a number out of range or an empty name, and TypeError for a value of the wrong type.
    """
    left = checks.seconds("remaining", remaining, least=0.0, most=_LONGEST)
    name = _text("function_name", function_name)
    request = str(uuid.uuid4()) if request_id is None else _text("request_id", request_id)
    return LambdaContext(left, name, request, None if tenant_id is None else _text("tenant_id", tenant_id))


def _text(name: str, value: object) -> str:
    text: str = checks.of_kind(name, value, str, "a str")
    if not text:
        raise LockArgumentError(f"{name} is empty, but every invocation has one: leave it out to get a default")
    return text
