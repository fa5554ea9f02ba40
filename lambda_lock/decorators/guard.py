"""The decorated function: the key of each call, its lock, and what it returns if the lock is not granted."""

from __future__ import annotations

from functools import partial, wraps  # the Lambda runtime has it loaded

from ..client import checks
from ..client.base import Client, session_of
from ..errors import DuplicateEventError, KeyTemplateError, LockNotGrantedError, TransportError
from ..keys.compile import compile_key
from ..keys.parameters import Parameters, name_of
from ..observe.log import logger, tell
from ..runtime import invocation
from .call import end_quietly, run, run_async
from .environment import default_async_client, default_client, disabled, prepare
from .functions import check_client, check_function, check_result, is_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..client.order import DecoratorOptions
    from ..errors import LockError
    from ..keys.parameters import KeyBuilder, KeysBuilder
    from ..runtime.invocation import Invocation
    from .call import Calls
    from .holding import Holding


class Guard:
    """What with_lock and deduplicate share. They differ in how the lock is acquired, and in what success means for it.

    on_not_granted: "raise", "skip", or a function of the call's own arguments and ``error=``.
    """

    __slots__ = (
        "build_key",
        "client",
        "func",
        "holding",
        "is_async",
        "on_not_granted",
        "on_unavailable",
        "options",
        "wait",
    )

    def __init__(
        self,
        holding: Holding,
        func: Callable[..., Any],
        key: Any,
        key_jmespath: str | None,
        client: Any,
        wait: float | None,
        options: DecoratorOptions,
        on_not_granted: Any,
        on_unavailable: str,
    ) -> None:
        if on_unavailable not in ("raise", "run"):
            raise TypeError(f"on_unavailable= must be 'raise' or 'run', got {on_unavailable!r}")
        check_function(func, holding.decorator)
        if client is not None:
            check_client(client, func)
        check_answer_of(func, "on_not_granted", on_not_granted)
        _check_options(wait, options)
        self.holding = holding
        self.func = func
        self.is_async = is_async(func)
        self.client = client
        self.wait = wait
        self.options = options
        self.build_key: Any = self.compiled(key, key_jmespath)
        self.on_not_granted = on_not_granted
        self.on_unavailable = on_unavailable

    # -- what differs -----------------------------------------------------------------------------------------------

    def compiled(self, key: Any, key_jmespath: str | None) -> KeyBuilder | KeysBuilder:
        """The builder of a call's key, or keys."""
        return compile_key(self.func, key, key_jmespath)

    def row_key(self, key: Any) -> Any:
        """The key of the row, for the key of a call. For several keys, a tuple of them."""
        raise NotImplementedError

    def acquire(self, client: Any, key: Any) -> Any:
        """The lock. With an async client, an awaitable."""
        raise NotImplementedError

    def begin(self, lock: Any, note: Any) -> None:
        """Pass on to the lock what `places` noted of the call's arguments. Not called if it noted nothing."""
        raise NotImplementedError

    def succeed(self, lock: Any, result: object) -> Calls[None]:
        """Release after the function returned ``result``."""
        raise NotImplementedError

    # -- what is the same -------------------------------------------------------------------------------------------

    def wrapped(self) -> Callable[..., Any]:
        prepare(self.client, self.func, permits=self.options.get("permits") is not None)
        if self.is_async:

            @wraps(self.func)
            async def locked_async(*args: Any, **kwargs: Any) -> Any:
                return await run_async(self.call(args, kwargs))

            return locked_async

        @wraps(self.func)
        def locked(*args: Any, **kwargs: Any) -> Any:
            return run(self.call(args, kwargs))

        return locked

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Calls[Any]:
        """A call of the function, plain or async, from beginning to end. The driver makes the calls that this yields.

        The function is called here, not in a generator of its own: `yield from` would not pass a GeneratorExit on.
        """
        found = invocation.find(args, kwargs)
        token = invocation.enter(found)
        try:
            client = self.client or (default_async_client() if self.is_async else default_client())
            if disabled():
                places, lock = None, (yield partial(self.stand_in, client, found, args, kwargs))
            else:
                key, places, note = yield partial(self.places, client, args, kwargs)
                try:
                    lock = yield partial(self.acquire, client, key)
                except (LockNotGrantedError, DuplicateEventError) as error:
                    return (yield partial(self.answered, client, note, error, args, kwargs))
                except TransportError as error:
                    if self.on_unavailable == "raise" or error.answered:
                        raise
                    tell_unavailable(client, key, error)
                    places, note = None, None
                    lock = yield partial(self.stand_in, client, found, args, kwargs, outage=True)
                if note is not None:
                    self.begin(lock, note)
            entered = self.holding.enter(places, lock)
            try:
                result = yield partial(self.func, *args, **kwargs)
                if not self.is_async:
                    check_result(result, self.func, self.holding.decorator)
            except BaseException:
                self.holding.leave(entered)
                yield from end_quietly(lock, lock.release)
                raise
            self.holding.leave(entered)
            yield from self.succeed(lock, result)
            return result
        finally:
            invocation.leave(token)

    def places(self, client: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], Any]:
        """The key or keys of a call, and its locks: for each the client, key and sort key. And a note for `begin`.

        Raises if this very call holds one of them already.
        """
        key = self.row_key(self.build_key(args, kwargs))
        sort_key = self.options.get("sort_key")
        places = tuple((client, one, sort_key) for one in ((key,) if isinstance(key, str) else key))
        if not self.options.get("reentrant"):
            for place in places:
                self.holding.refuse_again(place, place[1])
        return key, places, None

    def stand_in(
        self,
        client: Any,
        found: Invocation | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outage: bool = False,
    ) -> Any:
        """What the function finds as its lock while locks are disabled, or in an outage."""
        from .disabled import AsyncMultiStandIn, AsyncStandIn, MultiStandIn, StandIn

        try:
            key = self.row_key(self.build_key(args, kwargs))
        except KeyTemplateError as error:  # while locks are disabled, nothing about them may keep a call from running
            key = self.row_key(f"(no key: {error})")
        if isinstance(key, tuple):
            return (AsyncMultiStandIn if self.is_async else MultiStandIn)(client, key, self.options, found, outage)
        return (AsyncStandIn if self.is_async else StandIn)(client, key, self.options, found, outage)

    def answered(self, client: Any, note: Any, error: LockError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the call returns when its lock was not granted. Raises ``error`` if it is to be raised."""
        if self.on_not_granted == "raise" or getattr(error, "too_late", False):
            raise error
        return None if self.on_not_granted == "skip" else self.on_not_granted(*args, **kwargs, error=error)


def tell_unavailable(client: Any, key: Any, error: TransportError) -> None:
    """Tell that a call runs without its lock, or its locks, since DynamoDB gave no answer."""
    text = key if isinstance(key, str) else ", ".join(key)
    message = 'the call runs without its lock %r, as on_unavailable="run" asks for: %s'
    if isinstance(client, Client):
        session = session_of(client)
        session.observer.tell("unavailable", None, session.settings.names()[0], message, text, error, key=text)
    else:
        tell(logger, "unavailable", message, text, error, key=text)


def _check_options(wait: float | None, options: DecoratorOptions) -> None:
    """Raise when decorating what acquire would raise at each call: LockArgumentError and TypeError."""
    checks.optional_seconds("wait", wait, endless=True)
    checks.optional_seconds("reserve", options.get("reserve"))
    if (lease := options.get("lease_duration")) is not None:
        checks.lease_duration(lease)
    if (permits := options.get("permits")) is not None:
        checks.permit_count(permits)
        checks.permit_lease(lease or 0.0)
    if (period := options.get("refresh_period")) is not None:
        checks.refresh_period(period)


def check_answer_of(func: Callable[..., Any], name: str, answer: object) -> None:
    """Raise TypeError if an answer (``name``: on_not_granted, on_duplicate) does not fit the calls of ``func``."""
    if not callable(answer):
        return
    if "error" in Parameters.of(func).names:
        raise TypeError(
            f"the function has a parameter named error, but {name}= gets an argument of that name: rename it"
        )
    if is_async(answer) and not is_async(func):
        raise TypeError(f"{name}= must be a plain function here, because nothing would await an async def function")
    # A function that wraps another may pass on more than it is given. Only its own parameters count.
    given = Parameters.of(func, follow_wrapped=False)
    if not Parameters.of(answer, follow_wrapped=False).take_calls_of(given, "error"):
        raise TypeError(
            f"{name}= is called with the arguments of {name_of(func)}() and error=, which {name_of(answer)}() cannot "
            f"take: give it the parameters of {name_of(func)}(), and error"
        )
