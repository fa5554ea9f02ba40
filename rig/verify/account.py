"""An account, or an engine in its place: how a run reaches it, what it creates there, and how that is removed.

Everything that a run creates has a name that is made of the run's name. So removing it needs no memory of what was
created: each of these names is deleted until the service says that there is no such thing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from lambda_lock import LockClient
from lambda_lock.transport import BotoTransport, Credentials, HttpsTransport

from .budget import Answers, Budget, Counted
from .interrupts import Interrupts

ARCHITECTURES = ("x86_64", "arm64")
TIMEOUT = 10.0  # seconds for one request
_TAG = "lambda-lock-verify"
_PAUSE = 1.0  # seconds between two tries
_GIVE_UP = 90.0  # seconds for removing one thing; a table is gone after some ten
_ABSENT = frozenset({"ResourceNotFoundException", "NoSuchEntity", "NoSuchEntityException"})
_CONFIG = Config(retries={"total_max_attempts": 2}, connect_timeout=5, read_timeout=30)
_DOMAINS = ("amazonaws.com", "amazonaws.com.cn", "api.aws")
_DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"


class Account:
    """The account of the caller's credentials, as boto3 finds them.

    run: the name of the run, from which all names are made.
    """

    def __init__(self, run: str, session: boto3.Session, budget: Budget, interrupts: Interrupts) -> None:
        self.run = run
        self.budget = budget
        self.answers = Answers()
        self.tables = [run, f"{run}-provisioned", f"{run}-on-demand"]
        self.roles = [f"{run}-all-keys", f"{run}-prefixes", f"{run}-function"]
        self.functions = [f"{run}-{architecture}" for architecture in ARCHITECTURES]
        self._session = session
        self._interrupts = interrupts
        self._clients: dict[str, Any] = {}
        self._created: set[str] = set()

    @property
    def region(self) -> str:
        return str(self.client("dynamodb").meta.region_name)

    @property
    def endpoint(self) -> str:
        return str(self.client("dynamodb").meta.endpoint_url)

    @property
    def is_engine(self) -> bool:
        """Whether this is not AWS."""
        host = urlsplit(self.endpoint).hostname or ""
        return not host.endswith(_DOMAINS)

    def identity(self) -> dict[str, Any]:
        """Who the caller is: Account and Arn."""
        found: dict[str, Any] = self.client("sts").get_caller_identity()
        return found

    def client(self, service: str) -> Any:
        """A boto3 client whose requests are counted; the same one each time."""
        if service not in self._clients:
            made = self._session.client(service, config=_CONFIG)
            made.meta.events.register("before-send", self.budget.spend)
            self._clients[service] = made
        return self._clients[service]

    def https(self, credentials: Credentials | None = None, now: Callable[[], float] = time.time) -> Counted:
        """The library's own transport, over connections of its own. credentials: None: the caller's."""
        transport = HttpsTransport(self.region, self.endpoint, credentials or self._credentials(), now)
        return Counted(transport, self.budget, self.answers)

    def boto3(self) -> Counted:
        """The library's transport over boto3."""
        return Counted(BotoTransport(self.client("dynamodb")), self.budget, self.answers)

    def locks(self, transport: Counted, **settings: Any) -> LockClient:
        """A client of the run's table."""
        return LockClient(self.run, transport=transport, **settings)

    def create_table(self, name: str, **options: Any) -> None:
        """Create a table with the key ``key``, tagged, and wait until it is active."""
        client = self.client("dynamodb")
        with self._creating(name):
            client.create_table(
                TableName=name,
                KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
                Tags=[{"Key": _TAG, "Value": self.run}],
                **options,
            )
        self.until(lambda: client.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE")

    def create_role(self, name: str, principal: dict[str, str], policy: str) -> str:
        """Create a role with a policy of docs/deploy for the run's table. Returns its ARN."""
        iam = self.client("iam")
        trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
        with self._creating(name):
            role = iam.create_role(
                RoleName=name,
                AssumeRolePolicyDocument=_document([trust]),
                Tags=[{"Key": _TAG, "Value": self.run}],
            )
        table = self.client("dynamodb").describe_table(TableName=self.run)["Table"]["TableArn"]
        statements = json.loads((_DEPLOY / policy).read_text())["Statement"]
        document = _document([statement | {"Resource": table} for statement in statements])
        iam.put_role_policy(RoleName=name, PolicyName="locks", PolicyDocument=document)
        return str(role["Role"]["Arn"])

    def assume(self, role_arn: str) -> Credentials:
        """The temporary credentials of a role, as soon as IAM has it everywhere (ten seconds or so)."""
        found: list[Credentials] = []

        def assumed() -> bool:
            try:
                given = self.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="verify")["Credentials"]
            except ClientError as error:
                if code(error) != "AccessDenied":
                    raise
                return False
            found.append(Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"]))
            return True

        self.until(assumed)
        return found[0]

    def create_function(self, name: str, **options: Any) -> None:
        """Create a function as soon as Lambda can assume its role, and wait until it is active."""
        client = self.client("lambda")

        def created() -> bool:
            try:
                with self._creating(name):
                    client.create_function(FunctionName=name, Tags={_TAG: self.run}, **options)
            except ClientError as error:
                if code(error) != "InvalidParameterValueException" or "role" not in str(error):
                    raise
                return False
            return True

        self.until(created)
        self.until(lambda: client.get_function_configuration(FunctionName=name)["State"] == "Active")

    def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for a condition. Raises TimeoutError after so many seconds, or at the end of the budget."""
        end = time.monotonic() + min(seconds, self.budget.left())
        while not condition():
            if time.monotonic() >= end:
                raise TimeoutError(f"it took more than {seconds:g} s")
            time.sleep(_PAUSE if not self.is_engine else _PAUSE / 20)

    def remove(self, *, everything: bool = False) -> list[str]:
        """Remove what this run may have created. Returns what could not be removed, and why.

        everything: also what this object did not create itself, but an earlier run of this name.

        Its requests are not counted, so that a run whose budget is spent is removed as well.
        """
        dynamodb, functions, iam = (
            self._session.client(service, config=_CONFIG) for service in ("dynamodb", "lambda", "iam")
        )

        def delete_role(name: str) -> None:
            for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
                iam.delete_role_policy(RoleName=name, PolicyName=policy)
            iam.delete_role(RoleName=name)

        ways: Sequence[tuple[str, Iterable[str], Callable[[str], Any]]] = (
            ("function", self.functions, lambda name: functions.delete_function(FunctionName=name)),
            ("role", self.roles, delete_role),
            ("table", self.tables, lambda name: dynamodb.delete_table(TableName=name)),
        )
        outcomes = {
            f"{kind} {name}": self._delete(delete, name)
            for kind, names, delete in ways
            for name in names
            if everything or name in self._created
        }
        return [f"{what}: {reason}" for what, reason in outcomes.items() if reason is not None]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    @contextmanager
    def _creating(self, name: str) -> Iterator[None]:
        """From before the request until its answer. It counts as created unless AWS says that it may not be."""
        with self._interrupts.held_back():
            self._created.add(name)
            try:
                yield
            except ClientError as error:
                if code(error).startswith("AccessDenied"):
                    self._created.discard(name)
                raise

    def _delete(self, delete: Callable[[str], Any], name: str) -> str | None:
        """Delete until there is no such thing. Returns why that was not reached, or None."""
        end = time.monotonic() + _GIVE_UP
        while True:
            reason = "it is still there"
            try:
                delete(name)
            except (ClientError, BotoCoreError) as error:
                if isinstance(error, ClientError) and code(error) in _ABSENT:
                    return None
                reason = str(error)
                if isinstance(error, ClientError) and code(error).startswith("AccessDenied"):
                    return reason
            if time.monotonic() >= end:
                return reason
            time.sleep(_PAUSE if not self.is_engine else _PAUSE / 20)

    def _credentials(self) -> Credentials:
        found = self._session.get_credentials()
        if found is None:
            raise NoCredentialsError
        frozen = found.get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)


def code(error: ClientError) -> str:
    """The name of a service's error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _document(statements: Sequence[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
