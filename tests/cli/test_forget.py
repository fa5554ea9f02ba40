"""`lambda-lock forget`."""

from __future__ import annotations

import shlex

from lambda_lock import LockClient, deduplicate

from .conftest import check_ended, parsed


def done(scope: str = "prices", key: str = "sku-7") -> None:
    with LockClient() as client:
        deduplicate("{key}", scope=scope, result="json", client=client)(lambda key: 990)(key)


def test_an_event_is_forgotten_by_its_key_and_scope_or_by_the_row_s_key(run, rows):
    for arguments in (("sku-7", "--scope", "prices"), ("prices#sku-7",)):
        done()
        result = run("forget", *arguments)
        check_ended(result, 0)
        assert result.stderr == f"lambda-lock: forgot event {arguments[0]!r}\n"
        assert not {"completedUntil", "result"} & rows["prices#sku-7"].keys()
    assert "is not done: there was nothing to forget" in run("forget", "sku-7", "--scope", "prices").stderr


def test_an_event_in_progress_is_not_forgotten_and_exits_with_1(run):
    said = "nothing was forgotten, because event 'sku-7' is in progress"
    with LockClient(owner_prefix="worker-7") as client, client.acquire("prices#sku-7"):
        for arguments in ((), ("--wait", "0.3")):
            result = run("forget", "sku-7", "--scope", "prices", *arguments)
            check_ended(result, 1, said, "worker-7#")
            assert "wait=" not in result.stderr


def test_a_table_whose_rows_are_deleted_remembers_no_events(run):
    check_ended(run("forget", "a", "--schema", "python"), 78, "deleted on release")


def test_without_a_scope_it_says_where_to_look_for_what_it_did_not_find(run):
    done()
    assert "pass --scope as well" in run("forget", "sku-7").stderr
    assert "pass --scope" not in run("forget", "sku-8", "--scope", "prices").stderr


def test_a_release_of_an_event_that_is_done_says_how_to_forget_it(run):
    done(key="it's")
    result = run("release", "prices#it's", "--force", "--yes")
    assert (result.returncode, result.stdout) == (0, "")
    command = shlex.split(result.stderr.partition("let its next delivery run: lambda-lock ")[2])
    assert command == ["forget", "prices#it's"]
    assert "forgot event" in run(*command).stderr


def test_only_the_result_that_is_meant_is_forgotten_and_json_says_whether_there_was_anything(run):
    done()
    result = run("forget", "prices#sku-7", "--if-result", "991")
    assert "is not done with this result: there was nothing to forget" in result.stderr
    found = [parsed(run("forget", "prices#sku-7", "--if-result", "990", "--json")) for _ in range(2)]
    assert found == [{"forgotten": True}, {"forgotten": False}]
    check_ended(run("forget", "prices#sku-7", "--if-result", "text"), 2, "it is not JSON")
