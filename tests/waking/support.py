"""A waker over a table in memory, with its calls and messages in lists."""

from __future__ import annotations

from typing import Any

from lambda_lock import LockClient
from lambda_lock.client.sleep import get_up
from lambda_lock.core.row import OF_SLEEPERS
from lambda_lock.testing.memory import Memory
from lambda_lock.waker.function import Calls, WakerFunction


class Noted(Calls):
    """Calls and messages that are noted, and answered as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []
        self.messages: list[tuple[str, int]] = []
        self.answers: dict[str, Exception] = {}  # by callback

    def call(self, kind: str, callback: str) -> Exception | None:
        self.called.append(callback)
        answer = self.answers.get(callback)
        if isinstance(answer, ConnectionError):
            raise answer
        return answer

    def put(self, place: Any, seconds: int) -> None:
        self.messages.append((place.key, seconds))


class Scene:
    """A client, and a waker that is given the records that a test says."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.client = LockClient("locks")
        self.calls = Noted()
        self.waker = WakerFunction(LockClient("locks"), self.calls)

    def look(self, key: str = "k") -> Any:
        return self.waker.handle(message(key), None)

    def lies_down(self, name: str, key: str = "k", **more: Any) -> None:
        self.client.sleep(key, holder=name, task_token=f"token-{name}", **more)

    def gets_up(self, name: str) -> Any:
        return self.client.__runner__.run(get_up(self.client.__session__, "k", name))


def message(key: str) -> dict[str, Any]:
    return {"Records": [{"messageId": "m1", "body": f'{{"key": "{key}"}}'}]}


def record(key: str, number: str = "1", **image: Any) -> dict[str, Any]:
    stream = {"Keys": {"key": {"S": key}}, "NewImage": {"key": {"S": key}, **image}, "SequenceNumber": number}
    return {"Records": [{"eventName": "MODIFY", "dynamodb": stream}]}


def lain_down(key: str = "k") -> dict[str, Any]:
    return record(key + OF_SLEEPERS, newest={"S": "a"})
