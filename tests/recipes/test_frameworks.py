"""The recipes for web frameworks and their commands, on the real frameworks."""

import io
import json
from contextlib import suppress
from typing import Any

import pytest

from lambda_lock import LockClient, LockLostError
from rig import events
from tests.recipes.pages import program
from tests.support.context import Context
from tests.support.signals import signals_restored

pytestmark = pytest.mark.usefixtures("table")


def _request(account: str) -> dict[str, Any]:
    event = events.load("api_gateway_http")
    path = f"/accounts/{account}/payout"
    event |= {"rawPath": path, "routeKey": "$default"}
    event["requestContext"]["http"] |= {"method": "POST", "path": path}
    return event


def _through_fastapi(app: Any, account: str) -> tuple[int, dict[str, Any], str | None]:
    answer = app.handler(_request(account), Context())
    return answer["statusCode"], json.loads(answer["body"]), answer["headers"].get("retry-after")


def _through_flask(app: Any, account: str) -> tuple[int, dict[str, Any], str | None]:
    answer = app.app.test_client().post(f"/accounts/{account}/payout")
    return answer.status_code, answer.get_json(), answer.headers.get("Retry-After")


@pytest.mark.parametrize("framework", ["fastapi", "flask"])
def test_an_endpoint_answers_409_while_the_account_is_busy_and_works_for_others(framework):
    if framework == "fastapi":
        app, ask = program("fastapi"), _through_fastapi
    else:
        app, ask = program("fastapi", 1), _through_flask
    paid: list[str] = []
    app.pay = paid.append
    with LockClient() as client:
        assert ask(app, "7") == (200, {"paid": "7"}, None)
        with client.acquire("account#7"):
            status, body, wait = ask(app, "7")
            assert (status, body) == (409, {"error": "busy"})
            assert int(wait or 0) >= 1
            assert ask(app, "8")[0] == 200
        assert ask(app, "7")[0] == 200
        client.acquire("account#7", wait=0).release()
    assert paid == ["7", "8", "7"]


def _command(app: Any) -> str:
    said = io.StringIO()
    with signals_restored():  # it handles SIGTERM
        app.Command(stdout=said).handle()
    return said.getvalue()


def test_a_command_does_nothing_while_it_runs_elsewhere_and_leaves_the_lock_free():
    app = program("django")
    with LockClient() as client:
        with client.acquire("rebuild-index"):
            assert _command(app) == "It is being rebuilt elsewhere.\n"
        assert _command(app) == "customers: done\norders: done\n"
        app.rebuild = lambda part: 1 / 0
        with pytest.raises(ZeroDivisionError):
            _command(app)
        lock = client.try_acquire("rebuild-index")
        assert lock is not None
        lock.release()


def test_a_command_stops_before_its_next_part_once_the_lock_is_lost():
    app, client = program("django"), LockClient()
    done: list[str] = []

    def rebuild(part: str) -> None:
        done.append(part)
        (lock,) = client.held()
        with LockClient() as other:
            other.release(key=lock.key, owner=lock.owner, fencing_token=lock.fencing_token)
        with suppress(LockLostError):
            lock.heartbeat()  # as the next one in the background

    app.LockClient, app.rebuild = lambda: client, rebuild
    with pytest.raises(LockLostError):
        _command(app)
    assert done == ["customers"]
