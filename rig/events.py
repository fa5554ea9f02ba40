"""Sample events from events/, in the form in which the services send them."""

from __future__ import annotations

import copy
import hashlib
import json
import uuid
from typing import Any

from .engine import ROOT

Event = dict[str, Any]

FOLDER = ROOT / "events"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> Event:
    """The event of events/<name>.json, a new copy each time."""
    event: Event = json.loads((FOLDER / f"{name}.json").read_text())
    return event


def eventbridge(detail: Event, event_id: str | None = None) -> Event:
    """The sample event of EventBridge with this detail and id, a new one where it is None."""
    return load("eventbridge") | {"id": event_id or str(uuid.uuid4()), "detail": detail}


def sqs(bodies: list[Event]) -> Event:
    """A batch of messages from SQS with these JSON bodies, each with an id of its own."""
    sample = load("sqs")["Records"][0]
    return {"Records": [_message(sample, json.dumps(body)) for body in bodies]}


def _message(sample: Event, body: str) -> Event:
    message_id = str(uuid.uuid4())
    digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
    return copy.deepcopy(sample) | {
        "messageId": message_id,
        "receiptHandle": f"receipt-{message_id}",
        "body": body,
        "md5OfBody": digest,
    }
