"""Makes returned messages visible again sooner or later than the queue would, if the user asks for it.

By default a returned message becomes visible when the queue's visibility timeout is over, counted from its receive.
Changing that needs the permission sqs:ChangeMessageVisibility on the queue.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from math import ceil

from ..client import checks
from ..errors import LockConfigurationError, RateLimitedError
from ..observe.log import logger, shown
from ..observe.observer import package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, TypeAlias

    from .source import Record

    #: Seconds from now, or a function of the record and its error that returns them. The error is None for a record
    #: that was not started. If the function returns None, the queue's visibility timeout stays. "retry_after": the
    #: error's own estimate, for messages whose lock or event was held.
    RetryVisibility: TypeAlias = float | Literal["retry_after"] | Callable[[Record, Exception | None], float | None]

_MOST = 43_200.0  # seconds, twelve hours: SQS API reference, ChangeMessageVisibility
_MOST_AFTER = 42_300  # the same, less the longest invocation, 15 minutes: SQS counts its limit from the receive
_BATCH = 10  # messages in one request


class Visibility:
    """Changes the visibility of returned messages.

    has_rate: whether the batch has a rate limit. Messages that it refused come back when their turn is, one after
        another.

    Raises TypeError for a value that is neither a number nor a function, LockArgumentError for a time out of range, and
    LockConfigurationError if boto3 is not installed.
    """

    def __init__(self, wanted: RetryVisibility | None, has_rate: bool = False) -> None:
        if wanted == "retry_after":
            wanted = lambda _, error: getattr(error, "retry_after", None)  # noqa: E731 - None: it was not contention
        if wanted is not None and not callable(wanted):
            checks.seconds("retry_visibility", wanted, least=0.0, most=_MOST)
        try:
            import boto3  # noqa: F401 - a missing boto3 must not go unnoticed until the first message is returned
        except ImportError as error:
            raise LockConfigurationError(
                "retry_visibility= needs boto3: install lambda-lock[boto3] (Lambda's Python runtime has it), or leave "
                "out retry_visibility= to keep the queue's visibility timeout. The same goes for rate="
            ) from error
        self._wanted = wanted
        self._has_rate = has_rate

    def change(self, returned: list[tuple[Record, Exception | None]]) -> None:
        """Change the visibility of the ``returned`` messages, each as it was delivered, with its error.

        Errors are logged: the messages come back anyway.
        """
        try:
            refused: Counter[str | None] = Counter()
            # Read before the application's function is called, which may change the records.
            arn, handles = (
                str(returned[0][0].get("eventSourceARN")),
                [record.get("receiptHandle") for record, _ in returned],
            )
            entries = [
                {"Id": str(index), "ReceiptHandle": handles[index], "VisibilityTimeout": seconds}
                for index, (record, error) in enumerate(returned)
                if (seconds := self._seconds(record, error, refused)) is not None
            ]
            for start in range(0, len(entries), _BATCH):
                _, _, _, region, account, name = arn.split(":")
                client = sqs_client(region)
                url = f"{client.meta.endpoint_url.rstrip('/')}/{account}/{name}"
                answer = client.change_message_visibility_batch(QueueUrl=url, Entries=entries[start : start + _BATCH])
                message = "the visibility of a returned message of %s was not changed: %s %s"
                for failure in answer.get("Failed", ()):
                    package.tell("visibility_failed", message, arn, failure.get("Code"), failure.get("Message"))
        except Exception as error:  # noqa: BLE001 - botocore raises many kinds, and the batch already has its outcome
            message = (
                "the visibility of returned messages was not changed (this needs sqs:ChangeMessageVisibility). They "
                "come back after the queue's visibility timeout: %s: %s"
            )
            package.tell("visibility_failed", message, type(error).__name__, error)

    def _seconds(self, record: Record, error: Exception | None, refused: Counter[str | None]) -> int | None:
        if self._has_rate and isinstance(error, RateLimitedError):
            refused[error.key] += 1
            return min(ceil(error.retry_after + (refused[error.key] - 1) * error.every), _MOST_AFTER)
        try:
            seconds = self._wanted(record, error) if callable(self._wanted) else self._wanted
            return None if seconds is None else _whole(seconds)
        except Exception:  # noqa: BLE001 - the application's function failed, but the batch already has its outcome
            logger.exception(  # not a warning: the application has a bug
                "retry_visibility= failed for message %s. The message comes back after the queue's visibility timeout",
                shown(record.get("messageId")),
                extra={"lock_event": "visibility_failed"},
            )
            return None


def _whole(value: float) -> int:
    """Whole seconds. Less than one second becomes 1: 0 would make the message visible at once. Raises as checks do."""
    seconds = checks.seconds("retry_visibility", value, least=0.0, most=_MOST)
    return int(max(seconds, seconds > 0))


@functools.cache
def sqs_client(region: str) -> Any:
    """The SQS client of this process. Creating one takes long, and process_sqs is called for each batch."""
    import boto3
    from botocore.config import Config

    # Little time may be left at the end of a batch, and without a reply the messages come back anyway.
    config = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 2})
    return boto3.client("sqs", region_name=region, config=config)
