"""The targets, which are fed with hostile input: each has a strategy that makes inputs, and a check of one input.

hypothesis draws the inputs in tests, and shrinks one that fails. In guide.py, atheris feeds the same strategies with
bytes that it changes to reach more of the library's code.
"""

import base64
import contextlib
import json
import os
import socket
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from lambda_lock import JAVA, LockClient, LockError, LockRecord, table
from lambda_lock.batch import process_sqs, process_stream
from lambda_lock.cli import options as cli_options
from lambda_lock.cli import show
from lambda_lock.cli.app import app
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError, TransactionCanceled
from lambda_lock.core.protocol import Send
from lambda_lock.decorators.guard import disabled
from lambda_lock.keys.compile import compile_key
from lambda_lock.keys.payload_hash import payload_hash
from lambda_lock.runtime import drive
from lambda_lock.table import check_table, create_table, table_exists
from lambda_lock.testing import ManualClock, in_memory
from lambda_lock.testing.memory import Memory
from lambda_lock.transport import Credentials, HttpsTransport, choose
from lambda_lock.transport.credentials import ContainerCredentials, EnvironmentCredentials
from rig.engine import ROOT
from tests.support.saying import Saying

from .operations import OPERATIONS
from .scene import NOW, Meter, Scene, lucky


class Target:
    """A check and its inputs."""

    def __init__(self, inputs: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
        self._inputs = inputs
        self._check = check
        self._feed: Callable[[bytes], object] = self._test(1).hypothesis.fuzz_one_input
        self.count = 0

    def feed(self, data: bytes) -> None:
        """Check the input that these bytes stand for."""
        self._feed(data)

    def draw(self, number: int, examples: int = 50) -> int:
        """Check some inputs, the same for the same number. Returns how many. A failure is shrunk."""
        before = self.count
        seed(number)(self._test(examples))()
        return self.count - before

    def _test(self, examples: int) -> Any:
        def run(value: Any) -> None:
            self.count += 1
            self._check(value)

        return settings(
            max_examples=examples,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=DirectoryBasedExampleDatabase(ROOT / "build" / "fuzzing" / "examples"),
        )(given(value=self._inputs)(run))


TARGETS: dict[str, Target] = {}


def target(name: str, inputs: st.SearchStrategy[Any]) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Note a check as a target."""

    def note(check: Callable[[Any], None]) -> Callable[[Any], None]:
        TARGETS[name] = Target(inputs, check)
        return check

    return note


# Values

texts = st.text(max_size=12) | st.sampled_from(
    ["", "0", "1", "20000", "20s", "-1", "9" * 5000, "x" * 3000, "someone#1", "\u0000", "\u2028", "a" * 2049, "{", "}"]
)
numbers = st.integers(-(10**38), 10**38).map(str) | st.sampled_from(["7.5", "1E+125", "9" * 5000, "NaN", "", "-0", "٣"])
scalars = st.one_of(
    texts.map(lambda text: {"S": text}),
    numbers.map(lambda number: {"N": number}),
    st.binary(max_size=8).map(lambda data: {"B": base64.b64encode(data).decode()}),
    st.sampled_from([{"BOOL": True}, {"NULL": True}, {"B": "not base64"}, {}, {"S": 7}, {"S": "a", "N": "1"}, None, 7]),
)
attributes = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: {"L": items}),
        st.dictionaries(texts, inner, max_size=3).map(lambda items: {"M": items}),
        st.lists(texts, max_size=2).map(lambda items: {"SS": items}),
    ),
    max_leaves=8,
)
versions = st.builds(
    lambda shift, digit: f"L1:{int(NOW * 1000) + shift:013d}:{digit * 32}",
    st.sampled_from([-(10**9), -60_000, 0, 60_000, 10**9]),
    st.sampled_from("0af"),
)
nonces = st.sampled_from(["0" * 32, "f" * 32, "", "x"])
entries = st.dictionaries(
    nonces | texts,
    st.builds(lambda version, lease, owner: {"S": f"{version}:{lease}:{owner}"}, versions, numbers, texts) | attributes,
    max_size=4,
).map(lambda found: {"M": found})
maps = st.dictionaries(nonces | texts, attributes, max_size=4).map(lambda found: {"M": found})
_COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "recordVersionNumber": versions.map(lambda version: {"S": version}) | st.just({"S": "semaphore"}) | attributes,
    "ownerName": st.sampled_from([{"S": f"me#{'0' * 32}"}, {"S": "semaphore"}]) | attributes,
    "leaseDuration": st.sampled_from([{"S": "20000"}, {"S": "semaphore"}]) | attributes,
    "isReleased": st.just({"S": "1"}) | attributes,
    **dict.fromkeys(
        ("fencingToken", "heldMs", "completedUntil"), numbers.map(lambda number: {"N": number}) | attributes
    ),
    "waiters": st.lists(texts.map(lambda text: {"S": text}), max_size=70).map(lambda found: {"L": found}) | attributes,
    "permits": entries | attributes,
    "permitTokens": maps | attributes,
    **dict.fromkeys(("data", "ttl", "result", "x"), attributes),
}
items = st.fixed_dictionaries({"key": st.just({"S": "k"}) | attributes}, optional=_COLUMNS)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.dates(), st.decimals())
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


# The transport, on a pair of sockets instead of a connection


@contextlib.contextmanager
def answered(data: bytes) -> Iterator[None]:
    """Every new connection reads these bytes, and then its end."""

    def dial(host: str, port: int, deadline: float) -> socket.socket:
        mine, other = socket.socketpair()
        others.append(other)
        other.sendall(data)
        other.shutdown(socket.SHUT_WR)
        return mine

    others: list[socket.socket] = []
    with mock.patch("lambda_lock.transport.http1._dial", dial):
        try:
            yield
        finally:
            for other in others:
                other.close()


def http(status: bytes, headers: list[tuple[bytes, bytes]], body: bytes, checked: bool) -> bytes:
    """An answer of these parts. checked: with a length and a checksum that are right."""
    if checked:
        right = [(b"Content-Length", str(len(body)).encode()), (b"x-amz-crc32", str(zlib.crc32(body)).encode())]
        headers = [*headers, *right, (b"Content-Type", b"application/x-amz-json-1.0")]
    lines = [status, *(name + b": " + value for name, value in headers), b"", b""]
    return b"\r\n".join(lines) + body


bodies = st.binary(max_size=60) | st.one_of(
    st.dictionaries(
        st.sampled_from(
            ("Item", "Attributes", "Items", "__type", "message", "CancellationReasons", "LastEvaluatedKey")
        ),
        items | values | st.lists(items, max_size=2),
        max_size=3,
    ),
    st.builds(
        lambda code, item: {"__type": f"x#{code}", "Item": item, "CancellationReasons": [{"Code": code, "Item": item}]},
        st.sampled_from(["ConditionalCheckFailedException", "TransactionCanceledException", "ValidationException"]),
        items,
    ),
).map(lambda body: json.dumps(body, default=str).encode("utf-8", "replace"))
headers = st.lists(
    st.tuples(
        st.sampled_from(
            (b"Date", b"Content-Length", b"Transfer-Encoding", b"Connection", b"x-amzn-errortype", b"\x00")
        ),
        st.binary(max_size=12)
        | st.sampled_from([b"chunked", b"close", b"0", b"2", b"9" * 30, b"Sat, 21 Nov 2026 04:49:13 GMT"]),
    ),
    max_size=3,
)
statuses = st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.1 400 Bad", b"HTTP/1.0 500", b"HTTP/2 200"]) | st.binary(
    max_size=9
)
replies = st.builds(http, statuses, headers, bodies, st.booleans()) | st.binary(max_size=400)
_ROW = {"TableName": "locks", "Key": {"key": {"S": "k"}}}
REQUESTS: dict[str, dict[str, Any]] = {
    "GetItem": _ROW,
    "UpdateItem": {**_ROW, "ConditionExpression": "a = b", "ReturnValues": "ALL_NEW"},
    "Scan": {"TableName": "locks"},
    "TransactWriteItems": {"TransactItems": [{"Update": _ROW}]},
}


@target("reply", st.tuples(st.sampled_from(sorted(REQUESTS)), replies))
def check_reply(given_: tuple[str, bytes]) -> None:
    operation, data = given_
    transport = HttpsTransport("eu-west-1", "http://127.0.0.1:1", Credentials("AKIA", "secret"))
    with answered(data):
        outcome = drive.send(Send(operation, REQUESTS[operation], 5.0), transport)
    transport.close()
    assert isinstance(outcome, (Reply, ConditionFailed, TransactionCanceled, ServiceError, LockError))
    client = LockClient("locks", transport=transport, clock=ManualClock(NOW))
    with contextlib.suppress(LockError), answered(data), client:
        show_all(client.list())


@target("credentials of a container", replies)
def check_container(data: bytes) -> None:
    source = ContainerCredentials({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/role"})
    with contextlib.suppress(LockError), answered(data):
        source.get(NOW, time.monotonic() + 5.0).get(NOW, 0.0)


_good = {"AccessKeyId": "AKIA", "SecretAccessKey": "s", "Token": "t", "Expiration": "2030-01-01T00:00:00Z"}


@target("answers of a container", st.dictionaries(st.sampled_from(sorted(_good)), values | texts, max_size=4))
def check_fields(fields: dict[str, Any]) -> None:
    body = json.dumps({**_good, **fields}, default=str).encode("utf-8", "replace")
    check_container(http(b"HTTP/1.1 200 OK", [], body, True))


_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_REGION",
    "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT", "AWS_ACCOUNT_ID_ENDPOINT_MODE", "HTTPS_PROXY", "NO_PROXY", "LAMBDA_LOCK_TABLE",
    "LAMBDA_LOCK_PARTITION_KEY", "LAMBDA_LOCK_SORT_KEY", "LAMBDA_LOCK_DISABLED", "AWS_LAMBDA_FUNCTION_NAME",
)  # fmt: skip
_settings = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "true", "eu-west-1", "http://127.0.0.1:8000", "https://a.b:1/x", "http://u:p@h", "//", "http://[::1]", "locks"]
)
_WHOLE = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/nonexistent"}


@target("environment", st.dictionaries(st.sampled_from(_VARIABLES), _settings, max_size=5))
def check_environment(variables: dict[str, str]) -> None:
    with mock.patch.dict(os.environ, {**_WHOLE, **variables}, clear=True):
        acts: tuple[Callable[[], object], ...] = (
            lambda: EnvironmentCredentials().get(NOW, 0.0),
            lambda: choose(now=time.time).close(),
            lambda: LockClient().close(),
            disabled,
        )
        for act in acts:
            with contextlib.suppress(LockError):
                act()


@target("files", st.tuples(st.binary(max_size=60), st.binary(max_size=60) | st.just(b"[default]\nendpoint_url=x\n")))
def check_files(contents: tuple[bytes, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        token, config = Path(folder, "token"), Path(folder, "config")
        token.write_bytes(contents[0])
        config.write_bytes(contents[1])
        uri = "http://127.0.0.1:1/role"
        named = {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token), "AWS_CONTAINER_CREDENTIALS_FULL_URI": uri}
        with answered(b""), contextlib.suppress(LockError):
            ContainerCredentials(named).get(NOW, time.monotonic() + 5.0)
        for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            variables = {**_WHOLE, variable: str(config)}
            with mock.patch.dict(os.environ, variables, clear=True), contextlib.suppress(LockError):
                choose(now=time.time).close()


_definitions: st.SearchStrategy[Any] = st.sampled_from(
    [[{"AttributeName": "key", "AttributeType": "S"}], [{"AttributeName": [], "AttributeType": 7}], [7], {}, None]
)
_schemas: st.SearchStrategy[Any] = st.sampled_from(
    [[{"AttributeName": "key", "KeyType": "HASH"}], [{"AttributeName": "id", "KeyType": "HASH"}], [{"KeyType": []}], 7]
)
tables = st.fixed_dictionaries(
    {},
    optional={
        "TableStatus": st.sampled_from(["ACTIVE", "CREATING", 7, None, []]),
        "AttributeDefinitions": _definitions,
        "KeySchema": _schemas,
        "Replicas": st.sampled_from([[], [{"RegionName": "eu-west-1"}], [{"RegionName": 7}], [7], 7]),
    },
)
_descriptions = st.fixed_dictionaries(
    {},
    optional={
        "Table": tables | values,
        "TimeToLiveDescription": st.sampled_from([{"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}, [], 7]),
    },
)
_refusals = st.sampled_from([ConditionFailed(None, None), TransactionCanceled([], [], None), ServiceError("Odd", "")])


@target("tables", _descriptions | _refusals)
def check_description(answer: Any) -> None:
    transport = Saying(answer)
    for ask in (
        lambda: table_exists("locks", transport=transport),
        lambda: check_table("locks", transport=transport),
        lambda: create_table("locks", transport=transport, wait=1e-9),
    ):
        with mock.patch.object(table, "_POLL", 0.0), contextlib.suppress(LockError):
            ask()


# Keys


def _handler(event: Any, context: Any = None) -> None:
    """What the templates are compiled for."""


_words = st.sampled_from(("event", "context", "a", "b", "0", "-1", *"[].{}#@*|", "{{", "}}"))
_paths = st.lists(_words | texts, max_size=8).map("".join)
templates = (
    _paths | _paths.map(lambda path: "order#{" + path + "}") | st.sampled_from(["{event[a]}", "{a}#{b}", "{body[a]}"])
)
expressions = _paths | st.sampled_from(
    ["a", "a.b[0]", "join('#', [a, b])", "[" * 500, "a" + ".a" * 900, "!" * 3000, "`1`"]
)
events = st.dictionaries(st.sampled_from(["a", "b", "event", "body"]), values, max_size=3) | values


@target("templates", st.tuples(templates, events))
def check_template(given_: tuple[str, Any]) -> None:
    template, event = given_
    with contextlib.suppress(LockError):
        key = compile_key(_handler, template, None)((event, None), {})
        assert isinstance(key, str)
        assert 0 < len(key.encode()) <= 2048


@target("JMESPath", st.tuples(expressions, events))
def check_jmespath(given_: tuple[str, Any]) -> None:
    expression, event = given_
    with contextlib.suppress(LockError):
        key = compile_key(_handler, None, expression)((event, None), {})
        assert 0 < len(key.encode()) <= 2048


@target("payload hashes", st.tuples(st.lists(_paths, max_size=2), events))
def check_hash(given_: tuple[list[str], Any]) -> None:
    paths, event = given_
    with contextlib.suppress(LockError):
        assert payload_hash(*paths)(event) == payload_hash(*paths)(event)


# Rows: a table whose rows say anything, and change with each answer


class Rows(Meter):
    """Its table is honest at first. From `limited` on, it shows these items, one after another."""

    def __init__(self, shown_: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.shown = shown_

    def answer(self, index: int, operation: str, request: dict[str, Any], timeout: float) -> Reply:
        if self.limit is None:
            return self.memory.send(operation, request, timeout=timeout)
        how, item = self.shown[index % len(self.shown)]
        self.clock.advance(0.01)
        date = int(self.clock.wall())
        if operation in ("Scan", "Query"):
            return Reply({"Items": [item, *(each for _, each in self.shown)]}, date)  # type: ignore[dict-item]
        if operation == "TransactWriteItems":
            count = len(request["TransactItems"])
            reasons = ["None"] * (count - 1) + ["ConditionalCheckFailed"]
            raise TransactionCanceled(reasons, [None] * (count - 1) + [item], date)
        if how == "reply" or operation == "GetItem":
            return Reply(item, date)
        raise ConditionFailed(item, date)


def shown(record: Any) -> None:
    """Show a record as the commands do."""
    show.print_json(show.as_dict(record))
    show.print_record(record)
    show.lock_table([record], 80)


def show_all(records: Iterable[Any]) -> None:
    for record in records:
        if record is not None:
            shown(record)


@target(
    "rows",
    st.tuples(
        st.sampled_from(sorted(OPERATIONS.keys() - {"lambda-lock run"})),  # which starts a process
        st.lists(st.tuples(st.sampled_from(["reply", "refusal"]), st.none() | items), min_size=1, max_size=3),
    ),
)
def check_rows(given_: tuple[str, list[tuple[str, Any]]]) -> None:
    name, rows = given_
    operation, meter = OPERATIONS[name], Rows(rows)
    with lucky(0.5):
        scene = Scene(meter)
        scene.kept = operation.prepare(scene)
        meter.limited(operation.bound(0.5))
        with contextlib.suppress(LockError):
            found = operation.act(scene)
            show_all(found if isinstance(found, list) else [found] if isinstance(found, LockRecord) else [])
        scene.close()


# Strings and events


def _client() -> LockClient:
    clock = ManualClock(NOW)
    return LockClient("locks", transport=Memory({}, clock, JAVA), clock=clock)


def _string(fields: Any, form: str) -> str:
    text = json.dumps(fields, separators=(",", ":"), default=str).encode("utf-8", "replace")
    return f"{form}.{base64.b64encode(text).decode()}.{zlib.crc32(text):08x}"


def _real() -> str:
    with in_memory(), LockClient("locks", region_name="eu-west-1") as client:
        return client.acquire("k").hand_over()


_REAL = _real()
_fields = st.tuples(st.just("locks") | texts, texts, st.none() | texts, texts, st.integers(), st.integers()).map(list)
strings = st.one_of(
    texts,
    values,
    st.builds(_string, _fields | values, st.just(_REAL.partition(".")[0])),
    st.builds(
        lambda at, put, cut: _REAL[:at] + put + _REAL[at + cut :], st.integers(0, len(_REAL)), texts, st.integers(0, 3)
    ),
)


@target("hand-over strings", st.tuples(st.sampled_from(["adopt", "resume", "release"]), strings))
def check_string(given_: tuple[str, Any]) -> None:
    act, string = given_
    with _client() as client:
        documented = (LockError,) if isinstance(string, str) else (LockError, TypeError)
        with contextlib.suppress(*documented):
            getattr(client, act)(string)


_names = st.sampled_from(
    ("key", "owner", "fencing_token", "sort_key", "lease_duration", "token", "wait", "data", "permits")
)


_methods = st.sampled_from(["acquire", "adopt", "resume", "release", "acquire_all"])


@target("arguments", st.tuples(_methods, st.dictionaries(_names, values, max_size=5)))
def check_arguments(given_: tuple[str, dict[str, Any]]) -> None:
    method, arguments = given_
    with _client() as client, contextlib.suppress(LockError, TypeError):  # as the docstrings say of a wrong type
        getattr(client, method)(**arguments)


records = st.fixed_dictionaries(
    {},
    optional={
        "messageId": texts | values,
        "body": texts | values,
        "attributes": st.dictionaries(st.just("MessageGroupId"), values, max_size=1) | values,
        "eventSource": st.sampled_from(["aws:sqs", "aws:kinesis", "aws:dynamodb"]) | values,
        "eventID": texts | values,
        "kinesis": st.dictionaries(st.sampled_from(["sequenceNumber", "partitionKey", "data"]), values) | values,
        "dynamodb": st.dictionaries(st.sampled_from(["SequenceNumber", "Keys"]), values | items) | values,
    },
)
batches = st.fixed_dictionaries({"Records": st.lists(records | values, max_size=4) | values}) | values


@target("batches", st.tuples(st.booleans(), batches))
def check_batch(given_: tuple[bool, Any]) -> None:
    queue, event = given_
    process: Any = process_sqs if queue else process_stream
    with _client() as client, contextlib.suppress(LockError):
        answer = process(event, lambda record: None, context=None, scope="s", lock_key="{body}", wait=0, client=client)
        assert set(answer) == {"batchItemFailures"}


_tokens = st.sampled_from(
    (
        "get", "ls", "release", "--force", "--yes", "--json", "--table", "locks", "--region", "--schema", "python",
        "go", "--prefix", "--state", "held", "--held", "--sort-value", "--sort-key", "--partition-key", "k", "--", "-v",
        "-vv", "--help", "--version", "--endpoint-url",
    )
)  # fmt: skip
_FORBIDDEN = frozenset({"run", "dev", "dashboard", "table", "history", "--watch"})  # they start processes, or go on


@target("command line", st.lists(_tokens | texts, max_size=6))
def check_command(arguments: list[str]) -> None:
    if _FORBIDDEN & set(arguments):
        return
    clock = ManualClock(NOW)
    memory = Memory({"locks": ("key",)}, clock, JAVA)

    def client(table: str | None, **options: Any) -> LockClient:
        return LockClient(table, **{**options, "transport": memory, "clock": clock})

    with mock.patch.object(cli_options, "LockClient", client):
        result = CliRunner().invoke(app, arguments, env={"LAMBDA_LOCK_TABLE": "locks"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2, 69, 75, 76, 78), result.output
