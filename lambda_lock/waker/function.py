"""The Lambda function of the waker: which keys an event names, a look at each, and what becomes of one that fails."""

from __future__ import annotations

import json

from ..client.lock_client import LockClient
from ..client.session import run, session_of
from ..core.sleepers import SUFFIX
from ..errors import LockError
from ..observe.log import logger, tell
from .calls import Calls, performed
from .look import LONGEST_LOOK, ClosedError, Look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.lease import ClockReading
    from ..core.protocol import Steps
    from ..core.requests import Place

_RETRIED = 5  # seconds after which a look of the stream that failed is repeated
_ENDING = LONGEST_LOOK + 10.0  # seconds that must be left for a look to begin


class Waker:
    """The waker of one process. client, calls: as in Lambda, if not given."""

    def __init__(self, client: LockClient | None = None, calls: Calls | None = None) -> None:
        self._client = LockClient() if client is None else client
        self._calls = Calls() if calls is None else calls

    def handle(self, event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
        """Look at each key that an event names. Returns the records that are to come again.

        A record that names no key is dropped: it would be the same each time. A look that fails is repeated by the
        queue, so that no key holds up the stream.
        """
        failed, looked = [], dict[tuple[str, str | None], bool]()
        for record in event.get("Records") or ():
            stream = record.get("dynamodb")
            for place in self._places(record) if stream is None else self._streamed(stream):
                if place.where not in looked:
                    is_late = looked and context.get_remaining_time_in_millis() / 1000 < _ENDING
                    looked[place.where] = not is_late and self._look(place)
                if looked[place.where] or (stream is not None and self._put(place)):
                    continue
                name = record.get("messageId") if stream is None else stream.get("SequenceNumber")
                failed.append({"itemIdentifier": str(name)})
        return {"batchItemFailures": failed}

    def _places(self, record: dict[str, Any]) -> list[Place]:
        """The lock that a message names."""
        try:
            body = json.loads(record["body"])
            return [self._place(body["key"], body.get("sort_key"))]
        except (LookupError, TypeError, ValueError, AttributeError, LockError) as error:
            self._tell("a message names no key: %r", error)
            return []

    def _streamed(self, stream: dict[str, Any]) -> list[Place]:
        """The locks that a record of the stream is about: its row's, or the one whose sleepers that row has."""
        try:
            _, partition, sort = session_of(self._client).settings.names()
            keys, image = stream["Keys"], stream.get("NewImage") or {}
            key, sort_key = keys[partition]["S"], keys[sort]["S"] if sort else None
            places = []
            if key.endswith(SUFFIX) and "newest" in image:
                places.append(self._place(key.removesuffix(SUFFIX), sort_key))
            if "sleepers" in image:
                places.append(self._place(key, sort_key))
            return places
        except (LookupError, TypeError, AttributeError, LockError) as error:
            self._tell("a record of the stream names no key: %r", error)
            return []

    def _place(self, key: str, sort_key: str | None) -> Place:
        return session_of(self._client).settings.place(key, sort_key)

    def _look(self, place: Place) -> bool:
        """Look at a key. Return whether that is done."""
        session = session_of(self._client)

        def steps(reading: ClockReading) -> Steps[None]:
            look = Look(place, session.memory, session.entropy, reading)
            try:
                yield from performed(look.run(), self._calls, place)
            finally:
                for sleeper, error in look.woken:
                    self._woken(place, sleeper.holder, error)

        try:
            run(self._client, (place, steps))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other keys are looked at
            self._tell("the look at lock %r failed, and is repeated: %r", place.key, error, key=place.key)
            return False
        return True

    def _woken(self, place: Place, holder: str, error: Exception | None) -> None:
        if error is None or isinstance(error, ClosedError):
            message = "lock %r: %s was called" if error is None else "lock %r: %s sleeps no more: %s"
            tell(logger, "woken", message, place.key, holder, *([] if error is None else [error]), key=place.key)
        else:
            self._tell("lock %r: the call to %s failed: %r", place.key, holder, error, key=place.key)

    def _put(self, place: Place) -> bool:
        """Hand a look that failed over to the queue. Return whether that worked."""
        try:
            self._calls.put(place, _RETRIED)
        except Exception as error:  # noqa: BLE001 - then the stream repeats it
            self._tell("the look at lock %r cannot be repeated by the queue: %r", place.key, error, key=place.key)
            return False
        return True

    def _tell(self, message: str, *arguments: object, key: str | None = None) -> None:
        tell(logger, "wake_failed", message, *arguments, key=key)


_waker: Waker | None = None


def handler(event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    """The Lambda function of the waker, for its stream and its queue. It is configured by the environment."""
    global _waker
    if _waker is None:
        _waker = Waker()
    return _waker.handle(event, context)
