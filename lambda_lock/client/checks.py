"""Checks of arguments, made before anything is sent. Each error names the parameter, the value and the remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence  # loaded by every Python

from ..core.lease import MIN_LEASE
from ..core.requests import bare_name, encode_data
from ..core.row import LONGEST_LEASE, MOST_PERMITS, NOT_A_KEY, OF_SLEEPERS
from ..core.schema import Schema
from ..errors import LockArgumentError, LockConfigurationError
from ..observe.log import logger
from ..runtime.drive import is_item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

_LONGEST = 365 * 86_400.0  # seconds of anything but a lease
_LONG_LEASE = 3600.0  # seconds; a longer lease may have been meant in milliseconds
PARTITION_KEY_LIMIT = 2048  # bytes, "Quotas in Amazon DynamoDB"
SORT_KEY_LIMIT = 1024
_HOLDER_LIMIT = 512  # bytes, as of an owner's prefix
_ACTIONS = frozenset({"Put", "Update", "Delete", "ConditionCheck"})
_PARTS = ("Item", "Key", "ExpressionAttributeValues")  # of a write in a transaction, that are DynamoDB JSON
_warned = False


def real_threads() -> None:
    """Raise LockConfigurationError where gevent or eventlet has replaced threads or sockets (monkey patching).

    Then the heartbeat, a thread that waits, would stop the whole process, and threads could not share connections.
    """
    for library, module, asks in (
        ("gevent", "gevent.monkey", "is_module_patched"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched"),
    ):
        if (loaded := sys.modules.get(module)) is None:
            continue
        is_patched = getattr(loaded, asks)
        if any(map(is_patched, ("thread", "threading", "socket", "ssl"))):
            raise LockConfigurationError(
                f"{library} has replaced this process's threads or sockets by its own (monkey patching), and a lock "
                "is renewed from a real thread. Take locks in a process without it, such as gunicorn's workers of "
                "class gthread, or with AsyncLockClient on asyncio"
            )


def options(
    method: str,
    known: Collection[str],
    given: Mapping[str, object],
    takers: Callable[[str], Sequence[str]] | None = None,
) -> None:
    """Raise TypeError for an option that is not known. method: what errors call the function that was given it.

    takers: says what else takes an option of this name.
    """
    for name, value in given.items():
        if name not in known:
            from .explain import unknown_option

            raise unknown_option(method, known, name, value, () if takers is None else takers(name))


def flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError(f"{name} must be True or False, not {value!r} ({type(value).__name__})")


def of_kind(name: str, value: object, kind: type | tuple[type, ...], said: str, instead: str = "") -> Any:
    """Raise TypeError for a value of another type. A bool is not a number here. said: the type, for the error; instead:
    what to do for other values."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {said}, not {value!r} ({type(value).__name__}){instead}")
    return value


def key_text(name: str, value: object, limit: int = PARTITION_KEY_LIMIT) -> str:
    """Check a partition or sort key: a str of 1 to ``limit`` bytes."""
    if not isinstance(value, str):
        several = ": acquire_all takes a list of keys" if name == "key" and isinstance(value, (list, tuple)) else ""
        raise TypeError(f"{name} must be a str, not {value!r} ({type(value).__name__}){several}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise LockArgumentError(
            f"{name} {value!r} is not valid Unicode and cannot be sent: remove the lone surrogate", key=value
        ) from None
    if not size:
        raise LockArgumentError(
            f"{name} is empty. Give each lock a name: all callers with an empty one would share a lock",
            key=value,
        )
    if size > limit:
        raise LockArgumentError(
            f"{name} {value[:40]!r}… has {size} bytes; DynamoDB allows {limit}. Shorten it, or use a hash of it",
            key=value,
        )
    return value


def lock_key(name: str, value: object) -> str:
    """Check the key of what is taken or written: as key_text, and not that of a row of sleepers."""
    key = key_text(name, value)
    if key.endswith(OF_SLEEPERS):
        raise LockArgumentError(f"{name}={key!r} {NOT_A_KEY}", key=key)
    return key


