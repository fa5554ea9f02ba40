"""When a returned message is seen again: sooner or later than the queue has it, where the user asks for that.

A message that is merely returned comes back when the queue's visibility time-out is over, counted from its receive.
Changing it needs sqs:ChangeMessageVisibility on the queue.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..client import checks
from ..errors import LockConfigurationError
from ..observe.log import logger, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from .source import Record

    #: Seconds from now on, or a function of the record and its error (None: it was not started) that gives them; None
    #: leaves the message to the queue.
    RetryVisibility: TypeAlias = float | Callable[[Record, Exception | None], float | None]

_MOST = 43_200.0  # seconds, twelve hours: SQS API reference, ChangeMessageVisibility
_BATCH = 10


class Visibility:
    """Raises TypeError, LockArgumentError (a time out of range) and LockConfigurationError (boto3 is not there)."""

    def __init__(self, wanted: RetryVisibility) -> None:
        if not callable(wanted):
            checks.seconds("retry_visibility", wanted, least=0.0, most=_MOST)
        try:
            import boto3  # noqa: F401 - the first message that returns must not be the first to need it
        except ImportError as error:
            raise LockConfigurationError(
                "retry_visibility= needs boto3: install lambda-lock[boto3] (Lambda's Python runtime has it), or leave "
                "out retry_visibility= to keep the queue's visibility time-out"
            ) from error
        self._wanted = wanted

    def change(self, returned: list[tuple[Record, Exception | None]]) -> None:
        """Change it for the messages that are ``returned``. What goes wrong is logged: they come back all the same."""
        try:
            self._change(returned)
        except Exception as error:  # noqa: BLE001 - botocore raises many kinds; the batch has its outcome already
            logger.warning(
                "the visibility of returned messages was not changed (this needs sqs:ChangeMessageVisibility). They "
                "come back after the queue's visibility time-out: %s: %s",
                type(error).__name__,
                shown(error),
                extra={"lock_event": "visibility_failed"},
            )

    def _change(self, returned: list[tuple[Record, Exception | None]]) -> None:
        entries = [
            {"Id": str(index), "ReceiptHandle": record["receiptHandle"], "VisibilityTimeout": seconds}
            for index, (record, error) in enumerate(returned)
            if (seconds := self._seconds(record, error)) is not None
        ]
        if entries:
            self._send(returned[0][0]["eventSourceARN"], entries)

    def _seconds(self, record: Record, error: Exception | None) -> int | None:
        if not callable(self._wanted):
            return int(self._wanted)
        try:
            seconds = self._wanted(record, error)
            return None if seconds is None else int(checks.seconds("retry_visibility", seconds, least=0.0, most=_MOST))
        except Exception:  # noqa: BLE001 - the application's function; the batch has its outcome already
            logger.exception(
                "retry_visibility= failed for message %s. The message comes back after the queue's visibility time-out",
                shown(record["messageId"]),
                extra={"lock_event": "visibility_failed"},
            )
            return None

    def _send(self, arn: str, entries: list[dict[str, Any]]) -> None:
        _, _, _, region, account, name = arn.split(":")
        client = sqs_client(region)
        url = f"{client.meta.endpoint_url.rstrip('/')}/{account}/{name}"
        for start in range(0, len(entries), _BATCH):
            answer = client.change_message_visibility_batch(QueueUrl=url, Entries=entries[start : start + _BATCH])
            for failure in answer.get("Failed", ()):
                logger.warning(
                    "the visibility of a returned message of %s was not changed: %s %s",
                    shown(arn),
                    shown(failure.get("Code")),
                    shown(failure.get("Message")),
                    extra={"lock_event": "visibility_failed"},
                )


@functools.cache
def sqs_client(region: str) -> Any:
    """One for the process: making one takes long, and process_sqs is called anew for each batch."""
    import boto3
    from botocore.config import Config

    # Little time is left at the end of a batch, and without an answer the messages come back all the same.
    config = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 2})
    return boto3.client("sqs", region_name=region, config=config)
