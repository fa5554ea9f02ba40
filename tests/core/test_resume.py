"""Holds that outlive an invocation, request by request: resume, release by string, acquire by holder."""

from collections.abc import Callable
from typing import Any

import pytest

from lambda_lock.core import handover, resume, transaction
from lambda_lock.core.handover import read_handover
from lambda_lock.core.outcome import ConditionFailed, Reply, ServiceError, TransportError
from lambda_lock.core.protocol import DECISION, ClientMemory, Conversation, Hold
from lambda_lock.core.row import base_of, make_version
from lambda_lock.errors import (
    LockConfigurationError,
    LockFormatError,
    LockLostError,
    LockNotGrantedError,
    LockTimeoutError,
)

from .driver import DENIED, NOW, UNKNOWN, Interrupt, OnTable, refused

LATER = 1.0  # seconds between the beginnings of two processes


class Invocations(OnTable):
    """Processes on one table in memory, one after the other. All requests are of one kind.

    Each acquire by holder, resume and adoption is that of a process that begins LATER.
    """

    def kind_of(self, operation: str, request: dict[str, Any]) -> str:
        return "any"

    def trouble(self, *troubles: Any) -> None:
        """What answers the next requests instead of the table."""
        self.troubles = {"any": list(troubles)}

    def restart(self) -> None:
        """Another process goes on: it knows no Date."""
        self.memory = ClientMemory(10)

    def resume(self, hold: Hold, **changes: Any) -> Hold:
        self.now += LATER
        wanted = self.wanted(owner=f"{base_of(hold.owner)}/{self.entropy.nonce()}", **changes)
        self.sent.clear()
        return self.run(resume.resume(wanted, hold.token, self.talk()))

    def release_string(self, hold: Hold) -> bool:
        self.sent.clear()
        steps = resume.release(hold.place, hold.owner, hold.token, self.talk())
        return self.run(steps)

    def first_of(self, owner: str) -> tuple[str, dict[str, Any]]:
        """The first request of an acquire by holder in another process."""
        steps = resume.acquire(self.wanted(owner=owner), Conversation(ClientMemory(1), self.entropy, self.reading()))
        claim: Any = next(steps)
        return claim.operation, claim.request

    def acquire_as(self, holder: str, **changes: Any) -> Hold:
        self.now += LATER
        wanted = self.wanted(owner=f"{holder}#{self.entropy.nonce()}", **changes)
        self.sent.clear()
        return self.run(resume.acquire(wanted, self.talk()))

    def hand_over(self, hold: Hold, lease_ms: int = 20_000) -> str:
        steps = handover.hand_over(hold, self.talk(), lease_ms=lease_ms)
        return self.run(steps)

    def adopt(self, hold: Hold, owner: str | None = None) -> Hold:
        self.now += LATER
        wanted = self.wanted(owner=owner or base_of(hold.owner))
        return self.run(handover.adopt(wanted, hold.token, self.talk()))

    def commit(self, hold: Hold) -> None:
        put = {"Put": {"TableName": "locks", "Item": {"key": {"S": "order"}}}}
        self.run(transaction.commit([hold], [put], self.talk()))

    @property
    def owner(self) -> str:
        owner: str = self.row["ownerName"]["S"]
        return owner

    @property
    def is_held(self) -> bool:
        return "isReleased" not in self.row


@pytest.fixture
def driver() -> Invocations:
    return Invocations()


@pytest.fixture
def first(driver: Invocations) -> Hold:
    """The first handle of a hold. Its process is gone."""
    hold = driver.acquire()
    driver.now += 1
    return hold


# Owners


@pytest.mark.parametrize(
    ("owner", "base"),
    [
        *((owner, "f#1") for owner in ("f#1", "f#1/", "f#1/ab", "f#1/ab/c")),
        *((owner, owner) for owner in ("a/b#1", "java-host", "java/host", "", "#", None)),
        ("a/b#c/d#1/ab", "a/b#c/d#1"),
    ],
)
def test_the_base_of_an_owner_ends_at_the_first_slash_after_the_last_hash(owner, base):
    assert base_of(owner) == base


