"""The life of a permit, request by request, against a table in memory and virtual clocks."""

import random
import re
from typing import Any

import pytest

from lambda_lock.core import acquire, requests
from lambda_lock.core.lease import Observations
from lambda_lock.core.other_schemas import GO
from lambda_lock.core.outcome import Reply, TransportError
from lambda_lock.core.permit_queue import queue_for_permit
from lambda_lock.core.protocol import AcquireRequest, Entropy, Hold
from lambda_lock.core.queue import PATIENCE
from lambda_lock.core.row import SEAL, TICKET_NAME, expiry_of, make_version
from lambda_lock.core.schema import JAVA
from lambda_lock.core.tickets import make_ticket
from lambda_lock.errors import Holder, LockFormatError, LockNotGrantedError, LockTimeoutError

from .driver import NOW, Act, OnTable, left_alone


class Admitted(OnTable):
    """A process that acquires permits."""

    def __init__(self, schema: Any = JAVA) -> None:
        super().__init__(schema)
        rng = random.Random()  # two processes draw different nonces
        self.entropy = Entropy(lambda: f"{rng.getrandbits(128):032x}", rng.random)

    def kind_of(self, operation: str, request: dict[str, Any]) -> str:
        if operation == "GetItem":
            return "read"
        update, condition = request["UpdateExpression"], request["ConditionExpression"]
        if "list_append" in update:
            return "append"
        if "ReturnValues" in request:
            if "size" in condition:
                return "claim"
            return "correct" if "begins_with" in condition else "first"
        if "REMOVE" in update:
            return "leave" if "]" in update else "release"
        return "renew"

    def wanted(self, **changes: Any) -> AcquireRequest:
        return super().wanted(**{"permits": 2, **changes})

    @property
    def entries(self) -> dict[str, str]:
        return {nonce: value["S"] for nonce, value in self.row["permits"]["M"].items()}

    @property
    def tokens(self) -> dict[str, Any]:
        tokens: dict[str, Any] = self.row["permitTokens"]["M"]
        return tokens

    def set_entries(self, **entries: str) -> None:
        self.damage(permits={"M": {name: {"S": text} for name, text in entries.items()}})

    def refused(self, **changes: Any) -> LockNotGrantedError:
        with pytest.raises(LockNotGrantedError) as caught:
            self.acquire(**changes)
        return caught.value

    def waiting(self, **changes: Any) -> Hold:
        return self.acquire(**{"waits": True, "wait_until": self.now + 10.0, "queue": queue_for_permit, **changes})


@pytest.fixture
def driver() -> Admitted:
    return Admitted()


@pytest.fixture
def holds(driver: Admitted) -> list[Hold]:
    """Both permits are held."""
    return [driver.acquire(), driver.acquire()]


FAR = f"L1:{int((NOW + 9999) * 1000)}:{'0' * 32}:20000:dead"  # an entry that expires in hours


def nonce(hold: Hold) -> str:
    return hold.owner.rpartition("#")[2]


def test_the_very_first_permit_takes_two_requests_and_every_other_one(driver):
    first = driver.acquire()
    assert driver.kinds == ["claim", "first"]
    second = driver.acquire()
    assert driver.release(first)
    assert driver.release(second)
    driver.acquire()
    assert driver.kinds == ["claim", "first", "claim", "release", "release", "claim"]


def test_a_row_of_a_semaphore_is_sealed_and_names_its_holders(driver, holds):
    hold, other = holds
    assert [driver.row[name] for name in ("ownerName", "recordVersionNumber", "leaseDuration")] == [{"S": SEAL}] * 3
    assert driver.entries == {nonce(each): f"{each.version}:20000:me" for each in (hold, other)}
    assert driver.tokens == {nonce(each): {"N": str(each.token)} for each in (hold, other)}
    assert other.token == hold.token + 1
    assert driver.row["fencingToken"] == {"N": str(other.token)}


def test_no_more_than_n_hold_and_the_refusal_names_them(driver, holds):
    refused = driver.refused()
    assert re.search(r"^semaphore .* no free permit: 2 of 2 are held, by me#", str(refused))
    assert refused.holders == tuple(Holder(hold.owner, hold.expiry_ms / 1000, hold.token) for hold in holds)
    assert refused.holder == holds[0].owner
    assert refused.retry_after == pytest.approx(20, abs=3)
    assert driver.kinds[-1] == "claim"
    driver.acquire(permits=3)


def test_each_caller_compares_with_its_own_n(driver):
    for _ in range(4):
        driver.acquire(permits=4)
    assert "4 of 2 are held" in str(driver.refused(permits=2))
    driver.now += 100
    driver.acquire(permits=2)
    assert len(driver.entries) == 1


