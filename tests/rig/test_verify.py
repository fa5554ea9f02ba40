"""`make verify-aws` against a local engine: what it finds, what it leaves open, and that it leaves nothing behind."""

import itertools
import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from rig.cdk import DEPLOYED
from rig.cloud import Cloud
from rig.engine import ROOT, Ministack, client_environment, inherited_environment
from rig.sample import left
from rig.verify.checks import CHECKS, dates
from rig.verify.claims import CLAIMS, NOT_ON_AN_ENGINE
from rig.verify.report import BROKEN, HOLDS, NOT_CHECKED, RESULTS, Report
from rig.wire import Answer, Wire
from tests.cli.conftest import Terminal

_SECONDS = 120
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TAKES_TEN_MINUTES = "transactions.token_remembered"
_PAGE = (ROOT / "docs" / "verified.md").read_text()


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Ministack(auth=True, services=DEPLOYED) as engine, Cloud(engine) as opened:
        yield opened


@pytest.fixture(autouse=True)
def nothing_is_left(cloud: Cloud) -> Iterator[None]:
    yield
    remaining = left(cloud)
    remaining.pop("log groups", None)  # the engine makes one for a function without the right to log; AWS does not
    assert remaining == {}


def start(url: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rig.verify", *arguments],
        cwd=ROOT,
        env=inherited_environment() | client_environment(url),
        text=True,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
    )


def finish(url: str, *arguments: str) -> tuple[int, str, str]:
    process = start(url, *arguments)
    try:
        printed, said = process.communicate(timeout=_SECONDS)
    finally:
        process.kill()
    return process.returncode, printed, said


def results(printed: str) -> dict[str, dict[str, str]]:
    return {each["claim"]: each for each in json.loads(printed)["claims"]}


@pytest.fixture(scope="module")
def complete(cloud: Cloud) -> dict[str, dict[str, str]]:
    """What a complete run finds, by claim."""
    status, printed, said = finish(cloud.engine.url, "--yes")
    assert status == 0, printed + said
    return results(printed)


def test_a_run_decides_all_that_an_engine_can_show_and_nothing_else_and_can_be_shown_to_others(complete):
    assert "000000000000" not in str(complete)  # the account's number
    open_ones = {claim for claim, finding in complete.items() if finding["result"] == NOT_CHECKED}
    assert open_ones == {*NOT_ON_AN_ENGINE, _TAKES_TEN_MINUTES}
    assert {finding["result"] for claim, finding in complete.items() if claim not in open_ones} == {HOLDS}
    assert complete.keys() == CLAIMS.keys()


def test_the_functions_that_it_deploys_take_their_locks_also_where_that_proves_nothing(complete):
    for architecture in ("x86_64", "arm64"):
        assert len(re.findall(r"'token': \d{13}", complete[f"cold_start.{architecture}"]["found"])) == 2
    assert "accepted: [True, True]" in complete["cold_start.compiled"]["found"]


# Each starts a process and makes tables and functions: here one for each signal, and the others are slow tests.
_CASES = [(check, number, ["--only", check]) for check, number in zip(CHECKS, itertools.cycle(_SIGNALS), strict=False)]
_CASES += [([*CHECKS][-1], number, []) for number in _SIGNALS]