# Resume


def test_a_resumed_hold_keeps_its_token_and_has_a_name_of_its_own(driver, first):
    second = driver.resume(first)
    third = driver.resume(first)
    assert first.token == second.token == third.token
    assert len({first.owner, second.owner, third.owner}) == 3
    assert driver.owner == third.owner
    base, _, nonce = third.owner.rpartition("/")
    assert base == first.owner
    assert len(nonce) == 32
    assert driver.renew(third).renewed


def test_a_resume_is_one_request_and_a_second_one_if_another_attempt_has_the_row_or_no_date_is_known(driver, first):
    driver.resume(first)
    assert driver.operations == ["UpdateItem"]
    driver.resume(first)
    assert driver.operations == ["UpdateItem", "UpdateItem"]
    driver.restart()
    driver.resume(first)
    assert driver.operations == ["GetItem", "UpdateItem"]


def test_every_earlier_attempt_is_refused_whatever_it_sends_and_the_string_stays_good(driver, first):
    second, third, fourth, fifth = (driver.resume(first) for _ in range(4))
    assert not driver.renew(first).renewed
    assert (first.lost, first.holder) == (True, fifth.owner)
    assert not driver.release(second)
    for act, earlier in ((driver.commit, third), (driver.hand_over, fourth)):
        with pytest.raises(LockLostError):
            act(earlier)
    assert driver.is_held
    assert driver.owner == fifth.owner
    assert len(driver.table.items()) == 1  # no commit wrote
    assert driver.resume(first).token == first.token


def test_an_expired_row_that_nobody_took_is_resumed(driver, first):
    driver.now += 3600
    assert driver.resume(first).is_held(driver.now)


def taken_over(driver: Invocations, first: Hold) -> None:
    driver.now += 60
    driver.acquire()


SINCE: dict[str, Callable[[Invocations, Hold], object]] = {
    "released": lambda driver, first: driver.release(driver.resume(first)),
    "taken over": taken_over,
    "a version of somebody else's": lambda driver, first: driver.damage(recordVersionNumber={"S": "someone's"}),
    "a late copy of the claim": lambda driver, first: (driver.release(first), driver.apply(*driver.sent[0])),
}


@pytest.mark.parametrize("known", [True, False], ids=["date known", "no date known"])
@pytest.mark.parametrize("since", SINCE)
def test_what_is_not_the_hold_any_more_cannot_be_resumed_and_is_left_alone(driver, first, since, known):
    SINCE[since](driver, first)
    if not known:
        driver.restart()
    before = driver.row
    with pytest.raises(LockLostError) as caught:
        driver.resume(first)
    assert caught.value.holder == (driver.owner if driver.is_held else None)
    assert (f"the row names {driver.owner}" if driver.is_held else "it has no holder") in str(caught.value)
    assert driver.row == before


def test_a_resume_goes_above_a_version_that_is_there(driver, first):
    driver.damage(recordVersionNumber={"S": make_version(int(NOW * 1000) + 3_600_000, "f" * 32)})
    hold = driver.resume(first)
    assert hold.expiry_ms == int(NOW * 1000) + 3_600_001
    assert hold.valid_until <= driver.now + 20  # the lease counts, no matter how late the expiry
    assert driver.renew(hold).renewed


def test_a_clock_that_is_fast_writes_no_late_expiry(driver, first):
    driver.restart()
    driver.clock_ahead = 7200
    hold = driver.resume(first)
    assert hold.expiry_ms / 1000 < NOW + driver.now + 25


