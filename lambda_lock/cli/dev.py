"""`lambda-lock dev`: a DynamoDB on this machine, for as long as the command runs.

The engine is ministack, which the extra `local` installs. It is a process of its own, with DynamoDB and no other
service, and listens on 127.0.0.1 only. `guard` keeps web pages from it.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..transport import Credentials, HttpsTransport
from . import exits, guard
from .exits import Failure, end_with_parent

HOST = "127.0.0.1"
REGION = "us-east-1"
STRONGER = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_DYNAMODB")  # override ours
_KEY = "test"  # the engine takes any credentials
_ATTEMPTS = 5  # to start on a free port: another program may take it in between
_START = 60.0  # seconds until it answers, on a busy machine
_STOP = 5.0  # seconds from SIGTERM to SIGKILL
_LOOK = 0.05  # seconds between two looks at an engine that is starting


def engine_command() -> list[str]:
    """The engine in this Python environment, or else a `ministack` on the PATH. Raises Failure if there is neither."""
    if find_spec("ministack") is not None:
        return [sys.executable, "-m", "ministack"]
    program = shutil.which("ministack")
    if program is None:
        raise Failure(
            "the local engine is missing: pip install 'lambda-lock[local,cli]'. It pins botocore: beside the "
            "extra 'durable' or another botocore, install it apart, and dev finds it: pipx install ministack",
            exits.CONFIGURATION,
        )
    return [program]


def usable_port(port: int | None) -> int:
    """The port of 127.0.0.1, or a free one for None. Raises Failure if no server can listen on it."""
    try:
        with socket.create_server((HOST, port or 0)) as probe:
            return int(probe.getsockname()[1])
    except PermissionError:
        raise Failure(f"port {port} needs more rights: use a port above 1023", exits.CONFIGURATION) from None
    except OSError:
        taken = f"port {port} is taken by another program: use another --port, or none for a free one"
        raise Failure(taken, exits.UNAVAILABLE) from None


class Engine(NamedTuple):
    """An engine that runs."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to use this engine."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,  # the one that boto3 reads
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _KEY,
        }

    def transport(self) -> HttpsTransport:
        """A way to this engine that depends on nothing in our own environment."""
        return HttpsTransport(REGION, self.url, Credentials(_KEY, _KEY))


@contextlib.contextmanager
def running(port: int | None) -> Iterator[Engine]:
    """Run an engine while the block runs. Then its files are removed.

    port: the port on 127.0.0.1; None for a free one.

    Raises Failure if the engine is not installed, the port is taken, or the engine does not start, or not as it should.
    """
    command = engine_command()
    with tempfile.TemporaryDirectory(prefix="lambda-lock-dev-") as name:
        folder = Path(name)
        for _ in range(_ATTEMPTS if port is None else 1):
            tried = usable_port(port)
            engine = Engine(_spawn(command, folder, tried), tried)
            try:
                if _becomes_ready(engine, folder):
                    yield engine
                    return
            finally:
                engine.process.terminate()
                try:
                    engine.process.wait(_STOP)
                except subprocess.TimeoutExpired:
                    engine.process.kill()
                engine.process.wait()
        said = (folder / "log").read_text(errors="replace")[-2000:].strip()
        raise Failure(f"the local engine did not start. It wrote: {said or 'nothing'}", exits.UNAVAILABLE)


def _spawn(command: list[str], folder: Path, port: int) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            env=guard.environment(folder, os.environ) | {"GATEWAY_PORT": str(port)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches us alone, and we end the engine
            # No thread exists yet that a fork could harm. SIGKILL, as the engine has nothing to finish.
            preexec_fn=partial(end_with_parent, os.getpid(), signal.SIGKILL) if sys.platform == "linux" else None,
        )


def _becomes_ready(engine: Engine, folder: Path) -> bool:
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline and engine.process.poll() is None:
        with (
            contextlib.suppress(OSError, http.client.HTTPException),  # not listening yet
            contextlib.closing(http.client.HTTPConnection(HOST, engine.port, timeout=1.0)) as connection,
        ):
            connection.request("GET", guard.HEALTH)
            # If not, another program took the port, and ours is about to end.
            if connection.getresponse().status == 200 and _is_guarded(engine, folder):
                return True
        time.sleep(_LOOK)
    return False


def _is_guarded(engine: Engine, folder: Path) -> bool:
    """Whether what refuses web pages on the port is ours. Raises Failure if it answers them: then it must not run."""
    with contextlib.closing(http.client.HTTPConnection(HOST, engine.port, timeout=_START)) as connection:
        connection.request("GET", guard.HEALTH, headers=guard.PAGE)
        answer = connection.getresponse()
        if answer.status == 403:
            return guard.is_ours(answer.read(), folder)
    raise Failure(
        "the local engine would answer any web page, because this version of ministack cannot be kept from it: "
        "install ministack 1.5.33",
        exits.CONFIGURATION,
    )


@contextlib.contextmanager
def until_stopped() -> Iterator[None]:
    """End the block quietly at Ctrl-C, SIGTERM or SIGHUP. Signals that come later do not disturb its clean-up."""

    def stop(number: int, _: object) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        return  # the regular way to end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
