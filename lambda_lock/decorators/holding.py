"""The locks that the current call holds, by thread and task."""

from __future__ import annotations

from contextvars import ContextVar  # a few lines over a built-in module

from ..errors import LockConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from typing import Any

    from ..client.lock import Lock

_KINDS: list[Holding] = []  # all of them are asked: with scope="" the row of an event may be a lock's as well


class Holding:
    """The locks that the current call and the calls around it hold by one kind of decorator. The innermost is last."""

    __slots__ = ("_entries", "decorator")

    def __init__(self, decorator: str) -> None:
        self.decorator = decorator
        _KINDS.append(self)
        self._entries: ContextVar[tuple[tuple[tuple[object, ...] | None, Lock], ...]] = ContextVar(
            f"lambda_lock_{decorator}", default=()
        )

    def enter(self, places: tuple[object, ...] | None, lock: Lock) -> Token[Any]:
        """Make ``lock`` the innermost one, until leave() is called with what this returns.

        places: where the lock is, or several. None: ``lock`` is a stand-in, since locks are disabled.
        """
        return self._entries.set((*self._entries.get(), (places, lock)))

    def leave(self, token: Token[Any]) -> None:
        self._entries.reset(token)

    def innermost(self, kind: type[Any] | None) -> Any:
        """The innermost lock. Raises TypeError if it is not of ``kind``. A stand-in is of every kind."""
        entries = self._entries.get()
        if not entries:
            raise LookupError(f"no @{self.decorator} function is running in this thread or task")
        places, lock = entries[-1]
        if kind is not None and places is not None and not isinstance(lock, kind):
            raise TypeError(f"the innermost lock is a {type(lock).__name__}, not a {kind.__name__}")
        return lock

    def refuse_again(self, place: object, key: str) -> None:
        """Raise LockConfigurationError if this very call holds the lock at ``place``: it would wait for itself.

        This is not contention, so it is not a LockNotGrantedError: trying again would not help.
        """
        for kind in _KINDS:
            if any(place in (places or ()) and _holds(lock, key) for places, lock in kind._entries.get()):
                raise LockConfigurationError(
                    f"this call holds the lock {key!r} already, by an outer @{kind.decorator}, and would wait for "
                    "itself: give the inner one another key or, if it has no list of keys, reentrant=True",
                    key=key,
                )


def _holds(lock: Any, key: str) -> bool:
    """Whether the lock of this key is held. Of several, one may be lost while the others are still renewed."""
    if not hasattr(lock, "keys"):
        return bool(lock.is_held)
    from ..client.multi_lock import group_of  # loaded, since there is one

    return group_of(lock).holds(key)