def test_dead_holders_are_replaced_by_a_call_that_does_not_wait_with_one_request_more(driver, holds):
    driver.now += 25
    driver.kinds.clear()
    hold = driver.acquire()
    assert driver.kinds == ["claim", "claim"]
    assert list(driver.entries) == [nonce(hold)]
    assert list(driver.tokens) == [nonce(hold)]


def test_a_dead_holder_that_renewed_meanwhile_is_not_replaced(driver, holds):
    driver.now += 25
    late = holds[0]

    def renewal_lands() -> None:
        expiry_ms = int((NOW + driver.now + 20) * 1000)
        grant = requests.Grant(late.owner, make_version(expiry_ms, "0" * 32), 20_000, expiry_ms)
        content = requests.Content()
        driver.apply(*requests.renew(late.place, grant, token=late.token, completed_until=None, content=content))

    driver.kinds.clear()
    driver.after["claim"] = [renewal_lands]
    hold = driver.acquire()
    assert driver.kinds == ["claim", "claim", "claim"]
    assert set(driver.entries) == {nonce(late), nonce(hold)}


def test_an_entry_that_does_not_change_for_its_lease_is_dead_whatever_its_expiry_says(driver):
    hold = driver.acquire(permits=1)
    driver.set_entries(**{nonce(hold): FAR})
    driver.refused(permits=1)
    driver.now += 19
    driver.refused(permits=1)
    driver.now += 2
    driver.acquire(permits=1)


def test_observations_of_a_semaphore_count_as_one_and_go_with_their_entries(driver):
    for _ in range(50):
        hold = driver.acquire(permits=1)
        driver.refused(permits=1)
        driver.release(hold)
    assert len(driver.memory.observations) == 1
    (entries,) = driver.memory.observations._seen.values()
    assert isinstance(entries, Observations)
    assert len(entries) == 1


def test_a_small_cache_still_observes_every_entry(driver):
    driver.memory.observations = Observations(1)
    holds = [driver.acquire(permits=3) for _ in range(3)]
    driver.set_entries(**{nonce(hold): FAR for hold in holds})
    driver.refused(permits=3)
    driver.now += 21
    driver.acquire(permits=3)
    assert len(driver.entries) == 1


def test_a_grant_does_not_forget_since_when_an_entry_has_not_changed(driver, holds):
    dead, other = holds
    driver.set_entries(**driver.entries | {nonce(dead): FAR})
    for _ in range(3):
        driver.refused()
        driver.now += 8
        driver.release(other)
        other = driver.acquire()
    driver.acquire()
    assert nonce(dead) not in driver.entries


def test_a_renewal_changes_the_own_entry_alone(driver, holds):
    hold, other = holds
    before = driver.entries
    driver.now += 5
    assert driver.renew(hold).renewed
    assert driver.entries[nonce(other)] == before[nonce(other)]
    assert driver.entries[nonce(hold)] > before[nonce(hold)]
    assert hold.valid_until > 20


def test_a_renewal_after_the_entry_was_replaced_is_lost(driver):
    hold = driver.acquire(permits=1, hold_on_unavailable=True)
    driver.damage(permits={"M": {}}, permitTokens={"M": {}})
    assert not driver.renew(hold).renewed
    assert (hold.lost, hold.gone) == (True, True)
    assert not driver.release(hold)


def test_the_end_of_validity_is_lost_with_hold_on_unavailable_too(driver):
    hold = driver.acquire(hold_on_unavailable=True)
    driver.now += 21
    driver.troubles["renew"] = [TransportError(True)]
    driver.renew(hold)
    assert hold.lost


def test_a_release_takes_the_own_entry_alone_and_leaves_the_maps_and_the_ttl(driver, holds):
    hold, other = holds
    ttl = driver.row["ttl"]
    driver.now += 3
    assert driver.release(hold)
    assert list(driver.entries) == list(driver.tokens) == [nonce(other)]
    assert driver.release(other)
    assert driver.row["permits"] == driver.row["permitTokens"] == {"M": {}}
    assert driver.row["ttl"] == ttl
    assert int(driver.row["heldMs"]["N"]) == pytest.approx(3000, abs=20)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_claim_whose_reply_is_lost_is_granted_by_what_a_second_send_shows(driver, lost):
    driver.acquire()
    driver.troubles["claim"] = [driver.lost_reply, TransportError(True)][:lost]
    hold = driver.acquire()
    assert nonce(hold) in driver.entries
    assert len(driver.entries) == 2


