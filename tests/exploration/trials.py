"""Runs cases and mutants, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any, TextIO

from tests.simulation.mutations import MUTATIONS
from tests.simulation.runs import shown_by

from .cases import CASES
from .explore import Explorer
from .mutants import MUTANTS, broken
from .plan import MOST, Job, Plan

MOST_BROKEN = 60_000  # states under a mutant; each mutant shows in far fewer

Report = Callable[[int, int], None]  # of states seen, and still to be looked at


def run_case(name: str, width: int = 0, until: float = float("inf"), report: Report | None = None) -> dict[str, Any]:
    """Explore a case. A failure is looked for again, for the shortest way to it."""
    case = CASES[name][width]
    result = Explorer(case).run(until=until, most=MOST, progress=_progress(report))
    steps: list[str] = []
    if result.failure:
        again = Explorer(case).run(order="breadth", told=True, most=3 * result.states)
        steps = again.steps or Explorer(case).run(told=True).steps
    return {
        "kind": "case",
        "name": name,
        "width": width,
        "bounds": case.bounds(),
        **vars(result),
        "steps": steps,
    }


def try_mutant(name: str, until: float = float("inf"), report: Report | None = None) -> dict[str, Any]:
    """Look for a failure under a mutant: by the explorer in its case, narrow bounds first, or else by the simulator."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    found = {"kind": "mutant", "name": name, "rule": mutant.rule, "redundant": mutant.redundant, "killed_by": ""}
    started = time.monotonic()
    if not mutant.case:
        shown = shown_by(name, MUTATIONS[name].runs, until, report)
        killed = f"simulator: {shown}" if shown else ""
        return {**found, "killed_by": killed, "seconds": round(time.monotonic() - started, 1)}
    states = 0
    with broken(name):
        for case in CASES[mutant.case][mutant.width :]:
            result = Explorer(case).run(
                order="both", most=MOST_BROKEN, until=until, told=True, progress=_progress(report)
            )
            states += result.states
            if result.failure:
                found |= {"killed_by": f"explorer, {mutant.case}: {result.failure[0]}"}
            if result.failure or mutant.redundant or time.monotonic() >= until:
                break
    seconds = round(time.monotonic() - started, 1)
    return {**vars(result), **found, "states": states, "seconds": seconds}


def _progress(report: Report | None) -> Any:
    return None if report is None else lambda explorer, rest: report(explorer.states, rest)


# -- in several processes ---------------------------------------------------------------------------------------------


class Worker:
    """A process of its own for one job. Its last message is the result, the others tell the progress."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.job = job
        self.messages, end = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(end, job), daemon=True)
        self.process.start()
        end.close()  # so that its death ends the messages

    def receive(self) -> Any:
        """Return its next message. Raises RuntimeError if it failed, or was killed."""
        try:
            message = self.messages.recv()
        except EOFError:
            self.process.join()
            raise RuntimeError(f"{self.job.name}: its process ended with {self.process.exitcode}, no result") from None
        if isinstance(message, RuntimeError):
            raise message
        return message


def _work(messages: Any, job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers

    def report(states: int, rest: int) -> None:
        messages.send(f"{job.name}: {states:,} done, {rest:,} to do")

    try:
        if job.kind == "mutant":
            messages.send(try_mutant(job.name, job.until(), report))
        else:
            messages.send(run_case(job.name, job.width, job.until(), report))
    except Exception:  # noqa: BLE001 - of any class: the parent cannot unpickle some
        messages.send(RuntimeError(f"{job.name}: {traceback.format_exc()}"))


def run_jobs(plan: Plan, processes: int, out: TextIO) -> list[dict[str, Any]]:
    """Run the jobs of a plan, until it has none left. The results come in the order in which the jobs end.

    out: gets a line for each job that is done, and on a terminal also what is under way.

    Raises RuntimeError if the process of a job ends without a result. The others are ended then.
    """
    results: list[dict[str, Any]] = []
    running: dict[Any, Worker] = {}  # by the connection of their messages
    said: dict[str, str] = {}
    clear = "\r\033[K" if out.isatty() else ""
    try:
        while True:
            while len(running) < processes and (job := plan.take()) is not None:
                worker = Worker(job)
                running[worker.messages] = worker
            if not running:
                return results
            for messages in wait(list(running)):
                worker = running[messages]
                message = worker.receive()
                if isinstance(message, str):
                    said[worker.job.name] = message
                    continue
                results.append(message)
                plan.note(message)
                said.pop(worker.job.name, None)
                worker.process.join()
                del running[messages]
                print(f"{clear}{len(results)}: {_line(message)}", file=out, flush=True)
            if clear and said:
                line = f"{len(results)} done; {'; '.join(said.values())}"
                print(f"{clear}{line[:118]}", end="", file=out, flush=True)
    finally:
        for worker in running.values():
            worker.process.kill()
            worker.process.join()


def _line(result: dict[str, Any]) -> str:
    if result["kind"] == "mutant":
        return f"{result['name']}: {result['killed_by'] or 'survives'} ({result['seconds']} s)"
    said = "complete" if result["complete"] else f"FAILURE {result['failure']}" if result["failure"] else "not complete"
    return f"{result['name']}, {result['bounds']}: {result['states']:,} states, {said} ({result['seconds']} s)"
