"""A lock for Lambda's durable functions, which suspend for hours between their steps. Needs the extra ``durable``.

`durable_lock` takes it in a ``with`` block and yields a `DurableLock`, for several keys a `DurableMultiLock`.
docs/durable.md is the guide.
"""

from __future__ import annotations

try:
    from .lock import DurableLock, DurableMultiLock, durable_lock
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("aws_durable_execution_sdk_python"):
        raise
    raise ImportError(
        "lambda_lock.durable needs the SDK of durable functions: pip install 'lambda-lock[durable]'", name=error.name
    ) from error

__all__ = ["DurableLock", "DurableMultiLock", "durable_lock"]