def test_a_lost_reply_is_found_out_by_sending_again(driver, first):
    driver.trouble(driver.lost_reply)
    before = driver.now + LATER
    hold = driver.resume(first)
    assert driver.owner == hold.owner
    assert hold.valid_until <= before + 20  # counted from before the first send
    assert len({str(request) for _, request in driver.sent}) == 1


def test_a_grant_whose_validity_passed_on_arrival_is_gone_above(driver, first):
    driver.trouble(driver.late_by(3))
    hold = driver.resume(first, lease_ms=2000)
    assert hold.is_held(driver.now)
    assert driver.operations == ["UpdateItem", "UpdateItem"]
    assert driver.row["recordVersionNumber"] == {"S": hold.version}


def test_answers_that_always_come_too_late_end_with_the_decision(driver, first):
    driver.trouble(*[driver.late_by(2)] * 20)
    start = driver.now
    with pytest.raises(TransportError, match=r"within 5 s.*Resume it again"):
        driver.resume(first, lease_ms=1000)
    assert driver.now - start < DECISION + 3
    driver.trouble()
    assert driver.resume(first).is_held(driver.now)


def test_a_row_that_refuses_every_version_is_reported_as_damaged(driver, first):
    driver.trouble(*[lambda *_: ConditionFailed(driver.row, int(NOW + driver.now))] * 20)
    with pytest.raises(LockFormatError, match="delete it"):
        driver.resume(first)
    assert len(driver.sent) <= 8


def test_a_resume_among_too_many_others_blames_them_and_not_the_row(driver, first):
    def resumed_before() -> None:
        wanted = driver.wanted(owner=f"{first.owner}/{driver.entropy.nonce()}")
        driver.beside(lambda: driver.run(resume.resume(wanted, first.token, driver.talk())))

    driver.before = {"any": [resumed_before] * 20}
    with pytest.raises(TransportError, match="was not resumed: each answer named another attempt") as caught:
        driver.resume(first)
    assert not caught.value.ambiguous
    driver.before = {}
    assert driver.resume(first).is_held(driver.now)


def test_a_renewal_of_a_resumed_hold_leaves_its_lease_to_the_next_attempt(driver, first):
    hold = driver.resume(first, lease_ms=900_000, lease_end=driver.now + 10)
    driver.now += 5
    assert driver.renew(hold).renewed
    assert driver.row["leaseDuration"] == {"S": "900000"}
    assert hold.is_held(driver.now)
    assert not hold.is_held(driver.now + 6)  # the invocation has ended
    driver.now += 60  # it was killed
    with pytest.raises(LockNotGrantedError):
        driver.acquire()
    assert driver.resume(first).token == first.token


def test_the_version_alone_is_no_grant_without_the_name(driver, first):
    """A row in which another attempt bears this one's version, as no honest writer leaves it."""

    def swapped(operation: str, request: dict[str, Any]) -> Any:
        driver.apply(operation, request)
        driver.damage(ownerName={"S": f"{first.owner}/{'e' * 32}"})
        return Reply(driver.row, int(NOW + driver.now))

    driver.trouble(swapped)
    hold = driver.resume(first)
    assert driver.owner == hold.owner
    assert len(driver.sent) == 2


@pytest.mark.parametrize("trouble", ["interrupt", "no answer", "denied"])
def test_a_resume_that_is_given_up_releases_nothing(driver, first, trouble):
    if trouble == "interrupt":
        driver.thrown = {driver.steps + 1: Interrupt()}
    else:
        driver.trouble(*([driver.lost_reply, *[UNKNOWN] * 20] if trouble == "no answer" else [DENIED]))
    with pytest.raises((Interrupt, TransportError, ServiceError)):
        driver.resume(first)
    assert len({str(request) for _, request in driver.sent}) <= 1  # the resume, and nothing else
    driver.trouble()
    assert driver.is_held
    assert driver.resume(first).token == first.token


