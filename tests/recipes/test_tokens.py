"""The recipe for OAuth tokens: a token that many find revoked is refreshed once, in threads, tasks and processes."""

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.elsewhere import in_thread, ran
from tests.support.waiting import wait_until

from .pages import program_of

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

    def refresh(self, account: str) -> dict[str, Any]:
        with self._guard:
            self.refreshes += 1
            token = self.good = f"t{self.refreshes}"
        if token != "t1" and not self.late:
            wait_until(lambda: self.refused >= _CALLERS)
        return {"access_token": token, "expires_in": 3600}

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


def callers(heading: str, provider: Provider, count: int) -> list[int]:
    """What so many callers are answered, on threads or as tasks. Their program is their own, as in another process."""
    app = program_of("compute-once.md", heading)
    with ThreadPoolExecutor(2 * count) as pool:
        if heading == _PLAIN:
            app.fetch_token = provider.refresh
            return list(pool.map(lambda _: app.call("acme", provider.call), range(count)))

        def on_a_thread(function: Callable[[str], Any]) -> Any:
            return lambda argument: asyncio.get_running_loop().run_in_executor(pool, function, argument)

        async def call_all() -> list[int]:
            return await asyncio.gather(*(app.call("acme", on_a_thread(provider.call)) for _ in range(count)))

        app.fetch_token = on_a_thread(provider.refresh)
        return asyncio.run(call_all())


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("late", [False, True], ids=["a slow refresh", "late refusals"])
@pytest.mark.parametrize(
    "headings", [(_PLAIN,), (_ASYNC,), (_PLAIN, _ASYNC) * 2], ids=["threads", "tasks", "threads and tasks"]
)
def test_callers_that_find_one_token_revoked_refresh_it_once(headings, late):
    provider = Provider(late)
    app = program_of("compute-once.md", _PLAIN)
    app.fetch_token = provider.refresh
    assert app.token("acme")["access_token"] == "t1"
    provider.good = ""  # revoked
    count = _CALLERS // len(headings)
    ends = [in_thread(functools.partial(callers, heading, provider, count)) for heading in headings]
    assert [end() for end in ends] == [[200] * count] * len(headings)
    assert provider.refreshes == 2
    assert provider.served == ["t2"] * _CALLERS


_OF_A_PROCESS = """
import os, sys
from pathlib import Path
from tests.recipes.pages import program_of
from tests.support.waiting import wait_until

folder = Path(sys.argv[1])

def fetch_token(account):
    print("refreshed")
    return {"access_token": "t2", "expires_in": 3600}

def request(token):
    (folder / f"{token} {os.getpid()}").touch()
    wait_until(lambda: len(list(folder.glob("t1 *"))) == 4)
    return 200 if token == "t2" else 401

app = program_of("compute-once.md", "## An OAuth token")
app.fetch_token = fetch_token
assert app.call("acme", request) == 200
"""


@pytest.mark.usefixtures("table")
def test_processes_that_find_one_token_revoked_refresh_it_once(tmp_path):
    app = program_of("compute-once.md", _PLAIN)
    app.fetch_token = lambda account: {"access_token": "t1", "expires_in": 3600}
    assert app.token("acme")["access_token"] == "t1"
    ends = [in_thread(lambda: ran(_OF_A_PROCESS, str(tmp_path))) for _ in range(4)]
    assert "".join(end() for end in ends) == "refreshed\n"
