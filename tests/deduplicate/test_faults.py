"""Lost replies, no replies, and owners who are late: never done by who does not own it, and nothing is hidden."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lambda_lock import (
    LockClient,
    LockConfigurationError,
    LockFormatError,
    current_dedup,
    deduplicate,
)
from rig.wire import Answer, Request
from tests.aio.conftest import ended, start, until
from tests.support.clocks import LeapingClock
from tests.support.decorated import Boom, done
from tests.support.elsewhere import in_thread

from .conftest import FOREVER, Calls, Stop, add, commit, is_done, value, warnings

pytestmark = pytest.mark.usefixtures("table")

EVENT = {"id": "e-1"}


def completes(request: Request) -> bool:
    return "completedUntil" in request.body.get("ExpressionAttributeNames", {}).values() and "ReturnValues" not in (
        request.body
    )


# Claims


@pytest.mark.parametrize("completion", [False, True])
@pytest.mark.parametrize("fault", ["drop_reply", "drop_request"])
def test_a_claim_or_completion_that_is_lost_is_sent_again_and_the_event_runs_once(
    fault, completion, once, wire, rows, caplog
):
    calls = Calls("done", by=once("{id}", scope="", result="json"))
    getattr(wire, fault)("UpdateItem", when=completes if completion else None)
    assert calls(EVENT) == "done"
    assert wire.operations == ["UpdateItem"] * 3
    assert is_done(rows, "e-1")
    assert calls(EVENT) == "done"
    assert calls.count == 1
    assert warnings(caplog) == []


# Completions


class Interrupting:
    """A serializer that is interrupted, as by Ctrl-C, the first time."""

    def __init__(self) -> None:
        self.interrupts = 1

    def dump(self, value: Any) -> Any:
        if self.interrupts:
            self.interrupts -= 1
            raise Stop
        return value

    def load(self, value: Any) -> Any:
        return value


def test_an_event_whose_result_is_interrupted_on_its_way_to_the_row_is_released_and_runs_again(once, rows):
    calls = Calls("done", by=once("{id}", scope="", result=Interrupting()))
    with pytest.raises(Stop):
        calls(EVENT)
    assert not is_done(rows, "e-1")
    with pytest.raises(LookupError):
        current_dedup()
    assert calls(EVENT) == calls(EVENT) == "done"
    assert calls.count == 2


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_completion_without_any_answer_is_logged_and_the_result_returned(
    carried_out, once, wire, rows, impatient, caplog
):
    handler = once("{id}", scope="")(lambda event: "result")
    (wire.drop_reply if carried_out else wire.drop_request)("UpdateItem", times=FOREVER, when=completes)
    assert handler(EVENT) == "result"
    assert warnings(caplog) == ["release_failed"]
    assert "event 'e-1' may not be marked as done" in caplog.text
    assert is_done(rows, "e-1") == carried_out


def test_an_event_whose_client_a_signal_handler_closes_amid_its_completion_is_logged_and_runs_again(wire, rows, caplog):
    client, stall = LockClient(heartbeat_period=0), wire.hold("UpdateItem", when=completes)

    def close(*_: object) -> None:
        client.close()
        stall.release()

    def strike() -> None:
        assert stall.reached.wait(30)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, close)
    struck = in_thread(strike)
    try:
        assert deduplicate("{id}", scope="", client=client)(lambda event: "result")(EVENT) == "result"
    finally:
        struck()
        signal.signal(signal.SIGUSR1, before)
    assert warnings(caplog) == ["release_failed"]
    assert "event 'e-1' may not be marked as done" in caplog.text
    assert not rows.is_held("e-1")
    assert not is_done(rows, "e-1")


@pytest.mark.parametrize("code", ["AccessDeniedException", "ValidationException", "InternalServerError"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_completion_that_fails_hides_neither_result_nor_error(fails, code, once, wire, impatient, caplog):
    error = Boom()

    def body(event: object) -> str:
        wire.answer(500 if code == "InternalServerError" else 400, code, times=FOREVER)
        if fails:
            raise error
        return "result"

    with pytest.raises(Boom) if fails else contextlib.nullcontext() as caught:
        assert once("{id}", scope="")(body)(EVENT) == "result"
    assert caught is None or (caught.value is error and error.__context__ is None)
    assert warnings(caplog) == ["release_failed"]


def test_an_unfit_result_is_told_although_the_completion_failed_too(once, wire, impatient, caplog):
    def body(event: object) -> object:
        wire.answer(400, "AccessDeniedException", times=FOREVER)
        return object()

    once("{id}", scope="", result="json")(body)(EVENT)
    assert warnings(caplog) == ["result_not_stored", "release_failed"]


# Late owners


def put_off(client: LockClient) -> None:
    """Let the lease run out for the client whose function calls this."""
    clock = client.__session__.timeline.clock
    assert isinstance(clock, LeapingClock)
    clock.sleep(3600)
    assert current_dedup().lost


@pytest.mark.parametrize("raises", [True, False])
def test_a_late_owner_neither_completes_nor_releases_what_another_owns_and_is_warned_about(
    raises, once, rows, impatient, caplog
):
    def body(event: dict[str, str]) -> str:
        put_off(impatient)
        rows.put_held("e-1", expires_at=9e9, owner="another#1")
        if raises:
            raise Boom
        return "late"

    with pytest.raises(Boom) if raises else contextlib.nullcontext():
        assert once("{id}", scope="", result="json")(body)(EVENT) == "late"
    assert (warnings(caplog)[-1:] == ["finished_lost"]) != raises
    assert ("event 'e-1' was lost meanwhile: it may have run twice" in caplog.text) != raises
    assert rows["e-1"]["ownerName"] == {"S": "another#1"}
    assert rows.is_held("e-1")
    assert not is_done(rows, "e-1")


@pytest.mark.parametrize("commits", [False, True])
def test_where_nobody_took_over_a_late_owner_completes(commits, once, rows, impatient, caplog):
    def body(event: object) -> str:
        put_off(impatient)
        calls.count += 1
        if commits:
            commit([add(rows, "sum")])
        return "late"

    calls = Calls()
    handler = once("{id}", scope="", result="json")(body)
    assert handler(EVENT) == "late"
    assert is_done(rows, "e-1")
    assert "finished_lost" not in warnings(caplog)
    assert handler(EVENT) == (None if commits else "late")
    assert (calls.count, value(rows, "sum")) == (1, commits)


# Cancelled


async def cancelled(call: Coroutine[Any, Any, object], moment: Callable[[], bool], fault: Any) -> None:
    """Cancel the call once the moment has come, and then let its request's reply arrive."""
    calling = start(call)
    await until(moment)
    calling.cancel()
    await asyncio.sleep(0)
    fault.release()
    assert isinstance(await ended(calling), asyncio.CancelledError)


