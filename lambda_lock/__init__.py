"""Never two at once, never twice, never too often: locks and rates for Python on AWS Lambda, in one DynamoDB table.

Public names load on first use, so that code that a function does not use does not slow its cold start.

Example::

    from lambda_lock import with_lock

    @with_lock("report#{report_id}")
    def handler(event, context):
        build_report(event["report_id"])
"""

from __future__ import annotations

__version__ = "0.2.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .client.async_client import AsyncLockClient
    from .client.async_lock import AsyncLock, AsyncMultiLock
    from .client.lock import Lock
    from .client.lock_client import LockClient
    from .client.multi_lock import MultiLock
    from .client.record import LockRecord
    from .core.other_schemas import GO, PYTHON
    from .core.schema import JAVA, Schema
    from .decorators.deduplicate import current_dedup, deduplicate
    from .decorators.guard import default_client, set_default_client
    from .decorators.rate_limit import rate_limit
    from .decorators.with_lock import current_lock, with_lock
    from .errors import (
        ClientClosedError,
        CommitRefusedError,
        DuplicateEventError,
        Holder,
        KeyTemplateError,
        LockAlreadyReleasedError,
        LockArgumentError,
        LockConfigurationError,
        LockError,
        LockFormatError,
        LockLostError,
        LockNotGrantedError,
        LockTimeoutError,
        OwnerMismatchError,
        PayloadMismatchError,
        RateLimitedError,
        SessionMonitorNotSetError,
        TransportError,
    )
    from .keys.payload_hash import payload_hash
    from .runtime.invocation import register_lambda_context
    from .stopping import release_on_sigterm

#: The public names of each module. Those that are not here are errors, in errors.py.
_WHERE = {
    "client.async_client": ("AsyncLockClient",),
    "client.async_lock": ("AsyncLock", "AsyncMultiLock"),
    "client.lock": ("Lock",),
    "client.lock_client": ("LockClient",),
    "client.multi_lock": ("MultiLock",),
    "client.record": ("LockRecord",),
    "core.other_schemas": ("GO", "PYTHON"),
    "core.schema": ("JAVA", "Schema"),
    "decorators.deduplicate": ("current_dedup", "deduplicate"),
    "decorators.guard": ("default_client", "set_default_client"),
    "decorators.rate_limit": ("rate_limit",),
    "decorators.with_lock": ("current_lock", "with_lock"),
    "errors": ("Holder",),
    "keys.payload_hash": ("payload_hash",),
    "runtime.invocation": ("register_lambda_context",),
    "stopping": ("release_on_sigterm",),
}

__all__ = [
    "GO",
    "JAVA",
    "PYTHON",
    "AsyncLock",
    "AsyncLockClient",
    "AsyncMultiLock",
    "ClientClosedError",
    "CommitRefusedError",
    "DuplicateEventError",
    "Holder",
    "KeyTemplateError",
    "Lock",
    "LockAlreadyReleasedError",
    "LockArgumentError",
    "LockClient",
    "LockConfigurationError",
    "LockError",
    "LockFormatError",
    "LockLostError",
    "LockNotGrantedError",
    "LockRecord",
    "LockTimeoutError",
    "MultiLock",
    "OwnerMismatchError",
    "PayloadMismatchError",
    "RateLimitedError",
    "Schema",
    "SessionMonitorNotSetError",
    "TransportError",
    "__version__",
    "current_dedup",
    "current_lock",
    "deduplicate",
    "default_client",
    "payload_hash",
    "rate_limit",
    "register_lambda_context",
    "release_on_sigterm",
    "set_default_client",
    "with_lock",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        if name[:1].isupper():  # not the name of a module, for which the import system asks here first
            from .client.explain import meant

            if ours := meant(name, __all__):  # no AttributeError: `from … import` would drop its text
                raise ImportError(f"lambda_lock has no {name}: did you mean {ours}?")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = next((module for module, names in _WHERE.items() if name in names), "errors")
    module = __import__(f"{__name__}.{where}", fromlist=[name])
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
