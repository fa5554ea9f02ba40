"""What Lambda's event filtering does with a record of the stream, as far as the waker's patterns need it."""

from typing import Any

from lambda_lock.core.row import OF_SLEEPERS
from lambda_lock.waker import function

FILTERS: Any = function.FILTERS


def passes(image: Any) -> bool:
    """Whether a record with this new image passes any of the patterns. "exists" is for leaves, as on AWS."""
    return image is not None and any(_matches(pattern["dynamodb"]["NewImage"], image) for pattern in FILTERS)


def _matches(pattern: Any, value: Any) -> bool:
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(_matches(part, value.get(name)) for name, part in pattern.items())
    return any(value is not None if isinstance(one, dict) else value == one for one in pattern)


def key_of(key: str, image: Any) -> str | None:
    """The lock that a record causes a look at. None: it does not pass."""
    if not passes(image):
        return None
    return key.removesuffix(OF_SLEEPERS) if "newest" in image else key
