"""Types of the decorators, for type checkers only. Nothing imports this module when the code runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, TypeVar, overload

from ..client.async_client import AsyncLockClient
from ..client.lock_client import LockClient

if TYPE_CHECKING:
    from ..client.options import DecoratorOptions, QueueOptions, SeveralDecoratorOptions

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Q = ParamSpec("Q")
T_co = TypeVar("T_co", covariant=True)
Done_co = TypeVar("Done_co", covariant=True)


class Unheard:
    """No function returns this, so only Any and Never match it."""


U = TypeVar("U", bound=Unheard)


class Serializer(Protocol):
    """Converts results to JSON's values, and back."""

    def dump(self, value: Any, /) -> Any: ...
    def load(self, value: Any, /) -> Any: ...


class Answering(Protocol[T_co]):
    """A decorator whose functions may return a T as well. Async def functions do so when awaited.

    Any and Never match everything that a function may return, including a coroutine, so the first overload is theirs.
    mypy still gives up on Any: it leaves the decorated function untyped, as it does wherever overloads differ in their
    results.
    """

    @overload
    def __call__(self, func: Callable[P, U], /) -> Callable[P, U | T_co]: ...
    @overload
    def __call__(self, func: Callable[P, Coroutine[Any, Any, R]], /) -> Callable[P, Coroutine[Any, Any, R | T_co]]: ...
    @overload
    def __call__(self, func: Callable[P, R], /) -> Callable[P, R | T_co]: ...


class AnsweringAsync(Protocol[T_co]):
    """`Answering` with an async answer, so for async def functions only."""

    def __call__(self, func: Callable[P, Coroutine[Any, Any, R]], /) -> Callable[P, Coroutine[Any, Any, R | T_co]]: ...


class Deduplicated(Protocol[P, T_co, Done_co]):
    """A function that @deduplicate decorates. As a method it is bound to its object, and then has no ``forget``."""

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
    def forget(self, *args: Any, wait: float | None = 0, if_result: object = ..., **kwargs: Any) -> Done_co: ...
    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> OfClass[P, T_co, Done_co]: ...
    @overload
    def __get__(
        self: Deduplicated[Concatenate[Any, Q], R, Any], instance: object, owner: type[Any] | None = None, /
    ) -> Callable[Q, R]: ...


class OfClass(Protocol[P, T_co, Done_co]):
    """`Deduplicated` through its class: a method, a static method, or a class method, which is given its class."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
    @overload
    def __call__(self: OfClass[Concatenate[type[Any], Q], R, Any], *args: Q.args, **kwargs: Q.kwargs) -> R: ...
    def forget(self, *args: Any, wait: float | None = 0, if_result: object = ..., **kwargs: Any) -> Done_co: ...


class Deduplicating(Protocol[T_co]):
    """`Answering`, for @deduplicate."""

    @overload
    def __call__(self, func: Callable[P, U], /) -> Deduplicated[P, U | T_co, Any]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # what a coroutine function returns is awaited
        self, func: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Deduplicated[P, Coroutine[Any, Any, R | T_co], Coroutine[Any, Any, bool]]: ...
    @overload
    def __call__(self, func: Callable[P, R], /) -> Deduplicated[P, R | T_co, bool]: ...


if TYPE_CHECKING:  # DecoratorOptions exists for checkers only

    class _CallOptions(TypedDict, total=False):
        """What the overloads of all decorators have in common."""

        wait: float | None
        client: LockClient | AsyncLockClient | None
        on_unavailable: Literal["raise", "run"]

    class _Options(_CallOptions, DecoratorOptions, total=False):
        """What the overloads for one key have in common besides."""

        key_jmespath: str | None

    class LockOptions(_Options, QueueOptions, total=False):
        """What the overloads of with_lock have in common."""

        take: int | Callable[..., int] | None

    class SeveralLockOptions(_CallOptions, SeveralDecoratorOptions, total=False):
        """What the overloads of with_lock for a list of keys have in common."""

        sort_key: str | None

    class RateOptions(_CallOptions, total=False):
        """What the overloads of rate_limit have in common."""

        per: float
        burst: int
        n: int | Callable[..., int]
        reserve: float | None
        sort_key: str | None

    class StoredOptions(TypedDict, total=False):
        """Where and how an event is stored, for deduplicate and for batches."""

        scope: str | None
        result: Literal["json"] | type[Any] | UnionType | Serializer | None
        validate: Sequence[str] | None

    class EventOptions(_Options, StoredOptions, total=False):
        """What the overloads of deduplicate have in common."""

        window: float | Callable[[Any], float]
        done_if: Callable[[Any], bool] | None
        cache_size: int
