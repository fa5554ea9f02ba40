"""A DynamoDB on loopback: ministack, in a process of its own with everything it writes in a folder of its own."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
REGION = "us-east-1"

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


def inherited_environment() -> dict[str, str]:
    """This process's environment without anything that points a child at AWS, a lock table, or other code."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "LAMBDA_", "PYTHON", "_LAMBDA", "_HANDLER", "_X_AMZN"))
    }


def stop(process: subprocess.Popen[Any], patience_seconds: float = 5.0) -> None:
    """End a child and reap it: SIGTERM, and SIGKILL for one that does not heed it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


class Ministack:
    """The engine as a context manager; usable once.

    auth: whether IAM policies are enforced (by action and table ARN; the key ``test`` stays root).

    The program is LAMBDA_LOCK_ENGINE_BIN, else the one in this repository's ``.venv-engine``. Raises EngineError where
    it is not there or does not become healthy.
    """

    ATTEMPTS = 5
    START_SECONDS = 20.0

    def __init__(self, auth: bool = False) -> None:
        self.auth = auth
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
        self._folder = Path(tempfile.mkdtemp(prefix="lambda-lock-engine-"))
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

    def reset(self) -> None:
        """Empty the engine: no table is left."""
        self._http("POST", "/_ministack/reset")

    def dynamodb(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Send one DynamoDB request as it stands. Raises EngineError(code) for anything but a 200."""
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            # Not a signature: the engine reads the account and the Region from it, and checks nothing.
            "Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/dynamodb/aws4_request, "
            "SignedHeaders=host, Signature=0",
        }
        status, body = self._http("POST", "/", json.dumps(request), headers)
        reply: dict[str, Any] = json.loads(body)
        if status != 200:
            code = reply.get("__type", "").rpartition("#")[2]
            message = reply.get("message") or reply.get("Message")
            raise EngineError(f"{operation}: {status} {code}: {message}", code)
        return reply

    def create_table(self, name: str, partition_key: str = "key", sort_key: str | None = None) -> str:
        """Make a table with string keys, billed on demand; it is active at once. Returns the name."""
        roles = {partition_key: "HASH"} | ({sort_key: "RANGE"} if sort_key else {})
        self.dynamodb(
            "CreateTable",
            {
                "TableName": name,
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in roles],
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

    def _start(self) -> None:
        program = _program()
        for _ in range(self.ATTEMPTS):
            # Between the look for a free port and the engine's bind another process may take it.
            self.port = free_port()
            self._process = self._spawn(program)
            if self._becomes_healthy():
                return
            stop(self._process)
        raise EngineError(f"{program} did not become healthy; it wrote:\n{self._log()}")

    def _spawn(self, program: str) -> subprocess.Popen[bytes]:
        assert self._folder is not None
        scratch = self._folder / "tmp"
        scratch.mkdir(exist_ok=True)
        environment = inherited_environment() | {
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_HOST": "127.0.0.1",
            "LOG_LEVEL": "WARNING",
            "STATE_DIR": str(self._folder / "state"),
            "TMPDIR": str(scratch),
            "DOCKER_HOST": "unix:///nonexistent",
        }
        environment |= {"AUTH": "true"} if self.auth else {}
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [program], env=environment, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _becomes_healthy(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + self.START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                status, _ = self._http("GET", "/_ministack/health", timeout=1.0)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)  # not listening yet, or somebody else is
                continue
            # Health alone could come from whoever took the port; our own process must live on beside it.
            return status == 200 and self._process.poll() is None
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


def _program() -> str:
    program = os.environ.get("LAMBDA_LOCK_ENGINE_BIN") or str(ROOT / ".venv-engine" / "bin" / "ministack")
    if not os.access(program, os.X_OK):
        raise EngineError(f"{program} is not there: run 'make setup', or name a ministack in LAMBDA_LOCK_ENGINE_BIN")
    return program
