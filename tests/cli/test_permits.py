"""`lambda-lock run --permits`, and the release of a single permit by force."""

import re

import pytest

from lambda_lock import LockClient

from .conftest import check_ended, parsed


@pytest.mark.long
def test_a_command_takes_several_permits_and_get_says_how_many(run, run_apart):
    three = ("--permits", "5", "--take", "3", "--wait", "0")
    with LockClient() as client, client.acquire("gpus", permits=5, take=2):
        string = run("acquire", "gpus", *three).stdout.strip()
        assert "held by 2, who take 5" in run("get", "gpus").stdout
        found = parsed(run("get", "gpus", "--json"))
        assert (found["taken"], [holder["take"] for holder in found["holders"]]) == (5, [2, 3])
        said = "semaphore 'gpus' has no 3 free permits: 5 of 5 are held, by "
        check_ended(run_apart("run", "gpus", *three, "--", "true"), 75, said)
        assert run("release", string).returncode == 0
        assert run_apart("run", "gpus", *three, "--", "true").returncode == 0
        said = "Pass --exclusive to be the only one, or --permits N --take K as the others do"
        assert said in run("acquire", "gpus").stderr


def test_who_takes_several_beside_one_that_takes_none_is_told_so_in_the_words_of_the_command_line(run):
    with LockClient() as client, client.acquire("gpus", permits=5):
        said = run("acquire", "gpus", "--permits", "5", "--take", "3", "--wait", "0").stderr
    assert "1 of 5 are held, by " in said
    assert ", without --take, and must be released before any call takes more than 1" in said


def test_commands_are_readers_and_a_writer(run, run_apart):
    reader, writer = (("config", "--wait", "0", option) for option in ("--shared", "--exclusive"))
    with LockClient() as client:
        with client.acquire("config", shared=True):
            string = run("acquire", *reader).stdout.strip()
            assert parsed(run("get", "config", "--json"))["taken"] == 2
            assert run_apart("run", *reader, "--", "true").returncode == 0
            said = "semaphore 'config' is held by 2 readers: "
            check_ended(run_apart("run", *writer, "--", "true"), 75, said)
            assert run("release", string).returncode == 0
        string = run("acquire", *writer).stdout.strip()
        assert parsed(run("get", "config", "--json"))["taken"] == 100
        assert run("acquire", *reader).returncode == 75
        assert run("release", string).returncode == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shared", "--permits", "5"), "is not possible with --shared: --shared is permits=100"),
        (("--take", "2"), "Pass --permits N"),
        (("--permits", "2", "--take", "3"), "more than"),
        (("--permits", "0"), ""),
    ],
    ids=str,
)
def test_permits_that_do_not_fit_are_refused_and_the_error_names_the_options(run, options, said):
    for command in (("acquire", "gpus", *options), ("run", "gpus", *options, "--", "true")):
        check_ended(run(*command), 2, said)


BY_FORCE = ("--force", "--yes")


def test_one_permit_is_released_by_force_and_the_others_stay(run):
    with LockClient() as client:
        lost, kept = (client.acquire("api", permits=2, lease_duration=1_000_000) for _ in range(2))
        check_ended(run("release", "api", *BY_FORCE), 1, "release its permit with --owner")
        result = parsed(run("release", "api", *BY_FORCE, "--json", "--owner", lost.owner))
        assert result["released"] is True
        again = run("release", "api", *BY_FORCE, "--owner", lost.owner)
        check_ended(again, 1, "has no permit of semaphore 'api'")
        assert [each["owner"] for each in parsed(run("get", "api", "--json"))["holders"]] == [kept.owner]
        assert not lost.release()
        assert kept.release()


def test_the_permit_of_an_attempt_is_released_under_the_name_that_is_shown(run):
    with LockClient() as client:
        string = client.acquire("api", permits=2, holder="execution-1").hand_over(lease_duration=1_000_000)
        earlier = parsed(run("get", "api", "--json"))["holders"][0]["owner"]
        assert earlier.startswith("execution-1#")
        lock = client.resume(string)
        check_ended(run("release", "api", *BY_FORCE, "--owner", earlier), 1)
        (shown,) = parsed(run("get", "api", "--json"))["holders"]
        assert (shown["owner"], shown["fencing_token"]) == (lock.owner, lock.fencing_token)
        assert run("release", "api", *BY_FORCE, "--owner", lock.owner).returncode == 0
        assert not lock.release()
        assert client.release(string) is False


def test_a_lock_is_released_by_force_if_the_owner_that_is_named_holds_it_and_no_permit_is_spoken_of(run):
    with LockClient() as client:
        lock, permit = client.acquire("a"), client.acquire("api", permits=2)
        refused = run("release", "a", *BY_FORCE, "--owner", "another#1")
        check_ended(refused, 1, f"lock 'a' is held by {lock.owner}, not by another#1")
        asked = run("release", "a", "--force", "--owner", lock.owner, stdin="no\n")
        assert (asked.returncode, "permit" in asked.stderr) == (1, False)
        assert run("release", "a", *BY_FORCE, "--owner", lock.owner).returncode == 0
        asked = run("release", "api", "--force", "--owner", permit.owner, stdin="no\n")
        assert f"to be released: the permit of {permit.owner}" in asked.stderr


def test_nobody_holds_a_rate_limit_that_an_owner_could_release(run):
    with LockClient() as client:
        client.rate_limit("api", 1, per=86_400)
        said = "'api' is a rate limit, which nobody holds: nothing was done. Leave --owner and --all out"
        check_ended(run("release", "api", *BY_FORCE, "--owner", "another#1"), 1, said)
        assert client.get("api") is not None


def test_the_permits_of_all_the_dead_are_released_at_once(run):
    with LockClient() as client:
        names = ["execution-1", "execution-2", "execution-3", "alive"]
        strings = {name: client.acquire("api", permits=4, holder=name).hand_over(lease_duration=1e6) for name in names}
        dead = [part for name in names[:2] for part in ("--owner", name)]
        assert run("release", "api", "--force", *dead, stdin="api\n").stderr.count("to be released: the permit of") == 2
        left = [each["owner"].partition("#")[0] for each in parsed(run("get", "api", "--json"))["holders"]]
        assert sorted(left) == ["alive", "execution-3"]
        missing = run("release", "api", "--force", "--yes", "--owner", "execution-3", "--owner", "execution-1")
        assert (missing.returncode, "execution-1 has no permit of semaphore 'api'" in missing.stderr) == (1, True)
        assert client.release(strings["execution-3"]) is True  # nothing was done


def test_all_permits_of_a_semaphore_are_released_at_once(run):
    with LockClient() as client:
        for name in ("execution-1", "execution-2"):
            client.acquire("api", permits=2, holder=name).hand_over(lease_duration=1_000_000)
        done = run("release", "api", "--force", "--yes", "--all")
        assert done.returncode == 0
        assert re.search("released 2 permits of semaphore 'api', held by execution-.*, execution-", done.stderr)
        assert parsed(run("get", "api", "--json"))["state"] == "free"
        assert parsed(run("release", "api", "--force", "--yes", "--all", "--json"))["released"] is False
    assert run("release", "api", "--force", "--all", "--owner", "a").returncode == 2
