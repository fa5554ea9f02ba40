"""Shared by tests of decorated functions: a fresh process, another client, an error to raise, and async twins."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from lambda_lock import LockClient, deduplicate, default_client, set_default_client

from .clients import KeepingClient
from .fresh import clear_environment, forget_invocations


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process outside Lambda that has seen no invocation and has no default client."""
    clear_environment(monkeypatch)
    forget_invocations(monkeypatch)
    set_default_client(None)
    yield
    default_client().close(release=False)  # the wire that its requests went over may be gone
    set_default_client(None)


@pytest.fixture
def other(table: str) -> Iterator[LockClient]:
    """Another client of the same table, independent of the decorators' client."""
    client = KeepingClient(table, owner_prefix="other")
    yield client
    client.close(release=False)  # not with a release: the wire for its requests may be gone


class Boom(Exception):
    pass


Decorator: TypeAlias = Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]


def as_async(decorator: Decorator) -> Decorator:
    """The decorator on an async def function that does what the plain one does. Its calls need no await."""

    def with_options(*args: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(body)
            async def handler(*args: Any, **kwargs: Any) -> Any:
                # On a thread, where `done` may run a loop of its own: AsyncLock is bound to none.
                return await asyncio.to_thread(body, *args, **kwargs)

            decorated: Any = decorator(*args, **options)(handler)
            called: Any = functools.wraps(body)(lambda *args, **kwargs: asyncio.run(decorated(*args, **kwargs)))
            called.forget = lambda *args, **kwargs: asyncio.run(decorated.forget(*args, **kwargs))
            return called

        return decorate

    return with_options


@pytest.fixture(params=["def", "async def"])
def once(request: pytest.FixtureRequest) -> Decorator:
    """@deduplicate for a plain function, or for an async def function that does the same. Neither needs an await."""
    if request.param == "def":
        return deduplicate
    return as_async(deduplicate)


def done(act: Any) -> Any:
    """The result of an act of the current lock. That of an AsyncLock is awaited."""
    return asyncio.run(act) if inspect.iscoroutine(act) else act
