"""A table that is restored, or replaced by a copy, under clients that go on: they say so, and reject nothing."""

from __future__ import annotations

import json
import logging

import pytest

from lambda_lock import LockNotGrantedError, deduplicate, set_default_client
from lambda_lock.core.requests import Place
from lambda_lock.core.row import Row, Watch
from lambda_lock.core.schema import JAVA
from lambda_lock.observe.metrics import METRICS_VARIABLE

from .conftest import restore, told


def test_a_warm_client_tells_once_that_a_token_is_of_the_past_and_is_granted_the_lock(
    client, rows, table, monkeypatch, caplog, capsys
):
    monkeypatch.setenv(METRICS_VARIABLE, "shop")
    client.acquire("a").release()
    saved = rows["a"]
    for _ in range(3):
        client.acquire("a").release()
    assert told(caplog, "token_fell") == []
    for _ in range(2):
        restore(rows, saved)
        with client.acquire("a", wait=0) as lock:
            assert lock.is_held
    (record,) = told(caplog, "token_fell")
    assert (record.levelno, record.lock_key) == (logging.ERROR, "a")
    assert "'a' is of the past" in record.getMessage()
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["TokenFell"], line["Table"], line["lock_key"]) == (1, table, "a")


def test_a_refusal_and_a_duplicate_show_that_a_table_was_restored(make, rows, caplog, monkeypatch):
    mine, theirs = make(), make()
    held = theirs.acquire("a")
    saved = rows["a"]
    held.release()
    theirs.acquire("a").release()
    mine.acquire("a").release()
    restore(rows, saved)
    with pytest.raises(LockNotGrantedError):
        mine.acquire("a", wait=0)
    set_default_client(mine)
    handler = deduplicate("{id}", scope="b", window=1)(lambda event: None)
    handler({"id": "7"})
    saved = rows["b#7"]
    handler.forget({"id": "7"})
    handler({"id": "7"})
    restore(rows, saved)
    handler({"id": "7"})
    set_default_client(None)
    assert [record.lock_key for record in told(caplog, "token_fell")] == ["a", "b#7"]


def test_a_semaphores_token_of_the_past_is_told(client, rows, caplog):
    client.acquire("gpu", permits=3).release()
    saved = rows["gpu"]
    held = [client.acquire("gpu", permits=3) for _ in range(3)]
    assert client.try_acquire("gpu", permits=3) is None
    assert told(caplog, "token_fell") == []
    restore(rows, saved)
    held.append(client.acquire("gpu", permits=3, wait=0))
    assert len(told(caplog, "token_fell")) == 1


@pytest.mark.parametrize("how", ["erased", "deleted by its release", "of an older client"])
def test_a_row_that_is_made_anew_is_nothing_to_tell(how, make, rows, caplog):
    client = make()
    for _ in range(3):
        client.acquire("a", delete_on_release=how == "deleted by its release").release()
        if how == "erased":
            client.erase("a")
        if how == "of an older client":
            rows.put_foreign("a", lease_seconds=1)
            assert client.try_acquire("a") is None
            rows.delete("a")
    assert told(caplog, "token_fell") == []


def test_tokens_rise_through_a_restore_whose_locks_are_dropped(client, rows):
    """`table after-restore` drops the rows of locks. A new row's token begins at the time, above all earlier ones."""
    client.acquire("a").release()
    tokens = []
    for _ in range(10):
        with client.acquire("a") as lock:
            tokens.append(lock.fencing_token)
    rows.delete("a")
    with client.acquire("a") as lock:
        assert lock.fencing_token > max(tokens)


def test_a_restore_is_told_after_a_deploy_that_changed_many_semaphores(client, rows, caplog):
    """What is told once is bounded for each event."""
    for number in range(150):
        client.__session__.observer.tell("permits_differ", "%s", number, once=number)
    client.acquire("a").release()
    saved = rows["a"]
    client.acquire("a").release()
    restore(rows, saved)
    client.acquire("a").release()
    assert len(told(caplog, "permits_differ")) == 100
    assert len(told(caplog, "token_fell")) == 1


# The rule itself


def _row(token: int, expiry_ms: int = 1, owner: str = "a#1") -> Row:
    item = {
        "ownerName": {"S": owner},
        "fencingToken": {"N": str(token)},
        "recordVersionNumber": {"S": f"L1:{expiry_ms:013d}:{'0' * 32}"},
    }
    return Row(item, JAVA)


PLACE = Place("locks", JAVA, "key", "a", None, None)


@pytest.mark.parametrize(
    ("then", "fell"),
    [
        (_row(8), False),
        (_row(7, 5), False),
        (_row(7, 9), False),
        (_row(7, 4), True),
        (_row(7, 9, "b#2"), True),  # another grant with the same token
        (_row(7, 9, "a#1/" + "0" * 32), False),  # the same hold, resumed
        (_row(6, 9), True),
    ],
)
def test_what_is_of_the_past(then, fell):
    watch = Watch()
    watch.look(PLACE, _row(7, 5), 0.0, 1.0)
    watch.look(PLACE, then, 1.0, 2.0)
    assert bool(watch.noticed) is fell


def test_an_answer_that_another_thread_asked_for_before_is_not_of_the_past():
    watch = Watch()
    watch.look(PLACE, _row(7), 0.0, 1.0)
    watch.look(PLACE, _row(6), 0.5, 1.5)
    assert not watch.noticed
    watch.look(PLACE, _row(6), 1.0, 2.0)  # what the late answer showed has not been taken as the newest
    assert watch.noticed


def test_what_is_remembered_is_bounded():
    watch = Watch()
    for number in range(1200):
        place = Place("locks", JAVA, "key", str(number), None, None)
        watch.look(place, _row(7), 0.0, 1.0)
        watch.look(place, _row(6), 2.0, 3.0)
    assert 0 < len(watch.noticed) <= 100
    assert len(watch._newest) <= 1000
