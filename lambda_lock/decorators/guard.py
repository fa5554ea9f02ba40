"""The decorated function: the key of each call, the lock around it, and the answer where that is not granted."""

from __future__ import annotations

import functools  # the Lambda runtime has it loaded

from .. import checks, invocation
from ..errors import DuplicateEventError, KeyTemplateError, LockNotGrantedError
from ..keys.compile import compile_key
from ..keys.parameters import Parameters, name_of
from .call import (
    check_client,
    check_function,
    check_result,
    default_async_client,
    default_client,
    end_quietly,
    end_quietly_async,
    is_async,
)
from .disabled import StandIn, disabled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..errors import LockError
    from ..keys.compile import Key
    from .call import Holding


class Guard:
    """What with_lock and deduplicate share. They differ in how the lock is acquired and what success means for it.

    on_not_granted: "raise", "skip", or a function of the call's own arguments and ``error=``.
    """

    __slots__ = ("build_key", "client", "func", "holding", "on_not_granted", "options")

    def __init__(
        self,
        holding: Holding,
        func: Callable[..., Any],
        key: Key | None,
        key_jmespath: str | None,
        client: Any,
        options: dict[str, Any],
        on_not_granted: Any,
    ) -> None:
        check_function(func, holding.decorator)
        if client is not None:
            check_client(client, func)
        check_answer_of(func, "on_not_granted", on_not_granted)
        _check_options(options)
        self.holding = holding
        self.func = func
        self.build_key = compile_key(func, key, key_jmespath)
        self.client = client
        self.options = options
        self.on_not_granted = on_not_granted

    # -- what differs -----------------------------------------------------------------------------------------------

    def row_key(self, key: str) -> str:
        """The key of the row for what build_key gave."""
        raise NotImplementedError

    def acquire(self, client: Any, key: str) -> Any:
        """The lock; from an async client what is awaited for it."""
        raise NotImplementedError

    def succeed(self, lock: Any, result: object) -> None:
        """Release after the function gave ``result``."""
        raise NotImplementedError

    async def succeed_async(self, lock: Any, result: object) -> None:
        """As `succeed`."""
        raise NotImplementedError

    # -- what is the same -------------------------------------------------------------------------------------------

    def wrapped(self) -> Callable[..., Any]:
        if is_async(self.func):
            return self._wrapped_async()

        @functools.wraps(self.func)
        def locked(*args: Any, **kwargs: Any) -> Any:
            found = invocation.find(args, kwargs)
            token = invocation.enter(found)
            try:
                client = self.client or default_client()
                if disabled():
                    return self.run(
                        args, kwargs, None, StandIn(client, self.key_if_any(args, kwargs), self.options, found)
                    )
                place = self.place(client, args, kwargs)
                try:
                    lock = self.acquire(client, place[1])
                except (LockNotGrantedError, DuplicateEventError) as error:
                    return self.answered(error, args, kwargs)
                return self.run(args, kwargs, place, lock)
            finally:
                invocation.leave(token)

        return locked

    def _wrapped_async(self) -> Callable[..., Any]:
        @functools.wraps(self.func)
        async def locked(*args: Any, **kwargs: Any) -> Any:
            found = invocation.find(args, kwargs)
            token = invocation.enter(found)
            try:
                client = self.client or default_async_client()
                if disabled():
                    from .disabled_async import AsyncStandIn

                    stand_in = AsyncStandIn(client, self.key_if_any(args, kwargs), self.options, found)
                    return await self.run_async(args, kwargs, None, stand_in)
                place = self.place(client, args, kwargs)
                try:
                    lock = await self.acquire(client, place[1])
                except (LockNotGrantedError, DuplicateEventError) as error:
                    answer = self.answered(error, args, kwargs)
                    return await answer if hasattr(answer, "__await__") else answer
                return await self.run_async(args, kwargs, place, lock)
            finally:
                invocation.leave(token)

        return locked

    def place(self, client: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[object, str, str | None]:
        """Which lock a call needs: client, key and sort key. Raises where this very call holds it already."""
        place = (client, self.row_key(self.build_key(args, kwargs)), self.options["sort_key"])
        if not self.options["reentrant"]:
            self.holding.refuse_again(place, place[1])
        return place

    def key_if_any(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The key, or why there is none: while locks are disabled, nothing about them may keep a call from running."""
        try:
            return self.row_key(self.build_key(args, kwargs))
        except KeyTemplateError as error:
            return f"(no key: {error})"

    def answered(self, error: LockError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives that does not get its lock."""
        if self.on_not_granted == "raise" or getattr(error, "too_late", False):
            raise error
        return None if self.on_not_granted == "skip" else self.on_not_granted(*args, **kwargs, error=error)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], place: object, lock: Any) -> Any:
        """Call the function while ``lock`` is held, and release it."""
        token = self.holding.enter(place, lock)
        try:
            result = self.func(*args, **kwargs)
            check_result(result, self.func, self.holding.decorator)
        except BaseException:
            self.holding.leave(token)
            end_quietly(lock, lock.release)
            raise
        self.holding.leave(token)
        self.succeed(lock, result)
        return result

    async def run_async(self, args: tuple[Any, ...], kwargs: dict[str, Any], place: object, lock: Any) -> Any:
        """As `run`."""
        token = self.holding.enter(place, lock)
        try:
            result = await self.func(*args, **kwargs)
        except BaseException:
            self.holding.leave(token)
            await end_quietly_async(lock, lock.release)
            raise
        self.holding.leave(token)
        await self.succeed_async(lock, result)
        return result


def _check_options(options: dict[str, Any]) -> None:
    """What acquire would refuse at each call, said when decorating. Raises LockArgumentError and TypeError."""
    checks.optional_seconds("wait", options["wait"], endless=True)
    checks.optional_seconds("reserve", options["reserve"])
    if options["lease_duration"] is not None:
        checks.lease_duration(options["lease_duration"])
    if options["refresh_period"] is not None:
        checks.refresh_period(options["refresh_period"])


def check_answer_of(func: Callable[..., Any], name: str, answer: object) -> None:
    """Raise TypeError for an answer (``name``: on_not_granted, on_duplicate) that calls of ``func`` cannot get."""
    if not callable(answer):
        return
    if "error" in Parameters.of(func).names:
        raise TypeError(f"the function has a parameter named error, which {name}= gets as well: rename it")
    if is_async(answer) and not is_async(func):
        raise TypeError(f"{name}= must be a plain function here, got an async def function: nobody would await it")
    # What wraps a function may pass on more than it is given: only its own parameters count.
    given = Parameters.of(func, follow_wrapped=False)
    if not Parameters.of(answer, follow_wrapped=False).take_calls_of(given, "error"):
        raise TypeError(
            f"{name}= is called with the arguments of {name_of(func)}() and error=, which {name_of(answer)}() cannot "
            f"take: give it the parameters of {name_of(func)}(), and error"
        )
