"""What callers write down becomes histories."""

import json
import random
from pathlib import Path

import pytest

from .breaking import BREAKS, broken
from .record import OPEN, History, Op, Recorder, double_holders, op, read


def history(path: Path) -> list[Op]:
    (found,) = read([path], calm=True).histories
    return found.operations


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record"


@pytest.fixture
def recorder(path: Path) -> Recorder:
    return Recorder(path)


def grant(recorder: Recorder, token: int, client: int = 1) -> None:
    number = recorder.begin("acquire", "a", client)
    recorder.end(number, "ok", token=token, owner=f"c{client}#x")


def test_what_was_told_keeps_its_times_what_was_not_stays_open_and_what_failed_for_certain_is_not_judged(
    recorder, path
):
    grant(recorder, 7)
    recorder.end(recorder.begin("release", "a", 1, token=7), "failed")
    recorder.end(recorder.begin("release", "a", 1, token=7), "unknown")
    recorder.begin("commit", "a", 1, token=7, value="x")  # the process is killed
    recorder.end(recorder.begin("read", "b", 1), "ok", value="")
    recorder.trouble("ValueError")
    with path.open("ab") as file:
        file.write(b'["begin", 9, 12')  # a line that was cut
    recording = read([path], calm=True)
    assert (recording.operations, recording.troubles) == (4, ["ValueError"])  # a read is none of the lock
    assert [each.lock for each in recording.histories] == ["a", "b"]
    found = {(each["kind"], each["outcome"]): each for each in recording.histories[0].operations}
    assert found.keys() == {("acquire", "ok"), ("expire", "ok"), ("release", "unknown"), ("commit", "unknown")}
    acquire, commit = found["acquire", "ok"], found["commit", "unknown"]
    assert 0 < acquire["call"] <= acquire["end"]
    assert (acquire["token"], acquire["owner"], acquire["client"]) == (7, "c1#x", 1)
    assert (commit["end"], commit["value"], found["release", "unknown"]["end"]) == (OPEN, "x", OPEN)


def test_validity_ends_at_the_last_promise_unless_the_hold_was_given_back_in_time(recorder, path):
    grant(recorder, 7)
    recorder.held("a", 1, 7, call=2**60, end=2**60, remaining=3.0)
    recorder.held("a", 1, 7, call=2**60 + 5, end=2**60 + 5, remaining=4.0)
    (expire,) = (each for each in history(path) if each["kind"] == "expire")
    assert (expire["token"], expire["call"], expire["end"]) == (7, 2**60 + 5 + 4_000_000_000, OPEN)
    recorder.end(recorder.begin("release", "a", 1, token=7), "ok")
    assert "expire" not in {each["kind"] for each in history(path)}


@pytest.mark.parametrize(("early", "at_the_end"), [(0.05, True), (0.2, False)])
def test_a_loss_shortly_before_the_end_of_the_promise_counts_as_told_at_its_end(early, at_the_end, recorder, path):
    grant(recorder, 7)
    recorder.end(recorder.begin("renew", "a", 1, token=7), "lost")
    (told,) = (each["end"] for each in history(path) if each["kind"] == "renew")
    until = told + int(early * 1e9)
    recorder.held("a", 1, 7, call=0, end=1, remaining=until / 1e9)
    (told,) = (each["end"] for each in history(path) if each["kind"] == "renew")
    assert (told > until - 1_000) == at_the_end


def test_a_refusal_knows_whether_the_owner_it_names_had_asked(recorder, path):
    recorder.end(recorder.begin("acquire", "a", 2), "no", owner="c3#x")
    recorder.begin("acquire", "a", 3)
    recorder.end(recorder.begin("acquire", "a", 2), "no", owner="c3#x")
    assert [each["asked"] for each in history(path)] == [False, True]


