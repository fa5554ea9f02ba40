"""The four permissions are enough for everything that locks, and each is needed: on an engine that enforces IAM."""

import asyncio
import itertools
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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


def _die_with(key: str, **options: Any) -> None:
    """Take a lock for a second, and be closed without releasing it."""
    dead = LockClient()
    try:
        kept = dead.acquire(key, lease_duration=1, **options)
    finally:
        dead.close(release=False)
    assert not kept.is_held


def _replace_a_dead_holder(key: str) -> None:
    _die_with(key, permits=1)
    default_client().acquire(key, permits=1, wait=30).release()


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
    _let_wait(f"{key}-2", client.acquire(f"{key}-2"), lambda: client.acquire_all([key, f"{key}-2"], wait=30))


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
    _die_with(key)
    assert default_client().forget(key, wait=30) is False


def _forget_by_command(key: str) -> None:
    _command("forget", key)


def _erase(key: str) -> None:
    default_client().acquire(key).release()
    assert default_client().erase(key) is True


def _erase_by_command(key: str) -> None:
    default_client().acquire(key).release()
    _command("erase", key)


def _do_batches(key: str) -> None:
    batch = events.sqs([{"customer": key}])
    answer = process_sqs(batch, print, context=Context(30), lock_key="{body[customer]}")
    answer |= process_stream(events.kinesis([(key, {"id": 1})]), print, context=Context(30))
    assert answer == {"batchItemFailures": []}


def _do_a_batch_at_a_rate(key: str) -> None:
    batch, rate = events.sqs([{"customer": key}]), ("{body[customer]}", 100, 1.0)
    with LockClient() as cold:
        answer = process_sqs(batch, print, context=Context(30), dedup_key=None, rate=rate, client=cold)
    assert answer == {"batchItemFailures": []}


def _run_a_command(key: str) -> None:
    _command("run", key, "--", sys.executable, "-c", "")


def _start_at_a_rate(key: str) -> None:
    with LockClient() as cold:
        cold.rate_limit(key, 100, wait=20)
        cold.rate_limit(key, 100, wait=20)


def _delete_a_rate_by_command(key: str) -> None:
    _start_at_a_rate(key)
    _command("release", key, "--force", "--yes")


def _get_by_command(key: str) -> None:
    _command("get", key, status=1)  # there is none


def _release_by_command(key: str) -> None:
    client = LockClient()
    try:
        lock = client.acquire(key)
        _command("release", lock.key, "--force", "--yes")
    finally:
        client.close(release=False)


def _command(*arguments: str, status: int = 0) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lambda_lock.cli", *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    if done.returncode != status:
        raise LockConfigurationError(" ".join(done.stderr.replace("│", " ").split()))


#: The actions that operations do not work without.
_NEEDS: dict[tuple[str, ...], list[Callable[[str], None]]] = {
    ("UpdateItem",): [
        *(_acquire, _take_permits, _renew, _hand_over, _resume, _commit, _close, _await, _decorate),
        *(_acquire_several, _transact, _deduplicate, _deduplicate_in_a_transaction),
        *(_do_batches, _run_a_command),
    ],
    ("GetItem",): [_get, _prewarm, _forget_by_command, _get_by_command],
    ("UpdateItem", "GetItem"): [
        *(_wait, _wait_for_a_permit, _replace_a_dead_holder, _wait_for_several, _forget, _forget_a_dead_run),
        *(_release_by_command, _start_at_a_rate, _do_a_batch_at_a_rate),
    ],
    ("UpdateItem", "DeleteItem"): [_acquire_and_delete],
    ("GetItem", "PutItem", "UpdateItem"): [_acquire_in_place_of_what_is_there],
    ("UpdateItem", "GetItem", "DeleteItem"): [_erase, _erase_by_command, _delete_a_rate_by_command],
}
_OPERATIONS = [(act, needs) for needs, acts in _NEEDS.items() for act in acts]
named = pytest.mark.parametrize(
    ("act", "needs"), sampled(3, _OPERATIONS), ids=[act.__name__.strip("_") for act, _ in _OPERATIONS]
)


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


