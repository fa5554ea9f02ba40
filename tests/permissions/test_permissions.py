"""The four permissions are enough for everything that locks, and each is needed: on an engine that enforces IAM."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from lambda_lock import (
    AsyncLockClient,
    Lock,
    LockClient,
    LockConfigurationError,
    MultiLock,
    current_dedup,
    deduplicate,
    default_client,
    set_default_client,
    with_lock,
)
from lambda_lock.batch import process_sqs, process_stream
from lambda_lock.client.explain import explain
from lambda_lock.core.outcome import ServiceError
from lambda_lock.core.requests import Place
from lambda_lock.core.schema import JAVA
from lambda_lock.permissions import ACTIONS, IN_WORDS
from rig import events
from rig.cloud import ACCOUNT, SERVICES, Cloud
from rig.engine import REGION, ROOT, Ministack, client_environment
from tests.support.clocks import SkewedClock
from tests.support.context import Context
from tests.support.sampled import sampled
from tests.support.waiting import wait_until

LOCKS, ORDERS = "permission-locks", "permission-orders"
_ITEM = {"Put": {"TableName": ORDERS, "Item": {"key": {"S": "o-1"}}}}


# Every operation takes a key that has not been used


def _acquire(key: str) -> None:
    with default_client().acquire(key):
        pass


def _acquire_and_delete(key: str) -> None:
    default_client().acquire(key, delete_on_release=True).release()


def _acquire_in_place_of_what_is_there(key: str) -> None:
    default_client().acquire(key, replace=True).release()


def _after_one_look() -> Callable[[], bool]:
    """A cancel_check that ends a wait after its first look, however slow the engine is."""
    pauses = itertools.count()
    return lambda: next(pauses) > 0


def _wait(key: str) -> None:
    client = default_client()
    held = client.acquire(key)
    client.try_acquire(key, wait=30, queue=False, cancel_check=_after_one_look())
    held.release()


def _take_permits(key: str) -> None:
    client = default_client()
    held = [client.acquire(key, permits=2) for _ in range(2)]
    held[0].heartbeat(data=b"half done")
    held[0].commit([_ITEM])
    held[1].release()


def _wait_for_a_permit(key: str) -> None:
    client = default_client()
    with client.acquire(key, permits=1):
        client.try_acquire(key, permits=1, wait=0.3)
    _let_wait(key, client.acquire(key, permits=1), lambda: client.acquire(key, permits=1, wait=30))


def _replace_a_dead_holder(key: str) -> None:
    dead = LockClient()
    try:
        lock = dead.acquire(key, permits=1, lease_duration=1)
    finally:
        dead.close(release=False)
    assert lock.permits == 1
    default_client().acquire(key, permits=1, wait=30).release()


def _correct_a_permit(key: str) -> None:
    with default_client().acquire(key, permits=2), LockClient(clock=SkewedClock(600)) as fast:
        fast.acquire(key, permits=2).release()


def _let_wait(key: str, held: Lock, acquire: Callable[[], Lock | MultiLock]) -> None:
    """Release what is held once somebody has a place in its queue, and let that one have it."""
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(lambda: acquire().release())
        wait_until(lambda: waiter.done() or _has_waiters(key))
        held.release()
        waiter.result()


def _has_waiters(key: str) -> bool:
    record = default_client().get(key)
    assert record is not None
    assert record.is_held
    return record.waiters > 0


def _renew(key: str) -> None:
    lock = default_client().acquire(key)
    lock.heartbeat(data=b"half done")
    lock.ensure(30)
    lock.release(data=b"done")


def _hand_over(key: str) -> None:
    client = default_client()
    client.adopt(client.acquire(key).hand_over()).release()


def _resume(key: str) -> None:
    client = default_client()
    string = client.acquire(key, holder="execution").hand_over()
    resumed = client.resume(string)
    resumed.heartbeat()
    client.acquire(key, holder="execution").hand_over()
    resumed.release()
    client.adopt(string).hand_over()
    client.release(string)


def _commit(key: str) -> None:
    default_client().acquire(key).commit([_ITEM])


def _acquire_several(key: str) -> None:
    with default_client().acquire_all([key, f"{key}-2"]) as locks:
        locks.heartbeat()


def _wait_for_several(key: str) -> None:
    client = default_client()
    held = client.acquire(f"{key}-2")
    client.try_acquire_all([key, f"{key}-2"], wait=30, queue=False, cancel_check=_after_one_look())
    _let_wait(f"{key}-2", held, lambda: client.acquire_all([key, f"{key}-2"], wait=30))


def _commit_under_several(key: str) -> None:
    default_client().acquire_all([key, f"{key}-2"]).commit([_ITEM])


def _transact(key: str) -> None:
    client = default_client()
    with client.acquire(key) as lock:
        items = {"TransactItems": [_ITEM, lock.transact_item()]}
        client.transport.send("TransactWriteItems", items, timeout=5)


def _get(key: str) -> None:
    default_client().get(key)


def _prewarm(key: str) -> None:
    default_client().prewarm()


def _close(key: str) -> None:
    client = LockClient()
    try:
        lock = client.acquire(key)
    finally:
        client.close()
    assert not lock.is_held


def _await(key: str) -> None:
    async def run() -> None:
        async with AsyncLockClient() as client, await client.acquire(key):
            pass

    asyncio.run(run())


def _decorate(key: str) -> None:
    with_lock(lambda: key)(lambda: None)()


def _deduplicate(key: str) -> None:
    once = deduplicate(lambda: key, result="json")(lambda: [1])
    assert [once(), once()] == [[1], [1]]


def _deduplicate_in_a_transaction(key: str) -> None:
    deduplicate(lambda: key)(lambda: current_dedup().commit([_ITEM]))()


def _forget(key: str) -> None:
    once = deduplicate(lambda: key, scope="")(lambda: None)
    once()
    assert once.forget() is True
    assert default_client().forget(key) is False


def _forget_a_dead_run(key: str) -> None:
    dead = LockClient()
    try:
        lock = dead.acquire(key, lease_duration=1)
    finally:
        dead.close(release=False)
    assert not lock.is_held
    assert default_client().forget(key, wait=30) is False


def _forget_by_command(key: str) -> None:
    _command("forget", key)


def _erase(key: str) -> None:
    default_client().acquire(key).release()
    assert default_client().erase(key) is True


def _erase_by_command(key: str) -> None:
    default_client().acquire(key).release()
    _command("erase", key)


def _do_a_batch(key: str) -> None:
    batch = events.sqs([{"customer": key}])
    with _raising_what_is_logged():
        process_sqs(batch, _nothing, context=Context(30), lock_key="{body[customer]}", dedup_key=None)
    with _raising_what_is_logged():
        process_sqs(batch, _nothing, context=Context(30), lock_key="{body[customer]}")


def _do_a_stream(key: str) -> None:
    with _raising_what_is_logged():
        process_stream(events.kinesis([(key, {"id": 1})]), _nothing, context=Context(30))


def _nothing(record: object) -> None:
    pass


@contextlib.contextmanager
def _raising_what_is_logged() -> Iterator[None]:
    """A batch returns the records that failed, and logs why."""
    seen: list[BaseException] = []

    class Seeing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1]:
                seen.append(record.exc_info[1])

    handler = Seeing(logging.ERROR)
    logging.getLogger("lambda_lock").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("lambda_lock").removeHandler(handler)
    for error in seen:
        raise error


def _run_a_command(key: str) -> None:
    _command("run", key, "--", sys.executable, "-c", "")


def _get_by_command(key: str) -> None:
    _command("get", key, expected=(0, 1))


def _start_at_a_rate(key: str) -> None:
    with LockClient() as cold:
        cold.rate_limit(key, 100, wait=20)
        cold.rate_limit(key, 100, wait=20)


def _do_a_batch_at_a_rate(key: str) -> None:
    rate = ("{body[customer]}", 100, 1.0)
    with _raising_what_is_logged(), LockClient() as cold:
        batch = events.sqs([{"customer": key}])
        process_sqs(batch, _nothing, context=Context(30), dedup_key=None, rate=rate, client=cold)


def _delete_a_rate_by_command(key: str) -> None:
    _start_at_a_rate(key)
    _command("release", key, "--force", "--yes")


def _release_by_command(key: str) -> None:
    client = LockClient()
    try:
        lock = client.acquire(key)
        _command("release", lock.key, "--force", "--yes")
    finally:
        client.close(release=False)


def _command(*arguments: str, expected: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lambda_lock.cli", *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    if done.returncode not in expected:
        raise LockConfigurationError(" ".join(done.stderr.replace("│", " ").split()))


@dataclass(frozen=True)
class Operation:
    """needs: the actions it does not work without."""

    act: Callable[[str], None]
    needs: tuple[str, ...]


OPERATIONS = {
    operation.act.__name__.strip("_"): operation
    for operation in (
        Operation(_acquire, ("UpdateItem",)),
        Operation(_acquire_and_delete, ("UpdateItem", "DeleteItem")),
        Operation(_acquire_in_place_of_what_is_there, ("GetItem", "PutItem", "UpdateItem")),
        Operation(_wait, ("UpdateItem", "GetItem")),
        Operation(_take_permits, ("UpdateItem",)),
        Operation(_wait_for_a_permit, ("UpdateItem", "GetItem")),
        Operation(_replace_a_dead_holder, ("UpdateItem", "GetItem")),
        Operation(_correct_a_permit, ("UpdateItem",)),
        Operation(_renew, ("UpdateItem",)),
        Operation(_hand_over, ("UpdateItem",)),
        Operation(_resume, ("UpdateItem",)),
        Operation(_commit, ("UpdateItem",)),
        Operation(_acquire_several, ("UpdateItem",)),
        Operation(_wait_for_several, ("UpdateItem", "GetItem")),
        Operation(_commit_under_several, ("UpdateItem",)),
        Operation(_transact, ("UpdateItem",)),
        Operation(_get, ("GetItem",)),
        Operation(_prewarm, ("GetItem",)),
        Operation(_close, ("UpdateItem",)),
        Operation(_await, ("UpdateItem",)),
        Operation(_decorate, ("UpdateItem",)),
        Operation(_deduplicate, ("UpdateItem",)),
        Operation(_deduplicate_in_a_transaction, ("UpdateItem",)),
        Operation(_forget, ("UpdateItem", "GetItem")),
        Operation(_forget_a_dead_run, ("UpdateItem", "GetItem")),
        Operation(_forget_by_command, ("GetItem",)),
        Operation(_erase, ("UpdateItem", "GetItem", "DeleteItem")),
        Operation(_erase_by_command, ("UpdateItem", "GetItem", "DeleteItem")),
        Operation(_do_a_batch, ("UpdateItem",)),
        Operation(_do_a_stream, ("UpdateItem",)),
        Operation(_run_a_command, ("UpdateItem",)),
        Operation(_get_by_command, ("GetItem",)),
        Operation(_release_by_command, ("UpdateItem", "GetItem")),
        Operation(_start_at_a_rate, ("UpdateItem", "GetItem")),
        Operation(_do_a_batch_at_a_rate, ("UpdateItem", "GetItem")),
        Operation(_delete_a_rate_by_command, ("UpdateItem", "GetItem", "DeleteItem")),
    )
}
named = pytest.mark.parametrize("operation", sampled(3, zip(OPERATIONS.values())), ids=list(OPERATIONS))


# The roles


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Ministack(auth=True, services=SERVICES) as engine, Cloud(engine) as running:
        engine.create_table(LOCKS)
        engine.create_table(ORDERS)
        yield running


Become = Callable[..., None]


@pytest.fixture
def become(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Become]:
    """Work from here on under a role that may do just these actions on the lock table, and put orders."""

    assumed = False

    def assume(*actions: str) -> None:
        nonlocal assumed
        if assumed:
            default_client().close(release=False)  # it has the last role's credentials
        assumed = True
        role = f"role-{uuid.uuid4().hex[:8]}"
        statements = [{"Effect": "Allow", "Action": "dynamodb:PutItem", "Resource": _arn(ORDERS)}]
        if actions:
            statements.append({"Effect": "Allow", "Action": list(actions), "Resource": _arn(LOCKS)})  # type: ignore[dict-item]
        trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
        iam = cloud.client("iam")
        arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument=_policy([trust]))["Role"]["Arn"]
        iam.put_role_policy(RoleName=role, PolicyName="locks", PolicyDocument=_policy(statements))
        given = cloud.client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
        environment = client_environment(cloud.engine.url) | {
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["SessionToken"],
            "LAMBDA_LOCK_TABLE": LOCKS,
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "400",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        set_default_client(None)

    yield assume
    default_client().close(release=False)
    set_default_client(None)


def _arn(table: str) -> str:
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}"


def _policy(statements: list[Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _key() -> str:
    return f"k-{uuid.uuid4().hex}"


@pytest.mark.long
@named
def test_the_four_permissions_are_enough(operation, become):
    become(*ACTIONS)
    operation.act(_key())


@named
def test_what_an_operation_does_not_need_it_does_not_ask_for(operation, become):
    become(*(f"dynamodb:{action}" for action in operation.needs))
    operation.act(_key())


@named
def test_without_one_of_them_the_error_names_it_and_what_gives_it(operation, become):
    for missing in operation.needs:
        become(*(action for action in ACTIONS if action != f"dynamodb:{missing}"))
        with pytest.raises(LockConfigurationError) as raised:
            operation.act(_key())
        said = str(raised.value)
        assert re.search(
            f"permission dynamodb:{missing} on table '{LOCKS}'(, or on another table.*,)? is missing", said
        )
        assert IN_WORDS in said
        assert "LockTable.grant(function)" in said
        assert "lambda-lock table create" in said
        assert "docs/deploy.md" in said


def test_each_of_the_four_is_needed():
    needed = {f"dynamodb:{action}" for operation in OPERATIONS.values() for action in operation.needs}
    assert needed == set(ACTIONS)


def test_a_transaction_says_that_the_permission_may_be_missing_on_another_table(become, cloud):
    become(*ACTIONS)
    other = {"Put": {"TableName": "permission-others", "Item": {"key": {"S": "1"}}}}
    cloud.engine.create_table("permission-others")
    with pytest.raises(LockConfigurationError) as raised:
        default_client().acquire(_key()).commit([other])
    said = str(raised.value)
    assert f"permission dynamodb:PutItem on table '{LOCKS}', or on another table of the transaction, is missing" in said


def test_a_transaction_names_the_table_where_the_service_does():
    """As DynamoDB words it; the engine leaves the resource of a transaction's write out."""
    place = Place(LOCKS, JAVA, "key", "k", None, None)
    said = f"User: u is not authorized to perform: dynamodb:PutItem on resource: {_arn(ORDERS)} because no policy"
    error = explain(_refusal("TransactWriteItems", said), place)[1]
    assert f"permission dynamodb:PutItem on {_arn(ORDERS)} is missing" in str(error)
    assert "LockTable" not in str(error)


