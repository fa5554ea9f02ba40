"""The explorer itself, and small explorations. `python -m tests.exploration` runs the large ones."""

import gc
import itertools
import json
import multiprocessing
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lambda_lock.core import handover, lease, permit_queue, permits, protocol, queue, resume, transaction
from lambda_lock.core.lease import ClockReading
from tests.exploration.canonical import form_of
from tests.exploration.case import Case
from tests.exploration.cases import CASES
from tests.exploration.explore import Explorer, Node
from tests.exploration.mutants import MUTANTS, OWN, SPARED
from tests.exploration.page import README, text, write_tables
from tests.exploration.plan import Job, Plan
from tests.exploration.process import SECOND, Process, Setup
from tests.exploration.table import Tables
from tests.exploration.trials import run_jobs, try_mutant
from tests.simulation.mutations import MUTATIONS
from tests.support.sampled import sampled_with


def small(*processes: Setup, **bounds: Any) -> Case:
    return Case("small", "", processes, **bounds)


# What the figures depend on


def counting(times: int) -> Generator[int, None, None]:
    for number in range(times):
        copy = number
        del number
        yield copy - copy


def counted(steps: int) -> Generator[int, None, None]:
    one = counting(3)
    for _ in range(steps):
        next(one)
    return one


class Mine(ClockReading):
    __slots__ = ()


class Base:
    __slots__ = ("__dict__", "__hidden", "__weakref__")

    def __init__(self, hidden: int) -> None:
        self.__hidden = hidden


class Derived(Base):
    __slots__ = ("own",)


def reading(*, unset: bool) -> ClockReading:
    found = ClockReading(0.0, 0.0, 0.0)
    if unset:
        del found.elapsed
    return found


def adding(much: int) -> Callable[[int], int]:
    return lambda number: number + much


def twice(one: list[int], other: list[int]) -> list[Any]:
    return [one, other]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(lambda: counted(1), lambda: counted(2), id="a place in a loop with the same variables"),
        pytest.param(lambda: twice(*[[]] * 2), lambda: twice([], []), id="two references to one object"),
        pytest.param(lambda: reading(unset=False), lambda: reading(unset=True), id="an attribute that is not set"),
        pytest.param(lambda: reading(unset=False), lambda: Mine(0.0, 0.0, 0.0), id="the class of an object"),
        pytest.param(lambda: Derived(1), lambda: Derived(2), id="a private slot of a base class"),
        pytest.param(lambda: adding(1), lambda: adding(2), id="what a function closes over"),
    ],
)
def test_what_decides_the_future_is_part_of_the_form(one, other):
    assert form_of([one()], {}) == form_of([one()], {})
    assert form_of([one()], {}) != form_of([other()], {})


class Words(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "unknown", [deque([1]), itertools.count(), re.compile("a"), Words("a"), Job("case", "a"), object()]
)
def test_an_object_whose_content_cannot_be_read_is_refused_with_what_to_do(unknown):
    name = f"{type(unknown).__module__}.{type(unknown).__qualname__}"
    with pytest.raises(TypeError, match=rf"in a {re.escape(name)}, .* add to Form._content .* Known are .* frozenset"):
        form_of([unknown], {})


def test_what_never_changes_may_lie_on_the_stack_of_a_generator():
    fixed = [str.join, object.__init__, len, gc, Setup, counting]
    assert form_of(fixed, {}) == form_of(list(fixed), {})