def several_keys(keys: object) -> list[str]:
    """Check the keys of several locks: 1 to MOST_KEYS different ones. They are read once.

    Returns them in the order in which everybody takes them, each one once.
    """
    from ..core.several import MOST_KEYS, ordered

    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        write = f"write [{keys!r}], or use acquire for a single lock" if isinstance(keys, str) else "pass a list of str"
        raise TypeError(f"keys must be a list of keys, not {keys!r} ({type(keys).__name__}): {write}")
    found: dict[str, None] = {}
    for number, key in enumerate(keys):
        found[lock_key(f"keys[{number}]", key)] = None
        if len(found) > MOST_KEYS:
            raise LockArgumentError(
                f"keys has more than {MOST_KEYS} different keys: take at most {MOST_KEYS} locks together. One lock for "
                "all of them is cheaper"
            )
    if not found:
        raise LockArgumentError("keys is empty: name at least one lock, because without any nothing would be protected")
    return ordered(found)


def seconds(name: str, value: object, *, least: float, most: float = _LONGEST, endless: bool = False) -> float:
    """Check a number of seconds, from ``least`` to ``most``. ``endless`` allows inf as well."""
    number = of_kind(name, value, (int, float), "a number of seconds")
    if not least <= number <= most and not (endless and number == float("inf")):
        days = f" ({most / 86_400:.15g} days)" if most > 86_400 else ""
        raise LockArgumentError(f"{name}={value!r} is out of range: pass {least:g} to {most:.15g} seconds{days}")
    return float(number)


def in_scope(scope: str, key: str) -> str:
    """Return the row's key of an event: ``key`` under ``scope``. "": it is ``key``."""
    if scope == "":
        return key
    from ..keys.arguments import scoped

    key_text("key", key)
    return scoped(key_text("scope", scope), key)


def per_by_name(key: object, limit: object, more: tuple[object, ...]) -> None:
    """Raise TypeError for what rate_limit was given by position after its limit."""
    if more:
        raise TypeError(f"rate_limit takes per= by its name: write rate_limit({key!r}, {limit!r}, per={more[0]!r})")


def optional_seconds(name: str, value: object, *, most: float = _LONGEST, endless: bool = False) -> None:
    if value is not None:
        seconds(name, value, least=0.0, most=most, endless=endless)


def refresh_period(value: object) -> float:
    return seconds("refresh_period", value, least=0.01)


def rate(name: str, value: object) -> float | None:
    if value is None:
        return None
    number = of_kind(name, value, (int, float), "a number per second")
    if not 0 < number < float("inf"):
        raise LockArgumentError(f"{name}={value!r} is out of range: pass more than 0 per second, or None for no limit")
    return float(number)


def lease_duration(value: object) -> float:
    global _warned
    lease = seconds("lease_duration", value, least=MIN_LEASE, most=LONGEST_LEASE)
    if lease > _LONG_LEASE and not _warned:
        _warned = True
        message = (
            "lease_duration=%.15g is in seconds: if a holder dies, everyone else waits for %.1f hours. "
            "If you meant milliseconds, pass %g"
        )
        logger.warning(message, lease, lease / 3600, lease / 1000)
    return lease


def heartbeat_period(value: object, lease: float) -> float | None:
    if value is None:
        return None
    period = seconds("heartbeat_period", value, least=0.0)
    if period > lease / 2:
        raise LockArgumentError(
            f"heartbeat_period={value!r} is more than half of lease_duration={lease:g}: one lost reply would lose the "
            f"lock. Pass at most {lease / 2:g}, 0 for no heartbeat, or None to have it planned for you"
        )
    return period


def safe_time(value: object, lease: float) -> float | None:
    if value is None:
        return None
    safe = seconds("safe_time", value, least=0.0)
    if not 0 < safe < lease:
        raise LockArgumentError(f"safe_time={safe:.15g} must be between 0 and lease_duration={lease:g} seconds")
    return safe


