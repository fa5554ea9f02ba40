"""Never two at once, never twice: locks and deduplication for Python on AWS Lambda, in one DynamoDB table.

Public names load on first use, so that code that a function does not use does not slow its cold start.

Example::

    from lambda_lock import with_lock

    @with_lock("report#{report_id}")
    def handler(event, context):
        build_report(event["report_id"])
"""

from __future__ import annotations

from ._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .client.async_client import AsyncLockClient
    from .client.async_lock import AsyncLock, AsyncMultiLock
    from .client.lock import Lock
    from .client.lock_client import LockClient
    from .client.multi_lock import MultiLock
    from .client.record import LockRecord
    from .core.lease import Holder
    from .core.schema import GO, JAVA, PYTHON, Schema
    from .decorators.deduplicate import current_dedup, deduplicate
    from .decorators.environment import default_client, set_default_client
    from .decorators.stopping import release_on_sigterm
    from .decorators.with_lock import current_lock, with_lock
    from .errors import (
        ClientClosedError,
        CommitRefusedError,
        DuplicateEventError,
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
        SessionMonitorNotSetError,
        TransportError,
    )
    from .keys.payload_hash import payload_hash
    from .runtime.invocation import register_lambda_context

#: The modules of the public names. Those that are not here are in errors.py.
_WHERE = {
    "AsyncLock": "client.async_lock",
    "AsyncLockClient": "client.async_client",
    "AsyncMultiLock": "client.async_lock",
    "LockClient": "client.lock_client",
    "GO": "core.schema",
    "JAVA": "core.schema",
    "Holder": "core.lease",
    "PYTHON": "core.schema",
    "Schema": "core.schema",
    "register_lambda_context": "runtime.invocation",
    "Lock": "client.lock",
    "MultiLock": "client.multi_lock",
    "LockRecord": "client.record",
    "current_dedup": "decorators.deduplicate",
    "current_lock": "decorators.with_lock",
    "deduplicate": "decorators.deduplicate",
    "payload_hash": "keys.payload_hash",
    "default_client": "decorators.environment",
    "release_on_sigterm": "decorators.stopping",
    "set_default_client": "decorators.environment",
    "with_lock": "decorators.with_lock",
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
    "Schema",
    "SessionMonitorNotSetError",
    "TransportError",
    "__version__",
    "current_dedup",
    "current_lock",
    "deduplicate",
    "default_client",
    "payload_hash",
    "register_lambda_context",
    "release_on_sigterm",
    "set_default_client",
    "with_lock",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__(f"{__name__}.{_WHERE.get(name, 'errors')}", fromlist=[name])
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