@pytest.mark.parametrize(
    ("condition", "required"),
    [
        ("#t = :t", 7),
        ("#o = :o AND #t = :t AND attribute_not_exists(#r)", 7),
        ("(#o = :o OR #p = :o) AND #t = :t", 7),
        ("#o = :o OR #t = :t", float("inf")),
        ("#o = :o OR #p = :o AND #t = :t", float("inf")),
        ("(#o = :o AND #t = :t) OR NOT (#o = :o AND #t = :t)", float("inf")),
        ("#t < :t", float("inf")),
    ],
)
def test_a_request_is_forgotten_only_if_it_must_have_a_token_that_has_passed(condition, required):
    names, values = {"#t": "fencingToken", "#o": "ownerName", "#p": "data"}, {":t": {"N": "7"}, ":o": {"S": "o"}}
    request = {"ConditionExpression": condition, "ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
    tables = Tables(frozenset())
    number = tables.request("UpdateItem", request)
    rows = {token: tables.content({"fencingToken": {"N": str(token)}}, None) for token in (6, 7, 8)}
    assert [token for token, row in rows.items() if tables.is_futile(number, row)] == [8] * (required == 7)


def again(explorer: Explorer, node: Node) -> Any:
    """The form of a process that was made again from its inputs."""
    process = Process(node.index, explorer.setups[node.index], explorer.start)
    for one in node.all_inputs():
        explorer.take(process, one)
    return form_of(process.left(), explorer.tables.known)


@pytest.mark.parametrize("name", ["two clients", "commits", "resumed", "one permit"])
def test_a_process_made_again_from_its_inputs_is_the_same(name):
    explorer = Explorer(CASES[name][-1])
    explorer.run(most=60)
    assert len(explorer.nodes) > 20
    for node in explorer.nodes:
        first = again(explorer, node)
        assert first == again(explorer, node)
        if node.process is not None:
            assert first == form_of(node.process.left(), explorer.tables.known)


@pytest.mark.parametrize("ppm", [-499, 0, 499])
def test_the_time_at_which_a_clock_shows_something_is_the_first_one(ppm):
    setup = Setup(ppm=ppm)
    for ticks in (0, 1, 1999, SECOND, 12_345_678):
        when = setup.when(ticks)
        assert setup.ticks(when) >= ticks
        assert when == 0 or setup.ticks(when - 1) < ticks


def test_dates_are_truncated_and_two_front_ends_differ_by_half_a_second():
    explorer = Explorer(CASES["two clients"][0])
    shown = [explorer.dates(quarter * SECOND // 4) for quarter in range(4, 9)]
    epoch = 1_800_000_000
    before, one, after = (epoch, epoch + 1), (epoch + 1,), (epoch + 1, epoch + 2)
    assert shown == [before, one, one, after, after]


# Explorations


@pytest.mark.parametrize(("name", "states"), sampled_with(4, CASES, 20, 50))
def test_the_states_that_the_fewest_steps_lead_to_hold(name, states):
    result = Explorer(CASES[name][-1]).run(order="breadth", told=True, most=states)
    assert result.failure is None, "\n".join([*result.failure, *result.steps])
    assert result.complete or result.states >= states


def test_a_small_case_is_explored_to_its_end_and_grants_and_refuses():
    one = Setup()
    assert not Explorer(small(one, one, faults=1)).run(most=1).complete
    result = Explorer(small(one, one, faults=1)).run()
    assert result.complete
    assert result.failure is None
    assert result.states > 500
    assert result.grants > 2
    assert result.endings["release: True"]
    assert result.endings["acquire: LockNotGrantedError"]


def test_a_process_may_die_at_each_of_its_requests_and_never_goes_on():
    explorer = Explorer(small(Setup(), deaths=1))
    first = explorer.first()
    deaths = [(after, label) for after, label in explorer.successors(first) if "dies" in explorer.judge.describe(label)]
    assert [explorer.judge.describe(label).rpartition(": ")[2] for _, label in deaths] == [
        "carried out, its sender dies",
        "in flight, its sender dies",
    ]
    for after, _ in deaths:
        node = explorer.nodes[explorer.processes[after[4]][0]]
        assert not any(node.actions)
        assert not node.may_act


def test_what_hangs_after_the_last_moment_that_matters_does_not_hang_on_for_ever():
    """Otherwise a case with a slow step has no end."""
    result = Explorer(small(Setup(), slow=1)).run(most=5000)
    assert result.complete


@pytest.mark.long
def test_an_attempt_that_a_later_one_of_its_hold_goes_over_is_lost_for_good_reason():
    """Also if it had resumed from another one before: then the owner of its acquire is not that of its attempt."""
    result = Explorer(small(Setup(holder="h", renewals=1), Setup(holder="h"), faults=1, seconds=1)).run(told=True)
    assert (result.complete, result.failure) == (True, None), result.steps


@pytest.mark.long
def test_the_order_of_the_search_does_not_change_the_number_of_states():
    case = small(Setup(ends=2), faults=1, doubles=1, seconds=4)
    found = {order: Explorer(case).run(order=order).states for order in ("depth", "breadth", "both")}
    assert len(set(found.values())) == 1, found


# The explorer can fail


@pytest.mark.parametrize(
    ("name", "kinds", "said"),
    [
        ("a take-over without the version observed", "overlap|robbed", "take-over"),
        pytest.param("a claim from any ticket", "out of order", "p1 got the lock, though p2 waits before it",
                     marks=pytest.mark.long),
        pytest.param("a ticket taken at the front", "out of order", "was not taken behind the others",
                     marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_broken_rule_is_found_with_the_steps_that_lead_to_it(name, kinds, said):
    found = try_mutant(name)
    assert re.fullmatch(f"explorer, [^:]*: ({kinds})", found["killed_by"])
    assert said in str([found["failure"], *found["steps"]])


# Completeness


def test_every_mutant_in_the_table_exists_once():
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert set(names) <= MUTATIONS.keys() | OWN.keys()
    assert OWN.keys() <= set(names)
    assert {mutant.case for mutant in MUTANTS if mutant.case} <= CASES.keys()
    assert all(mutant.width < len(CASES[mutant.case]) for mutant in MUTANTS if mutant.case)


def rules(module: ModuleType) -> list[str]:
    """The numbered rules at the head of a module, or its list of rules with names."""
    name, head = module.__name__.rpartition(".")[2], module.__doc__ or ""
    name = {"permit_queue": "permit queue"}.get(name, name)
    numbers = re.findall(r"^(\d+)\. ", head, re.MULTILINE)
    named = [word.lower() for word in re.findall(r"^- \*\*(\w+)", head, re.MULTILINE)]
    return [f"{name} {number}" for number in numbers] or [f"{name}, {word}" for word in named] or [name]


def test_the_rules_at_the_heads_of_the_modules_are_found():
    assert rules(protocol) == [f"protocol {number}" for number in range(1, 13)]
    assert rules(lease) == ["lease, expiry", "lease, holder", "lease, waiter"]
    assert len(rules(queue)) == 10


@pytest.mark.parametrize("module", [protocol, lease, handover, resume, transaction, permits, queue, permit_queue])
def test_each_rule_at_the_head_of_a_module_has_a_mutant_or_a_reason_why_not(module):
    broken = {mutant.rule for mutant in MUTANTS}
    needed = {mutant.rule for mutant in MUTANTS if not mutant.redundant}
    spared = set() if module in (protocol, lease) else {*SPARED, *(broken - needed)}
    assert set(rules(module)) <= needed | spared


def test_the_constants_and_the_elapsed_time_of_the_proof_have_mutants_and_no_rule_that_has_one_is_spared():
    needed = {mutant.rule for mutant in MUTANTS if not mutant.redundant}
    assert {"lease, MARGIN", "lease, DRIFT", "lease, elapsed"} <= needed
    assert not SPARED.keys() & {mutant.rule for mutant in MUTANTS}


def test_the_page_lists_every_case_and_every_mutant():
    rows = re.findall(r"^\| (.+?) \| (.+?) \|", README.read_text(), re.MULTILINE)
    assert [first for first, _ in rows if first in CASES] == list(CASES)
    assert {name for _, name in rows} >= {mutant.name for mutant in MUTANTS}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("tests.exploration.plan.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def played(clock: list[float], plan: Plan, needs: Callable[[Job], float]) -> list[tuple[str, int, bool]]:
    """Which case was tried within which of its bounds, and whether it was complete, if only one job runs at a time."""
    found = []
    while (job := plan.take()) is not None:
        given, needed = min(job.seconds, job.deadline - clock[0]), needs(job)
        seconds, complete = min(given, needed), needed <= given
        clock[0] += seconds
        result = {"kind": "case", "name": job.name, "width": job.width, "states": 1000}
        plan.note({**result, "seconds": seconds, "complete": complete, "failure": None})
        found.append((job.name, job.width, complete))
    return found


def test_every_case_is_begun_even_if_there_is_no_time_and_explored_within_all_its_bounds_without_a_limit(clock):
    found = played(clock, Plan([], list(CASES), 0.0, 1), lambda job: 1.0)
    assert [name for name, _, _ in found] == list(CASES)
    found = played(clock, Plan([], list(CASES), float("inf"), 1), lambda job: 10.0**job.width)
    assert all(complete for _, _, complete in found)
    assert len(found) == sum(map(len, CASES.values()))


@pytest.mark.long
def test_the_command_writes_json_that_counts_states_and_mutants(tmp_path):
    figures = tmp_path / "figures.json"
    chosen = ["--cases", "a dead holder", "--mutants", "a take-over without", "--json", str(figures)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.exploration", *chosen, "--minutes", "0.01"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    found = json.loads(figures.read_text())
    assert found["states explored"] > 0
    assert (found["mutants"], found["double holders"]) == (1, 0)
    assert found["mutants left to the simulator"] == {"killed": 0, "of": 0}
    assert "states explored: " in done.stdout
    assert found["bounds"] == sum(len(CASES[case["name"]]) for case in found["cases"])
    case = found["cases"][0]
    case["completed"] = ["1 death, 8 s", "1 fault, 1 death, 8 s"]
    case["complete"] = case["completed"][-1]
    assert f"2 of {case['of']}: 1 fault, 1 death, 8 s" in text(found)
    assert done.returncode == (found["mutants killed"] != 1)
    assert "a dead holder" in done.stderr
    page = tmp_path / "page.md"
    page.write_text("<!-- cases -->\n<!-- end of cases -->\n<!-- mutants -->\n<!-- end of mutants -->\n")
    write_tables(page, found)
    assert "| a dead holder | two take over at once | 2 |" in page.read_text()


class Killing(Plan):
    """Kills a process once there is no job left to begin."""

    def take(self) -> Job | None:
        job = super().take()
        if job is None:
            multiprocessing.active_children()[0].kill()
        return job


@pytest.mark.parametrize(
    "plan",
    [Plan(["no such mutant"], ["resumed twice"], 3600, 2), Killing([], ["resumed twice", "a dead holder"], 9, 3)],
)
def test_a_job_that_fails_or_whose_process_is_killed_fails_the_run_and_ends_the_others(plan):
    with pytest.raises(RuntimeError, match=": no result"):
        run_jobs(plan, plan.processes)
    assert not multiprocessing.active_children()