def test_a_resume_that_comes_late_is_refused_by_name_or_gone_over(driver, first):
    driver.trouble(*[UNKNOWN] * 20)
    with pytest.raises(TransportError):
        driver.resume(first)
    late = driver.sent[0]
    driver.trouble()
    second = driver.resume(first)
    refused(driver, late)
    assert driver.renew(second).renewed


def test_validity_ends_with_the_invocation_and_the_lease_in_the_row_does_not(driver, first):
    hold = driver.resume(first, lease_end=driver.now + LATER + 5)
    assert driver.row["leaseDuration"] == {"S": "20000"}
    end = hold.lease_end
    assert end is not None
    assert driver.now + 4 < hold.valid_until <= end
    driver.now = end - 0.5
    driver.renew(hold)  # with the shortest lease, of a second
    assert hold.valid_until <= end


def test_an_invocation_that_ends_resumes_nothing(driver, first):
    with pytest.raises(LockNotGrantedError) as caught:
        driver.resume(first, lease_end=driver.now + 0.5)
    assert caught.value.too_late
    assert driver.sent == []


def test_an_answer_without_a_date_resumes_nothing(driver, first):
    driver.trouble(lambda operation, request: Reply(driver.apply(operation, request).item, None))
    with pytest.raises(LockConfigurationError, match="Date"):
        driver.resume(first)


@pytest.mark.parametrize("by", ["resume", "holder"])
def test_nothing_is_written_by_a_clock_that_no_date_has_set(driver, first, by):
    """Its expiry could be hours too late, and no later resume could shorten it."""
    driver.damage(ownerName={"S": "h#1"})
    first.owner = "h#1"
    driver.restart()
    version = driver.row["recordVersionNumber"]

    def undated(operation: str, request: dict[str, Any]) -> Any:
        try:
            return Reply(driver.apply(operation, request).item, None)
        except ConditionFailed as refused:
            return ConditionFailed(refused.item, None)

    driver.trouble(*[undated] * 20)
    with pytest.raises(LockConfigurationError, match="Date"):
        driver.resume(first) if by == "resume" else driver.acquire_as("h")
    assert driver.row["recordVersionNumber"] == version


def test_a_resume_takes_as_long_as_the_client_s_decisions(driver, first):
    driver.trouble(*[UNKNOWN] * 100)
    start = driver.now + LATER
    with pytest.raises(TransportError):
        driver.resume(first, decision=1.0)
    assert driver.now - start <= 1
    acquired = driver.now + LATER
    with pytest.raises(TransportError):
        driver.resume(first, decision=30.0)
    assert driver.now - acquired > DECISION


# Handing over and adopting


def test_what_an_attempt_hands_over_is_parked_under_a_name_that_no_handle_bears(driver, first):
    string = driver.hand_over(driver.resume(first), 60_000)
    assert driver.owner == f"{first.owner}/"
    assert driver.row["leaseDuration"] == {"S": "60000"}
    read = read_handover(string, "locks")
    assert (read.owner, read.token) == (first.owner, first.token)
    assert driver.resume(first).token == first.token


def test_a_first_handle_that_is_alive_is_not_revived_by_a_parked_row(driver, first):
    driver.hand_over(driver.resume(first))
    assert not driver.renew(first).renewed
    assert not driver.release(first)
    assert driver.is_held


def test_a_handover_whose_reply_is_lost_is_found_out_by_sending_again(driver, first):
    hold = driver.resume(first)
    driver.trouble(driver.lost_reply)
    assert read_handover(driver.hand_over(hold), "locks").owner == first.owner


def test_a_parked_hold_is_adopted_once_under_a_name_of_its_own(driver, first):
    driver.hand_over(driver.resume(first))
    adopted = driver.adopt(first)
    assert adopted.token == first.token + 1
    assert base_of(adopted.owner) == first.owner
    assert adopted.owner not in (first.owner, f"{first.owner}/")
    assert driver.owner == adopted.owner
    with pytest.raises(LockLostError):
        driver.adopt(first)
    with pytest.raises(LockLostError):
        driver.resume(first)
    assert driver.renew(adopted).renewed


