"""The demo's judgement: a good run passes, and each kind of violation in its input is found and named."""

from dataclasses import replace

import pytest

from demo.__main__ import BROKEN, HOLDS, report
from demo.evidence import Entry, Evidence
from demo.verify import verify


def wrong(evidence: Evidence) -> str:
    return "\n".join(text for check in verify(evidence) for text in check.wrong)


def entry(evidence: Evidence, what: str, event: str) -> Entry:
    return next(line for line in evidence.journal if (line.what, line.event) == (what, event))


def alter(evidence: Evidence, what: str, event: str, /, **changes: object) -> None:
    line = entry(evidence, what, event)
    evidence.journal[evidence.journal.index(line)] = replace(line, **changes)  # type: ignore[arg-type]


def change(evidence: Evidence, number: int, **changes: object) -> None:
    evidence.changes[number] = replace(evidence.changes[number], **changes)  # type: ignore[arg-type]


def test_a_run_without_a_fault_holds_in_every_check(evidence):
    assert [check.wrong for check in verify(evidence)] == [()] * 5


def _never_do(evidence: Evidence) -> None:
    evidence.ledger["customer#b"].clear()
    evidence.journal.remove(entry(evidence, "left", "e-3"))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda run: alter(run, "left", "e-2", at=6.5),
            "customer#a: o-2 and o-1 were inside at once, 6.10 s to 6.50 s",
        ),
        (lambda run: run.ledger["customer#a"].remove("e-2"), "o-2 was finished 1 times, the ledger has it 0 times"),
        (lambda run: run.ledger["customer#a"].append("e-2"), "o-2 is in the ledger 2 times"),
        (_never_do, "o-3 was neither done nor refused for good"),
        (lambda run: run.ledger.update(report=["e-4"]), "run 1 was done although it was refused for good"),
        (lambda run: run.ledger.update(report=["e-9"]), "e-9 is in the ledger, but was never sent"),
        (lambda run: change(run, 3, token=10), "customer#a: token 10 was granted after 10"),
        (
            lambda run: alter(run, "entered", "e-2", token=99),
            "customer#a: o-2 went in with token 99, which the table did not grant it",
        ),
        (lambda run: change(run, 3, at=2.5), "customer#a: token 11 was taken from a holder that was alive, at 2.50 s"),
        (lambda run: run.freezes.clear(), "the story was to have a killed and a frozen holder replaced"),
        (lambda run: run.journal.remove(entry(run, "duplicate", "e-2")), "the story was to have a duplicate dropped"),
        (lambda run: run.held.append("customer#b"), "customer#b is still held"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_fault_is_found_and_named(evidence, spoil, said):
    spoil(evidence)
    assert said in wrong(evidence)


def test_a_violation_ends_the_demo_with_a_message_and_status_1(evidence, tmp_path, capsys):
    assert report(evidence, tmp_path / "demo.svg", as_json=False) == HOLDS
    capsys.readouterr()
    evidence.ledger["customer#a"].append("e-2")
    assert report(evidence, tmp_path / "demo.svg", as_json=False) == BROKEN
    said = capsys.readouterr()
    assert "✕ every event done once" in said.out
    assert "verification failed:\n  o-2 is in the ledger 2 times" in said.err
    assert "This does not hold" in (tmp_path / "demo.svg").read_text()
