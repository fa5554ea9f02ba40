"""Errors in the words of the user: DynamoDB's refusals, and names that people bring from another lock.

Loaded for the error that says so.
"""

from __future__ import annotations

import re
import time

from ..core.outcome import CREDENTIALS, ServiceError
from ..core.requests import bare_name
from ..errors import LockArgumentError, LockConfigurationError, LockError, TransportError
from ..permissions import ACTIONS, IN_WORDS
from ..transport.answers import is_skewed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..core.requests import Place

_DENIED = ("AccessDeniedException", "AccessDenied")
#: Our names, each with the names that do not resemble it in threading, Redis, filelock, the Java and Python clients of
#: DynamoDB, and Powertools. If a word stands twice, it means the first of our names that the callee has.
_THEIRS = {
    "wait": "timeout blocking_timeout retry_timeout additional_timeout max_wait wait_time",
    "window": "ttl expires_after_seconds",
    "lease_duration": "lease lease_time lease_timeout ttl expire expires_in expires_after_seconds auto_release_time",
    "LockClient": "DynamoDBLockClient AmazonDynamoDBLockClient",
    "acquire": "acquire_lock",
    "on_limited": "on_not_granted",
    "lock_key": "key",
    "max_workers": "workers threads concurrency parallelism",
    "permits": "limit slots concurrency max_concurrency",
    "region_name": "region",
    "table": "table_name",
}
_TIMES = ("wait", "window", "lease_duration")


def explain(error: ServiceError, place: Place) -> tuple[str, LockError]:
    """Return DynamoDB's refusal in a word, for searches and alarms (docs/observing.md), and the error to raise ``from``
    it.
    """
    said, code = f" (DynamoDB said {error.code}: {error.message})", error.code
    key = "key" if error.message.startswith("KMS ") else ""  # whatever the code is
    kind: type[LockConfigurationError] = LockConfigurationError
    if code == "ResourceNotFoundException":
        reason, text = "not_found", _not_found(error, place)
    elif key and "is not authorized to perform" not in error.message:
        reason = key
        text = (
            f"DynamoDB cannot use the key that encrypts table {place.table!r}: it may be disabled, about to be "
            "deleted, or not allowed to this role. Enable it, or allow its use in the key's policy or the role's"
        )
    elif code in _DENIED:
        reason, text = "denied", _denied(error, place)
    elif is_skewed(code, error.message):
        reason, text = "credentials", _skewed(error)
    elif code in CREDENTIALS:
        reason, text = "credentials", f"the credentials were refused: check {error.signed_with or 'them'}"
    elif error.retryable:
        refused = f"DynamoDB kept refusing the request for lock {place.key!r} until time ran out{said}"
        return key or "throttled", TransportError(False, refused, key=place.key or None)
    elif code in ("ValidationException", "ValidationError"):
        reason, (kind, text) = "refused", _invalid(error, place)
    else:
        reason, text = "refused", f"{error.operation} on table {place.table!r} was refused"
    return key or reason, kind(text + said, key=place.key or None)


def _skewed(error: ServiceError) -> str:
    off = "" if error.date is None else f" by about {abs(time.time() - error.date) / 60:.0f} min"
    return f"the clock of this machine is wrong{off}, so DynamoDB refuses its signatures. Set it by NTP, for example"


def _not_found(error: ServiceError, place: Place) -> str:
    if error.operation == "TransactWriteItems":
        return (
            "a table of the transaction was not found in this account and Region, and DynamoDB does not say which one. "
            f"Check TableName in each item of the commit; the lock itself is in table {place.table!r}"
        )
    region = f" {error.region}" if error.region else ""
    options = "".join(
        f" {option} {name}"
        for option, name in zip(("--partition-key", "--sort-key"), place.key_names, strict=False)
        if name != "key"
    )
    return (
        f"table {place.table!r} was not found in this account and Region{region}. Create it (lambda-lock table create "
        f"{bare_name(place.table)}{options}, or LockTable in the CDK), or set LAMBDA_LOCK_TABLE, the Region or the "
        "endpoint to where it is"
    )


#: How AWS says that another policy than the role's has to be changed (IAM User Guide, "Troubleshooting access denied").
_ELSEWHERE = r"because no (?!identity-based ).* allows .*|with an explicit deny in .*"


