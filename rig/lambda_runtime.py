"""Lambda environments on this machine: the unmodified awslambdaric, against a Runtime API served here.

    with LambdaEnvironment("orders.handler", folder, environment=engine.environment()) as environment:
        print(environment.invoke({"id": 1}, timeout_seconds=3).result())

As on Lambda: a process serves one invocation after the other; the clock of an invocation starts when the process is
given the event; a process that has not answered at the deadline is killed with all its children, and so is one whose
main process ended; the next invocation then finds a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from .engine import REGION, ROOT, inherited_environment
from .loopback import Handler, LoopbackServer

API = "/2018-06-01/runtime"
INIT_SECONDS = 10.0  # Lambda's own limit
_CLOSING_SECONDS = 5.0


class FunctionError(Exception):
    """The invocation failed, as Lambda reports it to its caller.

    type: errorType; for what Lambda itself finds, "Runtime.ExitError" or "Sandbox.Timedout". trace: stackTrace.
    """

    def __init__(self, type: str, message: str, trace: list[str] | None = None) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
        self.trace = trace or []


class TimedOut(FunctionError):
    """The invocation had not answered at its deadline; its process was killed."""


class Invocation:
    """One invocation. ``started_at``, ``deadline`` (epoch s) and ``pid`` are None until a process has the event."""

    def __init__(self, event: Any, timeout_seconds: float, request_id: str) -> None:
        self.event = event
        self.timeout_seconds = timeout_seconds
        self.request_id = request_id
        self.started_at: float | None = None
        self.deadline: float | None = None
        self.pid: int | None = None
        self._done = threading.Event()
        self._outcome: Any = None

    def done(self) -> bool:
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends, in any way. Returns False if it has not ended after so many seconds."""
        return self._done.wait(timeout)

    def result(self, timeout: float | None = 60.0) -> Any:
        """The handler's answer. Raises FunctionError or TimedOut; TimeoutError if it is not done in so many seconds."""
        if not self._done.wait(timeout):
            raise TimeoutError(f"invocation {self.request_id} is not done after {timeout} s")
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def start(self, pid: int | None) -> None:
        """Let its clock start: the process ``pid`` is given the event, or one that is not known."""
        self.pid = pid
        self.started_at = time.time()
        self.deadline = self.started_at + self.timeout_seconds

    def finish(self, outcome: Any) -> None:
        """Let it end: with an answer, or with an error to raise."""
        self._outcome = outcome
        self._done.set()


def awslambdaric(handler: str, python: str = sys.executable) -> list[str]:
    """The command that runs a handler as Lambda's Python runtime does."""
    return [python, "-m", "awslambdaric", handler]


def variables_of(handler: str, folder: Path, function_name: str, memory_mb: int = 128) -> dict[str, str]:
    """The environment in which Lambda starts a function."""
    return inherited_environment() | {
        "_HANDLER": handler,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_NAME": function_name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mb),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function_name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": f"[$LATEST]{uuid.uuid4().hex}",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "LAMBDA_TASK_ROOT": str(folder),
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "TZ": ":UTC",
    }


def arn_of(function_name: str) -> str:
    return f"arn:aws:lambda:{REGION}:000000000000:function:{function_name}"


def as_sent(invocation: Invocation, function_arn: str) -> tuple[bytes, list[tuple[str, str]]]:
    """The body and the headers with which the Runtime API gives a process an invocation that has started."""
    assert invocation.deadline is not None
    headers = [
        ("Content-Type", "application/json"),
        ("Lambda-Runtime-Aws-Request-Id", invocation.request_id),
        ("Lambda-Runtime-Deadline-Ms", str(int(invocation.deadline * 1000))),
        ("Lambda-Runtime-Invoked-Function-Arn", function_arn),
        ("Lambda-Runtime-Trace-Id", f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};Sampled=0"),
    ]
    return json.dumps(invocation.event).encode(), headers


def outcome_of(path: str, body: bytes) -> Any:
    """What a process posted to ``path``: the handler's answer, or its error as a FunctionError."""
    return _answer(body) if path.endswith("/response") else _function_error(body)


