"""The other clients: their properties, what they need, and a handle for their processes."""

import contextlib
import fcntl
import functools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lambda_lock import GO, JAVA, PYTHON, Schema
from rig.engine import ROOT, inherited_environment

Answer = dict[str, Any]

PATIENCE = 60.0  # seconds after which a peer that does not answer has failed
_JARS = ROOT / "build" / "interop" / "java"
_OLD_PYTHON = ROOT / ".venv-interop" / "bin" / "python"


class Missing(Exception):
    """A toolchain is missing. The message says which one, or what failed."""


@dataclass(frozen=True)
class Kind:
    """One kind of client. ``schema`` is the schema that our client needs to share a table with it."""

    name: str
    schema: Schema
    command: Callable[[], list[str]]
    keeps_rows: bool  # it can release a lock without deleting its row
    stores_data: bool  # it has a field for data
    serves_several: bool = False  # its process is slow to start, but can be closed and opened again for another test

    def __str__(self) -> str:
        return self.name


def _java() -> list[str]:
    _make("build/interop/java/.built", "java", "mvn")
    # A quick start matters more than speed later, because each of these processes lives only for seconds.
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m"]
    return ["java", *quick, "-cp", os.pathsep.join([str(_JARS / "classes"), str(_JARS / "lib" / "*")]), "Peer"]


def _old_python() -> list[str]:
    _make(".venv-interop/.installed")
    return [str(_OLD_PYTHON), "-m", "tests.interop.python_peer"]


@functools.cache
def _make(target: str, *programs: str) -> None:
    """Have make build what a peer needs, which is quick if it was built before.

    A lock makes sure that one test process does this at a time.
    """
    for program in ("make", *programs):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / ".interop-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = subprocess.run(["make", "--silent", target], cwd=ROOT, env=environment, capture_output=True, text=True)
    if made.returncode != 0:
        raise Missing(f"make {target} failed: {(made.stdout + made.stderr)[-1000:]}")


JAVA_CLIENT = Kind("java", JAVA, _java, keeps_rows=True, stores_data=True, serves_several=True)
PYTHON_CLIENT = Kind("python", PYTHON, _old_python, keeps_rows=False, stores_data=False)
GO_STAND_IN = Kind("go", GO, lambda: [sys.executable, "-m", "tests.interop.go_peer"], keeps_rows=True, stores_data=True)
KINDS = (JAVA_CLIENT, PYTHON_CLIENT, GO_STAND_IN)


def ours() -> list[str]:
    return [sys.executable, "-m", "tests.interop.our_peer"]


class Peer:
    """The process of a client. Commands are answered one after another."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        environment, pipe = inherited_environment() | environment, subprocess.PIPE
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=self._log, text=True
        )
        self._answers: queue.Queue[Answer | None] = queue.Queue()
        self._unanswered = 1  # the first answer says that the process is ready
        self._undisturbed = True
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, do: str, **options: Any) -> Answer:
        """Send a command and wait for its answer."""
        self.tell(do, **options)
        return self.answer()

    def tell(self, do: str, **options: Any) -> None:
        """Send a command. `answer` waits for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **options}) + "\n")
        self._process.stdin.flush()
        self._unanswered += 1

    def answer(self) -> Answer:
        answer = self._answers.get(timeout=PATIENCE)
        assert answer is not None, f"the peer ended; it wrote:\n{self._written()}"
        self._unanswered -= 1
        return answer

    def retire(self) -> bool:
        """Let the process close its clients, so that it can be opened again.

        Returns False if it was disturbed or has not answered everything.
        """
        if self._process.poll() is not None or self._unanswered or not self._undisturbed:
            return False
        try:
            return self.ask("close") == {"closed": True}
        except (AssertionError, OSError, queue.Empty):
            return False

    def pause(self) -> None:
        self._undisturbed = False
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process. As in a crash, nothing is released."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # the process died before it read the last command
            self._process.stdin.close()
        self._log.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def _written(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2000:]