def test_a_copy_of_the_claim_that_lands_after_the_release_is_removed_by_a_second_release(driver):
    driver.acquire()
    hold = driver.acquire()
    copy = driver.sent[-1]
    driver.troubles["release"] = [driver.lost_reply]
    driver.after["release"] = [lambda: driver.apply(*copy)]
    assert driver.release(hold)
    assert nonce(hold) not in driver.entries
    assert driver.kinds[-2:] == ["release", "release"]


def test_a_claim_that_is_given_up_is_released_under_its_version(driver):
    driver.acquire()
    driver.troubles["claim"] = [driver.lost_reply, *[TransportError(True)] * 99]
    with pytest.raises(TransportError):
        driver.acquire()
    assert len(driver.entries) == 1
    assert driver.kinds[-1] == "release"


def test_a_grant_of_a_fast_clock_is_corrected_under_its_own_version(driver):
    driver.clock_ahead = 60
    hold = driver.acquire()
    assert driver.kinds == ["claim", "first"]  # the refusal of the first claim already told DynamoDB's time
    driver.acquire()
    assert expiry_of(hold.version) == pytest.approx((NOW + 22) * 1000, abs=2000)
    other = Admitted()
    other.table = driver.table
    other.clock_ahead = 60
    corrected = other.acquire(permits=3)
    assert other.kinds == ["claim", "correct"]
    assert len(driver.entries) == 3
    assert driver.tokens[nonce(corrected)] == {"N": str(corrected.token)}
    assert corrected.token == hold.token + 3


@pytest.mark.parametrize("held", [True, False])
def test_a_lock_s_row_is_refused_with_permits_and_left_alone(driver, held):
    lock = driver.acquire(permits=None)
    if not held:
        driver.release(lock)
    for act in (driver.acquire, driver.waiting):
        with left_alone(driver, "'k' is a lock, not a semaphore"):
            act()


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("how", [{}, {"replace": True}, {"window": 60}, {"waits": True, "wait_until": 5.0}])
def test_a_semaphore_s_row_is_refused_without_permits_and_left_alone(driver, held, how):
    hold = driver.acquire()
    if not held:
        driver.release(hold)
    with left_alone(driver, "'k' is a semaphore, not a lock"):
        driver.acquire(permits=None, **how)


def test_a_lock_whose_application_has_an_attribute_permits_admits_nobody(driver):
    driver.acquire(permits=None)
    driver.damage(permits={"M": {}}, permitTokens={"M": {}})
    with left_alone(driver, "is a lock"):
        driver.acquire()


@pytest.mark.parametrize(
    "damage",
    [
        {"permits": None},
        {"permitTokens": None},
        {"permits": {"S": "x"}},
        {"recordVersionNumber": None},
        {"permits": {"M": {f"{n:032x}": {"S": "x"} for n in range(101)}}},
        {"isReleased": {"S": "1"}},  # as somebody may have written by hand
    ],
)
def test_a_damaged_row_is_a_clear_error(driver, damage):
    driver.acquire()
    driver.damage(**damage)
    before = driver.row.get("permits")
    with pytest.raises(LockFormatError, match="the row of semaphore 'k' is damaged"):
        driver.acquire(permits=100)
    assert driver.row.get("permits") == before


VERSION = f"L1:1800000000000:{'0' * 32}"


@pytest.mark.parametrize(
    "text", ["", "x" * 60, VERSION, f"{VERSION}:0:me", f"{VERSION}:31622400001:me", f"{VERSION}:-5:me", f"{VERSION}:5"]
)
def test_an_entry_that_cannot_be_read_is_never_replaced_and_an_error_once_all_are_held(driver, text):
    hold = driver.acquire()
    driver.set_entries(**{nonce(hold): text})
    driver.now += 1000
    driver.acquire()
    with pytest.raises(LockFormatError, match="an entry in permits that cannot be read"):
        driver.acquire()
    assert driver.entries[nonce(hold)] == text


def test_a_semaphore_in_the_go_schema_releases_without_a_word_to_a_queue():
    driver = Admitted(GO)
    hold = driver.acquire()
    assert driver.release(hold)
    assert driver.entries == {}


def test_only_if_exists_makes_no_row_and_seals_one_that_the_application_made(driver):
    assert "does not exist" in str(driver.refused(only_if_exists=True))
    assert not driver.table.items()
    driver.damage(colour={"S": "red"})
    driver.acquire(only_if_exists=True)
    assert driver.row["colour"] == {"S": "red"}


# -- the queue --------------------------------------------------------------------------------------------------------


def releasing(driver: Admitted, hold: Hold) -> Act:
    return lambda: driver.beside(lambda: driver.release(hold))


def test_a_waiter_takes_a_ticket_and_claims_from_it(driver, holds):
    driver.kinds.clear()
    driver.at = [(0.5, releasing(driver, holds[1]))]
    driver.waiting()
    assert driver.kinds[:3] == ["claim", "read", "append"]
    assert driver.kinds[3:] == ["read"] * (len(driver.kinds) - 4) + ["claim"]
    assert driver.row["waiters"] == {"L": []}
    assert len(driver.entries) == 2