def test_a_key_that_may_not_be_used_is_named():
    said = "User: u is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:us-east-1:1:key/2 because"
    error = explain(_refusal("UpdateItem", said), _PLACE)[1]
    assert f"permission kms:Decrypt on the key of table '{LOCKS}' is missing" in str(error)
    assert "LockTable.grant" in str(error)


@pytest.mark.parametrize(
    "reason",
    [
        "with an explicit deny in a service control policy: arn:aws:organizations::1:policy/o-1/p-1",
        "with an explicit deny in an identity-based policy",
        "because no service control policy allows the dynamodb:UpdateItem action",
        "because no permissions boundary allows the dynamodb:UpdateItem action",
        "because no VPC endpoint policy allows the dynamodb:UpdateItem action",
        "because no session policy allows the dynamodb:UpdateItem action",
        "because no resource-based policy allows the dynamodb:UpdateItem action",
    ],
)
def test_a_policy_other_than_the_roles_is_named_instead_of_the_roles(reason):
    said = f"User: u is not authorized to perform: dynamodb:UpdateItem on resource: {_arn(LOCKS)} {reason}"
    error = str(explain(_refusal("UpdateItem", said), _PLACE)[1])
    assert error.startswith(f"permission dynamodb:UpdateItem on {_arn(LOCKS)} is refused {reason}. Change it there")
    assert "add them to the role's policy" not in error


