"""A service that bears three calls at once, and eight processes that call it. Permits keep it alive.

    LAMBDA_LOCK_TABLE=locks AWS_ENDPOINT_URL=http://127.0.0.1:4566 python examples/fragile_service.py

The service is a small HTTP server of this example. It answers 503 to each call that comes while three are in work. Each
process calls it three times. Without permits many calls fail; with ``permits=3`` none does. The processes need not know
of each other: they could run in Lambda functions and in containers. The table is created if it does not exist.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lambda_lock import LockClient
from lambda_lock.table import create_table, table_exists

TABLE = os.environ.get("LAMBDA_LOCK_TABLE", "locks")
MOST, PROCESSES, CALLS = 3, 8, 3
TAKES = 0.1  # seconds that the service works on one call


class Service(ThreadingHTTPServer):
    """It counts the calls that it has in work."""

    request_queue_size = 2 * PROCESSES

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Call)
        self.free = threading.Semaphore(MOST)


class Call(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        bears = self.server.free.acquire(blocking=False)
        if bears:
            time.sleep(TAKES)
            self.server.free.release()
        self.send_response(200 if bears else 503)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def call(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def work(port: int, *, permits: bool) -> None:
    """One of the processes. It prints how many of its calls failed."""
    failed = 0
    with LockClient(TABLE) as client:
        for _ in range(CALLS):
            if permits:
                with client.acquire("fragile-service", permits=MOST, wait=60):
                    failed += not call(port)
            else:
                failed += not call(port)
    print(failed)


def play(how: str, service: Service) -> int:
    """Let all processes call the service. Returns how many calls failed."""
    command = [sys.executable, __file__, how, str(service.server_port)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    return sum(int(process.communicate(timeout=120)[0]) for process in processes)


def main() -> None:
    if not table_exists(TABLE):
        create_table(TABLE)
    with Service() as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        for how in ("without", "with"):
            print(f"{how} permits: {play(how, service)} of {PROCESSES * CALLS} calls failed")
        service.shutdown()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(int(sys.argv[2]), permits=sys.argv[1] == "with")
    else:
        main()