def test_a_first_handle_that_is_alive_does_not_release_the_adopters_lock(driver, first):
    """A refusal that shows its own owner under another token would be a late copy of its claim."""
    driver.adopt(first, owner=f"{first.owner}/{'a' * 32}")  # by parts, so that nobody need have handed over
    assert not driver.release(first)
    assert driver.is_held


def test_what_an_attempt_has_cannot_be_adopted(driver, first):
    hold = driver.resume(first)
    with pytest.raises(LockLostError):
        driver.adopt(first)
    assert driver.renew(hold).renewed


# An attempt's release


@pytest.mark.parametrize("released", [False, True], ids=["another attempt has the hold", "it is released"])
def test_a_release_that_may_have_been_carried_out_is_true_if_the_hold_is_released_under_any_name(
    driver, first, released
):
    hold = driver.resume(first)
    other = driver.resume(first)
    if released:
        driver.release(other)
    driver.trouble(UNKNOWN)
    assert driver.release(hold) is released
    assert driver.owner == other.owner
    assert driver.is_held is not released


# Release by string


@pytest.mark.parametrize("has", ["the first handle", "an attempt", "nobody"])
def test_a_string_releases_what_any_handle_has_or_is_parked_any_number_of_times(driver, first, has):
    hold = first if has == "the first handle" else driver.resume(first)
    if has == "nobody":
        driver.hand_over(hold)
    assert driver.release_string(first)
    assert driver.operations == ["UpdateItem"] * (1 if hold is first else 2)
    assert not driver.is_held
    assert not driver.renew(hold).renewed
    assert driver.release_string(first)
    assert not driver.is_held


def test_a_string_is_false_once_a_third_party_has_the_lock(driver, first):
    assert driver.release_string(first)
    third = driver.acquire()
    assert not driver.release_string(first)
    assert driver.renew(third).renewed
    driver.release(third)
    assert not driver.release_string(first)


def test_a_string_does_not_release_what_was_adopted(driver, first):
    driver.hand_over(first)
    adopted = driver.adopt(first)
    assert not driver.release_string(first)
    assert driver.renew(adopted).renewed


def test_a_release_without_a_clear_answer_says_so_and_may_be_called_again(driver, first):
    driver.trouble(driver.lost_reply, *[UNKNOWN] * 20)
    with pytest.raises(TransportError) as caught:
        driver.release_string(first)
    assert caught.value.ambiguous
    driver.trouble()
    assert driver.release_string(first)


def test_a_release_that_is_denied_raises_the_reason(driver, first):
    driver.trouble(DENIED)
    with pytest.raises(ServiceError):
        driver.release_string(first)
    assert driver.is_held


def test_a_release_by_string_keeps_data_and_time_to_live(driver):
    first = driver.acquire()
    driver.damage(data={"B": "YQ=="})
    ttl = driver.row["ttl"]
    driver.release_string(first)
    assert driver.row["data"] == {"B": "YQ=="}
    assert driver.row["ttl"] == ttl


# Acquire by holder


def test_a_holder_that_has_the_lock_goes_on_with_it(driver):
    first = driver.acquire_as("execution-7")
    again = driver.acquire_as("execution-7")
    assert again.token == first.token
    assert base_of(again.owner) == first.owner
    assert driver.owner == again.owner
    assert driver.operations == ["UpdateItem", "UpdateItem"]
    assert not driver.renew(first).renewed
    string = read_handover(driver.hand_over(again), "locks")
    assert (string.owner, string.token) == (first.owner, first.token)  # both attempts of the step name one hold


@pytest.mark.parametrize("end", ["park", "attempt"])
def test_a_holder_goes_on_with_what_its_attempts_have(driver, end):
    first = driver.acquire_as("a/b#c")
    second = driver.resume(first)
    if end == "park":
        driver.hand_over(second)
    again = driver.acquire_as("a/b#c")
    assert again.token == first.token
    assert base_of(again.owner) == first.owner


