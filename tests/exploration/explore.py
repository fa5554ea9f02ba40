"""Explores all orders of events of a case: its processes, their requests in flight, and time.

A state is: true time, the table, each process (see canonical.py) with the answer that waits for it, the requests whose
senders gave up on them, and how many faults may still happen. From each state, every one of these is tried:

- a request that was sent is carried out, with each Date that a front end may show at that time. Its answer waits;
- a process takes the answer that waits for it;
- its sender dies before an answer comes (a death);
- its sender gives a request up (a fault): the request stays in flight, or was carried out and the answer is lost;
- a request in flight is carried out: late, or a second time (a fault);
- a process wakes from a pause, begins what its application may do next, or is interrupted in a wait (a fault);
- time passes until the next moment that matters (below), for everybody.

Nobody has to do anything. So a process may be slow at each step, for as long as the case lasts, and one that never goes
on is dead or frozen. A frozen process whose clocks stop, except the wall clock, is a fault. One that is slow in the
middle of a request or a pause is bounded ("slow"), and so is one that dies there, which is much cheaper to explore.

Time stops only at these moments, at which a comparison of the core with a clock or a Date changes: the last moment at
which a hold is valid; the first moment at which a front end shows the next second, and the last one at which another
does not; the moment at which a version seen has not changed for its lease. Where none of them is left before the case's
horizon, time passes until the next pause is over. A pause may end early, which does no harm by protocol.py, and one of
up to 60 ms may take no time.
"""

from __future__ import annotations

import functools
import gc
import time
from collections import deque
from typing import Any

from lambda_lock.core import lease
from lambda_lock.core.protocol import Hold, Send
from lambda_lock.core.schema import JAVA

from .case import Case
from .process import BEAT, BY_STRING, INSTANT, MAIN, SECOND, Process
from .table import NO_ANSWER, Numbers, Tables
from .verdict import Judge

SPREAD = SECOND // 4  # how far a front end's clock may be off: two differ by half a second at most
EPSILON = 8  # units of time, some 8 millionths of a second: how close to the end of a validity "just before" is
# The digits of what is left of the faults. The lowest says that time passed though nothing was left to wait for.
IDLE, FAULT, DOUBLE, INTERRUPT, FREEZE, FLIP, DEATH, SLOW = (10**digit for digit in range(8))
# States of a line of execution: it may go on; it may once time has passed; it was slow already
READY, HANGS, LATE = 0, 1, 2
AT_REST = (None, None), (READY, READY)  # the answers and states of a process that does nothing
MOST_INSTANT = 3  # pauses of one process that may take no time at one moment
_EPOCH = 1_800_000_000

State = tuple[int, ...]  # time, table, requests in flight, faults left, and a number for each process


class Node:
    """A process as it is: what it waits for, and what it may do. All of this follows from its form."""

    __slots__ = (
        "acquires", "actions", "answered", "asked", "by_string", "clean", "elapsed", "ended", "failure", "gave_up",
        "held", "index", "inputs", "moves", "number", "observed", "process", "robbed", "string", "takes", "told",
        "tries", "until", "wakes", "wanted")  # fmt: skip

    def __init__(self, explorer: Explorer, process: Process, inputs: Any, number: int) -> None:
        self.number = number
        self.index = process.index
        self.inputs = inputs  # the last input, and the inputs before it
        self.process: Process | None = process  # until it goes on
        self.actions = [explorer.action(process, action) for action in process.actions]
        moves = process.moves()
        self.moves = [move for move in moves if move[0] not in BY_STRING]
        self.by_string = [move[0] for move in moves if move[0] in BY_STRING]
        self.acquires = process.kinds[MAIN] in ("acquire", "adopt", "resume")
        self.failure, self.told, self.string = process.failure, process.told, process.string
        self.clean, self.asked, self.gave_up, self.wakes = process.clean, process.asked, process.gave_up, process.wakes
        self.tries, self.wanted = process.tries, process.wanted
        self.until = process.until
        self.elapsed = None if process.until is None else process.latest
        self.ended, self.answered, self.robbed = process.ended, process.answered, process.robbed
        self.held = self._held(process, process.hold)
        self.takes = 1 if process.hold is None else process.hold.place.take
        self.observed = _observed(process)

    def _held(self, process: Process, hold: Hold | None) -> Any:
        if hold is None or hold.is_over():
            return None
        return hold.valid_until, process.latest.elapsed, process.latest, hold.owner, hold.token

    @property
    def may_act(self) -> bool:
        return bool(self.moves or self.by_string or any(self.actions))

    def all_inputs(self) -> list[Any]:
        found, rest = [], self.inputs
        while rest is not None:
            one, rest = rest
            found.append(one)
        return found[::-1]


