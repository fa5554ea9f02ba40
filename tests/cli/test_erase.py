"""`lambda-lock erase`."""

from __future__ import annotations

from lambda_lock import LockClient, deduplicate

from .conftest import check_ended, parsed


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