def whole(name: str, value: object, *, least: int, instead: str = "") -> int:
    """Check a whole number, ``least`` or more. instead: what to do for others, for the error."""
    number: int = of_kind(name, value, int, "an int", instead)
    if number < least:
        raise LockArgumentError(f"{name}={value!r} is out of range: pass {least} or more")
    return number


def table_name(value: object, parameter: str = "table") -> str:
    """Check a table's name or ARN. A name has 3 to 255 of the characters a-z, A-Z, 0-9, '_', '-' and '.'.

    Source: "Supported data types and naming rules", Amazon DynamoDB Developer Guide.
    """
    # Each acquire comes here. So a table's plain name costs no further call.
    table: str = value if isinstance(value, str) else of_kind(parameter, value, str, "a str")
    name = bare_name(table) if table.startswith("arn:") else table
    if not (
        3 <= len(name) <= 255
        and name.isascii()
        and name.replace("_", "a").replace("-", "a").replace(".", "a").isalnum()
    ):
        raise LockArgumentError(
            f"{parameter}={value!r} is not a valid table name: use 3 to 255 letters, digits, '_', '-' and '.'"
        )
    return table


def permit_count(value: object, key: str | None = None) -> int:
    """Check how many may hold at once, 1 to 100."""
    permits: int = of_kind("permits", value, int, "an int")
    if not 1 <= permits <= MOST_PERMITS:
        raise LockArgumentError(
            f"permits={value} is out of range: pass 1 to {MOST_PERMITS}, or None for a lock. All holders share one "
            "row: for more, divide the work among several keys",
            key=key,
        )
    return permits


def take_count(value: object) -> int:
    """Check how many permits one holder takes, 1 to 100."""
    take: int = of_kind("take", value, int, "an int")
    if not 1 <= take <= MOST_PERMITS:
        raise LockArgumentError(f"take={value} is out of range: pass 1 to the number that permits= has")
    return take


def weight(given: dict[str, Any]) -> None:
    """Check that ``take`` and ``shared`` fit ``permits``, and write what ``shared`` stands for in the place of it."""
    shared, permits, take = (given.get(name) for name in ("shared", "permits", "take"))
    if shared is not None:
        for name, value in (("permits", permits), ("take", take)):
            if value is not None:
                raise LockArgumentError(
                    f"{name}={value} is not possible with shared={shared}: shared=True is permits={MOST_PERMITS}, "
                    f"take=1, and shared=False is permits={MOST_PERMITS}, take={MOST_PERMITS}. Leave {name} out"
                )
        given.update(shared=None, permits=MOST_PERMITS, take=1 if shared else MOST_PERMITS)
    elif permits is None:
        raise LockArgumentError(
            f"take={take} needs permits=: a lock has nothing to take several of. Pass permits=N, or leave take out"
        )
    elif not callable(take) and take > permits:
        raise LockArgumentError(f"take={take} is more than permits={permits}: pass 1 to {permits}, or more permits")


def permits(value: int, schema: Schema, key: str | None) -> None:
    """Check that a row of ``schema`` can be a semaphore's. value: how many may hold at once, checked before."""
    if schema.released is None:
        raise LockConfigurationError(
            f"permits={value} needs a row that is kept, but rows of the schema {schema.name} are deleted on release. "
            "Use a client with the schema JAVA or GO, and a table of its own",
            key=key,
        )
    for field in ("permits", "permit_tokens", "permit_takes", "permits_taken"):
        if getattr(schema, field) is None:
            raise LockConfigurationError(
                f"permits={value} needs the attributes of a semaphore, but the schema {schema.name} has {field}=None. "
                f"Give it a name: schema.replace({field}=...)",
                key=key,
            )


def holder(name: str, value: object, key: str | None = None) -> str:
    """Check the name of a holder: 1 to 512 bytes, as of an owner's prefix."""
    if value == "":
        raise LockArgumentError(
            f"{name} is empty: pass a name that only this work has, such as the execution's", key=key
        )
    return key_text(name, value, _HOLDER_LIMIT)


