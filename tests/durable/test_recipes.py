"""The recipe of docs/recipes that is a durable function."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aws_durable_execution_sdk_python_testing import DurableFunctionTestRunner

from lambda_lock import LockClient
from tests.recipes.pages import program

KEY = "preview#d-1"


@pytest.fixture
def debounce(table: str) -> Iterator[Any]:
    app = program("debounce")
    app.made = []
    app.make_preview = app.made.append
    with app.client:
        yield app


def _runs(app: Any) -> bool:
    """An execution from its start to its end. Returns whether it was the one that did the work."""
    with DurableFunctionTestRunner(app.handler) as runner:
        ended: Any = runner.run(input='{"document": "d-1"}')
    assert ended.error is None, ended.error
    return bool(json.loads(ended.result))


def test_the_last_of_several_events_does_the_work_and_those_before_it_do_nothing(debounce):
    leave_number = debounce.leave_number

    def leave_number_and_sleep(key: str) -> int:
        number: int = leave_number(key)
        leave_number(key)  # while this one sleeps, another event comes
        return number

    debounce.leave_number = leave_number_and_sleep
    assert not _runs(debounce)
    assert debounce.made == []
    debounce.leave_number = leave_number
    assert _runs(debounce)
    assert debounce.made == ["d-1"]


def test_an_event_that_comes_while_the_work_is_done_does_it_again_after_it(debounce):
    numbers: list[int] = []

    def make_preview(document: str) -> None:
        debounce.made.append(document)
        if not numbers:
            assert debounce.client.try_acquire(KEY) is None  # whoever comes now waits for the end of this work
            numbers.append(0)

    debounce.make_preview = make_preview
    assert _runs(debounce)
    number = debounce.leave_number(KEY)
    assert debounce.run_if_newest(KEY, number, "d-1")
    assert not debounce.run_if_newest(KEY, number - 1, "d-1")
    assert debounce.made == ["d-1"] * 2


def test_an_event_whose_number_could_not_be_stored_takes_another_and_is_not_forgotten(debounce):
    acquire = debounce.client.acquire
    taken: list[Any] = []

    def acquire_and_lose_once(key: str, **options: Any) -> Any:
        lock = acquire(key, **options)
        if not taken:
            with LockClient() as other:  # as somebody who releases it by force
                other.release(key=lock.key, owner=lock.owner, fencing_token=lock.fencing_token)
        taken.append(lock)
        return lock

    debounce.client.acquire = acquire_and_lose_once
    assert _runs(debounce)
    assert debounce.made == ["d-1"]
