"""The CPU time of processes and of the machine, as Linux tells it. Elsewhere nothing is known."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """Measures from its making on. pids: processes by name; the CPU time of children that have ended is theirs too."""

    def __init__(self, **pids: int) -> None:
        self._pids = pids
        self._from = self._read()

    def cores(self) -> dict[str, float] | None:
        """Cores that were busy on average: for each process, and ("others") for everything but them and this one."""
        now = self._read()
        if self._from is None or now is None:
            return None
        used = {name: now[name] - self._from[name] for name in now}
        seconds = used.pop("clock")
        cores = {name: max(value, 0.0) / seconds for name, value in used.items()}
        own = sum(value for name, value in cores.items() if name != "others")
        cores["others"] = max(cores["others"] - own, 0.0)
        del cores["self"]
        return {name: round(value, 3) for name, value in cores.items()}

    def _read(self) -> dict[str, float] | None:
        try:
            times = {name: _process(pid) for name, pid in self._pids.items()}
            fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except (OSError, ValueError):
            return None
        busy = sum(fields) - fields[3] - fields[4]  # without idle and iowait
        return times | {"self": time.process_time(), "others": busy / _TICKS, "clock": time.monotonic()}


def _process(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS  # user and system, its own and its children's
