"""`lambda-lock forget`."""

from __future__ import annotations

import shlex

from lambda_lock import LockClient, deduplicate

from .conftest import parsed


def done(scope: str = "prices", key: str = "sku-7") -> None:
    with LockClient() as client:
        deduplicate("{key}", scope=scope, result="json", client=client)(lambda key: 990)(key)


def test_an_event_is_forgotten_by_its_key_and_scope_or_by_the_row_s_key(run, rows):
    for arguments in (("sku-7", "--scope", "prices"), ("prices#sku-7",)):
        done()
        result = run("forget", *arguments)
        assert (result.returncode, result.stdout) == (0, "")
        assert result.stderr == f"lambda-lock: forgot event {arguments[0]!r}\n"
        assert not {"completedUntil", "result"} & (rows.get("prices#sku-7") or {}).keys()
    assert "is not done: there was nothing to forget" in run("forget", "sku-7", "--scope", "prices").stderr


def test_forget_says_as_json_whether_there_was_anything_to_forget(run, rows):
    done()
    assert [parsed(run("forget", "prices#sku-7", "--json")) for _ in range(2)] == [
        {"forgotten": True},
        {"forgotten": False},
    ]


def test_an_event_in_progress_is_not_forgotten_and_exits_with_1(run, rows):
    with LockClient(owner_prefix="worker-7") as client, client.acquire("prices#sku-7"):
        for arguments in ((), ("--wait", "0.3")):
            result = run("forget", "sku-7", "--scope", "prices", *arguments)
            assert result.returncode == 1
            assert "nothing was forgotten, because event 'sku-7' is in progress" in result.stderr
            assert "worker-7#" in result.stderr
            assert "wait=" not in result.stderr


def test_a_table_whose_rows_are_deleted_remembers_no_events(run):
    result = run("forget", "a", "--schema", "python")
    assert result.returncode == 78
    assert "deleted on release" in result.stderr


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


def test_only_the_result_that_is_meant_is_forgotten(run, rows):
    done()
    result = run("forget", "prices#sku-7", "--if-result", "991")
    assert "is not done with this result: there was nothing to forget" in result.stderr
    assert parsed(run("forget", "prices#sku-7", "--if-result", "990", "--json")) == {"forgotten": True}
    result = run("forget", "prices#sku-7", "--if-result", "text")
    assert result.returncode == 2
    assert "it is not JSON" in result.stderr