def test_a_statement_that_the_role_lacks_is_added_to_the_role():
    reason = "because no identity-based policy allows the dynamodb:UpdateItem action"
    said = f"User: u is not authorized to perform: dynamodb:UpdateItem on resource: {_arn(LOCKS)} {reason}"
    assert "add them to the role's policy" in str(explain(_refusal("UpdateItem", said), _PLACE)[1])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "ValidationException",
            "KMS key disabled error: com.amazonaws.services.kms.model.DisabledException: arn:aws:kms:eu-west-1:1:key/2 "
            "is disabled. (Service: AWSKMS; Status Code: 400; Error Code: DisabledException; Proxy: null)",
        ),
        (
            "AccessDeniedException",
            "KMS key access denied error: com.amazonaws.services.kms.model.AWSKMSException: The ciphertext refers to a "
            "customer master key that does not exist, does not exist in this region, or you are not allowed to access.",
        ),
    ],
)
def test_a_key_that_cannot_be_used_is_neither_a_missing_action_nor_a_key_schema(code, said):
    error = str(explain(ServiceError(code, said).answers("UpdateItem"), _PLACE)[1])
    assert error.startswith(f"DynamoDB cannot use the key that encrypts table '{LOCKS}'")
    assert said in error
    assert "key schema" not in error
    assert "four permissions" not in error


@pytest.mark.parametrize(
    "code",
    ["AccessDeniedException", "ValidationException", "ResourceNotFoundException", "UnrecognizedClientException", "X"],
)
@pytest.mark.parametrize("said", ["is disabled", "access denied: u is not authorized to perform: kms:Decrypt"])
def test_what_dynamodb_says_of_the_tables_key_has_the_keys_reason_with_any_code(code, said):
    reason, _ = explain(ServiceError(code, f"KMS key {said}").answers("UpdateItem"), _PLACE)
    assert reason == "key"


_PLACE = Place(LOCKS, JAVA, "key", "k", None, None)


def _refusal(operation: str, message: str) -> ServiceError:
    return ServiceError("AccessDeniedException", message).answers(operation)


def test_listing_needs_a_permission_of_its_own_and_says_so(become):
    become(*ACTIONS)
    with pytest.raises(LockConfigurationError, match=r"dynamodb:Scan .* is missing. Listing locks needs it on top of"):
        list(default_client().list())