def places(*names: str, expiry: float = 30.0) -> dict[str, Any]:
    """The places of others, which expire so long after the start."""
    return {"L": [{"S": make_ticket(name.ljust(TICKET_NAME, "-"), int(NOW + expiry))} for name in names]}


def test_with_two_permits_free_the_second_in_the_queue_may_claim_and_leaves_the_first_its_ticket(driver, holds):
    driver.damage(waiters=places("another1"))
    driver.at = [(0.5, releasing(driver, holds[0])), (0.5, releasing(driver, holds[1]))]
    driver.waiting()
    assert driver.row["waiters"] == places("another1")
    assert driver.now < 1.5


def test_with_one_permit_free_the_second_in_the_queue_waits_for_the_first_and_then_passes_it(driver, holds):
    driver.damage(waiters=places("another1"))
    driver.at = [(0.5, releasing(driver, holds[0]))]
    driver.waiting()
    assert 0.5 + PATIENCE < driver.now < 0.5 + PATIENCE + 1
    assert driver.row["waiters"] == {"L": []}


def test_a_permit_that_was_granted_to_others_in_between_makes_nobody_dead(driver):
    holds = [driver.acquire(permits=3), driver.acquire(permits=3)]
    driver.damage(waiters=places("first", "second"))
    first, *behind = driver.row["waiters"]["L"]

    def first_claims() -> None:
        driver.damage(waiters={"L": [first, *driver.row["waiters"]["L"][2:]]})
        driver.run(acquire.acquire(driver.wanted(permits=3), driver.talk()))
        driver.release(holds[1])

    assert behind
    driver.at = [(2.5, first_claims)]
    before = driver.now
    driver.waiting(permits=3, wait_until=30.0)
    assert driver.now - before > 2.5 + PATIENCE - 1


@pytest.mark.parametrize("dead", [1, 64])
def test_the_dead_that_wait_for_a_semaphore_cost_one_more_claim_once_they_have_expired(driver, dead):
    driver.release(driver.acquire())
    driver.damage(waiters=places(*(f"dead-{n}" for n in range(dead))))
    driver.now += 60
    driver.kinds.clear()
    driver.waiting()
    assert driver.kinds == ["claim", "claim"]
    assert driver.row["waiters"] == {"L": []}


def test_the_dead_that_wait_for_a_semaphore_with_long_holds_cost_no_more_than_others(driver):
    for hold in [driver.acquire(), driver.acquire()]:
        driver.release(hold)
    driver.damage(waiters=places(*(f"dead-{n}" for n in range(5)), expiry=12.0), heldMs={"N": "60000"})
    driver.waiting(wait_until=60.0)
    assert driver.now < 14


def test_a_wait_that_ends_gives_up_its_ticket_and_says_how_many_were_ahead(driver, holds):
    driver.damage(waiters=places("another1", expiry=10.0), heldMs={"N": "1000"})
    with pytest.raises(LockTimeoutError, match=r"2 of 2 are held, by .*, and 1 waits before this one") as caught:
        driver.waiting(wait_until=driver.now + 2)
    assert driver.row["waiters"] == places("another1", expiry=10.0)
    assert caught.value.ahead == 1
    assert caught.value.retry_after == pytest.approx(0.5 + 0.5 + 0.1)


def test_the_estimate_of_a_turn_ends_at_a_day_as_a_lock_s_does(driver):
    driver.acquire(permits=1)
    driver.damage(waiters=places(*(f"ghost-{n}" for n in range(64))), heldMs={"N": "80000000"})
    with pytest.raises(LockTimeoutError) as caught:
        driver.waiting(permits=1, wait_until=driver.now + 1)
    assert caught.value.retry_after == 86_400


def test_a_waiter_looks_rarely_if_permits_are_held_for_an_hour(driver):
    for _ in range(2):
        driver.acquire(lease_ms=3_600_000)
    driver.damage(heldMs={"N": "3600000"})
    driver.kinds.clear()
    with pytest.raises(LockTimeoutError):
        driver.waiting(wait_until=driver.now + 60)
    assert driver.kinds.count("read") < 35


def test_a_waiter_behind_a_dead_holder_gets_its_permit_at_its_expiry(driver):
    driver.acquire()
    driver.now += 5
    driver.acquire()
    driver.waiting(wait_until=100.0)
    assert 22 < driver.now < 23.5
    assert len(driver.entries) == 2
    assert isinstance(driver.apply(*requests.read(driver.wanted().place)), Reply)
