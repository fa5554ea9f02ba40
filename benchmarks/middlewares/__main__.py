"""Repeated requests, answered by lambda_lock, Powertools and published middlewares: make compare-middlewares

Each is a server of its own, which is asked the same over HTTP. With ``--write`` the table goes into
docs/idempotent-apis.md.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rig.engine import ROOT, Ministack, client_environment, free_port

from .serve import CONTESTANTS, LEFT, OF_REDIS

FOLDER = ROOT / ".venv-middlewares"
PYTHON = FOLDER / "bin" / "python"
PAGE = ROOT / "docs" / "idempotent-apis.md"
BEGIN, END = "<!-- middlewares: begin -->\n", "<!-- middlewares: end -->\n"
PATIENCE = 30.0  # seconds for what should have happened long before
AFTER = LEFT + 7  # seconds after a kill, when every claim that ends has ended


class Said(NamedTuple):
    """An answer, and how often the endpoint was asked meanwhile."""

    status: int
    headers: dict[str, str]
    body: bytes
    ran: int

    @property
    def content(self) -> object:
        """The body, as what it says."""
        return json.loads(self.body) if self.headers.get("content-type") == "application/json" else self.body

    @property
    def outcome(self) -> str:
        if self.ran:
            return "carried out again"
        if raised := self.headers.get("x-raised"):
            return f"502 ({raised})"
        return f"{self.status}{', Retry-After' if 'retry-after' in self.headers else ''}"


class Api:
    """A server, which can be killed and started again."""

    def __init__(self, command: list[str], folder: Path, redis: str, environment: dict[str, str]) -> None:
        self.folder = folder
        self.case = ""  # part of each key
        self._command = command
        self._rest = [str(folder), redis]
        self._environment = environment
        self._start()

    def _start(self) -> None:
        self._port = free_port()
        self._process = subprocess.Popen(
            [*self._command, str(self._port), *self._rest],
            cwd=ROOT,
            env=self._environment,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._listens)

    def _listens(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"{' '.join(self._command[2:])} ended with {self._process.returncode}")
        with contextlib.suppress(OSError):
            http.client.HTTPConnection("127.0.0.1", self._port, timeout=1).connect()
            return True
        return False

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        self.kill()
        self._start()

    def ran(self) -> int:
        done = self.folder / "done"
        return len(done.read_text().splitlines()) if done.exists() else 0

    def ask(self, key: str | None, order: str = '{"id": 1, "n": 2}', path: str = "/orders") -> Said:
        before = self.ran()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        named = {} if key is None else {"Idempotency-Key": f"{self.case}-{key}"}
        try:
            connection.request("POST", path, order.encode(), {"Content-Type": "application/json"} | named)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Said(answer.status, found, answer.read(), self.ran() - before)
        finally:
            connection.close()

    @contextlib.contextmanager
    def running(self, key: str) -> Iterator[None]:
        """A request is being carried out in the block, and ends after it. It may be killed."""
        before = self.ran()

        def ask() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.ask(key, '{"id": 1, "waits": true}')

        first = threading.Thread(target=ask)
        first.start()
        wait_until(lambda: self.ran() > before)
        try:
            yield
        finally:
            (self.folder / "go-on").touch()
            first.join(PATIENCE)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("what should have happened long before has not")
        time.sleep(0.02)


# The cases


def repeated(api: Api) -> str:
    return _kept(api, '{"id": 1}')


def binary(api: Api) -> str:
    return _kept(api, '{"id": 1, "binary": true}')


def _kept(api: Api, order: str) -> str:
    first, again = api.ask("k", order), api.ask("k", order)
    if again.ran:
        return again.outcome
    kept = {
        "status": first.status == again.status,
        "headers": all(first.headers[name] == again.headers.get(name) for name in ("location", "x-number")),
        "body": first.content == again.content,
    }
    marked = "marked" if "idempotent-replayed" in again.headers else "not marked"
    lost = [name for name, same in kept.items() if not same]
    return f"{', '.join(name for name in kept if name not in lost)}; {marked}" + (
        f"; lost: {', '.join(lost)}" if lost else ""
    )


def reordered(api: Api) -> str:
    api.ask("k", '{"id": 1, "n": 2}')
    again = api.ask("k", '{ "n": 2, "id": 1 }')
    return "the same answer" if again.status == 201 and not again.ran else again.outcome


def other_payload(api: Api) -> str:
    first, again = api.ask("k"), api.ask("k", '{"id": 1, "n": 3}')
    return "the first answer" if (first.content, again.ran) == (again.content, 0) else again.outcome


def other_route(api: Api) -> str:
    first, again = api.ask("k"), api.ask("k", path="/refunds")
    return "the first route's answer" if (first.content, again.ran) == (again.content, 0) else again.outcome


def running(api: Api) -> str:
    with api.running("k"):
        said = []
        other = threading.Thread(target=lambda: said.append(api.ask("k", '{"id": 1, "waits": true}')))
        before = api.ran()
        other.start()
        wait_until(lambda: bool(said) or api.ran() > before)
        if not said:
            (api.folder / "go-on").touch()
    other.join(PATIENCE)
    return said[0].outcome if not said[0].ran else "both carried out at once"


def unavailable(api: Api) -> str:
    api.ask("k", '{"id": 1, "status": 503}')
    again = api.ask("k", '{"id": 1, "status": 503}')
    return again.outcome if again.ran else f"the {again.status} is kept"


def fails(api: Api) -> str:
    api.ask("k", '{"id": 1, "fails": true}')
    return api.ask("k", '{"id": 1, "fails": true}').outcome


def no_key(api: Api) -> str:
    said = api.ask(None)
    return "carried out" if said.ran else said.outcome


def killed(api: Api) -> str:
    with api.running("k"):
        api.kill()
    died = time.monotonic()
    api.restart()
    order = '{"id": 1, "waits": true}'
    at_once = again = api.ask("k", order)
    while not again.ran and time.monotonic() < died + AFTER:
        time.sleep(0.5)
        again = api.ask("k", order)
    if at_once.ran:
        return "at once: carried out again"
    return f"at once: {at_once.outcome}; later: {again.outcome}"


CASES: dict[str, Callable[[Api], str]] = {
    "the same again": repeated,
    "the same, with a binary body": binary,
    "the same JSON in another order": reordered,
    "another payload": other_payload,
    "another route": other_route,
    "while the first is running": running,
    "after a 503": unavailable,
    "after an exception": fails,
    "without a key": no_key,
    "after the process was killed": killed,
}


def play(name: str, front: str, python: str = str(PYTHON)) -> dict[str, str]:
    """What one contestant does in each case. python: an interpreter that has its packages."""
    found = {}
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(Ministack())
        engine.create_table("locks")
        engine.create_table("powertools", "id")
        own = {"PYTHONPATH": str(ROOT), "LAMBDA_LOCK_TABLE": "locks"}
        environment = os.environ | client_environment(engine.url) | own
        command, port = [python, "-m", "benchmarks.middlewares.serve"], str(free_port())
        if name in OF_REDIS:
            redis = subprocess.Popen([*command, "redis", "", port, "", ""], cwd=ROOT, env=environment)
            stack.callback(redis.wait)
            stack.callback(redis.kill)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        api = Api([*command, name, front], folder, f"redis://127.0.0.1:{port}/0", environment)
        stack.callback(api.kill)
        for api.case, ask in CASES.items():
            found[api.case] = ask(api)
            (folder / "go-on").unlink(missing_ok=True)
    return found


def together(played: dict[str, dict[str, str]]) -> dict[str, str]:
    """One column of several fronts. Where they did different things, they are named."""
    return {
        case: next(iter(alike))
        if len(alike := {one[case] for one in played.values()}) == 1
        else "; ".join(f"{front}: {one[case]}" for front, one in played.items())
        for case in CASES
    }


def versions() -> dict[str, str]:
    """Of what is installed in the environment of the comparison."""
    code = "import importlib.metadata as m; print(*(f'{d.name}={d.version}' for d in m.distributions()))"
    found = subprocess.run([PYTHON, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    return {name.lower().replace("_", "-"): version for name, _, version in (each.partition("=") for each in found)}


def table(result: dict[str, dict[str, str]], known: dict[str, str]) -> str:
    heads = {name: known.get({"Powertools": "aws-lambda-powertools"}.get(name, name), "") for name in result}
    lines = [f"| the second request | {' | '.join(f'{name} {version}'.strip() for name, version in heads.items())} |"]
    lines += ["|---" * (len(heads) + 1) + "|"]
    lines += [f"| {case} | {' | '.join(found[case] for found in result.values())} |" for case in CASES]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.middlewares", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    if not PYTHON.exists():
        sys.exit(f"{PYTHON.relative_to(ROOT)} is missing: make compare-middlewares installs it")
    played = {name: {front: play(name, front) for front in fronts} for name, fronts in CONTESTANTS.items()}
    found = table({name: together(one) for name, one in played.items()}, versions())
    print(found)
    if arguments.write:
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        PAGE.write_text(before + BEGIN + found + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
