"""The public operations, each with its preparation on the honest server, and the bound that it must keep."""

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from unittest import mock

from click.testing import CliRunner

from lambda_lock import LockClient, LockError, deduplicate, with_lock
from lambda_lock.batch import process_sqs, process_stream
from lambda_lock.cli import options as cli_options
from lambda_lock.cli.app import app
from lambda_lock.cli.dashboard import Watcher
from lambda_lock.client import listing
from lambda_lock.client.sleep import WAKE_VARIABLE
from lambda_lock.core.row import SLEEPERS
from lambda_lock.core.schema import ASLEEP
from lambda_lock.core.tickets import make_ticket
from tests.prove.operations import (
    adopt,
    close,
    commit,
    get,
    hand_over,
    hold,
    hold_all,
    hold_permit,
    release,
    renew,
    resume,
)
from tests.support.signals import signals_restored

from . import bounds
from .bounds import Bound
from .scene import KEYS, WAIT, Scene

MOST_PAGES = 20
READINGS = 3
EXIT_CODES = frozenset({0, 1, 69, 75, 76, 78})


@dataclass(frozen=True)
class Operation:
    """prepare: done before, while the server is honest. act: the operation. bound: by the luck of the back-offs.

    grants: whether its result is a lock, which a rival then tries to take.
    """

    act: Callable[[Scene], Any]
    bound: Callable[[float], Bound]
    prepare: Callable[[Scene], Any] = lambda scene: None
    grants: bool = False
    sync_only: bool = False


class UndocumentedExit(Exception):
    """A command ended with an exit code that no page documents."""


def _taking(**options: Any) -> Callable[[Scene], Any]:
    return lambda scene: scene.client.acquire("k", **options)


_event = _taking(wait=0, data=b"x")
_hold_as_holder = _taking(wait=0, holder="me")


def _block(scene: Scene) -> Any:
    with hold(scene):
        pass


def _string(scene: Scene) -> Any:
    return hold(scene).hand_over()


def _resumed(scene: Scene) -> Any:
    return scene.client.resume(_string(scene))


def _by_fields(act: str) -> Callable[[Scene], Any]:
    """Of a hold that is named by its fields. Rows that are drawn may have its owner."""
    return lambda scene: getattr(scene.client, act)(key="k", owner=f"me#{'0' * 32}", fencing_token=7)


def _others(scene: Scene) -> Any:
    return scene.rival.acquire("k", wait=0, lease_duration=2)


def _died(scene: Scene) -> None:
    _others(scene)
    scene.clock.advance(60)


def _sleep(scene: Scene) -> Any:
    with mock.patch.dict(os.environ, {WAKE_VARIABLE: "1"}):
        return scene.client.sleep("k", holder="me", task_token="token")


def _asleep(scene: Scene) -> None:
    """The lock is free, and the waker has noted one who sleeps, and waits in the queue for it."""
    _others(scene).release()
    (row,) = scene.memory.items("locks")
    ticket = make_ticket(SLEEPERS, int(scene.clock.wall()) + 60)
    scene.memory.put("locks", {**row, ASLEEP: {"N": "1"}, "waiters": {"L": [{"S": ticket}]}})


def _start(scene: Scene) -> Any:
    return scene.client.rate_limit("k", 5, wait=0)


def _others_start(scene: Scene) -> Any:
    return scene.rival.rate_limit("k", 5, wait=0)


def _done(scene: Scene) -> None:
    deduplicate("{id}", scope="", result="json", client=scene.client, wait=0)(lambda event: "x")({"id": "k"})


def _forget(scene: Scene) -> Any:
    return scene.client.forget("k")


def _others_permits(scene: Scene) -> Any:
    return [scene.rival.acquire("k", wait=0, lease_duration=lease, permits=2) for lease in (1, 30)]


def _some(scene: Scene) -> Any:
    return [scene.rival.acquire(key, wait=0) for key in KEYS]


def _decorated(scene: Scene) -> Any:
    @deduplicate("{id}", client=scene.client, wait=0, window=60)
    @with_lock("order#{id}", client=scene.client, wait=0)
    def handler(event: dict[str, Any], context: object) -> str:
        return "done"

    return handler({"id": "7"}, None)


def _process(
    scene: Scene, process: Callable[..., Any], scope: str, lock_key: str, records: Iterable[dict[str, Any]]
) -> None:
    options: dict[str, Any] = {"context": None, "lock_key": lock_key, "scope": scope, "wait": 0, "client": scene.client}
    process({"Records": [*records]}, lambda record: None, **options)


