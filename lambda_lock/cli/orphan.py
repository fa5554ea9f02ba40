"""Ends a child process whose parent was killed before it could end the child."""

from __future__ import annotations

import os
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: int) -> None:
    """Have Linux send this process the signal ``number`` when its parent dies. Does nothing on other systems.

    For the child, between fork and exec. The signal comes when the parent's thread that forked ends, so that must be
    its main thread. The kernel forgets the request if the child executes a file with set-user-ID or capabilities.
    """
    if sys.platform != "linux":
        return
    import ctypes  # only here: nothing else on the command line needs it

    ctypes.CDLL(None).prctl(*map(ctypes.c_ulong, (_PR_SET_PDEATHSIG, number, 0, 0, 0)))
    if os.getppid() != parent:  # it died before this request, and no signal will come
        os._exit(128 + number)
