"""What has to be done before a process imports anything else: Python imports a module of this name by itself.

``WALL_CLOCK`` names a file with one double: the seconds by which ``time.time()`` is off. To write the file is to step
the wall clock of the whole process. All other clocks are the machine's, as when somebody sets the time. ``BROKEN``
names a rule of the protocol to break.

libfaketime cannot do this: with the monotonic clock left alone (FAKETIME_DONT_FAKE_MONOTONIC) ``time.sleep`` of Python
3.11 fails (EINVAL, libfaketime 0.9.10), and otherwise it steps the monotonic clock, which no machine does. A time
namespace has offsets of the monotonic clocks only.
"""

from __future__ import annotations

import mmap
import os
import struct
import time


def _install(path: str) -> None:
    with open(path, "rb") as file:
        offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    true = time.time

    def stepped() -> float:
        (seconds,) = struct.unpack_from("d", offset)
        return true() + seconds

    time.time = stepped


if os.environ.get("WALL_CLOCK"):
    _install(os.environ["WALL_CLOCK"])

if os.environ.get("BROKEN"):
    from tests.simulation.mutations import broken

    _broken = broken(os.environ["BROKEN"])  # kept: its end would mend the rule
    _broken.__enter__()