@named
def test_the_four_permissions_are_enough(act, needs, become):
    """What an operation does not need of them it does not ask for."""
    become(*(f"dynamodb:{action}" for action in needs))
    act(_key())


@named
def test_without_one_of_them_the_error_names_it_and_what_gives_it(act, needs, become):
    for missing in needs:
        become(*(action for action in ACTIONS if action != f"dynamodb:{missing}"))
        with pytest.raises(LockConfigurationError) as raised:
            act(_key())
        said = str(raised.value)
        where = f"on table '{LOCKS}'(, or on another table.*,)?"
        assert re.search(f"permission dynamodb:{missing} {where} is missing", said)
        for remedy in (IN_WORDS, "LockTable.grant(function)", "lambda-lock table create", "docs/deploy.md"):
            assert remedy in said


def test_each_of_the_four_is_needed():
    assert {f"dynamodb:{action}" for needs in _NEEDS for action in needs} == set(ACTIONS)


def test_a_transaction_says_that_the_permission_may_be_missing_on_another_table(become, cloud):
    become(*ACTIONS)
    other = {"Put": {"TableName": "permission-others", "Item": {"key": {"S": "1"}}}}
    cloud.engine.create_table("permission-others")
    where = f"on table '{LOCKS}', or on another table of the transaction,"
    with pytest.raises(LockConfigurationError, match=f"permission dynamodb:PutItem {where} is missing"):
        default_client().acquire(_key()).commit([other])


_PLACE = Place(LOCKS, JAVA, "key", "k", None, None)


def _explained(operation: str, what: str) -> str:
    """What an error says where DynamoDB says that the role is not authorized to do this."""
    said = f"User: u is not authorized to perform: {what}"
    return str(explain(ServiceError("AccessDeniedException", said).answers(operation), _PLACE)[1])


def test_a_transaction_names_the_table_where_the_service_does():
    """As DynamoDB words it; the engine leaves the resource of a transaction's write out."""
    error = _explained("TransactWriteItems", f"dynamodb:PutItem on resource: {_arn(ORDERS)} because no policy")
    assert f"permission dynamodb:PutItem on {_arn(ORDERS)} is missing" in error
    assert "LockTable" not in error


def test_a_key_that_may_not_be_used_is_named():
    error = _explained("UpdateItem", "kms:Decrypt on resource: arn:aws:kms:us-east-1:1:key/2 because")
    assert f"permission kms:Decrypt on the key of table '{LOCKS}' is missing" in error
    assert "LockTable.grant" in error


@pytest.mark.parametrize(
    "reason",
    [
        "with an explicit deny in a service control policy: arn:aws:organizations::1:policy/o-1/p-1",
        "with an explicit deny in an identity-based policy",
        *(
            f"because no {policy} allows the dynamodb:UpdateItem action"
            for policy in ("service control policy", "permissions boundary", "VPC endpoint policy", "session policy")
        ),
        "because no resource-based policy allows the dynamodb:UpdateItem action",
    ],
)
def test_a_policy_other_than_the_roles_is_named_instead_of_the_roles(reason):
    error = _explained("UpdateItem", f"dynamodb:UpdateItem on resource: {_arn(LOCKS)} {reason}")
    assert error.startswith(f"permission dynamodb:UpdateItem on {_arn(LOCKS)} is refused {reason}. Change it there")
    assert "add them to the role's policy" not in error


def test_a_statement_that_the_role_lacks_is_added_to_the_role():
    reason = "because no identity-based policy allows the dynamodb:UpdateItem action"
    said = _explained("UpdateItem", f"dynamodb:UpdateItem on resource: {_arn(LOCKS)} {reason}")
    assert "add them to the role's policy" in said


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


def test_listing_needs_a_permission_of_its_own_and_says_so(become):
    become(*ACTIONS)
    with pytest.raises(LockConfigurationError, match=r"dynamodb:Scan .* is missing. Listing locks needs it on top of"):
        list(default_client().list())