@pytest.mark.parametrize("other", ["execution-8", "execution-7#x", "execution", "execution-7/a", "x#execution-7"])
def test_what_another_holder_has_is_contention(driver, other):
    first = driver.acquire_as(other)
    with pytest.raises(LockNotGrantedError):
        driver.acquire_as("execution-7")
    assert driver.renew(first).renewed


def test_a_holder_takes_a_free_lock_like_anybody(driver):
    first = driver.acquire_as("execution-7")
    driver.release(first)
    second = driver.acquire_as("execution-7")
    assert second.token == first.token + 1
    assert driver.operations == ["UpdateItem"]
    assert "/" not in second.owner


def test_a_lost_reply_to_its_own_claim_is_a_grant_and_not_an_earlier_attempt(driver):
    driver.trouble(driver.lost_reply)
    hold = driver.acquire_as("execution-7")
    assert "/" not in hold.owner
    assert driver.operations == ["UpdateItem", "UpdateItem"]


def test_a_holder_waits_for_others_and_resumes_what_its_own_late_claim_took(driver):
    other = driver.acquire()
    claim = driver.first_of("execution-7#ab")

    def release_and_late() -> None:
        driver.release(other)
        driver.apply(*claim)

    driver.after = {"any": [release_and_late]}
    hold = driver.acquire_as("execution-7", waits=True, wait_until=driver.now + 10)
    assert base_of(hold.owner) == "execution-7#ab"
    assert driver.renew(hold).renewed


def test_a_holder_whose_claim_got_no_answer_resumes_what_the_row_shows_at_once(driver):
    """The claim gets no answer. Then the row shows an earlier attempt, whose claim came late."""
    earlier = driver.first_of("h#ab")
    driver.trouble(lambda *_: driver.apply(*earlier) and UNKNOWN)
    hold = driver.acquire_as("h")
    assert base_of(hold.owner) == "h#ab"
    claim, again, resumed = (request for _, request in driver.sent)
    assert claim == again
    assert hold.owner in str(resumed)
    driver.release(hold)
    driver.apply("UpdateItem", claim)  # later than that, it leaves a lock that nobody has, by rule 5
    assert driver.owner != hold.owner


def test_a_holder_whose_hold_is_released_before_it_is_resumed_takes_the_lock_anew(driver):
    first = driver.acquire_as("h")

    driver.after = {"any": [lambda: driver.release(first)]}
    hold = driver.acquire_as("h")
    assert hold.token == first.token + 1
    assert driver.renew(hold).renewed


def taken_from_holder(driver: Invocations, seconds: float = 0.0, by: str = "x#1") -> None:
    """Let the next acquire of holder h see its hold, then another's, and then nothing."""
    driver.acquire_as("h")

    def another(operation: str, request: dict[str, Any]) -> Any:
        driver.now += seconds
        version = make_version(int((NOW + driver.now + 20) * 1000), "ab" * 16)
        row = {**driver.row, "ownerName": {"S": by}, "recordVersionNumber": {"S": version}}
        return ConditionFailed(row, int(NOW + driver.now))

    driver.trouble(driver.apply, another, *[UNKNOWN] * 500)


def copy_lands(driver: Invocations) -> None:
    """A copy of the first claim that was sent, which had been refused."""
    driver.apply(*driver.sent[0])


@pytest.mark.parametrize("ends", [LockNotGrantedError, Interrupt])
def test_a_holder_whose_acquire_ends_releases_a_copy_of_its_refused_claim_that_landed(driver, ends):
    first = driver.acquire_as("h")
    driver.damage(heldMs={"N": "3600000"})

    def copied() -> None:
        driver.release(first)
        copy_lands(driver)
        if ends is Interrupt:
            driver.thrown = {driver.steps + 2: Interrupt()}
        else:
            driver.now += DECISION

    driver.after = {"any": [copied]}
    with pytest.raises(ends) as caught:
        driver.acquire_as("h")
    assert driver.row["fencingToken"] == {"N": str(first.token + 1)}
    assert not driver.is_held
    assert first.owner not in str(caught.value)  # it was released
    assert getattr(caught.value, "retry_after", None) is None


