"""The code that the contestants share. It imports only modules that a bare interpreter has already loaded."""

from __future__ import annotations

import os
import sys


class Context:
    """The parts of a Lambda context that contestants read."""

    aws_request_id = "5f4a9c0e-8d4b-4f6f-9d35-0c8f1f4f3a11"
    function_name = "orders"

    def get_remaining_time_in_millis(self) -> int:
        return 3000


def held() -> None:
    """Print the process's peak memory and its number of modules. Then end the process at once, without any teardown.

    With BENCHMARK_CYCLE set, do nothing instead. The process continues and releases the lock.
    """
    if "BENCHMARK_CYCLE" in os.environ:
        return
    os.write(1, f"{_peak_kilobytes()} {len(sys.modules)}".encode())
    os._exit(0)


def _peak_kilobytes() -> int:
    # Not getrusage(): after a fork, its maximum may be the parent's.
    try:
        status = os.open("/proc/self/status", os.O_RDONLY)
    except OSError:
        return 0  # not Linux
    return int(os.read(status, 4096).partition(b"VmHWM:")[2].split(maxsplit=1)[0])
