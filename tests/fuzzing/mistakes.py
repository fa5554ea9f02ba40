"""Mistakes that are planted, so that the fuzzing is known to see some. test_mistakes.py plants them."""

from typing import Any

from lambda_lock.batch import process, source
from lambda_lock.client import listing
from lambda_lock.core import acquire, handover, keep, lease, resume, schema
from lambda_lock.runtime import drive
from lambda_lock.transport import http1
from tests.prove.mistakes import Change, put, wrap

_FOR_EVER = 10**6


def _next(self: Any, request: dict[str, Any], last: Any) -> dict[str, Any] | None:
    match last:
        case {"key": {"S": str()}}:  # anything else would end the server's thread
            return {**request, "ExclusiveStartKey": last}
    return None


def _unchecked(event: Any, kind: Any) -> Any:
    found = event.get("Records") if isinstance(event, dict) else None
    if isinstance(found, list):
        return [source.Delivery(kind, record) for record in found], kind
    return source.deliveries_of(event, kind)


def _status(line: bytes) -> int:
    return int(line[9:12])


def _fields(block: bytes) -> dict[str, str]:
    return dict(line.split(": ") for line in block.decode().lower().split("\r\n"))


#: By what is wrong: the mistake, the operation that shows it, the reason that is given, and what is answered.
PLAYED: dict[str, tuple[Change, str, str, tuple[str, ...]]] = {
    "an acquire writes as long as rows contradict it": (
        put(acquire, "STEPS", _FOR_EVER), "acquire", "no bound", ("contradiction",)
    ),
    "a renewal goes above what is shown for ever": (
        put(keep, "STEPS", _FOR_EVER), "heartbeat", "no bound", ("overtaken",)
    ),
    "a resume follows each name that is shown": (
        put(resume, "STEPS", _FOR_EVER), "release by string", "no bound", ("overtaken",)
    ),
    "a decision takes a minute": (put(keep, "DECISION", 60.0), "release", "no bound", ("throttled", "lost reply")),
    "a list follows its pages for ever": (put(listing.Pages, "_next", _next), "list", "no bound", ("pages",)),
    "answers are not checked": (
        put(drive, "_answers", lambda *_: True), "get", "undocumented", ("any reasons", "any body")
    ),
    "a status line may have no status": (
        put(http1, "_status", _status), "get", "undocumented", ("first line", "flipped")
    ),
    "a head is not checked for its grammar": (
        put(http1, "_fields", _fields), "prewarm", "undocumented", ("first line", "flipped", "chunked nonsense")
    ),
    "validity outlasts the lease": (
        wrap(lease, "validity", lambda real: lambda *args: real(*args) + 15.0), "acquire", "two holders",
        ("throttled", "lost reply", "cut"),
    ),
}  # fmt: skip
#: By what is wrong: the mistake, and the target that shows it.
FED: dict[str, tuple[Change, str]] = {
    "the fields of a string are not checked": (put(handover, "_checked", lambda fields: fields), "hand-over strings"),
    "a lease may have any digits": (put(schema, "_LEASE_FORMATS", {"ms": lambda value: int(value["S"])}), "rows"),
    "a record is not checked": (put(process, "deliveries_of", _unchecked), "batches"),
}
