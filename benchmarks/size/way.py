"""The way of one warm call of a function under @with_lock: calls, functions and files of the library.

The call runs on in_memory(), so the way ends where a request would be sent. lambda_lock/testing is not counted.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

from lambda_lock import with_lock
from lambda_lock.testing import in_memory, lambda_context
from rig.engine import ROOT

_LIBRARY = str(ROOT / "lambda_lock") + "/"
_NOT_COUNTED = _LIBRARY + "testing/"


@dataclass(frozen=True)
class Way:
    """calls: of Python functions. changes: how often the next call is in another file than the one before."""

    calls: int
    functions: int
    files: int
    changes: int


def warm_call() -> Way:
    """What the third call of a decorated function runs through."""
    called: list[CodeType] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_LIBRARY) and not name.startswith(_NOT_COUNTED):
            called.append(frame.f_code)

    @with_lock("order#{id}")
    def handler(event: dict[str, str], context: object) -> None:
        pass

    with in_memory():
        for number in range(3):
            context = lambda_context()
            if number == 2:
                sys.setprofile(note)
            try:
                handler({"id": "7"}, context)
            finally:
                sys.setprofile(None)
    files = [code.co_filename for code in called]
    return Way(
        calls=len(called),
        functions=len(set(called)),
        files=len(set(files)),
        changes=sum(one != other for one, other in itertools.pairwise(files)),
    )
