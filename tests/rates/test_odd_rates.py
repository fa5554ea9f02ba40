"""Rates whose interval is no whole number of microseconds, very large ones, and what one client remembers of many."""

import pytest

from lambda_lock import LockArgumentError, LockClient, RateLimitedError
from lambda_lock.core import rate
from lambda_lock.testing import ManualClock, in_memory


class Naps(ManualClock):
    """A clock that notes for how long the library slept."""

    def __init__(self) -> None:
        super().__init__()
        self.naps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        super().sleep(seconds)


@pytest.mark.parametrize(
    ("limit", "per", "burst"), [(7, 3600, 1), (7, 60, 1), (3, 1, 1), (3, 1, 2), (7, 1e-3, 1), (10**6 - 1, 1, 1)]
)
def test_a_start_that_is_free_is_not_waited_for_also_if_its_interval_is_rounded(limit, per, burst):
    clock = Naps()
    with in_memory(clock=clock), LockClient("locks", clock=clock) as client:
        client.rate_limit("another", 1)
        clock.naps.clear()
        assert client.rate_limit("api", limit, per=per, burst=burst, n=burst, wait=0) <= 1e-5
        assert sum(clock.naps) <= 1e-5  # one microsecond, by which the interval was rounded up


@pytest.mark.parametrize(
    ("limit", "options"),
    [
        (10**9, {"per": 1000.0, "burst": 10**6, "n": 10**6}),
        *((1, {"per": seconds}) for seconds in (365 * 86_400.0, 1e-6)),
        (50_000_000, {"per": 60.0, "burst": 1_000_000, "n": 999_999}),
    ],
)
def test_very_large_and_very_small_rates_are_taken(limit, options):
    with in_memory(), LockClient("locks") as client:
        assert client.rate_limit("api", limit, **options) < 60


@pytest.mark.parametrize("burst", [10**12, 10**400], ids=["large", "larger than a float"])
def test_a_burst_that_takes_more_than_a_year_is_named_however_large(burst):
    with in_memory(), LockClient("locks") as client, pytest.raises(LockArgumentError, match="more than a year"):
        client.rate_limit("api", 1, burst=burst)


def test_a_client_remembers_a_bounded_number_of_limits_and_what_it_forgot_is_no_error(monkeypatch):
    monkeypatch.setattr(rate, "_MOST", 5)
    with in_memory(), LockClient("locks") as client:
        for number in range(20):
            client.rate_limit(f"api#{number}", 1, per=60)
        assert len(client.__session__.memory.rates) == 5
        with pytest.raises(RateLimitedError):
            client.rate_limit("api#0", 1, per=60, wait=0)
