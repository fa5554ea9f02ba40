"""`make verify-aws` against a local engine: what it finds, what it leaves open, and that it leaves nothing behind."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rig.cdk import DEPLOYED
from rig.cloud import Cloud
from rig.engine import ROOT, Ministack, client_environment, inherited_environment
from rig.loopback import Handler, LoopbackServer
from rig.sample import left
from rig.verify.checks import CHECKS, dates
from rig.verify.claims import CLAIMS, NOT_ON_AN_ENGINE
from rig.verify.report import BROKEN, HOLDS, NOT_CHECKED, RESULTS, Report

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


def test_a_run_decides_all_that_an_engine_can_show_and_nothing_else(complete):
    open_ones = {claim for claim, finding in complete.items() if finding["result"] == NOT_CHECKED}
    assert open_ones == {*NOT_ON_AN_ENGINE, _TAKES_TEN_MINUTES}
    assert {finding["result"] for claim, finding in complete.items() if claim not in open_ones} == {HOLDS}
    assert complete.keys() == CLAIMS.keys()


def test_the_functions_that_it_deploys_take_their_locks_also_where_that_proves_nothing(complete):
    for architecture in ("x86_64", "arm64"):
        assert len(re.findall(r"'token': \d{13}", complete[f"cold_start.{architecture}"]["found"])) == 2
    assert "accepted: [True, True]" in complete["cold_start.compiled"]["found"]


def test_a_report_can_be_shown_to_others(complete):
    assert "000000000000" not in str(complete)  # the account's number


# Each starts a process and makes tables and functions: here one for each signal, and the others are slow tests.
_INTERRUPTED = [
    *((check, number, ["--only", check]) for check, number in zip(CHECKS, itertools.cycle(_SIGNALS), strict=False)),
    *(([*CHECKS][-1], number, []) for number in _SIGNALS),
]


@pytest.mark.parametrize(
    ("check", "number", "options"),
    [
        *_INTERRUPTED[: len(_SIGNALS)],
        *(pytest.param(*case, marks=pytest.mark.slow) for case in _INTERRUPTED[len(_SIGNALS) :]),
    ],
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


class Terminal:
    """A run on a terminal."""

    def __init__(self, url: str, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        self.process = start(url, *arguments, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.screen = ""

    def answer(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, text: str | None) -> None:
        """Read until it prints this; None: until its end."""
        while text is None or text not in self.screen:
            try:
                said = os.read(self._master, 65536)
            except OSError:  # Linux says so that nobody has the terminal open any more
                said = b""
            if not said:
                assert text is None, self.screen
                return
            self.screen += said.decode()

    def finish(self) -> int:
        self.read_until(None)
        os.close(self._master)
        return self.process.wait(_SECONDS)


def test_on_a_terminal_it_shows_what_it_would_create_and_takes_no_for_an_answer(cloud):
    terminal = Terminal(cloud.engine.url)
    terminal.read_until("Create this? [y/N] ")
    (run,) = set(re.findall(r"lambda-lock-verify-\w{6}", terminal.screen))
    kinds = re.findall(rf"^  (\w+) +{run}", terminal.screen, re.MULTILINE)
    assert kinds == ["table"] * 3 + ["role"] * 3 + ["function"] * 2
    assert re.search(r"At most 1500 requests, 20 minutes and \$\d\.\d\d", terminal.screen)
    terminal.answer("\n")
    assert terminal.finish() == 2
    assert terminal.screen.endswith("Nothing was created.\r\n")
    assert left(cloud).keys() <= {"log groups"}


def test_verify_stops_at_the_number_of_requests_that_it_may_send(cloud):
    status, printed, _ = finish(cloud.engine.url, "--yes", "--max-requests", "40")
    assert status == 2
    assert json.loads(printed)["requests"] == 40
    assert "the 40 requests of --max-requests are sent" in results(printed)["dates.present"]["found"]


def test_verify_stops_when_its_time_is_over(cloud):
    status, printed, _ = finish(cloud.engine.url, "--yes", "--max-minutes", "0.02")
    assert status == 2
    assert "minutes of --max-minutes are over" in results(printed)["dates.present"]["found"]


class _Forward(Handler):
    """Forwards each request to an engine, and lets the test change the answer."""

    server: Altering

    def do_any(self) -> None:
        body = self.body()
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=30)
        try:
            if (instead := self.server.instead(operation)) is None:
                connection.request(self.command, self.path, body, dict(self.headers.items()))
                answer = connection.getresponse()
                status, kind, text = answer.status, answer.headers["Content-Type"], answer.read()
            else:
                status, kind, text = 400, "application/x-amz-json-1.0", json.dumps(instead).encode()
        finally:
            connection.close()
        date = [] if self.server.without_dates else [("Date", self.date_time_string())]
        self.reply(status, self.server.alter(operation, text), [("Content-Type", kind or "text/xml"), *date])

    do_GET = do_POST = do_PUT = do_DELETE = do_any


class Altering(LoopbackServer):
    """A network that changes an engine's answers.

    instead: by an operation of DynamoDB, the error to answer in its place, or None. alter: by an operation and the
    answer, another answer.
    """

    def __init__(
        self,
        behind: int,
        *,
        instead: Callable[[str], dict[str, str] | None] = lambda _: None,
        alter: Callable[[str, bytes], bytes] = lambda _, text: text,
        without_dates: bool = False,
    ) -> None:
        self.behind, self.instead, self.alter, self.without_dates = behind, instead, alter, without_dates
        super().__init__(_Forward)


def _without_item(operation: str, text: bytes) -> bytes:
    if b"ConditionalCheckFailedException" not in text or operation != "UpdateItem":
        return text
    answer = json.loads(text)
    answer.pop("Item", None)
    return json.dumps(answer).encode()


def _another_name(name: bytes, other: bytes) -> Callable[[str, bytes], bytes]:
    return lambda operation, text: text if operation.endswith("Table") else text.replace(name, other)


_ALTERED: list[tuple[str, Callable[[str, bytes], bytes]]] = [
    ("errors.condition", _without_item),
    ("errors.validation", _another_name(b"ValidationException", b"InvalidParameterException")),
    ("errors.no_table", _another_name(b"ResourceNotFoundException", b"NoSuchTableException")),
    ("transactions.reasons", _another_name(b'"ConditionalCheckFailed"', b'"ConditionFailed"')),
    ("transactions.token_other_items", _another_name(b"IdempotentParameterMismatch", b"Mismatch")),
]


@pytest.mark.parametrize(
    ("claim", "alter"), [_ALTERED[0], *(pytest.param(*each, marks=pytest.mark.long) for each in _ALTERED[1:])]
)
def test_an_answer_of_another_form_is_found(cloud, claim, alter):
    with Altering(cloud.engine.port, alter=alter) as network:
        status, printed, _ = finish(network.url, "--yes", "--only", claim.partition(".")[0])
    assert results(printed)[claim]["result"] == BROKEN
    assert status == 1


def test_answers_without_a_date_are_found_and_end_the_run_in_order(cloud):
    with Altering(cloud.engine.port, without_dates=True) as network:
        status, printed, _ = finish(network.url, "--yes", "--only", "ttl", "--only", "dates")
    assert status == 1
    assert results(printed)["dates.present"]["result"] == BROKEN


def test_what_cannot_be_removed_is_named_and_the_command_that_it_showed_removes_it(cloud):
    denied = {"__type": "com.amazon.coral.service#AccessDeniedException", "Message": "not authorized"}
    with Altering(cloud.engine.port, instead=lambda name: denied if name == "DeleteTable" else None) as network:
        status, _, said = finish(network.url, "--yes", "--only", "ttl")
    assert status == 3
    (run,) = re.findall(r"NOT REMOVED: table (\S+): ", said)
    assert left(cloud)["tables"] == [run]
    (command,) = re.findall(r"make verify-aws ARGS='(.*)'", said)
    assert finish(cloud.engine.url, *command.split())[0] == 0


@pytest.mark.parametrize(
    "arguments", [["--remove", "orders"], ["--max-requests", "0"], ["--max-minutes", "-1"]], ids=str
)
def test_a_bad_argument_is_refused_before_anything_is_sent(arguments):
    status, _, said = finish("http://127.0.0.1:9", *arguments)
    assert status == 2
    assert arguments[0] in said
    assert arguments[1] in said


def test_an_account_that_does_not_answer_is_a_plain_message():
    status, printed, said = finish("http://127.0.0.1:9", "--yes")
    assert (status, printed) == (2, "")
    assert "The account cannot be used" in said
    assert "Traceback" not in said


class FrontEnd:
    """A front end whose clock is ahead of the caller's, over a network with a delay, in virtual time."""

    def __init__(self, ahead: float, delay: float = 0.005) -> None:
        self.now, self._ahead, self._delay = 1_763_700_553.3, ahead, delay

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 <= seconds <= 1
        self.now += seconds

    def ask(self) -> int:
        self.now += self._delay
        date = int(self.now + self._ahead)
        self.now += self._delay
        return date

    def offset(self) -> dates.Offset:
        return dates.offset(self.ask, self.clock, self.sleep)


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


@pytest.mark.parametrize("claim", NOT_ON_AN_ENGINE)
@pytest.mark.parametrize("result", RESULTS)
def test_what_an_engine_cannot_show_is_never_said_to_hold_there(claim, result):
    report = Report(on_engine=True)
    report.note(claim, result, "anything")
    assert report.findings()[claim].result == NOT_CHECKED
    assert Report(on_engine=True).findings()[claim].result == NOT_CHECKED


def test_the_page_lists_every_claim_and_what_an_engine_cannot_show():
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (?:[^|]*) \| (yes|no) \|$", _PAGE, re.MULTILINE))
    assert rows == {claim: "no" if claim in NOT_ON_AN_ENGINE else "yes" for claim in CLAIMS}
    for claim, sentence in CLAIMS.items():
        assert f"| `{claim}` | {sentence} |" in _PAGE
