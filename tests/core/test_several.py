"""Several locks: each rule by hand, with an interrupt at each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lambda_lock.core import keep, several
from lambda_lock.core.outcome import ServiceError, TransportError
from lambda_lock.core.protocol import AcquireRequest, Conversation, Hold
from lambda_lock.core.queue import Queue
from lambda_lock.core.requests import Content, Place
from lambda_lock.core.schema import JAVA
from lambda_lock.errors import LockNotGrantedError, LockTimeoutError

from .driver import DENIED, NOW, Interrupt, OnTable

if TYPE_CHECKING:
    from lambda_lock.core.protocol import Steps


class Keeper:
    """Keeps the locks of one process that takes several. Nothing renews them while it waits."""

    def __init__(self, process: Process, keys: tuple[str, ...], options: dict[str, Any]) -> None:
        self.process = process
        self.keys = keys
        self.options = options
        self.rounds = 0
        self.kept: list[Hold] = []
        self.watched: list[Hold] = []
        self.left: list[Hold] = []
        self.keep, self.watch, self.leave = self.kept.append, self.watched.append, self.left.append

    def each_wanted(self) -> Iterator[AcquireRequest]:
        self.rounds += 1
        owner = f"me#{self.process.entropy.nonce()}"
        for key in several.ordered(self.keys):
            yield AcquireRequest(
                Place("locks", JAVA, "key", key, None, None), owner, content=Content(ttl=60), **self.options
            )

    def renew(self, hold: Hold, talk: Conversation) -> Steps[None]:
        yield from keep.renew(hold, talk)

    def release(self, hold: Hold, talk: Conversation) -> Steps[bool]:
        try:
            yield from keep.release(hold, talk)
        except TransportError:
            return False
        return True


class Process(OnTable):
    """One process that takes several locks."""

    def __init__(self, *keys: str, wait: float = 0.0, lease: float = 20.0, **options: Any) -> None:
        super().__init__()
        waits = {"wait_until": wait, "waits": wait > 0, "queue": Queue if wait else None}
        self.keeper = Keeper(self, keys, {"lease_ms": int(lease * 1000), **waits, **options})

    def kind_of(self, operation: str, request: dict[str, Any]) -> str:
        return f"{'claim' if 'ReturnValues' in request else 'release'} {request['Key']['key']['S']}"

    def acquire_all(self) -> list[Hold]:
        return self.run(several.acquire_all(self.keeper, self.talk()))

    # -- the table

    def hold_row(self, key: str, *, expires_at: float = 3600.0) -> None:
        row = {
            "key": {"S": key},
            "ownerName": {"S": "another#1"},
            "leaseDuration": {"S": "3600000"},
            "recordVersionNumber": {"S": f"L1:{int((NOW + expires_at) * 1000):013d}:{'0' * 32}"},
            "fencingToken": {"N": "7"},
        }
        self.table.store(self.table.key(row, False), row)

    def held(self) -> list[str]:
        return [item["key"]["S"] for item in self.table.items() if "isReleased" not in item]

    def asked(self) -> list[str]:
        return [request["Key"]["key"]["S"] for _, request in self.sent]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), min_size=1))
@example(["\uff5a", "\U0001f511", "Z"])  # UTF-16 would put the key symbol before the wide z
def test_the_order_is_the_same_whoever_asks_and_however(keys):
    ordered = several.ordered(keys)
    assert ordered == several.ordered(reversed(keys)) == several.ordered(keys * 2)
    assert [key.encode() for key in ordered] == sorted({key.encode() for key in keys})


def test_all_are_taken_in_order_under_one_owner():
    process = Process("c", "a", "b", "a")
    holds = process.acquire_all()
    assert process.asked() == ["a", "b", "c"]
    assert [hold.place.key for hold in holds] == ["a", "b", "c"]
    assert len({hold.owner for hold in holds}) == 1
    assert process.keeper.kept == process.keeper.watched == holds


def test_one_refusal_releases_the_others_the_newest_first():
    process = Process("a", "b", "c", "d")
    process.hold_row("c")
    with pytest.raises(LockNotGrantedError) as refused:
        process.acquire_all()
    assert (refused.value.key, refused.value.holder) == ("c", "another#1")
    assert process.asked() == ["a", "b", "c", "b", "a"]
    assert process.held() == ["c"]


@pytest.mark.parametrize("wait", [0.0, 5.0])
def test_an_interrupt_at_any_step_leaves_nothing(wait):
    interrupted = 0
    for number in range(1, 200):
        process = Process("a", "b", "c", wait=wait)
        process.hold_row("c")
        process.thrown = {number: Interrupt()}
        try:
            process.acquire_all()
        except Interrupt:
            interrupted += 1
        except LockNotGrantedError:
            break
        assert process.held() == ["c"]
    assert interrupted > (4 if wait else 2)


def test_a_second_interrupt_while_they_are_released_leaves_nothing_either():
    for number in (3, 4, 5):
        process = Process("a", "b", "c")
        process.hold_row("c")
        process.thrown = {3: Interrupt(), number + 1: Interrupt()}
        with pytest.raises(Interrupt):
            process.acquire_all()
        assert process.held() == ["c"]


@pytest.mark.parametrize("step", range(3, 12))
def test_a_claim_is_given_back_despite_an_interrupt_though_another_lock_is_lost_meanwhile(step):
    process = Process("a", "b", lease=1.0)
    process.troubles["claim b"] = [process.lost_reply, DENIED, *[process.lost_reply] * 9]
    process.troubles["release b"] = [TransportError(True)] * 2
    process.after["release b"] = [lambda: process.pass_time(2)] * 2  # "a" is over meanwhile
    process.thrown = {step: Interrupt()}
    with pytest.raises((Interrupt, ServiceError)):
        process.acquire_all()
    assert "b" not in process.held()


def test_an_outage_while_they_are_released_leaves_the_rest_to_their_leases():
    process = Process("a", "b", "c", "d", "e")
    process.hold_row("e")
    process.troubles = {f"release {key}": [TransportError(False)] * 99 for key in "abcd"}
    with pytest.raises(LockNotGrantedError):
        process.acquire_all()
    assert [hold.place.key for hold in process.keeper.left] == ["b", "a"]


def test_an_acquire_of_several_that_loses_a_lock_while_waiting_begins_anew_under_a_new_owner():
    process = Process("a", "b", wait=60.0, lease=5.0)
    process.hold_row("b", expires_at=12.0)
    holds = process.acquire_all()
    assert process.keeper.rounds > 1  # nobody renews here: the first lease of "a" was over before "b" became free
    assert len({hold.owner for hold in process.keeper.kept}) == process.keeper.rounds
    assert all(hold.is_held(process.now) for hold in holds)
    assert all(hold.ended for hold in process.keeper.kept if hold not in holds)


@pytest.mark.parametrize(("wait", "kind"), [(8.0, LockTimeoutError), (0.0, LockNotGrantedError)])
def test_an_acquire_of_several_that_loses_a_lock_at_the_end_of_its_wait_is_refused(wait, kind):
    process = Process("a", "b", wait=wait, lease=5.0)
    if wait:
        process.hold_row("b", expires_at=60.0)
    else:
        process.troubles["claim a"], process.troubles["claim b"] = [process.late_by(2.0)], [process.late_by(4.0)]
    with pytest.raises(LockNotGrantedError, match=r"is held by another#1|'a' was taken, but lost") as refused:
        process.acquire_all()
    assert type(refused.value) is kind
    assert refused.value.waited >= wait
    assert process.held() == (["b"] if wait else [])


def test_each_is_renewed_once_if_it_has_less_than_most_of_its_lease():
    process = Process("a", "b", wait=60.0)
    process.hold_row("b", expires_at=5.0)
    holds = process.acquire_all()
    assert process.keeper.rounds == 1
    assert all(hold.valid_until - process.now > 17.9 for hold in holds)
    assert process.asked().count("a") == 2  # the claim, and one renewal
    assert process.asked()[-1] == "a"


def test_a_lease_that_lasts_until_the_deadline_is_not_renewed():
    process = Process("a", "b", wait=6.0, lease_end=15.0)
    process.hold_row("b", expires_at=5.0)
    process.acquire_all()
    assert process.asked().count("a") == 1


def test_a_key_whose_turn_comes_after_the_wait_is_tried_once():
    process = Process("a", "b", wait=1.0, lease=60.0)
    process.troubles["claim a"] = [process.late_by(9.0)]
    holds = process.acquire_all()
    assert [hold.place.key for hold in holds] == ["a", "b"]


def test_an_error_of_the_service_releases_what_was_taken():
    process = Process("a", "b")
    process.troubles["claim b"] = [DENIED]
    with pytest.raises(ServiceError):
        process.acquire_all()
    assert process.held() == []
