"""The options of acquire: what users call has those of the table (client/options.py), with the same defaults."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lambda_lock import AsyncLockClient, LockArgumentError, LockClient, deduplicate, with_lock
from lambda_lock.client import options
from lambda_lock.testing import in_memory

TABLE = options.order
#: What the bundles for ``**options`` leave out: methods list these themselves, or have no use for them.
LEFT_OUT = {
    "DecoratorOptions": {"wait", "queue", "permits"},
    "QueueOptions": {"wait"},
    "AcquireOptions": {"wait"},
    "SeveralDecoratorOptions": {"wait"},
    "SeveralOptions": {"wait", "sort_key"},
}

#: The defaults that differ: a duplicate is not worth a wait.
OWN: dict[str, dict[str, object]] = {"deduplicate": {"wait": 0}}


def listed(function: Callable[..., object]) -> dict[str, object]:
    """The options of a function, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


def bundles() -> dict[str, set[str]]:
    """The names in each TypedDict of the module, with those that it inherits."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(options))):
        if isinstance(node, ast.ClassDef) and node.keywords:  # total=False
            own = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
            found[node.name] = own.union(*(found.get(ast.unparse(base), set()) for base in node.bases))
    return found


def test_acquire_has_the_options_of_the_table_in_its_order() -> None:
    assert list(listed(LockClient.acquire).items()) == list(listed(TABLE).items())


@pytest.mark.parametrize("function", [LockClient.acquire_all, with_lock, deduplicate], ids=lambda each: each.__name__)
def test_who_shares_an_option_with_acquire_has_its_default(function: Callable[..., object]) -> None:
    table = listed(TABLE)
    shared = {name: default for name, default in listed(function).items() if name in table}
    assert "lease_duration" in shared
    assert shared == {name: table[name] for name in shared} | OWN.get(function.__name__, {})


def test_adopt_and_resume_have_the_same_options_among_them_all_that_name_a_hold() -> None:
    assert listed(LockClient.adopt) == listed(LockClient.resume)
    assert bundles()["HoldParts"] < listed(LockClient.resume).keys()


@pytest.mark.parametrize(
    ("bundle", "method"),
    [
        ("AcquireOptions", LockClient.acquire),
        ("SeveralOptions", LockClient.acquire_all),
        ("QueueOptions", with_lock),
        ("DecoratorOptions", deduplicate),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_bundle_has_the_options_of_the_method_that_it_is_for(bundle: str, method: Callable[..., object]) -> None:
    theirs = listed(method).keys() & listed(TABLE).keys()
    assert bundles()[bundle] == theirs - LEFT_OUT[bundle]


INTERNAL = ("method", "window", "owner", "prefix", "session")


@pytest.mark.parametrize("name", INTERNAL)
def test_what_is_no_option_is_refused_by_name(name: str) -> None:
    given: Mapping[str, Any] = {name: "7"}
    with in_memory(), LockClient("locks") as client:
        for act in (client.acquire, client.try_acquire):
            with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{name}'"):
                act("a", **given)
        for act_all in (client.acquire_all, client.try_acquire_all):
            with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{name}'"):
                act_all(["a"], **given)


@pytest.mark.parametrize("name", INTERNAL)
def test_what_is_no_option_is_refused_by_name_to_tasks(name: str) -> None:
    given: Mapping[str, Any] = {name: "7"}

    async def call() -> None:
        async with AsyncLockClient("locks") as client:
            for act in (client.acquire, client.try_acquire):
                with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{name}'"):
                    await act("a", **given)
            for act_all in (client.acquire_all, client.try_acquire_all):
                with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{name}'"):
                    await act_all(["a"], **given)
            if name != "owner":  # a part of a hold's name
                for resume in (client.adopt, client.resume, client.release):
                    with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{name}'"):
                        await resume(None, **given)

    with in_memory():
        asyncio.run(call())


@pytest.mark.parametrize("name", ["data", "permits", "holder", "reentrant"])
def test_several_locks_refuse_the_options_of_one(name: str) -> None:
    given: Mapping[str, Any] = {name: None}

    async def call(tasks: AsyncLockClient) -> None:
        await tasks.acquire_all(["a"], **given)

    with in_memory(), LockClient("locks") as client:
        with pytest.raises(TypeError, match=f"acquire_all\\(\\) got an unexpected keyword argument '{name}'"):
            client.acquire_all(["a"], **given)
        with pytest.raises(TypeError, match=f"acquire_all\\(\\) got an unexpected keyword argument '{name}'"):
            asyncio.run(call(AsyncLockClient.over(client)))


@pytest.mark.parametrize("wrong", [{"timeout": 1}, {"holder": "work"}], ids=lambda each: next(iter(each)))
def test_a_lock_is_not_entered_again_with_an_option_that_does_not_fit(wrong: dict[str, Any]) -> None:
    async def enter(tasks: AsyncLockClient) -> None:
        await tasks.acquire("a", reentrant=True, **wrong)

    with in_memory(), LockClient("locks") as client, client.acquire("a", reentrant=True):
        with pytest.raises((TypeError, LockArgumentError), match=next(iter(wrong))):
            client.acquire("a", reentrant=True, **wrong)
        with pytest.raises((TypeError, LockArgumentError), match=next(iter(wrong))):
            asyncio.run(enter(AsyncLockClient.over(client)))
