"""What stands before a web server in Lambda, as the Lambda Web Adapter 1.0.0-rc1 does:

    python -m rig.web_adapter uvicorn app:app --port {port}

It starts the server, waits until it answers, and then turns each invocation into a request to it. Only what matters
to a lock is here: HTTP events in format 2.0, and the Lambda context in the header ``x-amzn-lambda-context``, as
src/lib.rs of the adapter and src/types.rs of lambda_runtime write it. Like the adapter, it serves
AWS_LAMBDA_MAX_CONCURRENCY invocations at once.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from .engine import free_port
from .lambda_runtime import API, INIT_SECONDS

HEADER = "x-amzn-lambda-context"


def main(command: list[str]) -> int:
    port = free_port()
    server = subprocess.Popen([word.replace("{port}", str(port)) for word in command])
    _wait_until_ready(port, server)
    for _ in range(int(os.environ.get("AWS_LAMBDA_MAX_CONCURRENCY", "1"))):
        threading.Thread(target=_serve, args=(port,), daemon=True).start()
    return server.wait()


def context_header(headers: Any) -> str:
    """The Lambda context of an invocation, as serde_json writes the runtime's Context."""
    context = {
        "request_id": headers["Lambda-Runtime-Aws-Request-Id"],
        "deadline": int(headers["Lambda-Runtime-Deadline-Ms"]),
        "invoked_function_arn": headers["Lambda-Runtime-Invoked-Function-Arn"],
        "xray_trace_id": headers["Lambda-Runtime-Trace-Id"],
        "client_context": None,
        "identity": None,
        "tenant_id": headers["Lambda-Runtime-Aws-Tenant-Id"],
        "env_config": {
            "function_name": os.environ["AWS_LAMBDA_FUNCTION_NAME"],
            "memory": int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]),
            "version": os.environ["AWS_LAMBDA_FUNCTION_VERSION"],
            "log_stream": os.environ["AWS_LAMBDA_LOG_STREAM_NAME"],
            "log_group": os.environ["AWS_LAMBDA_LOG_GROUP_NAME"],
        },
    }
    return json.dumps(context, separators=(",", ":"), ensure_ascii=False)


def _wait_until_ready(port: int, server: subprocess.Popen[bytes]) -> None:
    """Ask as the adapter does: GET /, until an answer below 500 comes. Such a request has no context."""
    end = time.monotonic() + 6 * INIT_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            if _ask(port, "GET", "/", {}, b"")[0] < 500:
                return
        except OSError:
            time.sleep(0.02)
    sys.exit("the server did not become ready")


def _serve(port: int) -> None:
    host, _, api_port = os.environ["AWS_LAMBDA_RUNTIME_API"].partition(":")
    while True:
        api = http.client.HTTPConnection(host, int(api_port))
        api.request("GET", f"{API}/invocation/next")
        given = api.getresponse()
        event, headers = json.loads(given.read()), given.headers
        how = event["requestContext"]["http"]
        body = event.get("body", "").encode()
        sent = {name.lower(): value for name, value in event["headers"].items()}
        sent |= {HEADER: context_header(headers).encode(), "content-length": str(len(body))}
        status, shown, said = _ask(port, how["method"], event["rawPath"], sent, body)
        answer = {"statusCode": status, "headers": shown, "body": said.decode(), "isBase64Encoded": False}
        path = f"{API}/invocation/{headers['Lambda-Runtime-Aws-Request-Id']}/response"
        api = http.client.HTTPConnection(host, int(api_port))
        api.request("POST", path, json.dumps(answer).encode())
        api.getresponse().read()


def _ask(port: int, method: str, path: str, headers: dict[str, Any], body: bytes) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
