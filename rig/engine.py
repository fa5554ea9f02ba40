"""A DynamoDB on loopback, in a process of its own with everything it writes in a folder of its own.

`Ministack` is what tests, demo and benchmarks use; `DynamoDBLocal` is Amazon's, which the tests can use instead.
"""

from __future__ import annotations

import abc
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from lambda_lock.cli import guard

ROOT = Path(__file__).resolve().parent.parent
REGION = "us-east-1"
_SERVING = Path(__file__).with_name("serving.py")

Item = dict[str, dict[str, Any]]


class EngineError(Exception):
    """The engine did not start, or answered a request with an error, whose name is ``code``."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


def free_port() -> int:
    """A TCP port on 127.0.0.1 that was free a moment ago; somebody else may take it before you do."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def client_environment(url: str) -> dict[str, str]:
    """What a process needs in its environment to use the DynamoDB at ``url`` and nothing else."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def request_headers(operation: str) -> dict[str, str]:
    """The headers of a request to DynamoDB that an engine carries out."""
    return {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        # Not a signature: engines read the account and the Region from it, and check nothing.
        "Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/dynamodb/aws4_request, "
        "SignedHeaders=host, Signature=0",
    }


def inherited_environment() -> dict[str, str]:
    """This process's environment without anything that points a child at AWS, a lock table, or other code."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "LAMBDA_", "PYTHON", "_LAMBDA", "_HANDLER", "_X_AMZN"))
    }


