"""The recipe for OAuth tokens: a token that many find revoked is refreshed once, in threads, tasks and processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.engine import ROOT
from rig.loopback import Handler, LoopbackServer
from tests.support.waiting import DEADLINE, wait_until

from .pages import program_of
from .token_callers import ask

_PLAIN, _ASYNC = "## An OAuth token", "### A token in asyncio"
_CALLERS = 20


class Provider:
    """An API with tokens. Each refresh makes a new one, and the old one is refused.

    late: of the callers with t1, half are refused only when one with t2 has been served. Otherwise the refresh takes
    until all are refused.
    """

    def __init__(self, late: bool) -> None:
        self.late = late
        self.refreshes = self.arrived = self.refused = 0
        self.good = ""
        self.served: list[str] = []
        self._guard = threading.Lock()

    def refresh(self) -> str:
        with self._guard:
            self.refreshes += 1
            token = self.good = f"t{self.refreshes}"
        if token != "t1" and not self.late:
            wait_until(lambda: self.refused >= _CALLERS)
        return token

    def call(self, token: str) -> int:
        if token != self.good:
            self._refuse(token)
            return 401
        self.served.append(token)
        return 200

    def _refuse(self, token: str) -> None:
        if token == "t1":
            with self._guard:
                self.arrived += 1
                number = self.arrived
            wait_until(lambda: self.arrived >= _CALLERS)
            if self.late and number > _CALLERS // 2:
                wait_until(lambda: self.served)
        with self._guard:
            self.refused += 1

    @contextmanager
    def serving(self) -> Iterator[str]:
        provider = self

        class Answers(Handler):
            def do_POST(self) -> None:
                self.body()
                _, what, *token = self.path.split("/")
                if what == "call":
                    self.reply(provider.call(*token), b"null")
                else:
                    found = {"access_token": provider.refresh(), "expires_in": 3600}
                    self.reply(200, json.dumps(found).encode())

        with LoopbackServer(Answers) as server:
            yield server.url


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("late", [False, True], ids=["a slow refresh", "late refusals"])
@pytest.mark.parametrize(
    "headings",
    [(_PLAIN,), (_ASYNC,), (_PLAIN, _ASYNC) * 2],
    ids=["threads", "tasks", "processes of threads and of tasks"],
)
def test_callers_that_find_one_token_revoked_refresh_it_once(headings, late):
    provider = Provider(late)
    with provider.serving() as url:
        app = program_of("compute-once.md", _PLAIN)
        app.fetch_token = lambda account: ask(f"{url}/refresh")[1]
        assert app.token("acme")["access_token"] == "t1"
        provider.good = ""  # revoked
        count = _CALLERS // len(headings)
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.recipes.token_callers", heading, url, str(count)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            for heading in headings
        ]
        said = [process.communicate(timeout=4 * DEADLINE) for process in processes]
    assert [json.loads(out or "null") for out, _ in said] == [[200] * count] * len(headings), said
    assert provider.refreshes == 2
    assert provider.served == ["t2"] * _CALLERS
