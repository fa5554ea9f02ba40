"""Mistakes in how a process ends, each with the shape of a worker (worker.py) that must show it."""

from typing import NamedTuple

from lambda_lock import stopping
from tests.prove.mistakes import Change, alter


class Mistake(NamedTuple):
    change: Change
    shape: str


MISTAKES = {
    "nothing is released at the end of the process": Mistake(
        alter(stopping._release, "line for client", "pass"), "bare_loop"
    ),
    "the end of the process closes clients without their locks": Mistake(
        alter(stopping._release, "set release", "False"), "bare_loop"
    ),
    "the loop is not asked to raise what SIGTERM is": Mistake(
        alter(stopping._exit, "line call_soon_threadsafe", ""), "gather"
    ),
    "closing does not wait for other threads": Mistake(alter("closing._settle", "if elsewhere", "False"), "threads"),
    "closing leaves an acquire under way to itself": Mistake(
        alter("closing.close", "line _settle", ""), "closed_and_gone"
    ),
    "closing does not end what it interrupts": Mistake(
        alter("closing._settle", "line leave_mine", ""), "closed_and_gone"
    ),
    "closing releases only what has a handle": Mistake(
        alter("closing._to_release", "line for forgotten", ""), "closed_and_gone"
    ),
}