def stop(process: subprocess.Popen[Any], patience_seconds: float = 5.0) -> None:
    """End a child and reap it: SIGTERM, and SIGKILL if it is still there after ``patience_seconds``."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


class Engine(abc.ABC):
    """An engine's process as a context manager; usable once. Raises EngineError where it does not become ready."""

    ATTEMPTS = 5
    START_SECONDS = 60.0  # on a busy machine
    ANSWER_SECONDS = 60.0  # that it may take for a request, on a busy machine
    FOLDERS: str | None = None  # where its folder is made; None: where temporary files are

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise EngineError("the engine is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="lambda-lock-engine-", dir=self.FOLDERS))
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def environment(self) -> dict[str, str]:
        """What a client's process needs in its environment to use this engine."""
        return client_environment(self.url)

    def dynamodb(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Send one DynamoDB request as it stands. Raises EngineError(code) for anything but a 200.

        EngineError without a code: no answer came, at most after ANSWER_SECONDS.
        """
        try:
            status, body = self._http(
                "POST", "/", json.dumps(request), request_headers(operation), timeout=self.ANSWER_SECONDS
            )
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(f"{operation}: the engine on port {self.port} gave no answer: {error!r}") from error
        reply: dict[str, Any] = json.loads(body)
        if status != 200:
            code = reply.get("__type", "").rpartition("#")[2]
            message = reply.get("message") or reply.get("Message")
            raise EngineError(f"{operation}: {status} {code}: {message}", code)
        return reply

    def create_table(
        self, name: str, partition_key: str = "key", sort_key: str | None = None, *, kind: str = "S"
    ) -> str:
        """Make a table with keys of this type, billed on demand; it is active at once. Returns the name."""
        roles = {partition_key: "HASH"} | ({sort_key: "RANGE"} if sort_key else {})
        self.dynamodb(
            "CreateTable",
            {
                "TableName": name,
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": key, "AttributeType": kind} for key in roles],
                "KeySchema": [{"AttributeName": key, "KeyType": role} for key, role in roles.items()],
            },
        )
        return name

    def delete_table(self, name: str) -> None:
        self.dynamodb("DeleteTable", {"TableName": name})

    def scan(self, table: str) -> list[Item]:
        """All items of a table, as DynamoDB's JSON has them."""
        items: list[Item] = []
        request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
        while True:
            page = self.dynamodb("Scan", request)
            items += page["Items"]
            if not page.get("LastEvaluatedKey"):
                return items
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _http(
        self,
        method: str,
        path: str,
        body: str | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = 10.0,
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    @abc.abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments, for the port that was chosen."""

    @abc.abstractmethod
    def _settings(self, folder: Path) -> dict[str, str]:
        """What the program needs in its environment to write into this folder only."""

    @abc.abstractmethod
    def _is_ready(self) -> bool:
        """Whether our process answers on the port. Raises OSError or HTTPException if none answers yet."""

    def _start(self) -> None:
        for _ in range(self.ATTEMPTS):
            # Between the look for a free port and the engine's bind another process may take it.
            self.port = free_port()
            command = self._command()
            self._process = self._spawn(command)
            if self._becomes_ready():
                return
            stop(self._process)
        raise EngineError(f"{command[0]} did not become ready; it wrote:\n{self._log()}")

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        assert self._folder is not None
        scratch = self._folder / "tmp"
        scratch.mkdir(exist_ok=True)
        environment = guard.needed(os.environ) | self._settings(self._folder) | {"TMPDIR": str(scratch)}
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, env=environment, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _becomes_ready(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + self.START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError, http.client.HTTPException):
                if self._is_ready():
                    return True
            time.sleep(0.02)  # not listening yet; or somebody else is, and ours ends as soon as it tries to
        return False

    def _log(self) -> str:
        assert self._folder is not None
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def _stop(self) -> None:
        if self._process is not None:
            stop(self._process)
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class Ministack(Engine):
    """ministack, an engine for DynamoDB and for what stands around a function (`Cloud`).

    Web pages get nothing of it, nor does it get secrets of this process (lambda_lock.cli.guard). It starts tables and
    their streams only, unless ``services`` names more. With ``lambda`` among them, every user of this machine can run
    code as the one who started it, for as long as it runs.

    auth: whether IAM policies are enforced (by action and table ARN; the key ``test`` stays root). wait_scale: the
    factor for Wait states and the intervals of Retry in Step Functions, and nothing else; 0.01: a minute takes 0.6 s.

    The program is LAMBDA_LOCK_ENGINE_BIN, else the one in this repository's ``.venv-engine``. Raises EngineError where
    it is not there or does not become ready.
    """

    def __init__(
        self, auth: bool = False, wait_scale: float = 1.0, services: Collection[str] = ("dynamodb", "dynamodbstreams")
    ) -> None:
        super().__init__()
        self.services = {*services, "iam", "sts"} if auth else {*services}
        self.auth = auth
        self.wait_scale = wait_scale

    def _command(self) -> list[str]:
        program = os.environ.get("LAMBDA_LOCK_ENGINE_BIN") or str(ROOT / ".venv-engine" / "bin" / "ministack")
        if not os.access(program, os.X_OK):
            raise EngineError(
                f"{program} is not there: run 'make setup', or name a ministack in LAMBDA_LOCK_ENGINE_BIN"
            )
        return [program]

    def _settings(self, folder: Path) -> dict[str, str]:
        settings = guard.environment(folder, {}, self.services)
        with (folder / "guard" / "sitecustomize.py").open("a", encoding="utf-8") as code:
            code.write(f"\n\n{_SERVING.read_text(encoding='utf-8')}\n\n")
            code.write(f"serve_by_uvicorn(lambda app: guarded(app, {sorted(self.services)}, {folder.name!r}))\n")
        return {
            **settings,
            "GATEWAY_PORT": str(self.port),
            "SFN_WAIT_SCALE": str(self.wait_scale),
            **({"AUTH": "true"} if self.auth else {}),
        }

    def _is_ready(self) -> bool:
        assert self._folder is not None
        status, _ = self._http("GET", guard.HEALTH, timeout=1.0)
        _, refusal = self._http("GET", guard.HEALTH, headers=guard.PAGE, timeout=1.0)
        return status == 200 and guard.is_ours(refusal, self._folder)


class DynamoDBLocal(Engine):
    """Amazon's DynamoDB Local, in memory, behind a server of ours that listens on loopback only (rig/java).

    It has tables and items only: no tags, no IAM, no other service. ``make`` builds it into build/dynamodb-local, and
    it needs Java. Raises EngineError where one of them is not there, or where it does not become ready.
    """

    _BUILT = ROOT / "build" / "dynamodb-local"

    def _command(self) -> list[str]:
        if shutil.which("java") is None:
            raise EngineError("DynamoDB Local needs Java 17 or newer, and java is not on the PATH: install it")
        if not (self._BUILT / ".built").exists():
            raise EngineError("DynamoDB Local is not built: run 'make test-dynamodb-local'")
        libraries = self._BUILT / "lib"
        return [
            "java",
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"),  # quick to start, and small
            f"-Dsqlite4java.library.path={libraries}",
            *("-cp", os.pathsep.join([str(self._BUILT / "classes"), str(libraries / "*")])),
            *("DynamoDbLocal", str(self.port)),
        ]

    def _settings(self, folder: Path) -> dict[str, str]:
        return {"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder / 'tmp'}"}

    def _is_ready(self) -> bool:
        status, _ = self._http("POST", "/", "{}", request_headers("ListTables"))
        return status == 200 and f"{self.pid} listens" in self._log()