@pytest.mark.parametrize("moment", ["claim", "body", "completion"])
def test_a_call_that_is_cancelled_leaves_nothing_held_and_is_done_only_where_it_had_finished(moment, wire, rows):
    async def test() -> None:
        entered = asyncio.Event()

        @deduplicate("{id}", scope="")
        async def handler(event: object) -> None:
            entered.set()
            if moment == "body":
                await asyncio.Event().wait()

        fault = wire.delay_reply("UpdateItem", when=completes if moment == "completion" else None)
        if moment == "body":
            fault.release()
        await cancelled(handler(EVENT), entered.is_set if moment == "body" else fault.reached.is_set, fault)
        assert entered.is_set() == (moment != "claim")

    asyncio.run(test())
    assert not rows.is_held("e-1")
    assert is_done(rows, "e-1") == (moment == "completion")


# What others wrote


def test_a_completion_of_a_fraction_that_passed_does_not_send_claim_after_claim(once, wire, rows):
    rows.put("e-1", completedUntil={"N": f"{int(time.time()) - 5}.5"})
    with contextlib.suppress(LockFormatError):  # or it is run; but a claim under another number helps no one
        once("{id}", scope="")(lambda event: None)(EVENT)
    assert wire.count() <= 3


def answer_without_date(answer: Answer) -> Answer:
    return Answer(answer.status, [field for field in answer.headers if field[0].lower() != "date"], answer.body)


def test_what_has_no_date_cannot_say_that_an_event_is_done(once, wire):
    handler = once("{id}", scope="")(lambda event: None)
    handler(EVENT)
    wire.alter_reply(answer_without_date, times=FOREVER)
    with pytest.raises(LockConfigurationError, match="this is not DynamoDB"):
        handler(EVENT)


def test_data_that_grew_in_the_row_meanwhile_counts_for_the_size_of_a_result(once, rows, caplog):
    def body(event: object) -> str:
        lock: Any = current_dedup()
        done(lock.heartbeat(data=b"x" * 250_000))
        return "x" * 250_000

    once("{id}", scope="", result="json")(body)(EVENT)
    assert warnings(caplog) == ["result_not_stored"]
    assert "at most" in caplog.text
    assert is_done(rows, "e-1")
