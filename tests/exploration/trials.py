"""Runs cases and mutants, each in a process of its own."""

import multiprocessing
import signal
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any

from tests.prove import bench
from tests.simulation.mutations import MUTATIONS
from tests.simulation.runs import shown_by

from .cases import CASES
from .explore import Explorer
from .mutants import MUTANTS, broken
from .plan import MOST, Job, Plan

MOST_BROKEN = 60_000  # states under a mutant; each mutant shows in far fewer


def run_case(name: str, width: int = 0, until: float = float("inf")) -> dict[str, Any]:
    """Explore a case. A failure is looked for again, for the shortest way to it."""
    case = CASES[name][width]
    result = Explorer(case).run(until=until, most=MOST)
    steps: list[str] = []
    if result.failure:
        again = Explorer(case).run(order="breadth", told=True, most=3 * result.states)
        steps = again.steps or Explorer(case).run(told=True).steps
    about = {"kind": "case", "name": name, "width": width, "bounds": case.bounds()}
    return {**about, **vars(result), "steps": steps}


def try_mutant(name: str, until: float = float("inf")) -> dict[str, Any]:
    """Look for a failure under a mutant: by the explorer in its case, narrow bounds first, or else by the simulator."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    found = {"kind": "mutant", "name": name, "rule": mutant.rule, "redundant": mutant.redundant, "killed_by": ""}
    started = time.monotonic()
    if not mutant.case:
        shown = shown_by(name, MUTATIONS[name].runs, until)
        killed = f"simulator: {shown}" if shown else ""
        return {**found, "killed_by": killed, "seconds": round(time.monotonic() - started, 1)}
    states = 0
    with broken(name):
        for case in CASES[mutant.case][mutant.width :]:
            result = Explorer(case).run(order="both", most=MOST_BROKEN, until=until, told=True)
            states += result.states
            if result.failure:
                found |= {"killed_by": f"explorer, {mutant.case}: {result.failure[0]}"}
            if result.failure or mutant.redundant or time.monotonic() >= until:
                break
    seconds = round(time.monotonic() - started, 1)
    return {**vars(result), **found, "states": states, "seconds": seconds}


# -- in several processes ---------------------------------------------------------------------------------------------


def run_jobs(plan: Plan, processes: int) -> list[dict[str, Any]]:
    """Run the jobs of a plan, each in a process of its own, until it has none left. The results come in the order in
    which the jobs end. The standard error gets a line for each job that is done, and what is under way.

    Raises RuntimeError if a job ends without a result. The others are ended then.
    """
    results: list[dict[str, Any]] = []
    running: dict[Future[dict[str, Any]], tuple[Job, ProcessPoolExecutor]] = {}
    try:
        while True:
            while len(running) < processes and (job := plan.take()) is not None:
                # The parent ends its workers, also on Ctrl-C.
                ignore = signal.signal, (signal.SIGINT, signal.SIG_IGN)
                pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), *ignore)
                running[pool.submit(_work, job)] = job, pool
            if not running:
                return results
            bench.progress(f"{len(results)} done; {', '.join(job.name for job, _ in running.values())}")
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                if (error := future.exception()) is not None:
                    raise RuntimeError(f"{running[future][0].name}: no result") from error
                running.pop(future)[1].shutdown()
                results.append(future.result())
                plan.note(results[-1])
                bench.progress("")
                print(f"{len(results)}: {_line(results[-1])}", file=sys.stderr, flush=True)
    finally:
        for _, pool in running.values():
            for process in list(pool._processes.values()):
                process.kill()
            pool.shutdown()


def _work(job: Job) -> dict[str, Any]:
    if job.kind == "mutant":
        return try_mutant(job.name, job.until())
    return run_case(job.name, job.width, job.until())


def _line(result: dict[str, Any]) -> str:
    if result["kind"] == "mutant":
        return f"{result['name']}: {result['killed_by'] or 'survives'} ({result['seconds']} s)"
    said = "complete" if result["complete"] else f"FAILURE {result['failure']}" if result["failure"] else "not complete"
    return f"{result['name']}, {result['bounds']}: {result['states']:,} states, {said} ({result['seconds']} s)"