def _denied(error: ServiceError, place: Place) -> str:
    """Say which permission is missing, and how to grant it. For a transaction, one of its writes needs it."""
    named = re.search(r"perform: (\w+:\w+)(?: on resource: (\S+))?", error.message)
    action = named[1] if named else f"dynamodb:{error.operation}"
    where = f"table {place.table!r}"
    resource = named[2] if named else None
    if elsewhere := re.search(_ELSEWHERE, error.message):
        return (
            f"permission {action} on {resource or where} is refused {elsewhere[0]}. Change it there: adding "
            "the permission to the role's policy does not help"
        )
    if action in ("dynamodb:Scan", "dynamodb:Query"):
        return f"permission {action} on {where} is missing. Listing locks needs it on top of a lock's four permissions"
    if action not in ACTIONS and not action.startswith("kms:"):
        return f"permission {action} on {where} is missing. A lock does not need it: grant it to the role that does"
    if resource and ":table/" in resource and bare_name(resource) != bare_name(place.table):
        return f"permission {action} on {resource} is missing. An item of the transaction needs it: grant it there"
    what = f"the key of {where}" if action.startswith("kms:") else where
    if error.operation == "TransactWriteItems" and resource is None:
        what = f"{what}, or on another table of the transaction,"
    return (
        f"permission {action} on {what} is missing. A lock needs {IN_WORDS} on the table's ARN, and the use of the "
        "table's customer-managed key if it has one. In the CDK, LockTable.grant(function) grants exactly these, and "
        "LockTable.connect(function) also names the table. If the table was made another way (lambda-lock table "
        "create, a template), add them to the role's policy, as docs/deploy.md shows"
    )


#: How DynamoDB and its stand-ins say that a table has other keys. Other messages with "key" mean placeholders, the keys
#: of an index, or a value.
_KEY_SCHEMA = (
    r"does not match the schema|missing the key |type mismatch for key |attribute is part of the key"
    r"|required keys was not given|key schema|number of conditions on the keys"
)


def _invalid(error: ServiceError, place: Place) -> tuple[type[LockConfigurationError], str]:
    message = error.message.lower()
    if "multiple operations on one item" in message:
        return LockArgumentError, (
            f"the commit writes a row twice, or the row of lock {place.key!r}, which it releases: merge the two, or "
            "leave that row to the lock"
        )
    if "size" in message and "exceeded" in message:
        return LockArgumentError, f"the row of lock {place.key!r} is too large: store less data and fewer attributes"
    if re.search(_KEY_SCHEMA, message):
        names = " and ".join(map(repr, place.key_names))
        return LockConfigurationError, (
            f"table {place.table!r} does not have the key schema {names} (string). Set partition_key_name= and "
            "sort_key_name= (or LAMBDA_LOCK_PARTITION_KEY, LAMBDA_LOCK_SORT_KEY) to the table's own names"
        )
    return LockConfigurationError, f"table {place.table!r} refused the request for lock {place.key!r}"


def meant(name: str, known: Collection[str]) -> str:
    """Return which of ``known`` is probably meant by ``name``. "": none of them."""
    from difflib import get_close_matches

    theirs = [ours for ours, names in _THEIRS.items() if ours in known and name in names.split()]
    return (theirs or get_close_matches(name, known, 1, 0.8) or [""])[0]


def unknown_option(
    method: str, known: Collection[str], name: str, value: object, takers: Sequence[str] = ()
) -> TypeError:
    """Return the error for an option that a function does not have, which says what was probably meant.

    method: what the function is called in the error. known: the options that it has. takers: what else has this one.
    """
    remedy = ""
    if name in ("blocking", "block", "nowait") and "wait" in known:
        remedy = ": pass wait=0 to try once, or wait=inf to wait without end"
    elif name == "holder":
        remedy = (
            ": the lock ends with the call. For a lock that outlives it, write "
            "client.acquire(key, holder=...) in the function, and lock.hand_over()"
        )
    elif takers:
        remedy = f": leave it out. It is an option of {', '.join(takers)}"
    elif ours := meant(name, known):
        remedy = f": pass {ours}={value!r}, in seconds" if ours in _TIMES else f": did you mean {ours}=?"
    return TypeError(f"{method}() got an unexpected keyword argument {name!r}{remedy}")