@pytest.mark.parametrize("ends", [False, True])
def test_a_copy_of_a_holders_refused_claim_that_landed_is_granted_or_released(driver, ends):
    first = driver.acquire_as("h")

    def copied() -> None:
        copy_lands(driver)
        if ends:
            driver.now = 19.5

    release = lambda: driver.beside(lambda: driver.release(first))  # noqa: E731
    driver.before = {"any": [lambda: None, release, copied]}
    if ends:
        with pytest.raises(LockNotGrantedError):
            driver.acquire_as("h", lease_end=20.0)
        assert not driver.is_held
    else:
        hold = driver.acquire_as("h", lease_end=20.0)
        assert driver.owner == hold.owner
        assert "/" not in hold.owner
        assert driver.renew(hold).renewed


def test_a_holder_knows_its_claim_after_it_resumed_two_holds_in_vain(driver):
    first = driver.acquire_as("h")

    def another_released() -> None:
        token = int(driver.row["fencingToken"]["N"])
        driver.beside(lambda: driver.run(resume.release(first.place, "h#ab", token, driver.talk())))
        copy_lands(driver)
        driver.now += DECISION

    another = driver.first_of("h#ab")
    release = lambda: driver.beside(lambda: driver.release(first))  # noqa: E731
    driver.after = {"any": [release, lambda: driver.apply(*another), another_released]}
    with pytest.raises(LockNotGrantedError):
        driver.acquire_as("h")
    assert not driver.is_held


@pytest.mark.parametrize(("wait", "error"), [(0, LockNotGrantedError), (10, LockTimeoutError)])
def test_a_hold_that_always_vanishes_is_waited_for_as_long_as_any_other_holder(driver, wait, error):
    first = driver.acquire_as("h")
    row, gone = driver.row, {**driver.row, "isReleased": {"S": "1"}, "heldMs": {"N": "3600000"}}
    answers = [row, gone] * 100
    driver.trouble(*[lambda *_: ConditionFailed(answers.pop(0), int(NOW))] * 200)
    until = driver.now + LATER + wait
    with pytest.raises(LockNotGrantedError) as caught:
        driver.acquire_as("h", waits=wait > 0, wait_until=until)
    assert type(caught.value) is error
    assert caught.value.holder is None
    assert caught.value.retry_after is None
    assert caught.value.ahead is None
    assert "had a hold of h each time, which was gone before it could be resumed" in str(caught.value)
    assert until <= driver.now < until + 1
    assert len(driver.sent) < 100
    assert driver.owner == first.owner


@pytest.mark.parametrize(("wait", "error"), [(0, LockNotGrantedError), (10, LockTimeoutError)])
def test_a_lock_that_somebody_took_from_the_holder_stays_his_in_an_outage(driver, wait, error):
    taken_from_holder(driver)
    until = driver.now + LATER + wait
    with pytest.raises(LockNotGrantedError) as caught:
        driver.acquire_as("h", waits=wait > 0, wait_until=until)
    assert type(caught.value) is error
    assert caught.value.holder == "x#1"
    assert isinstance(caught.value.__cause__, TransportError)
    assert until <= driver.now < until + 2 * DECISION


@pytest.mark.parametrize("wait", [0, 10])
def test_another_hold_of_the_same_holder_is_not_somebody_else(driver, wait):
    taken_from_holder(driver, by="h#2")
    with pytest.raises(TransportError):
        driver.acquire_as("h", waits=wait > 0, wait_until=driver.now + wait)


