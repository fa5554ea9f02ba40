"""Takes a lock where gevent or eventlet is loaded: ``python locking.py before|after patching``. Prints what happened.

patching: what is called, before or after lambda_lock is imported.
"""

import importlib
import sys
import time


def main(when: str, patching: str) -> None:
    if when == "before":
        patch(patching)
    from lambda_lock import LockClient
    from lambda_lock.errors import LockConfigurationError

    if when == "after":
        patch(patching)
    try:
        with LockClient(lease_duration=5, heartbeat_period=0.05) as client, client.acquire("a") as lock:
            version, end = lock.version, time.monotonic() + 30
            while lock.version == version and time.monotonic() < end:
                time.sleep(0.01)
            print("renewed" if lock.version != version else "not renewed")
    except LockConfigurationError as error:
        print(error)


def patch(patching: str) -> None:
    """patching: ``module:function:module that is left out``, the last two may be empty."""
    module, function, spared = patching.split(":")
    loaded = importlib.import_module(module)
    if function:
        getattr(loaded, function)(**({spared: False} if spared else {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