def _batch(scene: Scene) -> Any:
    record = {"body": "{}", "attributes": {}, "eventSource": "aws:sqs"}
    _process(scene, process_sqs, "batch", "order#{messageId}", (record | {"messageId": str(at)} for at in range(3)))


def _stream(scene: Scene) -> Any:
    """Records of one shard: the first one that fails ends the batch."""
    records = (
        {"eventID": str(at), "eventSource": "aws:kinesis", "kinesis": {"sequenceNumber": str(at), "partitionKey": "p"}}
        for at in range(3)
    )
    _process(scene, process_stream, "stream", "order#{kinesis[sequenceNumber]}", records)


def _dashboard(scene: Scene) -> Any:
    """Readings of the dashboard, and after each the JSON for its page."""
    watcher = Watcher(scene.client, interval=2.0)
    with mock.patch.object(listing, "MOST_PAGES", MOST_PAGES):
        for _ in range(READINGS):
            with contextlib.suppress(LockError):  # as its thread does
                watcher.read()
            json.dumps(watcher.answer({}), allow_nan=False)
            scene.clock.advance(2.0)


def _list(scene: Scene) -> Any:
    with mock.patch.object(listing, "MOST_PAGES", MOST_PAGES):
        return list(scene.client.list())


def _command(*arguments: str) -> Callable[[Scene], Any]:
    def run(scene: Scene) -> None:
        def client(table: str, **options: Any) -> LockClient:
            chosen = {name: value for name, value in options.items() if name in ("lease_duration", "ttl", "schema")}
            return LockClient(**{**scene.options(), **chosen, "heartbeat_period": None})

        with (
            mock.patch.object(cli_options, "LockClient", client),
            mock.patch.object(listing, "MOST_PAGES", MOST_PAGES),
            signals_restored(),  # `lambda-lock run` blocks them for its process
        ):
            result = CliRunner().invoke(app, ["--table", "locks", *arguments], catch_exceptions=False)
        if result.exit_code not in EXIT_CODES:
            raise UndocumentedExit(f"{arguments}: exit code {result.exit_code}: {result.output}")

    return run


def _sum(*parts: Callable[[float], Bound]) -> Callable[[float], Bound]:
    return lambda luck: functools.reduce(Bound.__add__, (part(luck) for part in parts))


def _times(count: int, part: Callable[[float], Bound]) -> Callable[[float], Bound]:
    return lambda luck: part(luck) * count


def _wait(luck: float) -> Bound:
    return bounds.wait(WAIT, luck)


def _queue(luck: float) -> Bound:
    return bounds.queue(WAIT, luck)


_use = _sum(bounds.acquire, _times(2, bounds.release))

