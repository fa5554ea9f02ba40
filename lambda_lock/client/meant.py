"""What people write who know another lock, and what it is called here. Loaded for the error that says so."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

#: Our names, each with those of threading, Redis and filelock, of the Java and Python clients of DynamoDB, and of
#: Powertools that do not resemble it. Where a word stands twice, the first of our names counts that there is.
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


def meant(name: str, known: Collection[str]) -> str:
    """Return which of ``known`` is probably meant by ``name``. "": none of them."""
    from difflib import get_close_matches

    theirs = [ours for ours, names in _THEIRS.items() if ours in known and name in names.split()]
    return (theirs or get_close_matches(name, known, 1, 0.8) or [""])[0]


def unknown_option(method: str, function: Any, options: Mapping[str, object]) -> TypeError:
    """Return the error for options that ``function`` does not have, which says what was probably meant.

    method: what the function is called in the error.
    """
    from inspect import signature

    name, value = next(iter(options.items()))
    known = [p.name for p in signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY or p.name == "table"]
    remedy = ""
    if name in ("blocking", "block", "nowait") and "wait" in known:
        remedy = ": pass wait=0 to try once, or wait=inf to wait without end"
    elif ours := meant(name, known):
        remedy = f": pass {ours}={value!r}, in seconds" if ours in _TIMES else f": did you mean {ours}=?"
    return TypeError(f"{method}() got an unexpected keyword argument {name!r}{remedy}")
