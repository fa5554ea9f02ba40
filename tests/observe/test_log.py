"""The events in the log are those of docs/observing.md, with the same extras wherever they are told."""

import logging
import re
import time
from pathlib import Path

import lambda_lock
from lambda_lock import with_lock
from lambda_lock.observe import log
from lambda_lock.observe.metrics import COUNTED
from rig.engine import ROOT

PAGE = (ROOT / "docs" / "observing.md").read_text()
EVENTS = (ROOT / "docs" / "troubleshooting.md").read_text()
SOURCES = [path.read_text() for path in Path(lambda_lock.__file__).parent.rglob("*.py")]


def documented() -> dict[str, str]:
    """The level of each event in the page's table."""
    return dict(re.findall(r"^\| `(\w+)` \| ([A-Z]+) \|", EVENTS, re.MULTILINE))


def test_the_page_has_every_event_with_its_level():
    levels = {event: logging.getLevelName(level) for event, level in log.LEVELS.items()}
    assert levels.items() <= documented().items()
    elsewhere = {event for text in SOURCES for event in re.findall(r'"lock_event": "(\w+)"', text)}
    assert set(documented()) == set(levels) | elsewhere


def test_an_observer_is_the_only_door_to_the_log_the_metrics_and_the_hooks():
    outside = [path for path in Path(lambda_lock.__file__).parent.rglob("*.py") if path.parent.name != "observe"]
    told = {event for path in outside for event in re.findall(r"\btell\(\s*\"(\w+)\"", path.read_text())}
    assert {"granted", "release_failed", "disabled", "record_failed"} <= told <= set(log.LEVELS)
    assert not [path.name for path in outside if "write_line" in path.read_text()]


def test_the_page_has_every_metric():
    assert all(f"`{metric}`" in PAGE for metric in COUNTED.values())


def test_grants_and_releases_are_told_at_debug(client, caplog):
    with caplog.at_level(logging.DEBUG, "lambda_lock"), client.acquire("a") as lock:
        pass
    records = [record for record in map(vars, caplog.records) if "lock_event" in record]
    assert [record["message"] for record in records] == ["lock 'a' was granted", "lock 'a' was released"]
    for record in records:
        assert (record["levelno"], record["lock_key"]) == (logging.DEBUG, "a")
        assert (record["lock_owner"], record["lock_fencing_token"]) == (lock.owner, lock.fencing_token)


def test_events_say_how_many_permits_are_taken_or_asked_for_if_more_than_one(client, caplog):
    with caplog.at_level(logging.DEBUG, "lambda_lock"):
        with client.acquire("a", permits=5, take=3), client.acquire("a", permits=5):
            assert client.try_acquire("a", permits=5, take=2) is None
        client.resume(client.acquire("a", permits=5, take=4, holder="h").hand_over()).release()
    told = [(each["lock_event"], each.get("lock_take")) for each in map(vars, caplog.records) if "lock_event" in each]
    assert [one for one in told if one[0] in ("granted", "not_granted", "released")] == [
        *(("granted", 3), ("granted", None), ("not_granted", 2), ("released", None), ("released", 3)),
        *(("granted", 4), ("granted", 4), ("released", 4)),
    ]


def test_contention_is_info_and_names_the_holder(client, rows, caplog):
    caplog.set_level(logging.INFO, "lambda_lock")
    rows.put_held("a", expires_at=time.time() + 60)
    assert client.try_acquire("a") is None
    told = [(record["levelname"], record["lock_event"], record["lock_holder"]) for record in map(vars, caplog.records)]
    assert told == [("INFO", "not_granted", "somebody#1")]


def test_a_release_that_fails_is_told_the_same_by_clients_and_decorators(wire, wired, caplog):
    def refuse() -> None:
        wire.answer(400, "AccessDeniedException", times=float("inf"))

    with wired.acquire("a"):
        refuse()
    wire.clear()
    with_lock("b", client=wired)(refuse)()
    wire.clear()
    said = [record.message.partition(": ")[0] for record in caplog.records]
    assert said == [f"lock '{key}' was not released; its lease will run out by itself" for key in "ab"]
    for record in caplog.records:
        assert (record.levelno, record.__dict__["lock_event"]) == (logging.WARNING, "release_failed")
        assert {"lock_key", "lock_owner"} <= set(record.__dict__)
