"""Who comes first in a queue: the places in the row, and what a write may do to them.

The rules are those of tests/simulation/line.py. It is simpler here: nobody else writes the places, and they are judged
only where nothing has gone wrong yet. There, each one that waits looks after its place in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_lock.core.row import TICKET_NAME, read_row
from lambda_lock.core.schema import JAVA

from .process import KEY

if TYPE_CHECKING:
    from .explore import Explorer, State


def misplaced(explorer: Explorer, state: State, index: int, old: Any, new: Any) -> tuple[str, str] | None:
    """What is wrong with a write of the process ``index``, in ``state``, that made ``new`` of the row ``old``.

    A place is taken behind the others. Nobody in the queue is granted the lock before one that came earlier and waits,
    except by the last try of a wait. Nobody removes the place of one that waits.
    """
    before, after = _places(old), _places(new)
    came = [name for name in after if name not in before]
    if came and after[-len(came) :] != came:
        return "out of order", f"the place {came[0]} was not taken behind the others: {after}"
    number = state[4 + index]
    if not explorer.setups[index].queue or not explorer.is_undisturbed(state):
        return None
    last = explorer.is_last_try(number, state[0])
    mine = next((at for at, name in enumerate(before) if _owner(name) == index), len(before))
    granted = _token(new) > _token(old)
    for at, name in enumerate(before):
        owner = _owner(name)
        if owner == index or not explorer.waits(state[4 + owner], state[0], name):
            continue
        if granted and at < mine and not last:
            return "out of order", f"p{index} got the lock, though p{owner} waits before it"
        if name not in after:
            return "thrown out", f"p{owner}, who waits, lost its place to p{index}"
    return None


def _places(item: Any) -> list[str]:
    """The names of the places. A renewal changes only the rest of one."""
    row = read_row(item, JAVA, KEY)
    return [] if row is None else [place[:TICKET_NAME] for place in row.waiters or ()]


def _owner(place: str) -> int:
    """The process that drew the name of a place (Process._nonce)."""
    return int(place[:2], 16)


def _token(item: Any) -> int:
    return int((item or {}).get(JAVA.token, {"N": "0"})["N"])
