"""A function that tells what INIT has loaded and made, and which modules its first lock brought."""

from __future__ import annotations

import gc
import os
import sys
from types import FunctionType, ModuleType
from typing import Any

from lambda_lock import (
    AsyncLock,
    AsyncMultiLock,
    LockClient,
    MultiLock,
    current_lock,
    default_client,
    register_lambda_context,
    set_default_client,
    with_lock,
)

KIND = os.environ["KIND"]
given = LockClient(os.environ["LAMBDA_LOCK_TABLE"]) if KIND in ("given", "set") else None


ONE, BOTH = "order#{id}", ["order#{id}", "customer#{id}"]


@with_lock(ONE, client=given if KIND == "given" else None)
def plain(event: dict[str, Any]) -> str:
    return current_lock().version


handler_of = plain

if KIND == "several":

    @with_lock(BOTH)
    def handler_of(event: dict[str, Any]) -> str:
        return current_lock(MultiLock).owner


if KIND.endswith("async"):
    import asyncio

    @with_lock(BOTH if KIND == "several-async" else ONE)
    async def awaited(event: dict[str, Any]) -> str:
        return current_lock(AsyncMultiLock if KIND == "several-async" else AsyncLock).owner

    def handler_of(event: dict[str, Any]) -> str:
        return asyncio.run(awaited(event))


if KIND == "set":
    set_default_client(given)
if KIND == "moved":
    os.environ["AWS_ENDPOINT_URL"] = os.environ["MOVED_TO"]


def objects(module: str, name: str) -> int:
    """How many objects of a class there are in this process. 0: its module is not loaded."""
    kind = getattr(sys.modules.get(module), name, None)
    return 0 if kind is None else sum(isinstance(found, kind) for found in gc.get_objects())


def knows_the_secret() -> bool:
    """Whether the client leads to the secret key, through what it consists of."""
    secret = os.environ["AWS_SECRET_ACCESS_KEY"]
    waiting: list[object] = [given or default_client()]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, (ModuleType, FunctionType, type)):
            continue
        seen.add(id(found))
        if found in (secret, secret.encode()):
            return True
        waiting.extend(gc.get_referents(found))
    return False


def made() -> dict[str, Any]:
    sockets, contexts = objects("socket", "socket"), objects("ssl", "SSLContext")
    return {"sockets": sockets, "contexts": contexts, "secret": knows_the_secret()}


AT_INIT = made()
LOADED = set(sys.modules)


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    register_lambda_context(context)
    before = set(sys.modules)
    version = handler_of(event)
    new = sorted(set(sys.modules) - before)
    return {"init": sorted(LOADED), "new": new, "at_init": AT_INIT, "after": made(), "version": version}