def test_a_row_that_cannot_be_read_instead_of_the_hold_is_judged_by_the_next_answer(driver):
    first = driver.acquire_as("h")
    driver.release(first)
    damaged = {**driver.row, "ownerName": {"S": "x#1"}, "leaseDuration": {"S": "?"}}
    del damaged["isReleased"]
    held = {name: value for name, value in driver.row.items() if name != "isReleased"}
    driver.trouble(ConditionFailed(held, int(NOW)), ConditionFailed(damaged, int(NOW)))
    assert driver.acquire_as("h").token == first.token + 1


def test_a_lease_that_is_over_by_the_dates_does_not_name_its_holder_in_an_outage(driver):
    """The monotonic clock stood still meanwhile: the environment was frozen."""
    driver.acquire_as("java")
    driver.damage(recordVersionNumber={"S": "of an older client"})
    driver.restart()
    with pytest.raises(LockNotGrantedError, match="java"):
        driver.acquire_as("h")
    later = ConditionFailed(driver.row, int(NOW) + 60)
    driver.trouble(later, *[UNKNOWN] * 500)
    with pytest.raises(TransportError):
        driver.acquire_as("h")


def test_an_outage_that_outlasts_the_lease_of_who_took_it_from_the_holder_is_an_outage(driver):
    taken_from_holder(driver)
    with pytest.raises(TransportError):
        driver.acquire_as("h", waits=True, wait_until=driver.now + 30)


def test_who_took_the_lock_from_the_holder_counts_as_seen_from_the_answer_on(driver):
    """A resume may take seconds. Had the version been there all the time, its lease would end that much earlier."""
    taken_from_holder(driver, seconds=4.0)
    with pytest.raises(LockTimeoutError) as caught:
        driver.acquire_as("h", waits=True, wait_until=driver.now + 5)
    assert 18 < (caught.value.retry_after or 0) <= 20


@pytest.mark.parametrize(("wait", "times"), [(0, 5), (60, 8)])
def test_a_holder_takes_the_lock_after_many_of_its_holds_vanished(driver, wait, times):
    first = driver.acquire_as("h")
    vanishing = [driver.row, {**driver.row, "ownerName": {"S": "x#1"}}] * times

    def last(operation: str, request: dict[str, Any]) -> Any:
        driver.release(first)
        return driver.apply(operation, request)

    driver.trouble(*[lambda *_: ConditionFailed(vanishing.pop(0), int(NOW))] * 2 * times, last)
    hold = driver.acquire_as("h", waits=wait > 0, wait_until=driver.now + wait)
    assert not vanishing
    assert hold.token == first.token + 1


@pytest.mark.parametrize("wait", [2, 10, 26])
def test_a_holder_whose_resumes_take_long_tries_no_more_once_its_wait_is_over(driver, wait):
    driver.acquire_as("h")
    answers = [driver.row, {**driver.row, "ownerName": {"S": "x#1"}}] * 100
    until = driver.now + LATER + wait

    def slow(operation: str, request: dict[str, Any]) -> Any:
        driver.now += 4 if len(answers) % 2 else 0
        return ConditionFailed(answers.pop(0), int(NOW + driver.now))

    driver.trouble(*[slow] * 200)
    with pytest.raises(LockTimeoutError) as caught:
        driver.acquire_as("h", waits=True, wait_until=until)
    assert until <= driver.now < until + 4.1
    assert caught.value.waited == pytest.approx(driver.now - (until - wait), abs=0.1)


def test_an_interrupt_between_gives_up_the_claim_and_not_the_hold(driver):
    first = driver.acquire_as("h")
    driver.thrown = {driver.steps + 2: Interrupt()}
    with pytest.raises(Interrupt) as caught:
        driver.acquire_as("h")
    assert caught.value.__context__ is None  # a traceback names nothing private
    assert driver.is_held
    assert driver.owner == first.owner
