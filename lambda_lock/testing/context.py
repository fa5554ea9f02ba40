"""lambda_context: a Lambda context like the one that the runtime passes to a handler."""

from __future__ import annotations

import uuid

from ..client import checks
from ..errors import LockArgumentError
from ..runtime.timeline import elapsed

_LONGEST = 900.0  # seconds: the longest timeout of a function (AWS Lambda Developer Guide, "Lambda quotas")
_LEAST = 0.001  # seconds: a context counts in whole milliseconds
_REGION, _ACCOUNT = "us-east-1", "123456789012"


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

    remaining: seconds that the invocation has left from now on, 0.001 to 900 (AWS Lambda Developer Guide, "Lambda
        quotas"). They count down by the machine's clocks, as in Lambda. A ManualClock does not change them.
    function_name: the name of the function, not empty.
    request_id: the id of the request, not empty; None: a new one for each context.
    tenant_id: the id of the tenant, for a function with tenant isolation, not empty; None: a function without it.

    Raises LockArgumentError for a number out of range or an empty name, and TypeError for a value of the wrong type.
    """
    left = checks.seconds("remaining", remaining, least=_LEAST, most=_LONGEST)
    name = _text("function_name", function_name)
    request = str(uuid.uuid4()) if request_id is None else _text("request_id", request_id)
    return LambdaContext(left, name, request, None if tenant_id is None else _text("tenant_id", tenant_id))


def _text(name: str, value: object) -> str:
    text: str = checks.of_kind(name, value, str, "a str")
    if not text:
        raise LockArgumentError(f"{name} is empty, but every invocation has one: leave it out to get a default")
    return text