class LambdaEnvironment:
    """One execution environment of a function, as a context manager.

    handler: "module.function", found in ``folder``. environment: the function's variables. freeze_between: stop the
    process whenever no invocation is under way, as Lambda does. Lines that it writes are kept in ``lines``.

    command: what is started instead of awslambdaric, such as an adapter before a web server. handler is then only
    written into the environment, as Lambda does.

    kill_late_seconds: how long after its deadline a process that has not answered is killed. A machine that was frozen
    goes on for a moment before it is found to be late. on_restore: called while a SnapStart function waits between
    its snapshot and its restore. It may freeze the function meanwhile.
    """

    def __init__(
        self,
        handler: str,
        folder: Path | str,
        *,
        environment: Mapping[str, str] | None = None,
        function_name: str = "function",
        memory_mb: int = 128,
        freeze_between: bool = False,
        python: str = sys.executable,
        command: Sequence[str] | None = None,
        init_seconds: float = INIT_SECONDS,
        kill_late_seconds: float = 0.0,
        on_restore: Callable[[], None] | None = None,
    ) -> None:
        self.handler = handler
        self.folder = Path(folder).resolve()
        self.function_name = function_name
        self.freeze_between = freeze_between
        self.cold_starts = 0
        self._command = command or awslambdaric(handler, python)
        self._init_seconds = init_seconds
        self._kill_late_seconds = kill_late_seconds
        self._on_restore = on_restore
        self._environment = variables_of(handler, self.folder, function_name, memory_mb) | dict(environment or {})
        self._output = Output()
        self._guard = threading.Lock()
        self._closed = False
        self._runtime: _Runtime | None = None
        self._current: Invocation | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process that serves invocations; None before the first, and once it has ended."""
        runtime = self._runtime
        return runtime.pid if runtime and runtime.alive else None

    @property
    def lines(self) -> list[str]:
        """What its processes have written to stdout and stderr so far, without line ends."""
        return self._output.lines

    def wait_for_line(self, text: str, timeout: float = 30.0, after: int = 0) -> str:
        """The first line that contains ``text``, past or future, but for the first ``after`` lines.

        TimeoutError if none comes in so many seconds.
        """
        return self._output.wait_for(text, timeout, after)

    def invoke(self, event: Any, timeout_seconds: float = 3.0, request_id: str | None = None) -> Invocation:
        """Start an invocation and return at once. RuntimeError while another is under way: there is one at a time."""
        if self._current is not None and not self._current.done():
            raise RuntimeError(f"invocation {self._current.request_id} is under way: use another LambdaEnvironment")
        invocation = Invocation(event, timeout_seconds, request_id or str(uuid.uuid4()))
        self._current = invocation
        threading.Thread(target=self._serve, args=(invocation,), daemon=True).start()
        return invocation

    def freeze(self) -> None:
        """Stop the process and its children where they are (SIGSTOP), and return when they have stopped."""
        if self._runtime:
            self._runtime.freeze()

    def thaw(self) -> None:
        if self._runtime:
            self._runtime.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process and its children at once; an invocation under way fails, the next starts a new process."""
        if self._runtime:
            self._runtime.kill()

    def close(self) -> None:
        """Kill what runs, and reap it."""
        with self._guard:
            self._closed = True  # an invocation still on its way to a process finds none
        if self._runtime is not None:
            self._runtime.close()
        if self._current is not None:
            self._current.wait(_CLOSING_SECONDS)

    def _serve(self, invocation: Invocation) -> None:
        outcome: Any
        try:
            runtime = self._ready_runtime()
            outcome = runtime.run(invocation, arn_of(self.function_name), self._kill_late_seconds)
            if self.freeze_between:
                runtime.freeze()
        except FunctionError as error:
            self.kill()
            outcome = error
        except BaseException as error:
            outcome = error
            raise
        finally:
            invocation.finish(outcome)

    def _ready_runtime(self) -> _Runtime:
        """The process, waiting for an event: the one there is, or a new one."""
        if self._runtime is not None:
            self._runtime.signal(signal.SIGCONT)
            if self._runtime.alive:
                return self._runtime
            self._runtime.close()
        with self._guard:
            if self._closed:
                raise FunctionError("Runtime.ExitError", "the environment is closed")
            self.cold_starts += 1
            self._runtime = _Runtime(self._command, self.folder, self._environment, self._output, self._on_restore)
        self._runtime.wait_until_idle(self._init_seconds)
        return self._runtime