def alone(option: str, given: Mapping[str, Any], others: Mapping[str, str], key: str | None) -> None:
    """Refuse what is not possible together with an option. others: the options that are not, and why."""
    for other, why in others.items():
        if given[other]:
            raise LockArgumentError(
                f"{other}={given[other]!r} is not possible with {option}={given[option]!r}: {why}. Leave {other} out",
                key=key,
            )


def attribute_name(name: str, value: object) -> str:
    attribute: str = of_kind(name, value, str, "a str")
    if not 1 <= len(attribute.encode()) <= 255:
        raise LockArgumentError(f"{name}={value!r} is not a valid attribute name: use 1 to 255 bytes")
    return attribute


def key_name(name: str, value: object, schema: Schema) -> str | None:
    if value is None:
        return None
    found = attribute_name(name, value)
    if found in schema.attribute_names():
        raise LockArgumentError(
            f"{name}={found!r} is also the name of an attribute that locks write: rename that attribute, with "
            f"schema={schema.name}.replace(...), or use a table with another key"
        )
    return found


def data(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise TypeError(f"data must be bytes, not {type(value).__name__}: encode it first")


def callback(name: str, value: T, takes: int = 1) -> T:
    from ..keys.parameters import Parameters

    if not (callable(value) and Parameters(value, follow_wrapped=False).take(takes)):
        what = "takes the Lock" if takes else "takes nothing"
        raise TypeError(f"{name} must be a function that {what}, not {value!r} ({type(value).__name__})")
    return value


def schema(value: object) -> Schema:
    given: Schema = of_kind("schema", value, Schema, "lambda_lock's JAVA, GO or PYTHON")
    return given


def having(name: str, value: T, method: str, instead: str) -> T:
    """Check an object by a method that it must have. instead: what to pass."""
    if value is not None and not callable(getattr(value, method.partition("(")[0], None)):
        raise TypeError(f"{name} must have {method}, and {type(value).__name__} does not. Pass {instead}")
    return value


def transport(value: T) -> T:
    return having("transport", value, "send(operation, request, *, timeout)", "a boto3 client as boto3_client=")


def transact_items(items: object, locks: int = 1) -> list[dict[str, Any]]:
    """Return the application's part of a transaction as DynamoDB JSON. Bytes, which boto3 accepts, become base64.

    locks: how many locks the same transaction releases.
    """
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Sequence):
        raise TypeError(f"commit takes a list of items for TransactWriteItems, not {type(items).__name__}")
    if not 1 <= len(items) <= 100 - locks:
        needs = "the lock needs one of them" if locks == 1 else f"the {locks} locks need one each"
        raise LockArgumentError(
            f"commit takes 1 to {100 - locks} items, not {len(items)}: DynamoDB allows 100, and {needs}"
        )
    wired: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        if not isinstance(item, Mapping) or len(item) != 1 or not _ACTIONS.issuperset(item):
            found = f"has {', '.join(map(repr, item))}" if isinstance(item, Mapping) else f"is {type(item).__name__}"
            raise LockArgumentError(
                f"item {number} of the commit must be {{'Put' | 'Update' | 'Delete' | 'ConditionCheck': {{…}}}}, but "
                f"it {found}"
            )
        wired.append(on_the_wire(item))
        (write,) = wired[number].values()
        if isinstance(write, dict) and not isinstance(write.get("TableName"), str):
            raise LockArgumentError(f"item {number} of the commit names no table: give it its TableName, a str")
        if not isinstance(write, dict) or not all(is_item(write.get(part, {})) for part in _PARTS):
            raise LockArgumentError(
                f"item {number} of the commit has a plain Python value in its {', '.join(_PARTS)}: write DynamoDB "
                "JSON, as in {'S': 'text'} or {'N': '7'}, or let boto3.dynamodb.types.TypeSerializer do so"
            )
    return wired


def on_the_wire(value: Any) -> Any:
    """Turn a request for boto3's low-level client into DynamoDB JSON: bytes become base64, at any depth."""
    if isinstance(value, (bytes, bytearray)):
        return encode_data(value)
    if isinstance(value, Mapping):
        return {name: on_the_wire(element) for name, element in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [on_the_wire(element) for element in value]
    return value
