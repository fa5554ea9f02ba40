"""The Lambda function of the waker: which keys an event names, a look at each, and what becomes of one that fails."""

from __future__ import annotations

import json

from ..client.lock_client import LockClient
from ..client.session import run, session_of
from ..core.schema import ASLEEP
from ..core.sleepers import NEWEST, SUFFIX
from ..errors import LockError
from ..observe.log import logger, tell
from .calls import Calls, performed
from .look import LONGEST_LOOK, Look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.lease import ClockReading
    from ..core.protocol import Steps
    from ..core.requests import Place

_RETRIED = 5  # seconds after which a look of the stream that failed is repeated
_ENDING = LONGEST_LOOK + 10.0  # seconds that must be left for another look to begin


class Waker:
    """The waker of one process. client, calls: as in Lambda, if not given."""

    def __init__(self, client: LockClient | None = None, calls: Calls | None = None) -> None:
        self._client = client or LockClient()
        self._session = session_of(self._client)
        self._calls = calls or Calls()

    def handle(self, event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
        """Look at each key that an event names. Returns the records that are to come again.

        A record that names no key is dropped: it would be the same each time. A look that fails is repeated by the
        queue, so that no key holds up the stream.
        """
        failed, looked = [], dict[object, bool]()
        for record in event.get("Records") or ():
            try:
                places = self._places(record)
            except (LookupError, TypeError, ValueError, AttributeError, LockError) as error:
                tell(logger, "wake_failed", "a record names no key: %r", error)
                continue
            for place in places:
                if place.where not in looked:
                    is_late = looked and context.get_remaining_time_in_millis() / 1000 < _ENDING
                    is_done = not is_late and self._done(place, self._look)
                    looked[place.where] = is_done or ("dynamodb" in record and self._done(place, self._put))
                if not looked[place.where]:
                    name = record.get("messageId") or record["dynamodb"]["SequenceNumber"]
                    failed.append({"itemIdentifier": name})
        return {"batchItemFailures": failed}

    def _places(self, record: dict[str, Any]) -> list[Place]:
        """The locks that a record of the stream or a message is about."""
        place, stream = self._session.settings.place, record.get("dynamodb")
        if stream is None:
            body = json.loads(record["body"])
            return [place(body["key"], body.get("sort_key"))]
        _, partition, sort = self._session.settings.names()
        image, key = stream.get("NewImage") or {}, stream["Keys"][partition]["S"]
        sort_key = stream["Keys"][sort]["S"] if sort else None
        keys = [key] if ASLEEP in image else []
        if key.endswith(SUFFIX) and NEWEST in image:
            keys.append(key.removesuffix(SUFFIX))
        return [place(key, sort_key) for key in keys]

    def _done(self, place: Place, act: Any) -> bool:
        try:
            act(place)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other keys are looked at
            self._tell(place, "wake_failed", "the look at lock %r is repeated: %r", error)
            return False
        return True

    def _tell(self, place: Place, event: str, message: str, *arguments: object) -> None:
        self._session.observer.tell(event, None, place.table, message, place.key, *arguments, key=place.key)

    def _look(self, place: Place) -> None:
        def steps(reading: ClockReading) -> Steps[None]:
            look = Look(place, self._session.memory, self._session.entropy, reading)
            return performed(look.run(), self._calls, place, self._tell)

        run(self._client, (place, steps))

    def _put(self, place: Place) -> None:
        self._calls.put(place, _RETRIED)


_waker: Waker | None = None


def handler(event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    """The Lambda function of the waker, for its stream and its queue. It is configured by the environment."""
    global _waker
    if _waker is None:
        _waker = Waker()
    return _waker.handle(event, context)
