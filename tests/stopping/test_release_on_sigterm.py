"""release_on_sigterm: what it releases, whose handlers stay, and what it refuses."""

import os
import signal

import pytest

from lambda_lock import LockClient, LockConfigurationError, release_on_sigterm
from lambda_lock.testing import in_memory
from tests.support.elsewhere import in_thread

from .rounds import PATIENCE
from .test_stopping import STOPPED, worker

PLAIN = """
release_on_sigterm()
def hold():
    default_client().acquire("by a thread", lease_duration=600)
    held.set()
    stay()
held = threading.Event()
threading.Thread(target=hold, daemon=True).start()
held.wait()
with default_client().acquire("by main", lease_duration=600):
    ready()
    stay()
"""
ASYNC = """
import asyncio
async def main():
    client = AsyncLockClient()
    release_on_sigterm(client)
    async with client.acquire("by main", lease_duration=600):
        ready()
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize(("script", "keys"), [(PLAIN, ["by a thread", "by main"]), (ASYNC, ["by main"])])
def test_a_worker_that_is_asked_to_stop_releases_what_it_holds(script, keys, table):
    with worker(script) as process:
        process.terminate()
        assert process.wait(PATIENCE) == STOPPED
    with LockClient(table) as client:
        assert [(record.key, record.is_released) for record in client.list()] == [(key, True) for key in keys]


def test_an_applications_own_handler_of_sigterm_stays():
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with in_memory():
            release_on_sigterm(LockClient())
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_release_on_sigterm_is_called_in_the_main_thread():
    with pytest.raises(LockConfigurationError, match="call it in the main thread"):
        in_thread(lambda: release_on_sigterm(LockClient("locks")))()
