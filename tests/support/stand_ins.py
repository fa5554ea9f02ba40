"""Stand-ins for locks, as decorated functions find them while locks are disabled."""

from types import SimpleNamespace
from typing import Any, TypeVar

from lambda_lock.decorators.disabled import StandIn

S = TypeVar("S", bound=StandIn)


def made(
    kind: type[S], key: str | tuple[str, ...] = "k", *, client: Any = None, found: Any = None, **options: Any
) -> S:
    """The stand-in of a call with this key. found: its invocation. options: sort_key, lease_duration, permits."""
    call = SimpleNamespace(client=client, key=key, invocation=found)
    settings = {"sort_key": None, "lease_duration": None, "permits": None, **options}
    return kind(call, SimpleNamespace(**settings), "LAMBDA_LOCK_DISABLED is set")
