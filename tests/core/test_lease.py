"""The arithmetic of leases: expiry, validity, observations, elapsed time, and when heartbeats are planned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_lock.core import keep, lease
from lambda_lock.core.lease import ClockReading, Observations, ServerTime
from lambda_lock.core.protocol import ClientMemory
from lambda_lock.core.row import Row, make_version
from lambda_lock.core.schema import JAVA

NOW = 1_800_000_000.0
seconds = st.floats(min_value=0, max_value=1e6)
steps = st.floats(min_value=-1e4, max_value=1e4)


def reading(at: float) -> ClockReading:
    return ClockReading(at, at, NOW + at)


def row(version: str, lease_ms: int) -> Row:
    return Row({"recordVersionNumber": {"S": version}, "leaseDuration": {"S": str(lease_ms)}}, JAVA)


# -- where the tokens of a new row start


def test_tokens_start_at_the_wall_clock_as_far_as_dates_confirm_it_and_never_twice_at_one_number():
    memory = ClientMemory(1)
    ms = int(NOW * 1000)
    assert [memory.seed_ms(reading(0.25)) for _ in range(3)] == [ms + 250, ms + 251, ms + 252]
    memory.server.note(int(NOW), reading(0.3), reading(0.31))
    assert memory.seed_ms(reading(0.4)) == ms + 400
    assert memory.seed_ms(ClockReading(0.5, 0.5, NOW + 900)) == ms + 1200  # a clock that is ahead
    assert memory.seed_ms(ClockReading(1.0, 1.0, NOW - 900)) == ms + 1201  # and one that is behind
    assert memory.seed_ms(reading(60)) == ms + 60_000


def test_a_start_of_tokens_far_ahead_came_from_a_wrong_clock_and_is_not_counted_on():
    memory = ClientMemory(1)
    memory.seed_ms(ClockReading(0.0, 0.0, NOW + 900))
    memory.server.note(int(NOW), reading(0.1), reading(0.2))
    assert memory.seed_ms(reading(0.25)) == int(NOW * 1000) + 250


# -- expiry and validity


@given(
    st.floats(NOW, NOW + 1e6),
    st.integers(1000, 3_600_000),
    st.floats(-60, 5),
    st.floats(-0.25, 0.249),
    st.floats(-0.25, 0.249),
    st.floats(0, 5),
)
def test_a_validity_ends_before_any_front_end_says_the_expiry(started, lease_ms, wrong, holders, waiters, trip):
    """Front ends are off by up to 0.25 s and truncate to whole seconds. The wall clock that wrote the expiry is wrong,
    and the clock that counts is as slow as allowed."""
    expiry = lease.expiry_ms(started + wrong, lease_ms)
    valid = lease.validity(lease_ms, expiry, int(started + trip + holders))
    ends = started + valid / (1 - lease.DRIFT)
    if ends > started + trip:  # otherwise it is unusable on arrival
        assert int(ends + waiters) * 1000 < expiry


@given(st.integers(1000, 3_600_000), st.floats(-1e4, 1e4))
def test_a_validity_is_never_longer_than_the_lease_less_drift(lease_ms, skew):
    expiry = lease.expiry_ms(NOW + skew, lease_ms)
    assert lease.validity(lease_ms, expiry, int(NOW)) <= lease_ms / 1000 * (1 - lease.DRIFT)


@given(st.integers(1000, 3_600_000), st.floats(-0.25, 0.25), st.floats(0, 1))
def test_a_right_clock_is_never_called_fast(lease_ms, front_end, fraction):
    now = NOW + fraction
    assert not lease.clock_was_fast(lease_ms, lease.expiry_ms(now, lease_ms), int(now + front_end))


@given(st.integers(1000, 3_600_000), st.floats(4.5, 1e4))
def test_a_clock_that_others_would_wait_in_vain_for_is_called_fast(lease_ms, ahead):
    assert lease.clock_was_fast(lease_ms, lease.expiry_ms(NOW + ahead, lease_ms), int(NOW))


# -- elapsed time


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 2), st.booleans()), max_size=20))
def test_elapsed_never_lags_while_one_clock_goes_on(freezes):
    clocks, true = [5.0, 5.0, NOW], 0.0
    elapsed = ClockReading(0.0, 5.0, NOW, 5.0)
    for length, running, step_back in freezes:
        true += length
        clocks[running] += length  # the other clocks stop
        elapsed = elapsed.after(*clocks)
        if step_back:
            clocks[2] -= 50
            elapsed = elapsed.after(*clocks)
    assert elapsed.elapsed == pytest.approx(true, abs=1e-3)


@given(st.lists(st.tuples(steps, steps, steps), max_size=30))
def test_elapsed_never_goes_back_whatever_the_clocks_do(moves):
    clocks, elapsed, last = [0.0, 0.0, 0.0], ClockReading(0.0, 0.0, 0.0), 0.0
    for move in moves:
        clocks = [clock + by for clock, by in zip(clocks, move, strict=True)]
        elapsed = elapsed.after(*clocks)
        assert elapsed.elapsed >= last
        last = elapsed.elapsed


# -- the server's time


def test_the_wall_clock_serves_only_while_no_date_is_known():
    server = ServerTime()
    assert server.now(ClockReading(1, 1, 123.0)) == 123.0
    server.note(int(NOW), reading(1.0), reading(1.2))
    assert server.is_known
    assert server.now(ClockReading(2.1, 2.1, 999.0)) == pytest.approx(NOW + 0.5 + 1.0, abs=1e-3)


def test_an_answer_without_a_date_changes_nothing():
    server = ServerTime()
    server.note(None, reading(0), reading(0.1))
    assert not server.is_known


def test_a_slow_answers_date_serves_until_a_quick_one_comes():
    server = ServerTime()
    server.note(int(NOW), reading(0), reading(3))
    assert server.now(reading(3)) == pytest.approx(NOW + 0.5, abs=1e-3)
    server.note(int(NOW) + 10, reading(4), reading(4.2))
    server.note(int(NOW) + 99, reading(5), reading(9))
    assert server.now(reading(4.1)) == pytest.approx(NOW + 10.5, abs=1e-3)


def test_the_time_after_freezes_goes_on_while_the_monotonic_clock_stands():
    server = ServerTime()
    assert server.after_freezes(ClockReading(1, 1, 123.0)) == 123.0
    server.note(int(NOW), reading(1.0), reading(1.2))
    assert server.after_freezes(ClockReading(601.0, 1.2, 999.0)) == pytest.approx(NOW + 0.5 + 600.0, abs=1e-3)
    assert server.after_freezes(reading(5.0)) == pytest.approx(NOW + 0.5 + 4.0, abs=1e-3)


# -- observations


def test_a_version_that_stood_still_for_its_lease_is_over():
    seen = Observations(10).note("k", row("v", 10_000), 10_000, reading(100), None)
    assert not seen.is_over(110.0, None)
    assert seen.is_over(110.02, None)
    assert seen.seconds_left(105.0) == pytest.approx(5.01)


def test_between_two_dates_a_version_is_over_two_seconds_after_its_lease():
    seen = Observations(10).note("k", row("v", 10_000), 10_000, reading(100), 1000)
    assert not seen.is_over(100.0, 1011)
    assert seen.is_over(100.0, 1012)
    assert not seen.is_over(100.0, None)


def test_between_two_dates_a_lease_of_more_than_500_seconds_gets_more_for_drift():
    seen = Observations(10).note("k", row("v", 1_000_000), 1_000_000, reading(100), 1000)
    assert not seen.is_over(100.0, 2002)
    assert seen.is_over(100.0, 2003)


def test_a_changed_version_or_lease_begins_a_new_observation():
    observations = Observations(10)
    first = observations.note("k", row("v", 10_000), 10_000, reading(100), None)
    assert observations.note("k", row("v", 10_000), 10_000, reading(105), 7) is first
    assert first.date == 7
    assert observations.note("k", row("w", 10_000), 10_000, reading(106), None) is not first
    assert observations.note("k", row("w", 5000), 5000, reading(107), None).monotonic == 107


def test_the_cache_is_bounded_and_the_oldest_goes():
    observations = Observations(2)
    for number, where in enumerate("abc"):
        observations.note(where, row("v", 1000), 1000, reading(number), None)
    assert len(observations) == 2
    assert observations.note("a", row("v", 1000), 1000, reading(50), None).monotonic == 50
    observations.forget("never seen")


def test_a_stored_expiry_is_judged_by_the_reply_s_date_alone():
    held = row(make_version(int(NOW) * 1000, "0" * 32), 10_000)
    seen = Observations(10).note("k", held, 10_000, reading(0), None)
    late_wall = ClockReading(0, 0, NOW + 1e6)
    assert not lease.may_take_over(held, seen, late_wall, int(NOW) - 1)
    assert not lease.may_take_over(held, seen, late_wall, None)
    assert lease.may_take_over(held, seen, ClockReading(0, 0, 0), int(NOW))


# -- heartbeats and back-off


@given(st.integers(0, 60), st.floats(0.01, 100), st.floats(0, 0.999999))
def test_a_back_off_is_never_nothing_and_never_over_its_cap(attempt, cap, jitter):
    assert 0.01 <= lease.backoff(attempt, cap, jitter) <= max(0.01, cap)


@given(seconds, st.floats(0, 1e4))
def test_heartbeats_come_at_a_third_of_the_validity_and_never_too_close(now, left):
    when = keep.next_heartbeat(now, now + left)
    assert when == pytest.approx(now + max(0.3, left / 3))


def test_a_heartbeat_is_planned_only_where_validity_ends_well_before_the_deadline():
    assert keep.needs_heartbeat(10.0, None, 10_000)
    assert keep.needs_heartbeat(10.0, 10.6, 10_000)
    assert not keep.needs_heartbeat(10.0, 10.4, 10_000)
    assert not keep.needs_heartbeat(100.0, 101.9, 200_000)
    assert keep.needs_heartbeat(100.0, 102.1, 200_000)


def test_the_first_heartbeat_comes_at_once_where_the_claim_left_little():
    assert keep.first_heartbeat(0.0, 8.9, 10_000) == 0.0
    assert keep.first_heartbeat(0.0, 9.9, 10_000) == pytest.approx(3.3)