@pytest.mark.parametrize(
    ("check", "number", "options"), [*_CASES[:2], *(pytest.param(*case, marks=pytest.mark.slow) for case in _CASES[2:])]
)
def test_an_interrupted_run_reports_what_it_found_and_removes_all(cloud, check, number, options):
    process = start(cloud.engine.url, "--yes", *options)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line == f"checking {check}\n":
                process.send_signal(number)
            elif line.startswith("removing"):
                process.send_signal(number)  # once more: it goes on with removing
        printed, _ = process.communicate(timeout=_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 130
    assert results(printed)["transactions.token_remembered"]["result"] == NOT_CHECKED


def test_a_run_without_a_terminal_creates_nothing_unless_it_is_told_to(cloud):
    status, printed, said = finish(cloud.engine.url)
    assert (status, printed) == (2, "")
    assert "add --yes" in said
    assert left(cloud).keys() <= {"log groups"}


def test_on_a_terminal_it_shows_what_it_would_create_and_takes_no_for_an_answer(cloud):
    variables = inherited_environment() | client_environment(cloud.engine.url)
    shown = Terminal([sys.executable, "-m", "rig.verify"], 120, variables)
    shown.wait_for("[y/N]")
    shown.type("\n")
    status, screen = shown.wait(), shown.text
    shown.close()
    (run,) = set(re.findall(r"lambda-lock-verify-\w{6}", screen))
    kinds = re.findall(rf"^  (\w+) +{run}", screen, re.MULTILINE)
    assert kinds == ["table"] * 3 + ["role"] * 3 + ["function"] * 2
    assert re.search(r"At most 1500 requests, 20 minutes and \$\d\.\d\d.*Create this\? \[y/N\] ", screen, re.DOTALL)
    assert screen.endswith("Nothing was created.\n")
    assert status == 2
    assert left(cloud).keys() <= {"log groups"}


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (["--max-requests", "40"], "the 40 requests of --max-requests are sent"),
        (["--max-minutes", "0.02"], "minutes of --max-minutes are over"),
    ],
)
def test_verify_stops_at_the_requests_and_the_minutes_that_it_may_take(cloud, limit, words):
    status, printed, _ = finish(cloud.engine.url, "--yes", *limit)
    assert status == 2
    assert limit[0] == "--max-minutes" or json.loads(printed)["requests"] == 40
    assert words in results(printed)["dates.present"]["found"]


def _without(answer: Answer, header: str) -> Answer:
    return replace(answer, headers=[each for each in answer.headers if each[0].lower() != header])


def _without_item(text: bytes) -> bytes:
    if b"ConditionalCheckFailedException" not in text:
        return text
    return json.dumps({name: value for name, value in json.loads(text).items() if name != "Item"}).encode()


def _another_name(name: bytes, other: bytes) -> Callable[[bytes], bytes]:
    return lambda text: text.replace(name, other)


_ALTERED: list[tuple[str, str | None, Callable[[bytes], bytes]]] = [
    ("errors.condition", "UpdateItem", _without_item),
    ("errors.validation", None, _another_name(b"ValidationException", b"InvalidParameterException")),
    ("errors.no_table", None, _another_name(b"ResourceNotFoundException", b"NoSuchTableException")),
    ("transactions.reasons", None, _another_name(b'"ConditionalCheckFailed"', b'"ConditionFailed"')),
    ("transactions.token_other_items", None, _another_name(b"IdempotentParameterMismatch", b"Mismatch")),
]


@pytest.mark.parametrize(
    ("claim", "operation", "alter"),
    [_ALTERED[0], *(pytest.param(*each, marks=pytest.mark.long) for each in _ALTERED[1:])],
)
def test_an_answer_of_another_form_is_found(cloud, claim, operation, alter):
    with Wire(cloud.engine.url) as wire:
        wire.alter_reply(
            lambda answer: replace(_without(answer, "x-amz-crc32"), body=alter(answer.body)),
            operation,
            when=lambda request: not request.operation.endswith("Table"),
            times=math.inf,
        )
        status, printed, _ = finish(wire.url, "--yes", "--only", claim.partition(".")[0])
    assert results(printed)[claim]["result"] == BROKEN
    assert status == 1


def test_answers_without_a_date_are_found_and_end_the_run_in_order(cloud):
    with Wire(cloud.engine.url) as wire:
        wire.alter_reply(lambda answer: _without(answer, "date"), times=math.inf)
        status, printed, _ = finish(wire.url, "--yes", "--only", "ttl", "--only", "dates")
    assert status == 1
    assert results(printed)["dates.present"]["result"] == BROKEN


