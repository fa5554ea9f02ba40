"""An environment of Lambda Managed Instances on this machine: several invocations at once.

    with ManagedInstance("orders.handler", folder, environment=engine.environment()) as instance:
        first, second = instance.invoke({"id": 1}), instance.invoke({"id": 2})

By default the unmodified awslambdaric serves them, in its multi-process mode: a process for each invocation at a
time. As on Lambda, nothing is frozen in between, and nothing is killed at a deadline: the invocation fails for its
caller, and its code goes on. A process that ends is not replaced.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from .lambda_runtime import (
    API,
    INIT_SECONDS,
    FunctionError,
    Invocation,
    Output,
    TimedOut,
    arn_of,
    as_sent,
    awslambdaric,
    outcome_of,
    variables_of,
)
from .loopback import Handler, LoopbackServer


class ManagedInstance:
    """One environment, as a context manager. The options are those of LambdaEnvironment.

    concurrency: how many invocations it serves at once. Others wait until one of these has ended.
    """

    def __init__(
        self,
        handler: str,
        folder: Path | str,
        *,
        concurrency: int = 2,
        environment: Mapping[str, str] | None = None,
        function_name: str = "function",
        command: Sequence[str] | None = None,
    ) -> None:
        folder = Path(folder).resolve()
        self._concurrency = concurrency
        self._api = _RuntimeApi(arn_of(function_name))
        self._output = Output()
        self._process: subprocess.Popen[str] | None = None
        self._command = command or awslambdaric(handler)
        self._folder = folder
        self._environment = (
            variables_of(handler, folder, function_name)
            | {
                "AWS_LAMBDA_INITIALIZATION_TYPE": "lambda-managed-instances",
                "AWS_LAMBDA_MAX_CONCURRENCY": str(concurrency),
            }
            | dict(environment or {})
        )

    def __enter__(self) -> Self:
        self._api.__enter__()
        self._process = subprocess.Popen(
            self._command,
            env=self._environment | {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._api.port}"},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        for _ in range(self._concurrency):
            if not self._api.polled.acquire(timeout=6 * INIT_SECONDS):
                written = "\n".join(self.lines)
                self.close()
                raise FunctionError("Runtime.ExitError", f"not all processes asked for an event: {written}")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lines(self) -> list[str]:
        """What its processes have written so far, without line ends."""
        return self._output.lines

    def wait_for_line(self, text: str, timeout: float = 30.0, after: int = 0) -> str:
        return self._output.wait_for(text, timeout, after)

    def invoke(self, event: Any, timeout_seconds: float = 3.0, request_id: str | None = None) -> Invocation:
        """Start an invocation and return at once. Its clock starts when a process is given the event."""
        invocation = Invocation(event, timeout_seconds, request_id or str(uuid.uuid4()))
        self._api.events.put(invocation)
        return invocation

    def close(self) -> None:
        """Kill what runs, and reap it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._api.close()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._output.add(line.rstrip("\n"))


class _RuntimeApi(LoopbackServer):
    """The Runtime API for the processes of one environment: the process that asks next gets the next event."""

    def __init__(self, function_arn: str) -> None:
        self.events: queue.SimpleQueue[Invocation | None] = queue.SimpleQueue()
        self.polled = threading.Semaphore(0)
        self._served: dict[str, tuple[Invocation, threading.Timer]] = {}
        api = self

        class Api(Handler):
            def do_GET(self) -> None:
                api.polled.release()
                invocation = api.events.get()
                if invocation is None:
                    api.events.put(None)  # for the next one that asks
                    self.cut()
                    return
                invocation.start(None)
                api.watch(invocation)
                self.reply(200, *as_sent(invocation, function_arn))

            def do_POST(self) -> None:
                request_id = self.path.removeprefix(f"{API}/invocation/").partition("/")[0]
                api.end(request_id, outcome_of(self.path, self.body()))
                self.reply(202, b'{"status":"OK"}', [("Content-Type", "application/json")])

        super().__init__(Api)

    def watch(self, invocation: Invocation) -> None:
        """Let the invocation fail for its caller at its deadline."""
        seconds = invocation.timeout_seconds
        text = f"RequestId: {invocation.request_id} Error: Task timed out after {seconds:.2f} seconds"
        late = TimedOut("Sandbox.Timedout", text)
        timer = threading.Timer(seconds, self.end, (invocation.request_id, late))
        timer.daemon = True
        self._served[invocation.request_id] = invocation, timer
        timer.start()

    def end(self, request_id: str, outcome: Any) -> None:
        """End an invocation. The answer of one that has ended comes too late, and is dropped."""
        invocation, timer = self._served.pop(request_id, (None, None))
        if invocation is not None and timer is not None:
            timer.cancel()
            invocation.finish(outcome)

    def close(self) -> None:
        self.events.put(None)
        for request_id in list(self._served):
            self.end(request_id, FunctionError("Runtime.ExitError", "the environment is closed"))
        super().close()