def _observed(process: Process) -> list[float]:
    """The monotonic times at which what this process has observed will not have changed for its lease."""
    found, rest = [], list(process.memory.observations._seen.values())
    while rest:
        seen = rest.pop()
        if isinstance(seen, lease.Observations):
            rest += seen._seen.values()
        else:
            found.append(seen.monotonic + seen.lease_ms / 1000 * (1 + lease.DRIFT))
    return found


class Explorer:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.setups = case.processes
        self.tables = Tables(case.ignored)
        self._harms = case.faults * FAULT + case.doubles * DOUBLE + case.interrupts * INTERRUPT
        self._harms += case.freezes * FREEZE + case.slow * SLOW
        self._twins = [
            next((other for other in reversed(range(index)) if self.setups[other] is setup), None)
            for index, setup in enumerate(self.setups)
        ]  # an earlier process with the same setup: it begins first, because the other order differs only in names
        self.start = case.start
        self.nodes: list[Node] = []
        self._node_numbers: dict[Any, int] = {}
        self._edges: dict[Any, int] = {}
        self._processes, self._flights = Numbers(), Numbers()
        self.processes: list[tuple[Any, ...]] = self._processes.all  # see `process`
        self.flight = self._flights.of
        self.flights: list[tuple[tuple[int, int], ...]] = self._flights.all
        self.flight(())
        self._later, self._options = functools.cache(self._later_of), functools.cache(self._options_of)
        self._moment, self._turn = functools.cache(self._moment_of), functools.cache(self._turn_of)
        self._at_rest: set[int] = set()
        self.judge = Judge(self)
        self.states = self.transitions = 0

    # -- numbers for what occurs

    def action(self, process: Process, action: Any) -> Any:
        if action is None:
            return None
        if isinstance(action, Send):
            return "send", self.tables.request(action.operation, action.request), action.operation == "GetItem"
        due = process.latest.monotonic + action.seconds
        return "wait", due, action.seconds <= INSTANT

    def node(self, parent: int, one: Any) -> int:
        """The process after one more input."""
        number = self._edges.get((parent, one))
        if number is not None:
            return number
        before = self.nodes[parent]
        process, before.process = before.process, None
        if process is None:
            process = Process(before.index, self.setups[before.index], self.start)
            for earlier in before.all_inputs():
                self.take(process, earlier)
        self.take(process, one)
        number = self._number(process, (one, before.inputs))
        self._edges[parent, one] = number
        return number

    def take(self, process: Process, one: Any) -> None:
        how, clocks, *what = one
        if how == "resume":
            task, outcome, early, lost = what
            process.resume(task, None if outcome is None else self.tables.make(outcome), clocks, early, lost)
        elif how == "start":
            process.start(what[0], clocks)
        elif how == "die":
            process.die(clocks)
        else:
            process.interrupt(what[0])

    def _number(self, process: Process, inputs: Any) -> int:
        from .canonical import form_of

        form = (process.index, form_of(process.left(), self.tables.known))
        number = self._node_numbers.get(form)
        if number is None:
            number = self._node_numbers[form] = len(self.nodes)
            node = Node(self, process, inputs, number)
            self.nodes.append(node)
            if node.held is None and not node.may_act:
                self._at_rest.add(number)
        return number

    def process(self, *what: Any) -> int:
        """A number for: a node, the answers that hang and the states of its two lines of execution, how many pauses
        took no time at this moment, for how long its clocks were stopped, and whether they just were."""
        return self._processes.of(what)

    def clocks(self, index: int, now: int, stopped: int) -> tuple[float, float, float]:
        return self.setups[index].read(now, stopped)

    def dates(self, now: int) -> tuple[int, ...]:
        slow, fast = _EPOCH + (now - SPREAD) // SECOND, _EPOCH + (now + SPREAD) // SECOND
        return (slow,) if slow == fast else (slow, fast)

    # -- what may happen next

    def first(self) -> State:
        case = self.case
        numbers = []
        for index, setup in enumerate(self.setups):
            process = Process(index, setup, self.start)
            numbers.append(self.process(self._number(process, None), *AT_REST, 0, 0, False))
        table = self.tables.content(case.row, case.application)
        left = self._harms + case.flips * FLIP + case.deaths * DEATH
        return (self.start, table, 0, left, *numbers)

    def successors(self, state: State) -> list[tuple[State, Any]]:
        """All that may happen next, as states, each with what happens."""
        now, table, flight, left = state[:4]
        idle, left = left % FAULT, left - left % FAULT
        was, state = state, (now, table, flight, left, *state[4:])
        found: list[Any] = []
        live = pending = False
        for at in range(4, len(state)):
            number = state[at]
            twin = self._twins[at - 4]
            if twin is not None and self.is_new(number) and self.is_new(state[4 + twin]):
                continue
            ready, local, faulty, interrupted, acts = self._options(number, now)
            live = live or acts
            for task, request in ready:
                pending = True
                self._resolve(found, state, at, number, task, request, None, idle)
            for after, sends, label in local:
                self._go_on(found, state, at, after, sends, label)
            if left // FAULT % 10:
                for after, sends, label in faulty:
                    self._go_on(found, (*state[:3], left - FAULT, *state[4:]), at, after, sends, label)
            if left // INTERRUPT % 10:
                for after, sends, late, label in interrupted:
                    flying = flight if late is None else self._add(flight, (at - 4, late))
                    self._go_on(found, (now, table, flying, left - INTERRUPT, *state[4:]), at, after, sends, label)
            for act in self.nodes[self.processes[number][0]].by_string:
                self._take_string(found, state, at, act)
        for one in self.flights[flight]:
            changed = self.tables.apply(table, one[1])[0]
            if changed != table:  # otherwise it is as if it never arrived
                rest = list(self.flights[flight])
                rest.remove(one)
                found.append(((now, changed, self.flight(tuple(rest)), *state[3:]), (None, ("late", *one))))
        if left // FLIP % 10:
            lock, application, done, fenced = self.tables.contents[table]
            flipped = self.case.flipped(self.tables.item(application))
            content = self.tables.content(self.tables.item(lock), flipped, done, fenced)
            found.append(((now, content, flight, left - FLIP, *state[4:]), (("flip",), None)))
        if not pending and (live or any(self.judge.is_held(number, now) for number in state[4:])):
            self._let_pass(found, was)
        return found

    def is_new(self, number: int) -> bool:
        return self.nodes[self.processes[number][0]].inputs is None

    def _add(self, flight: int, request: tuple[int, int]) -> int:
        return self.flight(tuple(sorted((*self.flights[flight], request))))

    def _without_futile(self, state: State) -> State:
        """The state without the requests in flight that can never be carried out any more."""
        flight = self.flights[state[2]]
        rest = tuple(one for one in flight if not self.tables.is_futile(one[1], state[1]))
        return state if len(rest) == len(flight) else (*state[:2], self.flight(rest), *state[3:])

    def _go_on(self, found: list[Any], state: State, at: int, number: int, sends: Any, label: Any) -> None:
        """One step of a process that does not look at the table. If it ends with a send, that is resolved at once: had
        others come in between, the step might as well have come after them."""
        if sends is None:
            found.append(((*state[:at], number, *state[at + 1 :]), (label, None)))
        else:
            task, request = sends
            self._resolve(found, state, at, number, task, request, label)

    def _resolve(
        self, found: list[Any], state: State, at: int, number: int, task: int, request: int, label: Any, idle: int = 0
    ) -> None:
        """All that may become of a request that is sent now, or that hangs.

        idle: IDLE of the state before. It stays if the request hangs on.
        """
        now, table, flight, left = state[:4]
        before, behind = state[4:at], state[at + 1 :]
        index = at - 4
        hangs = self.processes[number][2][task] == LATE  # its slowness is paid for
        content, (kind, *what) = self.tables.apply(table, request)
        read_only = self.tables.requests[request][0] == "GetItem"
        cost = 0 if hangs else SLOW

        def then(content: int, flight: int, left: int, process: int, *fate: Any) -> None:
            found.append(((now, content, flight, left, *before, process, *behind), (label, fate)))

        flights = [(flight, left, "")]
        if left // DOUBLE % 10 and not read_only:
            flights.append((self._add(flight, (index, request)), left - DOUBLE, "twice"))
        for date in self.dates(now):
            outcome = self.tables.outcome((kind, *what, date))
            for flying, budget, twice in flights:
                sent: tuple[Any, ...] = ("sends", index, request, kind, date, twice)
                then(content, flying, budget, self._told(number, now, task, outcome), *sent)
                if budget >= cost:
                    waits = self._hanging(number, task, outcome)
                    then(content, flying, budget - cost, waits, *sent, "the answer hangs")
        if left >= cost:
            then(table, flight, left - cost + idle, self._hanging(number, task, None), "hangs", index, request)
        if left // DEATH % 10:
            self._die(found, state, at, number, task, request, label)
        if not left // FAULT % 10:
            return
        left -= FAULT
        if self.case.conflicts and self.tables.requests[request][0] == "TransactWriteItems":
            for date in self.dates(now):
                refused = self._told(number, now, task, self.tables.outcome((*self.tables.conflict(request), date)))
                then(table, flight, left, refused, "conflicts", index, request)
        lost = self._told(number, now, task, NO_ANSWER, lost="lost")
        if content != table or read_only:
            then(content, flight, left, lost, "carried out, no answer", index, request)
        if not read_only:
            late = self._told(number, now, task, NO_ANSWER, lost="late")
            then(table, self._add(flight, (index, request)), left, late, "in flight, no answer", index, request)
            if self.case.losses:
                then(table, flight, left, lost, "lost", index, request)

    def _die(self, found: list[Any], state: State, at: int, number: int, task: int, request: int, label: Any) -> None:
        """The sender dies before an answer comes. Its request was carried out, or it stays in flight, for ever or not.
        (To die after an answer is to die before the next request, which is not sent then.)"""
        now, table, flight, left = state[:4]
        index, node = at - 4, self.processes[number][0]
        other = self.nodes[node].actions[1 - task]
        _, answers, _, _, stopped, _ = self.processes[number]
        if other is not None and other[0] == "send" and answers[1 - task] is None and not other[2]:
            flight = self._add(flight, (index, other[1]))
        after = self.node(node, ("die", self.clocks(index, now, stopped)))
        dead = self.process(after, *AT_REST, 0, stopped, False)
        rest = left - DEATH, *state[4:at], dead, *state[at + 1 :]
        content = self.tables.apply(table, request)[0]
        found.append(((now, content, flight, *rest), (label, ("carried out, its sender dies", index, request))))
        if content != table:
            flying = self._add(flight, (index, request))
            found.append(((now, table, flying, *rest), (label, ("in flight, its sender dies", index, request))))

    def _take_string(self, found: list[Any], state: State, at: int, act: str) -> None:
        """Each string that a process gave may be adopted or resumed, or its hold released."""
        for number in state[4:]:
            string = self.nodes[self.processes[number][0]].string
            if string:
                after, sends = self._started(state[at], state[0], (act, string))
                self._go_on(found, state, at, after, sends, ("begins", at - 4, act))

    def _options_of(self, number: int, now: int) -> Any:
        """What a process may do next: the sends to resolve, its steps, its steps if a fault or an interrupt comes, and
        whether it is doing or may do anything at all."""
        node_number, answers, states, instants, stopped, _ = self.processes[number]
        node = self.nodes[node_number]
        index = node.index
        ready: list[Any] = []
        local: list[Any] = []
        faulty: list[Any] = []
        interrupted: list[Any] = []
        for task, action in enumerate(node.actions):
            if action is None:
                continue
            if action[0] == "send":
                if states[task] == HANGS:
                    continue
                if answers[task] is None:
                    ready.append((task, action[1]))
                else:
                    local.append((*self._after(number, now, task, answers[task]), ("takes", index, answers[task])))
                    lost = self._after(number, now, task, NO_ANSWER, lost="lost")
                    faulty.append((*lost, ("loses the answer", index)))
                continue
            early = self._monotonic(index, now, stopped) < action[1]
            if not early:
                local.append((*self._after(number, now, task, None), ("wakes", index)))
            elif action[2] and instants < MOST_INSTANT:
                local.append((*self._after(number, now, task, None, instants=instants + 1), ("wakes", index)))
            elif states[task] != HANGS and (task == BEAT or node.wakes < self.setups[index].wakes):
                local.append((*self._after(number, now, task, None, early=True), ("wakes early", index)))
        local += [(*self._started(number, now, move), ("begins", index, *move)) for move in node.moves]
        if self.case.interrupts and node.acquires and node.actions[MAIN] is not None:
            action = node.actions[MAIN]
            hangs = action[0] == "send" and states[MAIN] != READY and answers[MAIN] is None
            late = action[1] if hangs and not action[2] else None
            interrupted.append((*self._thrown(number, now, late is not None), late, ("interrupted", index)))
        return ready, local, faulty, interrupted, node.may_act

    def _thrown(self, number: int, now: int, late: bool) -> tuple[int, Any]:
        """An exception arrives in an acquire. A request that hangs is ``late``; one to be sent now is not sent."""
        return self._gone_on(number, now, MAIN, "interrupt", late)

    def _monotonic(self, index: int, now: int, stopped: int) -> float:
        return (self.setups[index].ticks(now) - stopped) / SECOND

    def _after(
        self, number: int, now: int, task: int, outcome: Any, *, early: bool = False, lost: str = "", instants: int = -1
    ) -> tuple[int, Any]:
        """A process that has taken an outcome or woken, and the request that it sends then."""
        return self._gone_on(number, now, task, "resume", task, outcome, early, lost, instants=instants)

    def _told(self, number: int, now: int, task: int, outcome: int, lost: str = "") -> int:
        return self._after(number, now, task, outcome, lost=lost)[0]

    def _started(self, number: int, now: int, move: tuple[str, ...]) -> tuple[int, Any]:
        return self._gone_on(number, now, BEAT if move[0] == "renew" else MAIN, "start", move)

    def _gone_on(self, number: int, now: int, task: int, how: str, *what: Any, instants: int = -1) -> tuple[int, Any]:
        """A process after one more input to a line of execution, and the request that it sends then."""
        before, answers, states, count, stopped, _ = self.processes[number]
        clocks = self.clocks(self.nodes[before].index, now, stopped)
        node = self.node(before, (how, clocks, *what))
        action = self.nodes[node].actions[task]
        state = HANGS if action is not None and action[0] == "wait" else READY  # a pause that began at this moment
        answers, states = _with(answers, task, None), _with(states, task, state)
        after = self.process(node, answers, states, max(count, instants), stopped, False)
        return after, (task, action[1]) if action is not None and action[0] == "send" else None

    def _hanging(self, number: int, task: int, answer: int | None) -> int:
        node, answers, states, *rest = self.processes[number]
        return self.process(node, _with(answers, task, answer), _with(states, task, HANGS), *rest)

    # -- time

    def _let_pass(self, found: list[Any], state: State) -> None:
        moment = self._next(state)
        if moment is None:
            self._wait(found, state)
        else:
            self._advance(found, state, moment)

    def _wait(self, found: list[Any], state: State) -> None:
        """No moment matters any more: time passes to the end of the first pause, or by a second if a request hangs. If
        it hangs on after that second, and nothing else happens, time passes no more: any later time is the same."""
        now, pauses, hangs = state[0], [], False
        for number in state[4:]:
            node, _, states, _, stopped, _ = self.processes[number]
            node = self.nodes[node]
            setup = self.setups[node.index]
            for action, state_of in zip(node.actions, states, strict=True):
                if action is not None and action[0] == "wait":
                    pauses.append(setup.when(_up(action[1]) + stopped))
                elif action is not None and state_of == HANGS:
                    hangs = True
        first = min((due for due in pauses if due > now), default=1 << 60)
        if hangs and not is_idle(state) and now + SECOND < first:
            self._advance(found, state, now + SECOND, idle=IDLE)
        elif first < 1 << 60:
            self._advance(found, state, first)

    def _advance(self, found: list[Any], state: State, moment: int, idle: int = 0) -> None:
        now, table, flight, left = state[:4]
        left += idle - left % FAULT
        slow, numbers = 0, []
        for number in state[4:]:
            later, too_late = self._later(number, now)
            numbers.append(later)
            slow += too_late
        if left // SLOW >= slow:
            left -= slow * SLOW
            found.append(((moment, table, flight, left, *numbers), (("time", moment), None)))
            if self.case.freezes:
                for at in range(len(numbers)):
                    self._freeze(found, state, moment, at, numbers, left)

    def _freeze(self, found: list[Any], state: State, moment: int, at: int, numbers: list[int], left: int) -> None:
        """Let time pass with the clocks of one process stopped, except for its wall clock."""
        node, answers, states, _, stopped, _ = self.processes[numbers[at]]
        cost = 0 if self.processes[state[4 + at]][-1] else FREEZE
        if left // FREEZE % 10 < cost // FREEZE or node in self._at_rest:
            return
        setup = self.setups[self.nodes[node].index]
        passed = setup.ticks(moment) - setup.ticks(state[0])
        frozen = self.process(node, answers, states, 0, stopped + passed, True)
        rest = (*numbers[:at], frozen, *numbers[at + 1 :])
        found.append(((moment, *state[1:3], left - cost, *rest), (("time, frozen", moment, at), None)))

    def _later_of(self, number: int, now: int) -> tuple[int, int]:
        """A process after time has passed, and how many of its pauses are slow to end only now."""
        node_number, answers, (*states,), _, stopped, _ = self.processes[number]
        node, slow = self.nodes[node_number], 0
        for task, action in enumerate(node.actions):
            if action is None:
                continue
            if action[0] == "send":
                states[task] = LATE  # it hangs: no time passes while a send is to be resolved
            elif states[task] == HANGS:
                states[task] = READY
            elif states[task] == READY and self._monotonic(node.index, now, stopped) >= action[1]:
                states[task] = LATE
                slow += 1
        return self.process(node_number, answers, tuple(states), 0, stopped, False), slow

    def _next(self, state: State) -> int | None:
        now, table = state[:2]
        horizon = self.case.horizon
        foreign = self.case.foreign_until - EPSILON
        best = foreign if now < foreign else horizon + 1
        turn = self._turn(self.tables.contents[table][0], now)
        best = min(best, turn, *(self._moment(number, now) for number in state[4:]))
        return best if best <= horizon else None

    def _moment_of(self, number: int, now: int) -> int:
        """The next moment that matters to one process."""
        node_number, *_, stopped, _ = self.processes[number]
        node = self.nodes[node_number]
        setup = self.setups[node.index]
        found = []
        if node.held is not None:
            found.append(self.end_of(node, stopped) - EPSILON)
        found += [setup.when(_up(monotonic) + 2 + stopped) for monotonic in node.observed]
        return min((moment for moment in found if moment > now), default=1 << 60)

    def end_of(self, node: Node, stopped: int) -> int:
        """The true time from which on the hold is not valid, if no more clocks stop."""
        valid_until, total, latest, *_ = node.held
        setup = self.setups[node.index]
        clocks = latest.monotonic, latest.boottime, latest.wall
        ahead = max(reading - clock for reading, clock in zip(setup.read(0, stopped), clocks, strict=True))
        return setup.when(_up(valid_until - total - ahead))

    def is_held(self, number: int, now: int) -> bool:
        """Whether a look at the clocks now would show that the process holds its lock."""
        node_number, *_, stopped, _ = self.processes[number]
        node = self.nodes[node_number]
        if node.held is None:
            return False
        valid_until, _, latest, *_ = node.held
        return bool(latest.after(*self.clocks(node.index, now, stopped)).elapsed < valid_until)

    def is_undisturbed(self, state: State) -> bool:
        """Whether nothing has happened yet that may delay a process. Deaths and flips do not."""
        left = state[3]
        return left - left // FLIP % 10 * FLIP - left // DEATH % 10 * DEATH - left % FAULT == self._harms

    def is_last_try(self, number: int, now: int) -> bool:
        """Whether the time that a process wanted to wait in a queue is over."""
        node_number, *_, stopped, _ = self.processes[number]
        node = self.nodes[node_number]
        if node.until is None or node.elapsed is None:
            return False
        return bool(node.elapsed.after(*self.clocks(node.index, now, stopped)).elapsed >= node.until)

    def waits(self, number: int, now: int, place: str) -> bool:
        """Whether a process waits in a queue, and has taken the place for this acquire (their names rise)."""
        node = self.nodes[self.processes[number][0]]
        taken = place > node.asked.rpartition("#")[2][: len(place)]
        return node.until is not None and taken and not self.is_last_try(number, now)

    def _turn_of(self, row_number: int, now: int) -> int:
        """The next moment at which a front end shows another second, as far as the case asks for it."""
        row = self.tables.item(row_number) or {}
        version = row.get(JAVA.version, {}).get("S", "")
        texts = [version, *[entry["S"] for entry in row.get("permits", {}).get("M", {}).values()]]
        found = []
        for text in texts:
            if text.startswith("L1:"):
                second = -(-int(text[3:16]) // 1000) - _EPOCH
                found.append(second * SECOND - SPREAD)
        if self.case.turns:
            following = (now + SPREAD) // SECOND + 1
            found.append(following * SECOND - SPREAD)
            if self.case.turns > 1:
                following = (now + EPSILON - SPREAD) // SECOND + 1
                found.append(following * SECOND + SPREAD - EPSILON)
        return min((moment for moment in found if moment > now), default=1 << 60)

    # -- the exploration

    def run(self, most: int = 1 << 60, until: float = float("inf"), order: str = "depth", told: bool = False) -> Result:
        """Explore until all is explored, a failure is found, ``most`` states are seen, or ``until`` (time.monotonic).

        order: "depth" needs the least memory. "breadth" goes by the number of steps, so it finds the shortest way to a
            failure. "both", in turns, finds most failures soon.
        told: tell the steps that lead to a failure.
        """
        first = self.first()
        parents: dict[State, Any] = {first: None}
        seen: set[State] = {first}
        rest = deque([first])
        taking = {"depth": (rest.pop,) * 2, "breadth": (rest.popleft,) * 2, "both": (rest.pop, rest.popleft)}[order]
        started = time.monotonic()
        was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
        gc.disable()
        failure, ended, state, last = self.judge.closing(first), True, first, None
        try:
            while rest and failure is None:
                state = taking[self.states & 1]()
                self.states += 1
                found = self.successors(state)
                self.transitions += len(found)
                if not found:
                    failure = self.judge.end(state)
                for after, label in found:
                    if after[2] and after[1] != state[1]:
                        after = self._without_futile(after)
                    failure = self.judge.step(state, after, label)  # also one that leads to a state seen before
                    if after not in seen:
                        seen.add(after)
                        if told:
                            parents[after] = state, label
                        failure = failure or self.judge.state(state, after)
                        rest.append(after)
                    if failure:
                        last = label
                        break
                if self.states >= most or (not self.states & 255 and time.monotonic() >= until):
                    ended = not rest
                    break
                if not self.states & 4095:
                    gc.collect()  # errors and their frames, of processes that were made again
                    gc.freeze()  # what is left stays: the next collection need not look at it
        finally:
            if not was_frozen:  # otherwise the tests' process froze them, for good
                gc.unfreeze()
            if was_enabled:
                gc.enable()
        seconds = time.monotonic() - started
        steps = self._steps_to(parents, state, last) if failure and told else []
        return Result(self, failure, steps, ended, len(seen), seconds)

    def _steps_to(self, parents: dict[State, Any], state: State, last: Any) -> list[str]:
        """The steps to a state, and the ``last`` one from there, if any."""
        steps = [] if last is None else [self._said(state, last)]
        while parents[state] is not None:
            state, label = parents[state]
            steps.append(self._said(state, label))
        return steps[::-1]

    def _said(self, state: State, label: Any) -> str:
        return f"{state[0] / SECOND - self.start / SECOND:9.6f}  {self.judge.describe(label)}"


class Result:
    """What an exploration found. ``complete``: everything within the bounds was explored."""

    def __init__(
        self, explorer: Explorer, failure: Any, steps: list[str], complete: bool, states: int, seconds: float
    ) -> None:
        self.failure = failure  # its kind and a sentence
        self.steps = steps
        self.complete = complete and failure is None
        self.states = states
        self.transitions = explorer.transitions
        self.endings = dict(sorted(explorer.judge.endings.items()))
        self.grants = len(explorer.judge.granted)
        self.newcomers = explorer.judge.closings
        self.seconds = round(seconds, 1)


def is_idle(state: State) -> bool:
    """Whether time passed to here though nothing was left to wait for, and nothing has happened since."""
    return bool(state[3] % FAULT)


def _with(pair: tuple[Any, Any], task: int, value: Any) -> tuple[Any, Any]:
    """What a process has for its two lines of execution, with another value for one of them."""
    return (value, pair[1]) if task == MAIN else (pair[0], value)


def _up(seconds: float) -> int:
    return -int(-seconds * SECOND // 1)
