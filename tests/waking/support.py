"""A waker over a table in memory, with its calls and messages in lists."""

from typing import Any

from lambda_lock import LockClient
from lambda_lock.client.sleep import get_up
from lambda_lock.core.row import OF_SLEEPERS
from lambda_lock.core.sleepers import read_sleeper
from lambda_lock.core.tickets import make_ticket
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

    def lies_down(self, *names: str, key: str = "k", **more: Any) -> None:
        for name in names:
            self.client.sleep(key, holder=name, task_token=f"token-{name}", **more)

    def gets_up(self, name: str) -> Any:
        return self.client.__runner__.run(get_up(self.client.__session__, "k", name))

    def row(self, key: str = "k") -> Any:
        return next(item for item in self.memory.items("locks") if item["key"]["S"] == key)

    def sleepers(self) -> list[str]:
        entries = self.row("k~sleepers")["asleep"]["L"]
        return [each.holder if (each := read_sleeper(entry)) else "?" for entry in entries]

    def update(self, expression: str, value: Any, key: str = "k") -> None:
        """Write into a row, past all clients. The value stands for ``:v`` in the expression."""
        request = {"TableName": "locks", "Key": {"key": {"S": key}}, "UpdateExpression": expression}
        self.memory.send("UpdateItem", request | {"ExpressionAttributeValues": {":v": value}}, timeout=1)

    def ticket(self, name: str = "abcdefgh") -> dict[str, str]:
        """The ticket of one who waits awake."""
        return {"S": make_ticket(name, int(self.memory.clock.wall()) + 20)}

    def line(self) -> list[str]:
        """The beginnings of the tickets of those who wait."""
        return [ticket["S"][:8] for ticket in self.row()["waiters"]["L"]]


def message(key: str) -> dict[str, Any]:
    return {"Records": [{"messageId": "m1", "body": f'{{"key": "{key}"}}'}]}


def record(key: str, number: str = "1", **image: Any) -> dict[str, Any]:
    stream = {"Keys": {"key": {"S": key}}, "NewImage": {"key": {"S": key}, **image}, "SequenceNumber": number}
    return {"Records": [{"eventName": "MODIFY", "dynamodb": stream}]}


def lain_down(key: str = "k") -> dict[str, Any]:
    return record(key + OF_SLEEPERS, newest={"S": "a"})