def test_what_cannot_be_removed_is_named_and_the_command_that_it_showed_removes_it(cloud):
    with Wire(cloud.engine.url) as wire:
        wire.answer(400, "AccessDeniedException", "DeleteTable", times=math.inf)
        status, _, said = finish(wire.url, "--yes", "--only", "ttl")
    assert status == 3
    (run,) = re.findall(r"NOT REMOVED: table (\S+): ", said)
    assert left(cloud)["tables"] == [run]
    (command,) = re.findall(r"make verify-aws ARGS='(.*)'", said)
    assert finish(cloud.engine.url, *command.split())[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *((wrong, wrong) for wrong in (["--remove", "orders"], ["--max-requests", "0"], ["--max-minutes", "-1"])),
        (["--yes"], ["The account cannot be used"]),  # it does not answer
    ],
)
def test_what_cannot_run_says_why(arguments, words):
    status, printed, said = finish("http://127.0.0.1:9", *arguments)
    assert (status, printed) == (2, "")
    assert all(word in said for word in words)
    assert "Traceback" not in said


class FrontEnd:
    """A front end whose clock is ahead of the caller's, over a network with a delay, in virtual time."""

    def __init__(self, ahead: float, delay: float = 0.005) -> None:
        self.now, self._ahead, self._delay = 1_763_700_553.3, ahead, delay

    def sleep(self, seconds: float) -> None:
        assert 0 <= seconds <= 1
        self.now += seconds

    def ask(self) -> int:
        self.now += 2 * self._delay
        return int(self.now - self._delay + self._ahead)

    def offset(self) -> dates.Offset:
        return dates.offset(self.ask, lambda: self.now, self.sleep)


@pytest.mark.parametrize("ahead", [0.0, 0.004, 0.3, 0.5, 0.999, -0.7, 3.21, -1e5 - 0.5])
@pytest.mark.parametrize("delay", [0.0, 0.005, 0.08])
def test_eight_looks_bracket_the_clock_of_a_front_end(ahead, delay):
    low, high = FrontEnd(ahead, delay).offset()
    assert low - 1e-6 <= ahead <= high + 1e-6
    assert high - low < 0.02 + 2 * delay


@pytest.mark.parametrize(
    ("ahead", "delay", "result"),
    [
        ([0.0, 0.0], 0.005, HOLDS),
        ([0.1, 0.55, 0.3], 0.005, HOLDS),
        ([0.0, 0.56], 0.005, BROKEN),
        ([-0.4, 0.0, 0.3], 0.005, BROKEN),
        ([0.0, 0.5], 0.05, NOT_CHECKED),
    ],
)
def test_front_ends_that_differ_by_more_than_the_library_allows_are_found(ahead, delay, result):
    report = Report(on_engine=False)
    dates.note_spread(report, [FrontEnd(each, delay).offset() for each in ahead])
    assert report.findings()["dates.spread"].result == result


@pytest.mark.parametrize(("ahead", "result"), [(0.01, HOLDS), (0.5, NOT_CHECKED), (-30.2, NOT_CHECKED)])
def test_dates_that_change_at_another_moment_are_not_taken_for_truncated_ones(ahead, result):
    report = Report(on_engine=False)
    dates.note_truncation(report, [FrontEnd(ahead).offset()])
    assert report.findings()["dates.truncated"].result == result


def test_what_an_engine_cannot_show_is_never_said_to_hold_there():
    for result in (None, *RESULTS):
        report = Report(on_engine=True)
        for claim in NOT_ON_AN_ENGINE if result else ():
            report.note(claim, str(result), "anything")
        assert {report.findings()[claim].result for claim in NOT_ON_AN_ENGINE} == {NOT_CHECKED}


def test_the_page_lists_every_claim_and_what_an_engine_cannot_show():
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (?:[^|]*) \| (yes|no) \|$", _PAGE, re.MULTILINE))
    assert rows == {claim: "no" if claim in NOT_ON_AN_ENGINE else "yes" for claim in CLAIMS}
    for claim, sentence in CLAIMS.items():
        assert f"| `{claim}` | {sentence} |" in _PAGE
