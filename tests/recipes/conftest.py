import contextlib
from collections.abc import Iterator

import pytest

from lambda_lock import LockConfigurationError, default_client, set_default_client
from tests.support.fresh import fresh_process

__all__ = ["fresh_process"]


@pytest.fixture(autouse=True)
def default_clients_are_new(fresh_process: None) -> Iterator[None]:
    set_default_client(None)
    yield
    with contextlib.suppress(LockConfigurationError):  # no table is named, so there was no client
        default_client().close()
    set_default_client(None)
