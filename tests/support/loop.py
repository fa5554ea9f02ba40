"""The current event loop of the main thread, for what asks for it instead of running one, as Mangum does."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture
def loop() -> Iterator[None]:
    running = asyncio.new_event_loop()
    asyncio.set_event_loop(running)
    yield
    asyncio.set_event_loop(None)
    running.close()