@pytest.mark.parametrize(
    ("lasts", "until", "asked"), [(2.0, None, True), (2.0, 1.5, True), (2.0, 0.5, False), (0.5, None, False)]
)
def test_an_adopt_that_was_lost_knows_whether_it_may_have_been_taken_over(lasts, until, asked, path):
    """lasts: seconds of the adopt. until: when the acquire of another returned, None: never."""
    second = 1_000_000_000
    lines: list[list[object]] = [
        ["begin", 0, 0, "adopt", "a", 1, {"handed": 7}],
        ["begin", 1, 1, "acquire", "a", 2, {}],
        ["end", 0, int(lasts * second), "lost", {}],
    ]
    if until is not None:
        lines.append(["end", 1, int(until * second), "no", {"owner": "c1#x"}])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    adopt = history(path)[0]
    assert (adopt["kind"], adopt["asked"]) == ("adopt", asked)


def test_a_slow_operation_makes_a_round_less_than_calm(recorder, path):
    """Its client may have sent a request again, so that a late copy was on its way. Waiting is not slow."""
    waited = ["begin", 1, 0, "acquire", "a", 1, {"wait": 3}]
    path.write_text(f"{json.dumps(waited)}\n" + '["end", 1, 3000000000, "failed", {}]\n')
    grant(recorder, 7)
    assert read([path], calm=True).histories[0].calm
    with path.open("a") as file:
        file.write('["begin", 2, 0, "renew", "a", 1, {"token": 7}]\n["end", 2, 1000000000, "ok", {}]\n')
    assert not read([path], calm=True).histories[0].calm


def test_a_commit_said_to_be_lost_over_a_restart_may_have_been_carried_out(recorder, path):
    """The engine has forgotten the client token, so it does not tell a commit that is sent again from a new one."""
    recorder.end(recorder.begin("commit", "a", 1, token=7, value="x"), "lost")
    (commit,) = read([path], calm=False, restarts=[(0, 2**62)]).histories[0].operations
    assert (commit["outcome"], commit["end"]) == ("unknown", OPEN)
    (commit,) = read([path], calm=False, restarts=[(0, 1)]).histories[0].operations
    assert commit["outcome"] == "lost"


def test_two_holds_at_once_are_seen_by_their_times_alone():
    first = op("acquire", "ok", 0, 10, token=1)
    second = op("acquire", "ok", 20, 30, token=2)
    assert double_holders([first, second], {1: 100, 2: 100})
    assert not double_holders([first, second], {1: 30, 2: 100})
    assert not double_holders([first, second, op("release", "ok", 25, 40, token=1)], {1: 100, 2: 100})


def busy_lock() -> History:
    """A history in which every kind of fault has a place."""
    operations = [
        op("acquire", "ok", 0, 100, token=1, owner="c1#x"),
        op("held", "ok", 200, 210, token=1),
        op("acquire", "no", 205, 220, owner="c1#x", asked=True),
        op("hand_over", "ok", 300, 310, token=1),
        op("adopt", "ok", 400, 500, token=2, handed=1),
        op("held", "ok", 550, 560, token=2),
        op("commit", "ok", 600, 650, token=2, value="a"),
        op("acquire", "ok", 700, 750, token=3, owner="c2#x"),
        op("read", "ok", 760, 770, value="a"),
        op("commit", "ok", 800, 850, token=3, value="b"),
        op("read", "ok", 900, 910, value="b"),
        op("acquire", "ok", 1000, 1010, token=4, owner="c3#x"),
        op("release", "ok", 1020, 1030, token=4),
    ]
    return History("busy", calm=True, operations=operations)


@pytest.mark.parametrize("name", BREAKS)
def test_breaking_a_history_leaves_the_original_alone_and_one_without_a_place_for_the_fault_is_not_broken(name):
    original = busy_lock()
    found = broken(original, name, random.Random(1))
    assert found is not None
    assert found.operations != original.operations
    assert original == busy_lock()
    assert json.loads(found.line())["lock"].endswith(name)
    assert broken(History("empty", calm=True, operations=[]), name, random.Random(1)) is None
