"""A Lambda context, as the runtime hands it to a handler."""

from __future__ import annotations

import uuid

from ..client import checks
from ..errors import LockArgumentError
from ..runtime.timeline import elapsed

_LONGEST = 900.0  # seconds, "Lambda quotas": a function's timeout
_LEAST = 0.001  # seconds: what a context can say in whole milliseconds
_REGION, _ACCOUNT = "us-east-1", "123456789012"


class Identity:
    """The caller's Cognito identity: nobody."""

    cognito_identity_id: str | None = None
    cognito_identity_pool_id: str | None = None


class LambdaContext:
    """What a handler gets as its second argument; the names and types are those of the Python runtime."""

    function_version = "$LATEST"
    memory_limit_in_mb = "128"  # a str there too
    client_context: object = None
    tenant_id: str | None = None

    def __init__(self, remaining: float, function_name: str, request_id: str) -> None:
        self.function_name = function_name
        self.aws_request_id = request_id
        self.invoked_function_arn = f"arn:aws:lambda:{_REGION}:{_ACCOUNT}:function:{function_name}"
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = f"2026/01/01/[{self.function_version}]{uuid.uuid4().hex}"
        self.identity = Identity()
        self._deadline = elapsed() + remaining

    def get_remaining_time_in_millis(self) -> int:
        """Whole milliseconds until the invocation's timeout, 0 once it has passed."""
        return max(int((self._deadline - elapsed()) * 1000), 0)

    def __repr__(self) -> str:
        return f"<LambdaContext {self.function_name}/{self.aws_request_id}>"


def lambda_context(
    remaining: float = 30.0, *, function_name: str = "function", request_id: str | None = None
) -> LambdaContext:
    """A Lambda context of an invocation that has ``remaining`` seconds (0.001 to 900) left from now on.

    They count down by the machine's clocks, as in Lambda; a ManualClock does not move them. request_id: None: a new
    one for each context, as each invocation has.

    Raises LockArgumentError or TypeError for bad input.
    """
    left = checks.seconds("remaining", remaining, least=_LEAST, most=_LONGEST)
    name = _text("function_name", function_name)
    return LambdaContext(left, name, str(uuid.uuid4()) if request_id is None else _text("request_id", request_id))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r} ({type(value).__name__})")
    if not value:
        raise LockArgumentError(f"{name} is empty, but every invocation has one: leave it out to get a default")
    return value
