"""Lambda as a durable function sees it: each invocation is a process of its own, and checkpoints go over HTTP.

The service of durable executions is the SDK's testing package with its web server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_durable_execution_sdk_python_testing import WebRunner, WebRunnerConfig
from aws_durable_execution_sdk_python_testing.executor import Executor
from aws_durable_execution_sdk_python_testing.web.server import WebServiceConfig

from rig.engine import REGION, ROOT, free_port
from rig.loopback import Handler, LoopbackServer
from tests.support.waiting import wait_until

FUNCTION = Path(__file__).with_name("function.py")


class Service:
    """Runs executions of function.py."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exits: list[int] = []  # of the invocations so far
        service = self

        class Endpoint(Handler):
            def do_POST(self) -> None:
                status, answer = service.invoke(self.body())
                failed = [("X-Amz-Function-Error", "Unhandled")] if status else []
                self.reply(200, answer, failed)

        self.endpoint = LoopbackServer(Endpoint)
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> Service:
        self.endpoint.__enter__()
        port = int(self.url.rpartition(":")[2])
        self._runner = WebRunner(
            WebRunnerConfig(
                WebServiceConfig(host="127.0.0.1", port=port),
                lambda_endpoint=self.endpoint.url,
                local_runner_region=REGION,
                skip_time=True,
            )
        )
        self._runner.start()
        threading.Thread(target=self._runner.serve_forever, daemon=True).start()
        self.client: Any = boto3.client("lambda", endpoint_url=self.url, region_name=REGION)
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.stop()
        self.endpoint.close()

    def invoke(self, payload: bytes) -> tuple[int, bytes]:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "FUNCTION_FOLDER": str(self.folder),
            "AWS_ENDPOINT_URL_LAMBDA": self.url,
            "AWS_LAMBDA_FUNCTION_NAME": "orders",
        }
        done = subprocess.run(
            [sys.executable, FUNCTION], input=payload, env=environment, capture_output=True, check=False, timeout=60
        )
        self.exits.append(done.returncode)
        error = {"errorType": "Runtime.ExitError", "errorMessage": f"exit {done.returncode}"}
        return done.returncode, json.dumps(error).encode() if done.returncode else done.stdout

    def start(self, event: object) -> str:
        """Start an execution. Returns its ARN."""
        body = {
            "AccountId": "123456789012",
            "FunctionName": "orders",
            "FunctionQualifier": "$LATEST",
            "ExecutionName": "execution-1",
            "ExecutionTimeoutSeconds": 300,
            "ExecutionRetentionPeriodDays": 1,
            "Input": json.dumps(event),
        }
        request = urllib.request.Request(
            f"{self.url}/start-durable-execution", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            arn: str = json.load(answer)["ExecutionArn"]
        return arn

    def status(self, arn: str) -> str:
        status: str = self.client.get_durable_execution(DurableExecutionArn=arn)["Status"]
        return status

    def end(self, arn: str) -> Any:
        """Wait until an execution has ended, successfully. Returns its result."""
        wait_until(lambda: self.status(arn) != "RUNNING", 60)
        ended = self.client.get_durable_execution(DurableExecutionArn=arn)
        assert ended["Status"] == "SUCCEEDED", ended
        return json.loads(ended["Result"])

    def ran(self) -> list[str]:
        """What the steps of the function noted, in all its processes."""
        return (self.folder / "ran").read_text().split()


@pytest.fixture
def service(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(Executor, "RETRY_BACKOFF_SECONDS", 0)  # seconds in real time
    with Service(tmp_path) as running:
        yield running
