"""Callers of one key that pass another N, or another k: what docs/semaphores.md says of them."""

import pytest

from lambda_lock import LockNotGrantedError


def test_each_k_is_taken_as_its_caller_says_and_given_back_as_the_row_says(client):
    locks = [client.acquire("gpus", permits=10, take=take, wait=0) for take in (2, None, 3, 4)]
    assert client.get("gpus").taken == 10
    for lock, left in zip(locks, (8, 7, 4, 0), strict=True):
        assert lock.release()
        assert client.get("gpus").taken == left


def test_each_caller_compares_what_is_taken_with_its_own_n(client):
    large = client.acquire("gpus", permits=10, take=6, wait=0)
    with pytest.raises(LockNotGrantedError, match="6 of 8 are held"):
        client.acquire("gpus", permits=8, take=3, wait=0)
    client.acquire("gpus", permits=8, take=2, wait=0)
    client.acquire("gpus", permits=10, take=2, wait=0)
    with pytest.raises(LockNotGrantedError, match="10 of 8 are held"):  # more than its own N: it waits until they leave
        client.acquire("gpus", permits=8, take=1, wait=0)
    large.release()
    assert client.acquire("gpus", permits=8, take=4, wait=0).take == 4
    assert client.get("gpus").taken == 8


def test_a_writer_of_a_smaller_n_does_not_keep_out_readers_of_a_larger_one(client):
    client.acquire("config", permits=50, take=50, wait=0)
    assert client.try_acquire("config", permits=50, take=1) is None
    client.acquire("config", shared=True, wait=0)
    assert client.get("config").taken == 51