class Output:
    """The lines that processes write, gathered as they come."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._changed = threading.Condition()

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    def add(self, line: str) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def wait_for(self, text: str, timeout: float, after: int) -> str:
        def found() -> str | None:
            return next((line for line in self._lines[after:] if text in line), None)

        with self._changed:
            line = self._changed.wait_for(found, timeout)
            if line is None:
                written = "\n".join(self._lines[-20:])
                raise TimeoutError(f"no line with {text!r} within {timeout} s; the last lines were:\n{written}")
            return line


class _Runtime:
    """One process with its Runtime API."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        output: Output,
        on_restore: Callable[[], None] | None,
    ) -> None:
        self._api = _RuntimeApi(on_restore)
        self._guard = threading.Lock()
        self._alive = True
        self._ended = threading.Event()
        self._api.__enter__()
        self._process = subprocess.Popen(
            command,
            env=dict(environment) | {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._api.port}"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,  # with universal newlines: awslambdaric ends the lines of a traceback with \r
            errors="replace",
            start_new_session=True,  # its process group is what is frozen and killed
        )
        self._reader = threading.Thread(target=self._read, args=(output,), daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._alive

    def run(self, invocation: Invocation, function_arn: str, kill_late_seconds: float) -> Any:
        """Give the waiting process an event, and return the handler's answer, or its error as a FunctionError.

        Raises FunctionError where the process did not answer: it has ended, or it must be killed.
        """
        patience = time.monotonic() + invocation.timeout_seconds + kill_late_seconds
        invocation.start(self.pid)
        self._api.hand(invocation, function_arn)
        kind, body = self._word(patience)
        if kind == "silence":
            seconds = f"{invocation.timeout_seconds:.2f} seconds"
            raise TimedOut(
                "Sandbox.Timedout", f"RequestId: {invocation.request_id} Error: Task timed out after {seconds}"
            )
        if kind == "exit":
            raise FunctionError("Runtime.ExitError", f"RequestId: {invocation.request_id} Error: {body}")
        outcome = _answer(body) if kind == "answer" else _function_error(body)
        if self._word(time.monotonic() + _CLOSING_SECONDS)[0] != "idle":
            self.kill()  # it answered and then ended, or hangs: it serves nothing any more
        return outcome

    def wait_until_idle(self, seconds: float) -> None:
        """Wait for the process to ask for its first event. Raises FunctionError where it does not."""
        kind, body = self._word(time.monotonic() + seconds)
        if kind == "silence":
            raise TimedOut("Sandbox.Timedout", f"Error: Init timed out after {seconds:.2f} seconds")
        if kind == "exit":
            raise FunctionError("Runtime.ExitError", f"Error: {body}")
        if kind == "error":
            raise _function_error(body)

    def signal(self, number: signal.Signals) -> None:
        with self._guard:
            if self._alive:
                os.killpg(self.pid, number)

    def freeze(self) -> None:
        """Stop the process group, and return when the process has stopped, or has been thawed by an invocation."""
        self.signal(signal.SIGSTOP)
        patience = time.monotonic() + _CLOSING_SECONDS
        reading = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        with contextlib.suppress(ChildProcessError):  # it has ended
            while os.waitid(os.P_PID, self.pid, reading) is None and time.monotonic() < patience:
                time.sleep(0.001)

    def kill(self) -> None:
        """Kill the process group, and return when the process is reaped and all its lines are read."""
        self.signal(signal.SIGKILL)
        self._ended.wait(_CLOSING_SECONDS)

    def close(self) -> None:
        self.kill()
        self._api.close()

    def _word(self, patience: float) -> tuple[str, Any]:
        """What comes from the process next: "idle", "answer", "error" or "exit", or else "silence"."""
        try:
            return self._api.words.get(timeout=max(0.0, patience - time.monotonic()))
        except queue.Empty:
            return "silence", None

    def _read(self, output: Output) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                output.add(line.rstrip("\n"))

    def _watch(self) -> None:
        # Not reaped yet, the process keeps its number, so that the group killed cannot be anybody else's.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._guard:
            os.killpg(self.pid, signal.SIGKILL)  # nothing of an environment outlives its main process
            self._alive = False
            code = self._process.wait()
        self._reader.join(_CLOSING_SECONDS)
        how = f"exit status {code}" if code >= 0 else f"signal: {signal.Signals(-code).name}"
        self._api.words.put(("exit", f"Runtime exited with error: {how}"))
        self._ended.set()


class _RuntimeApi(LoopbackServer):
    """The Runtime API for one process: hands it events, and turns what it posts into words."""

    def __init__(self, on_restore: Callable[[], None] | None) -> None:
        self.words: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[tuple[bytes, list[tuple[str, str]]] | None] = queue.SimpleQueue()
        api = self

        class Api(Handler):
            def do_GET(self) -> None:
                if self.path == f"{API}/restore/next":  # a SnapStart function: its snapshot is taken, and restored
                    if on_restore:
                        on_restore()
                    self.reply(200)
                    return
                api.words.put(("idle", None))
                event = api._events.get()
                if event is None:
                    self.cut()
                    return
                self.reply(200, *event)

            def do_POST(self) -> None:
                body = self.body()
                api.words.put(("answer" if self.path.endswith("/response") else "error", body))
                self.reply(202, b'{"status":"OK"}', [("Content-Type", "application/json")])

        super().__init__(Api)

    def hand(self, invocation: Invocation, function_arn: str) -> None:
        self._events.put(as_sent(invocation, function_arn))

    def close(self) -> None:
        self._events.put(None)
        super().close()


def _answer(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:  # a process without memory may send nothing
        return FunctionError("Runtime.InvalidResponse", f"Error: the answer is not JSON: {body[:100]!r}")


def _function_error(body: bytes) -> FunctionError:
    try:
        error = json.loads(body)
    except ValueError:
        return FunctionError("Runtime.InvalidResponse", f"Error: the error is not JSON: {body[:100]!r}")
    return FunctionError(error.get("errorType", ""), error.get("errorMessage", ""), error.get("stackTrace"))