OPERATIONS: dict[str, Operation] = {
    "acquire": Operation(hold, bounds.acquire, grants=True),
    "acquire a released row": Operation(hold, bounds.acquire, lambda scene: _others(scene).release(), grants=True),
    "acquire a held row": Operation(hold, bounds.acquire, _others, grants=True),
    "acquire a dead row": Operation(hold, bounds.acquire, _died, grants=True),
    "replace": Operation(_taking(wait=0, replace_data=True), bounds.acquire, _others, grants=True),
    "delete on release": Operation(_taking(wait=0, delete_on_release=True), bounds.acquire, grants=True),
    "try": Operation(lambda scene: scene.client.try_acquire("k"), bounds.acquire, _others, grants=True),
    "wait": Operation(_taking(wait=WAIT, queue=False), _wait, _others, grants=True),
    "queue": Operation(_taking(wait=WAIT), _queue, _others, grants=True),
    "permit": Operation(hold_permit, bounds.acquire),
    "permit, full": Operation(hold_permit, bounds.acquire, _others_permits),
    "permit, queue": Operation(_taking(wait=WAIT, permits=2), _queue, _others_permits),
    "holder": Operation(_hold_as_holder, bounds.holder),
    "holder again": Operation(_hold_as_holder, bounds.holder, _hold_as_holder),
    "holder, wait": Operation(
        _taking(wait=WAIT, holder="me"), lambda luck: bounds.wait_holder(WAIT, luck), _hold_as_holder
    ),
    "holder, behind sleepers": Operation(_hold_as_holder, bounds.holder, _asleep),
    "sleep": Operation(_sleep, bounds.resume, _others),
    "sleep again": Operation(_sleep, bounds.resume, _sleep),
    "rate limit": Operation(_start, bounds.rate_limit),
    "rate limit, used": Operation(_start, bounds.rate_limit, _others_start),
    "rate limit, wait": Operation(
        lambda scene: scene.client.rate_limit("k", 5, wait=WAIT),
        lambda luck: bounds.rate_limit(luck, WAIT),
        _others_start,
    ),
    "acquire_all": Operation(hold_all, lambda luck: bounds.acquire_all(3, luck)),
    "acquire_all, held": Operation(hold_all, lambda luck: bounds.acquire_all(3, luck), _some),
    "acquire_all, wait": Operation(
        lambda scene: scene.client.acquire_all(scene.keys, wait=WAIT),
        lambda luck: bounds.wait_all(3, WAIT, luck),
        lambda scene: scene.rival.acquire("b", wait=0, lease_duration=2),
    ),
    "heartbeat": Operation(renew, bounds.renewal, hold),
    # A short lease ends soon, and the renewal with it.
    "heartbeat of a long lease": Operation(renew, bounds.renewal, _taking(wait=0, lease_duration=600)),
    "heartbeat of a permit": Operation(renew, bounds.renewal, hold_permit),
    "ensure": Operation(lambda scene: scene.kept.ensure(30), bounds.renewal, hold),
    "release": Operation(release, bounds.release, hold),
    "release of a permit": Operation(release, bounds.release, hold_permit),
    "release, deleting": Operation(lambda scene: scene.kept.release(delete=True), bounds.release, hold),
    "release of a resumed lock": Operation(release, bounds.release, _resumed),
    "commit": Operation(commit, bounds.commit, _event),
    "hand over": Operation(hand_over, bounds.resume, hold),
    "hand over again": Operation(hand_over, bounds.resume, _resumed),
    "adopt": Operation(adopt, bounds.acquire, _string, grants=True),
    "resume": Operation(resume, bounds.resume, _string, grants=True),
    "release by string": Operation(lambda scene: scene.client.release(scene.kept), bounds.resume, _string),
    "adopt by fields": Operation(_by_fields("adopt"), bounds.acquire),
    "resume by fields": Operation(_by_fields("resume"), bounds.resume),
    "release by fields": Operation(_by_fields("release"), bounds.resume),
    "forget": Operation(_forget, bounds.forget),
    "forget what is done": Operation(_forget, bounds.forget, _done, sync_only=True),
    "forget what is in progress": Operation(_forget, bounds.forget, _others),
    "forget a dead row": Operation(_forget, bounds.forget, _died),
    "lambda-lock forget": Operation(_command("forget", "k"), bounds.forget, _done, sync_only=True),
    "get": Operation(get, bounds.page, hold),
    "prewarm": Operation(lambda scene: scene.client.prewarm(), bounds.page),
    "list": Operation(_list, _times(MOST_PAGES, bounds.page), hold),
    "heartbeat of several": Operation(renew, _times(3, bounds.renewal), hold_all),
    "release of several": Operation(release, _times(3, bounds.release), hold_all),
    "commit under several": Operation(commit, lambda luck: bounds.commit_all(3, luck), hold_all),
    "block": Operation(_block, _use, sync_only=True),
    "close": Operation(close, _times(4, bounds.release), lambda scene: (hold(scene), hold_all(scene)), sync_only=True),
    "deduplicate": Operation(_decorated, _times(2, _use), sync_only=True),
    "batch": Operation(_batch, _times(6, _use), sync_only=True),
    "stream": Operation(_stream, _times(6, _use), sync_only=True),
    "dashboard": Operation(
        _dashboard,
        _sum(_times(READINGS * MOST_PAGES, bounds.page), lambda luck: Bound(0, READINGS * 2.0)),
        hold_permit,
        sync_only=True,
    ),
    "lambda-lock get": Operation(_command("get", "k"), bounds.page, hold, sync_only=True),
    "lambda-lock ls": Operation(_command("ls"), _times(MOST_PAGES, bounds.page), hold, sync_only=True),
    "lambda-lock release": Operation(
        _command("release", "k", "--force", "--yes"), _times(2, bounds.page), hold, sync_only=True
    ),
    "lambda-lock run": Operation(
        _command("run", "k", "--wait", "0", "--", "true"), _sum(_use, bounds.renewal), sync_only=True
    ),
}
