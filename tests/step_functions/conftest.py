"""The state machines and functions of docs/step-functions.md, on an engine that runs them."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lambda_lock import LockClient
from rig.cloud import ACCOUNT, SERVICES, Cloud, Function
from rig.engine import REGION, Ministack, client_environment
from tests.support.fresh import clear_environment

from . import page

LOCK_ACTIONS = [f"dynamodb:{action}Item" for action in ("Get", "Put", "Update", "Delete")]
TIMEOUT = 5  # seconds; that of the page is 10
SHORTER = 0.01  # the factor for Wait states and intervals of Retry

_numbers = itertools.count(1)


class Shop:
    """The functions of the page, their lock table, and what they note.

    locks: the name of a lock table that somebody else makes. None: a new one.
    """

    def __init__(self, cloud: Cloud, folder: Path, locks: str | None = None) -> None:
        self.cloud = cloud
        self.locks = cloud.engine.create_table("order-locks") if locks is None else locks
        self.folder = folder
        self.table = cloud.engine.create_table("shop")  # of plans and notes
        for name, contains in page.MODULES.items():
            (folder / f"{name}.py").write_text(page.code(contains))
        for module in Path(__file__).with_name("handlers").glob("*.py"):
            shutil.copy(module, folder)
        self.role = self._role()
        with ThreadPoolExecutor(3) as pool:
            names = page.HANDLERS + page.HANDLERS_OF_PARTS + page.HANDLERS_OF_PERMITS + page.HANDLERS_OF_SLEEP
            made = pool.map(lambda name: self._function(name, folder), names)
            self.functions: dict[str, Function] = dict(zip(names, made, strict=True))

    @property
    def arns(self) -> dict[str, str]:
        """What the names in the definitions stand for."""
        return {name: function.arn for name, function in self.functions.items()} | {"locks": self.locks}

    def machine(self, definition: dict[str, Any]) -> str:
        """Make a state machine, and return its ARN."""
        made = self.cloud.client("stepfunctions").create_state_machine(
            name=f"machine-{next(_numbers)}", definition=json.dumps(definition), roleArn=self.role
        )
        return str(made["stateMachineArn"])

    def new_order(self, **plan: list[str]) -> str:
        """A new order. plan: see handlers/shop.py, with "_" for a blank."""
        order = str(next(_numbers))
        self.plan(order, **plan)
        return order

    def plan(self, order: str, **plan: list[str]) -> None:
        """Set what is done in the moments of an order, from its beginning."""
        text = json.dumps({name.replace("_", " "): acts for name, acts in plan.items()})
        item = {"key": {"S": f"order {order}"}, "plan": {"S": text}}
        self.cloud.engine.dynamodb("PutItem", {"TableName": self.table, "Item": item})

    @contextmanager
    def rule(self, name: str, machine: str, after: dict[str, Any]) -> Iterator[None]:
        """The rule of the page, by which this definition follows the ends of a machine's executions."""
        events = self.cloud.client("events")
        events.put_rule(Name=name, EventPattern=json.dumps(page.pattern(machine)))
        target = {"Id": "after", "Arn": self.machine(after), "RoleArn": self.role}
        events.put_targets(Rule=name, Targets=[target])
        yield
        events.remove_targets(Rule=name, Ids=["after"])
        events.delete_rule(Name=name)

    def start(self, machine: str, order: str, name: str | None = None) -> Execution:
        states = self.cloud.client("stepfunctions")
        named = {} if name is None else {"name": name}
        started = states.start_execution(stateMachineArn=machine, input=json.dumps({"order": order}), **named)
        return Execution(self, started["executionArn"], order)

    def notes(self, order: str, what: str | None = None) -> list[dict[str, Any]]:
        """The notes of an order, by time."""
        rows = self.cloud.engine.scan(self.table)
        notes = [json.loads(row["note"]["S"]) for row in rows if "note" in row]
        found = [note for note in notes if note["order"] == order and what in (None, note["what"])]
        return sorted(found, key=lambda note: note["at"])

    def _role(self) -> str:
        """The role of the state machines and of the rule. The engine asks for one, and not for its policies."""
        principals = {"Service": ["states.amazonaws.com", "events.amazonaws.com"]}
        trust = {"Effect": "Allow", "Principal": principals, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        made = self.cloud.client("iam").create_role(RoleName="states", AssumeRolePolicyDocument=document)
        return str(made["Role"]["Arn"])

    def _function(self, name: str, folder: Path) -> Function:
        environment = {"LAMBDA_LOCK_TABLE": self.locks, "LAMBDA_LOCK_WAKE": "1", "SHOP": self.table}
        allow = [{"Action": LOCK_ACTIONS, "Resource": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{self.locks}"}]
        return self.cloud.function(f"fragile.{name}", folder, timeout=TIMEOUT, environment=environment, allow=allow)


class Execution:
    """An execution of a state machine."""

    def __init__(self, shop: Shop, arn: str, order: str) -> None:
        self.arn = arn
        self.order = order
        self._shop = shop
        self._states = shop.cloud.client("stepfunctions")

    def described(self) -> dict[str, Any]:
        found: dict[str, Any] = self._states.describe_execution(executionArn=self.arn)
        return found

    def end(self) -> tuple[str, str, str]:
        """Wait until it ends. Returns its status, error and cause."""
        self._shop.cloud.wait_until(lambda: self.described()["status"] != "RUNNING", seconds=120)
        found = self.described()
        return found["status"], found.get("error", ""), found.get("cause", "")

    def has_succeeded(self, times: int | None = None) -> bool:
        """Wait until it ends. times: after it has asked so many times for an answer, and has been given the last."""
        if times is not None:
            self.answer(self.asked(times))
        return self.end()[0] == "SUCCEEDED"

    def failure(self) -> str:
        """Wait until it ends, as one that failed. Returns the error that its cause names."""
        status, _, cause = self.end()
        assert status == "FAILED"
        return str(json.loads(cause)["Error"])

    def states(self) -> list[str]:
        """The states that it has entered."""
        found = [event.get("stateEnteredEventDetails", {}).get("name") for event in self._history()]
        return [name for name in found if name]

    def errors(self) -> list[str]:
        """The errors of its tasks, those that were tried again included."""
        return [each["taskFailedEventDetails"]["error"] for each in self._history() if each["type"] == "TaskFailed"]

    def asked(self, times: int = 1) -> str:
        """Wait until it has asked so many times for an answer. Returns the task token of the last of these."""
        self._shop.cloud.wait_until(lambda: len(self._shop.notes(self.order, "ask")) >= times)
        return str(self._shop.notes(self.order, "ask")[times - 1]["task"])

    def answer(self, task: str) -> None:
        self._states.send_task_success(taskToken=task, output="{}")

    def refuse(self, task: str, error: str) -> None:
        self._states.send_task_failure(taskToken=task, error=error)

    def stop(self) -> None:
        self._states.stop_execution(executionArn=self.arn)

    def _history(self) -> list[dict[str, Any]]:
        pages = self._states.get_paginator("get_execution_history").paginate(executionArn=self.arn)
        return [event for found in pages for event in found["events"]]


@pytest.fixture(scope="package")
def cloud() -> Iterator[Cloud]:
    services = [*SERVICES, "states", "cloudformation"]
    with Ministack(auth=True, wait_scale=SHORTER, services=services) as engine, Cloud(engine) as running:
        yield running


@pytest.fixture(scope="package")
def shop(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(cloud, tmp_path_factory.mktemp("shop"))


@pytest.fixture
def locks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockClient]:
    """A client of the lock table, which holds nothing."""
    clear_environment(monkeypatch)
    for name, value in client_environment(shop.cloud.engine.url).items():
        monkeypatch.setenv(name, value)
    with LockClient(shop.locks) as client:
        yield client


@pytest.fixture(scope="package")
def orders(shop: Shop) -> str:
    """The state machine of the page, without its rule: what is released here was released by the machine itself."""
    return shop.machine(page.machines(shop.arns)[0])


@pytest.fixture(scope="package")
def orders_and_rule(shop: Shop) -> Iterator[str]:
    """The state machine of the page with its rule."""
    first, second = page.machines(shop.arns)
    orders = shop.machine(first)
    with shop.rule("ended", orders, second):
        yield orders


Free = Callable[[str], bool]


@pytest.fixture
def is_free(locks: LockClient) -> Free:
    """Whether the lock of an order was released: not that a lease has passed."""

    def released(order: str) -> bool:
        record = locks.get(f"order#{order}")
        return record is None or record.is_released

    return released
