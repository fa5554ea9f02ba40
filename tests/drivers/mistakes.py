"""Mistakes in what drives the core, each with the sweep that must notice it, and where its faults come.

None of these sweeps notices that closing a client does not end what a signal handler has interrupted: afterwards the
operation goes on, and gives back what it was granted. tests/stopping has workers that are gone then.
"""

from typing import NamedTuple

from tests.prove.mistakes import Change, alter, together

_DRIVE = ("runtime/drive.py", "transport/http1.py")
_ENDING = ("runtime/drive.py", "client/session.py", "client/held.py", "core/keep.py")


class Mistake(NamedTuple):
    change: Change
    sweep: str
    within: tuple[str, ...] = _DRIVE


MISTAKES = {
    "an interrupt is not thrown into the steps": Mistake(
        alter("drive.drive", "line resume throw carried", "raise"), "acquire: interrupt"),
    "what a signal handler raises is taken for a failed connection": Mistake(
        alter("drive.carried", "return Interrupted", "TransportError(True, 'no answer')"), "acquire: interrupt"),
    "a release that was interrupted is not completed": Mistake(
        alter("LastAct.leaves", "return is_interrupt", "False"), "release: interrupt", _ENDING),
    "a last act does not keep others from beginning": Mistake(
        alter("Turn.take", "return caller", "True"), "release: handler ends the same"),
    "a release says that it is done when the handler has done it": Mistake(
        alter("LastAct.steps", "line _check", ""), "release: handler ends the same", _ENDING),
    "the requests of the closing are not repeated after the one that was interrupted": Mistake(
        alter("Session.drive", "line send request -for", ""), "acquire: handler closes"),
    "an acquire that closing has ended returns its lock": Mistake(
        together(alter("Session.drive", "if closed end", "False"), alter("Taking._register", "line check_open", "")),
        "acquire: handler closes"),
    "a forked child goes on with its parent's operation": Mistake(
        alter("drive.check_process", "if pid", "False"), "acquire: fork and go on"),
    "a forked child may release its parent's locks": Mistake(
        together(alter("Holding.check_process", "if pid", "False"),
        alter("Holding.is_in_this_process", "return pid", "True"),), "acquire: fork and go on"),
    "a cancelled acquire is not given back": Mistake(
        alter("drive_async.drive_async", "return finish", "steps.close()"), "acquire: cancellation"),
    "a cancelled request is followed by nothing": Mistake(
        alter("drive_async.drive_async", "line step throw carried", "raise"), "hand_over: cancellation"),
}  # fmt: skip
