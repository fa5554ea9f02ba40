"""`lambda-lock forget` and `erase`."""

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


# erase


def test_a_row_that_nobody_uses_is_erased_by_the_row_s_key_or_by_the_event_s_and_its_scope(run, rows):
    for arguments in (("sku-7", "--scope", "prices"), ("prices#sku-7",)):
        deduplicate("{key}", scope="prices", result="json", client=LockClient())(lambda key: 990)("sku-7")
        result = run("erase", *arguments)
        assert (result.returncode, result.stdout) == (0, "")
        assert result.stderr == "lambda-lock: erased row 'prices#sku-7'\n"
        assert rows.get("prices#sku-7") is None
    assert "there was nothing to erase. If KEY is an event's" in run("erase", "sku-7").stderr
    assert parsed(run("erase", "sku-7", "--json")) == {"erased": False}


def test_what_is_held_is_left_and_the_holder_and_the_remedy_are_named(run, rows):
    with LockClient(owner_prefix="worker-7") as client, client.acquire("a"):
        result = run("erase", "a")
        check_ended(result, 1, "held by worker-7#", "use --force")
        assert "force=True" not in result.stderr
        assert rows.is_held("a")


def test_force_shows_the_row_and_asks_for_the_key(run, rows):
    with LockClient(owner_prefix="worker-7") as client:
        client.acquire("a", lease_duration=60).hand_over()
    refused = run("erase", "a", "--force", stdin="b\n")
    assert refused.returncode == 1
    assert "worker-7#" in refused.stderr
    assert "not erased: 'b' is not 'a'" in refused.stderr
    assert rows.is_held("a")
    assert run("erase", "a", "--force", stdin="a\n").returncode == 0
    assert rows.get("a") is None


def test_a_damaged_row_exits_with_78_and_goes_by_force(run, rows):
    rows.put("a", recordVersionNumber={"N": "1"})
    check_ended(run("erase", "a"), 78, "not a string")
    assert run("erase", "a", "--force", "--yes").returncode == 0
    assert rows.get("a") is None
