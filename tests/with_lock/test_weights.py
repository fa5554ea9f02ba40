"""What a call takes of the permits, if a function of its arguments says so: on the real client and a real engine."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_lock import LockArgumentError, LockNotGrantedError
from lambda_lock.decorators.with_lock import current_lock, with_lock

pytestmark = pytest.mark.usefixtures("table")


def test_a_call_takes_what_a_function_of_its_arguments_returns(locked, other):
    @locked("gpus", permits=8, take=lambda job, *, spare=0: job["gpus"] + spare, wait=0)
    def train(job: dict[str, int], *, spare: int = 0) -> tuple[int, int]:
        return current_lock().take, other.get("gpus").taken

    assert train({"gpus": 3}) == (3, 3)
    assert train({"gpus": 3}, spare=2) == (5, 5)
    with other.acquire("gpus", permits=8, take=4):
        assert train({"gpus": 4}) == (4, 8)
        with pytest.raises(LockNotGrantedError, match="has no 5 free permits"):
            train({"gpus": 5})
    assert other.get("gpus").taken == 0


@pytest.mark.parametrize(
    ("take", "kind", "said"),
    [
        (9, LockArgumentError, "take=9 is more than permits=8.*: the function of take= returned it for 'gpus'"),
        (0, LockArgumentError, "take=0 is out of range.*: the function of take= returned it for 'gpus'"),
        ("2", TypeError, "take must be an int, not '2' .*: the function of take= returned it for 'gpus'"),
        (True, TypeError, "take must be an int, not True"),
    ],
)
def test_what_the_function_returns_is_checked_before_anything_is_sent(locked, wire, take, kind, said):
    train = locked("gpus", permits=8, take=lambda size: size)(lambda size: None)
    with pytest.raises(kind, match=said) as refused:
        train(take)
    assert not wire.requests
    if kind is LockArgumentError:
        assert refused.value.key == "gpus"


def test_a_call_that_takes_several_runs_beside_one_for_which_the_function_said_none(locked, other):
    @locked("gpus", permits=8, take=lambda size, then=None: size, wait=0)
    def train(size: int | None, then: Any = None) -> int:
        return then() if then else other.get("gpus").taken

    def beside() -> int:
        with other.acquire("gpus", permits=8, take=2, wait=0):
            return other.get("gpus").taken

    assert train(None) == 1
    assert train(None, beside) == 3


def test_an_error_of_the_function_is_raised_by_the_call_and_nothing_is_sent(locked, wire):
    train = locked("gpus", permits=8, take=lambda job: job["gpus"])(lambda job: None)
    with pytest.raises(KeyError):
        train({})
    assert not wire.requests


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "take=.* needs permits="),
        ({"shared": True}, "take=.* is not possible with shared=True"),
        ({"permits": 0}, "permits=0 is out of range"),
    ],
    ids=str,
)
def test_a_function_without_permits_or_beside_shared_is_refused_when_decorating(options, said):
    with pytest.raises(LockArgumentError, match=said):
        with_lock("gpus", take=lambda job: 2, **options)


def test_a_function_that_cannot_be_called_as_the_decorated_one_is_refused_when_decorating():
    async def awaited(job: object) -> int:
        return 2

    def made(job: object) -> Any:
        yield 2

    takes: tuple[Any, ...] = (lambda: 2, lambda job, more: 2, awaited, made)
    for take in takes:
        with pytest.raises(TypeError, match=r"take= is called with the arguments of .*train\(\), and what it returns"):

            @with_lock("gpus", permits=8, take=take)
            def train(job: object) -> None: ...
